/** Executes the steps of a plan, those that do not depend on each other several at a time, and notes each success. */
import { signal } from "@preact/signals";
import { isBusy, Problem, Unreachable } from "../api/http";
import { SMALL_BYTES } from "../transfer/bundle";
import type { Fetched } from "../transfer/contents";
import type { Ends } from "./ends";
import { isMissing } from "./local";
import { DIGEST_BYTES, digestOf } from "./remote";
import type { Ancestor } from "./store";
import { Outdated, type Clash, type End, type FileState, type Node, type Step } from "./types";

/** An edit that arrived at an end. */
export interface Edit {
  step: Step;
  bytes: number;
  ms: number;
  at: number;
}

export interface Trouble {
  path: string;
  why: Clash | { is: "failed"; detail: string };
}

/** Callbacks and the stop signal of the steps. */
interface Context {
  stop: AbortSignal;
  /** Called with the number of steps that are left, from time to time. */
  tell: (left: number) => void;
  /** Called for each deleted file. */
  deleted: (end: End, path: string) => void;
}

export class Steps {
  /** The last edits, the newest first. */
  readonly edits = signal<readonly Edit[]>([]);
  ancestor!: Ancestor;
  readonly #ends: Ends;
  readonly #context: Context;
  #toldAt = -Infinity;
  /** The last edits that were not told yet, the newest first. */
  #news: Edit[] = [];
  /** Contents of small files that were asked for, by the paths of steps that have not begun. */
  #fetched = new Map<string, Promise<Fetched | undefined>>();
  /** Number of times that each step found another state, since nothing was left to do. */
  #outdated = new Map<string, number>();

  constructor(ends: Ends, context: Context) {
    this.#ends = ends;
    this.#context = context;
  }

  /** Returns what failed. */
  async execute(steps: readonly Step[]): Promise<Trouble[]> {
    const failed: Trouble[] = [];
    const skipped = new Set<string>();
    let left = steps.length;
    this.#toldAt = -Infinity;
    for (let at = 0; at < steps.length; ) {
      const kind = this.#kind(steps[at]!);
      let end = at + 1;
      while (kind !== undefined && end < steps.length && this.#kind(steps[end]!) === kind) end++;
      const run = steps.slice(at, end).reverse();
      const work = async (group: Step[], way: keyof typeof LANES) => {
        try {
          for (;;) {
            if (way === "smallDown") this.#fetchAhead(group);
            const step = group.pop();
            if (!step) break;
            this.#context.stop.throwIfAborted();
            const { path } = step;
            this.#tell(left--);
            // A file that could not be set aside must not be replaced.
            if (skipped.has(path)) continue;
            const trouble = await this.#try(step);
            if (trouble !== "done") skipped.add(path);
            if (typeof trouble === "object") failed.push({ path, why: trouble });
          }
        } finally {
          // After a failure, the other workers end with their present steps.
          group.length = 0;
        }
      };
      this.#fetched.clear();
      const lanes = Object.entries(LANES).flatMap(([way, most]) => {
        const group = run.filter((step) => this.#way(step) === way);
        return Array.from({ length: Math.min(most, group.length) }, () => work(group, way as keyof typeof LANES));
      });
      await allEnded(lanes);
      at = end;
    }
    this.#tellNews();
    return failed;
  }

  /** Forgets how often each step found another state. Called when no step is left. */
  settled(): void {
    this.#outdated.clear();
  }

  /** Steps of one kind that follow each other may run in any order. Undefined for a step that runs alone. */
  #kind(step: Step): string | undefined {
    switch (step.is) {
      case "transfer":
      case "compare":
      case "adopt":
      case "forget":
        return step.is;
      case "make":
        // A folder is made before the folders in it.
        return `make ${step.path.split("/").length}`;
      case "delete":
        return this.#node(step.end, step.path) === "d" ? undefined : "delete";
      default:
        return undefined;
    }
  }

  #way(step: Step): keyof typeof LANES {
    if (step.is === "delete" || step.is === "make") return "name";
    if (step.is !== "transfer") return "other";
    const from = this.#node(step.end === "there" ? "here" : "there", step.path);
    if (typeof from !== "object" || from.bytes > SMALL_BYTES) return "other";
    // Small files travel together.
    return step.end === "there" ? "smallUp" : "smallDown";
  }

