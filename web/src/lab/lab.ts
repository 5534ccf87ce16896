/** The state of the lab: what is chosen, the results, and the run. One run at a time; leaving the lab stops the run. */
import { computed, signal } from "@preact/signals";
import { Problem, Unreachable } from "../api/http";
import { volumeList } from "../files/folder";
import { lab } from "./words";
import { CANCELLED } from "../transfer/engine";
import { EDITS, KINDS, LENGTHS, OURS, trials, type Choice, type Edit, type System, type Trial } from "./experiment";
import type { Shown } from "./figures";
import { distinct, type Result } from "./results";
import { alone, openScratch, removeScratch, sweep } from "./scratch";
import { Bench, hasEngine, Hidden } from "./trial";

const PAPER: readonly System[] = ["webrsync@main", "webrsync@worker", "webrsync+@main", "webr2sync@main", "webr2sync-siphash@main", "webr2sync+@main"];

export const choice = signal<Choice>({
  kinds: ["insert"],
  lengths: [LENGTHS[0]],
  edits: EDITS,
  systems: hasEngine ? [OURS, ...PAPER, "whole@main"] : ["whole@main"],
  repeats: 3,
});
/** The volume that the user chose; undefined for the first usable volume. */
export const chosenVolume = signal<string | undefined>(undefined);

/** Volumes in which the lab can work. Those without versions come first, since removed files leave nothing there. */
export const usable = computed(() => (volumeList.value ?? []).filter(({ read, write, delete: may }) => read && write && may).sort((a, b) => Number(a.versions) - Number(b.versions)));
export const volume = computed(() => usable.value.find(({ name }) => name === chosenVolume.value) ?? usable.value[0]);

export const planned = computed(() => trials(choice.value));
/** Bytes of old versions, which go to the server before the syncs. */
export const plannedBytes = computed(() => planned.value.reduce((sum, { length }) => sum + length, 0));

export const results = signal<readonly Result[]>([]);
/** The chosen cell; undefined for the first one with results. */
const wanted = signal<Partial<Shown>>({});
export const shown = computed<Shown>(() => {
  const all = results.value;
  const lengths = distinct(all, "length");
  const edits = distinct(all, "bytes");
  const kinds = KINDS.filter((kind) => all.some((one) => one.kind === kind));
  const of = <T>(some: readonly T[], one: T | undefined, fallback: T): T => (one !== undefined && some.includes(one) ? one : (some[0] ?? fallback));
  return { kind: of(kinds, wanted.value.kind, "insert"), length: of(lengths, wanted.value.length, LENGTHS[0]), bytes: of(edits, wanted.value.bytes, EDITS[0]) };
});
export function show(some: Partial<Shown>): void {
  wanted.value = { ...wanted.value, ...some };
}

/** The run; undefined while there is none. */
export interface Run {
  done: number;
  of: number;
  /** The trial that runs; undefined while test files are removed. */
  now: Trial | undefined;
  secondsLeft: number | undefined;
}
export const run = signal<Run | undefined>(undefined);
/** Errors of the last run. */
export const troubles = signal<readonly string[]>([]);

let stop: AbortController | undefined;

/** Runs what is chosen. New results replace the old ones. */
export async function start(): Promise<void> {
  const at = volume.value;
  if (run.value || !at) return;
  const all = planned.value;
  const own = (stop = new AbortController());
  run.value = { done: 0, of: all.length, now: all[0], secondsLeft: undefined };
  troubles.value = [];
  results.value = [];
  await tidied;
  const ran = await alone(() => runAll(all, at.name, own.signal)).catch((error: unknown) => (note(lab().ended(said(error))), true));
  if (!ran) note(lab().elsewhere);
  run.value = undefined;
}

export function stopRun(): void {
  stop?.abort(CANCELLED);
}

/** Removes what a closed page left behind. */
export const tidy = (): Promise<unknown> => (tidied = alone(sweep).catch(() => undefined));
let tidied: Promise<unknown> = Promise.resolve();

async function runAll(all: readonly Trial[], at: string, stop: AbortSignal): Promise<void> {
  await sweep();
  const folder = await openScratch(at);
  let bench: Bench | undefined;
  try {
    bench = new Bench(folder, stop);
    await runEach(bench, all, stop);
  } catch (error) {
    if (!stop.aborted) note(lab().ended(said(error)));
  } finally {
    bench?.close();
    run.value = { done: run.value?.done ?? 0, of: all.length, now: undefined, secondsLeft: undefined };
    await removeScratch(folder).catch(() => note(lab().notRemoved));
  }
}

async function runEach(bench: Bench, all: readonly Trial[], stop: AbortSignal): Promise<void> {
  const weights = all.map(({ length }) => length + FIXED_BYTES);
  const whole = weights.reduce((sum, one) => sum + one, 0);
  const failed = new Set<System>();
  /** Runs a trial. A system that fails is noted, and has no further trials. */
  const attempt = async (trial: Trial): Promise<Result | undefined> => {
    if (failed.has(trial.system)) return undefined;
    try {
      return await visibly(() => bench.run(trial), stop);
    } catch (error) {
      // Without a server or a sign-in, no other trial can run. Another refusal is of one system.
      if (stop.aborted || error instanceof Unreachable || (error instanceof Problem && error.status !== 0)) throw error;
      failed.add(trial.system);
      note(lab().failed(lab().systemName(trial.system), said(error)));
      return undefined;
    }
  };
  for (const system of new Set(all.map(({ system }) => system))) await attempt({ ...WARM_UP, system });
  const begun = performance.now();
  let weight = 0;
  for (const [i, trial] of all.entries()) {
    const took = performance.now() - begun;
    run.value = { done: i, of: all.length, now: trial, secondsLeft: i < LEAST_DONE ? undefined : ((took / weight) * (whole - weight)) / 1000 };
    weight += weights[i]!;
    const result = await attempt(trial);
    if (result) results.value = [...results.value, result];
  }
}

/** Runs a trial while the page is visible. A trial whose page was hidden is repeated. */
async function visibly(trial: () => Promise<Result>, stop: AbortSignal): Promise<Result> {
  for (;;) {
    await becomesVisible(stop);
    try {
      return await trial();
    } catch (error) {
      if (!(error instanceof Hidden)) throw error;
    }
  }
}

function becomesVisible(stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (document.hidden && !stop.aborted) return;
      document.removeEventListener("visibilitychange", look);
      if (stop.aborted) reject(stop.reason);
      else resolve();
    };
    document.addEventListener("visibilitychange", look);
    stop.addEventListener("abort", look, { once: true });
    look();
  });
}

function note(trouble: string): void {
  troubles.value = [...troubles.value, trouble];
}

const said = (error: unknown): string => (error instanceof Problem ? error.detail : error instanceof Error ? error.message : String(error));

/** The first sync of each system, which gives no result: browsers compile code when the code runs for the first time. */
const WARM_UP: Edit = { kind: "insert", length: LENGTHS[0], bytes: 1_000, repeat: 1_000 };
/** A trial of an empty file takes as long as so many bytes. */
const FIXED_BYTES = 5_000_000;
/** Trials before the time left is told. */
const LEAST_DONE = 3;