  /** Asks for the small files of the next steps by one request, once half of the last ones are used. `group` ends with the next step. */
  #fetchAhead(group: readonly Step[]): void {
    const isFetched = (step: Step | undefined) => step === undefined || this.#fetched.has(step.path);
    if (isFetched(group.at(-1)) && isFetched(group.at(-FETCHED / 2))) return;
    const files = new Map<string, FileState>();
    for (const { path } of group.slice(-FETCHED).reverse()) {
      const node = this.#node("there", path);
      if (typeof node === "object" && !this.#fetched.has(path)) files.set(path, node);
    }
    if (files.size < 2) return;
    for (const [path, content] of this.#ends.there.end.fetchSmall(files)) this.#fetched.set(path, content);
  }

  #tell(left: number): void {
    const now = performance.now();
    if (now - this.#toldAt < TELL_MS) return;
    this.#toldAt = now;
    this.#context.tell(left);
    this.#tellNews();
  }

  #tellNews(): void {
    if (this.#news.length === 0) return;
    this.edits.value = [...this.#news, ...this.edits.value].slice(0, MOST_EDITS);
    this.#news = [];
  }

  /** Executes a step. Returns why the step failed, or `again` if the next plan may succeed at once. */
  async #try(step: Step): Promise<Trouble["why"] | "done" | "again"> {
    const began = performance.now();
    const { here, there } = this.#ends;
    here.isChanged = true;
    try {
      const bytes = await this.#step(step);
      if (bytes !== undefined) {
        this.#news = [{ step, bytes, ms: performance.now() - began, at: Date.now() }, ...this.#news.slice(0, MOST_EDITS)];
      }
      return "done";
    } catch (error) {
      if (this.#context.stop.aborted || error instanceof Unreachable || isBusy(error)) throw error;
      if (error instanceof DOMException && error.name === "NotAllowedError") throw error;
      if (error instanceof Problem && error.status === 401) throw error;
      // What is there now is looked at again.
      for (const path of "to" in step ? [step.path, step.to] : [step.path]) for (const end of [here, there]) end.mark(path);
      if (error instanceof Outdated || isMissing(error)) return this.#isAgain(step) ? { is: "failed", detail: String((error as Error).message) } : "again";
      return { is: "failed", detail: error instanceof Problem ? error.detail : String(error) };
    }
  }

  #isAgain(step: Step): boolean {
    const key = JSON.stringify(step);
    const count = (this.#outdated.get(key) ?? 0) + 1;
    this.#outdated.set(key, count);
    return count > 3;
  }

  #node(end: End, path: string): Node | undefined {
    return this.#ends[end].tree.get(path);
  }

  /** Returns the file at `path`. Rejects if the last look found another entry. */
  #file(end: End, path: string): FileState {
    const node = this.#node(end, path);
    if (typeof node !== "object") throw new Outdated();
    return node;
  }

  /** Executes a step and notes the result. Returns the bytes that travelled, for steps that a user is told of. */
  async #step(step: Step): Promise<number | undefined> {
    const { path } = step;
    if ("end" in step && step.end === "there" && step.is !== "transfer") for (const one of "to" in step ? [path, step.to] : [path]) this.#ends.there.changes(one);
    const [here, there] = [this.#node("here", path), this.#node("there", path)];
    switch (step.is) {
      case "adopt":
        this.ancestor.set(path, typeof here === "object" && typeof there === "object" ? { here, there } : "d");
        return undefined;
      case "forget":
        this.ancestor.set(path, undefined);
        return undefined;
      case "compare":
        return this.#compare(path);
      case "make":
        await this.#ends[step.end].end.make(path);
        this.#ends[step.end].tree.set(path, "d");
        if (this.#node("here", path) === "d" && this.#node("there", path) === "d") this.ancestor.set(path, "d");
        return undefined;
      case "delete":
        return this.#delete(step.end, path);
      case "aside":
        return this.#rename(step.end, path, step.to);
      case "move":
        return this.#move(step.end, path, step.to);
      case "transfer":
        return step.end === "there" ? this.#up(path) : this.#down(path);
    }
  }

  /** Reads the file here and asks for the digest of the file there. Returns both digests. */
  async #digests(here: string, there: string): Promise<[string, string]> {
    const content = (await this.#ends.here.end.expect(here, this.#file("here", here)))!;
    return Promise.all([digestOf(content), this.#ends.there.end.digest(there, this.#file("there", there))]);
  }

  /** Notes digests for the next plan. */
  #known(end: End, path: string, digest: string): void {
    this.#ends[end].tree.set(path, { ...this.#file(end, path), digest });
  }

  async #compare(path: string): Promise<undefined> {
    const [here, there] = [this.#file("here", path), this.#file("there", path)];
    const [one, other] = await this.#digests(path, path);
    // Too long for digests: files of one length and one time count as equal, as in a sync by the command.
    const isEqual = here.bytes > DIGEST_BYTES && Math.floor(here.modified / 1000) === there.modified;
    this.#known("here", path, one);
    this.#known("there", path, isEqual ? one : other);
  }

  async #delete(end: End, path: string): Promise<number> {
    const was = this.#node(end, path);
    if (was === undefined || was === "o") throw new Outdated();
    await this.#ends[end].end.remove(path, was);
    this.#ends[end].tree.delete(path);
    this.ancestor.set(path, undefined);
    if (was !== "d") this.#context.deleted(end, path);
    return 0;
  }

  async #rename(end: End, from: string, to: string): Promise<number> {
    const { end: at, tree } = this.#ends[end];
    const state = await at.rename(from, to, this.#file(end, from));
    tree.delete(from);
    tree.set(to, state);
    return 0;
  }

  /** Renames a file at `end`, if the other end's file of the new name has the same content. */
  async #move(end: End, from: string, to: string): Promise<number> {
    const [here, there] = end === "there" ? [to, from] : [from, to];
    const [one, other] = await this.#digests(here, there);
    if (one !== other) {
      // The next plan knows the digests: a deletion, which may need the user's consent, and a transfer.
      this.#known("here", here, one);
      this.#known("there", there, other);
      throw new Outdated();
    }
    await this.#rename(end, from, to);
    this.ancestor.set(from, undefined);
    this.ancestor.set(to, { here: this.#file("here", to), there: this.#file("there", to) });
    return 0;
  }

  async #up(path: string): Promise<number> {
    const here = this.#file("here", path);
    const was = this.#node("there", path);
    const content = (await this.#ends.here.end.expect(path, here))!;
    this.#ends.there.changes(path);
    const { state: there, bytes } = await this.#ends.there.end.putSmall(path, content, typeof was === "object" ? was : undefined);
    this.#ends.there.tree.set(path, there);
    this.ancestor.set(path, { here, there });
    return bytes;
  }

  async #down(path: string): Promise<number> {
    const was = this.#node("here", path);
    const from = this.#file("there", path);
    const fetched = this.#fetched.get(path);
    // The memory of a content is free once the content is written.
    this.#fetched.delete(path);
    const { state: here, bytes, there } = await this.#ends.there.end.get(path, from, this.#ends.here.end, typeof was === "object" ? was : undefined, fetched);
    this.#ends.here.tree.set(path, here);
    this.#ends.there.tree.set(path, there);
    this.ancestor.set(path, { here, there });
    return bytes;
  }
}

/** Waits until all have ended, also after a failure. Rejects with the first failure. */
async function allEnded(work: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(work);
  await Promise.all(work);
}

const MOST_EDITS = 20;
/** Time between two reports of a plan that is being executed. */
const TELL_MS = 100;
/** Most small files that are read by one request, and kept in memory until their steps begin. */
const FETCHED = 128;
/**
 * Number of steps at once. Small files to the server wait for a bundle. Of small files to this device, most wait for the
 * device's own disk.
 */
const LANES = { smallUp: 256, smallDown: 12, name: 5, other: 4 } as const;
