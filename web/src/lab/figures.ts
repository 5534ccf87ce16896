/**
 * The figures of the WebR2sync paper that a browser can make, and three of our own, from results. Each figure is a
 * drawing and a table of the same values. Bands have what the paper's text prints of its machines.
 */
import type { LabWords } from "../text/lab";
import { barChart, laneChart, lineChart, type Band, type Bar, type Drawing, type Lane, type Panel, type Series } from "./chart";
import { KINDS, OURS, placeOf, rankOf, type Kind, type System } from "./experiment";
import { distinct, resultsOf, spread, typical, type Cell, type Measure, type Result, type Spread } from "./results";

export type FigureId = "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "16" | "17" | "18" | "20" | "length" | "still" | "stages";

export interface Table {
  head: readonly string[];
  rows: readonly (readonly string[])[];
}

interface FigureHead {
  id: FigureId;
  title: string;
  /** The paper's statement about the figure. */
  says: string;
}
export interface DrawnFigure extends FigureHead {
  draw: (width: number) => Drawing;
  table: Table;
  runs: number;
}
/** A figure, or the reason why it is not drawn. */
export type Figure = DrawnFigure | (FigureHead & { missing: string });

interface Spec {
  id: FigureId;
  is: "lines" | "stages" | "lanes" | "byLength" | "stillByLength";
  measure?: Measure | "cpuShare";
  /** The systems of the figure; undefined for all. */
  systems?: readonly System[];
  bands?: readonly BandSpec[];
}

interface BandSpec {
  name: keyof LabWords["bands"];
  /** The band is a multiple of this system's median; undefined for plain values. */
  of?: System;
  low: number;
  high: number;
}

const ALL_OF_PAPER: readonly System[] = ["webrsync@main", "webr2sync@main", "webr2sync-siphash@main", "webr2sync+@main", "rsync@native"];

const SPECS: readonly Spec[] = [
  { id: "2", is: "lines", measure: "ms", systems: ["webrsync@main", "rsync@native"], bands: [{ name: "2", of: "rsync@native", low: 16, high: 35 }] },
  { id: "3", is: "stages", systems: ["rsync@native", "webrsync@main"] },
  { id: "4", is: "lanes", systems: ["webrsync@main"] },
  { id: "5", is: "lines", measure: "ms", systems: ["webrsync@native", "webrsync@main", "rsync@native"] },
  { id: "6", is: "lines", measure: "ms", systems: ["webrsync@worker", "webrsync@main"] },
  { id: "7", is: "lanes", systems: ["webrsync@main", "webrsync@worker"] },
  { id: "8", is: "lines", measure: "ms", systems: ["webrsync+@main", "webrsync@main", "webr2sync+@main"] },
  { id: "9", is: "stages", systems: ["webrsync+@main"] },
  {
    id: "16",
    is: "lines",
    measure: "ms",
    systems: ALL_OF_PAPER,
    bands: [
      { name: "webrsync", of: "webr2sync+@main", low: 15, high: 20 },
      { name: "webr2sync", of: "webr2sync+@main", low: 2, high: 3 },
    ],
  },
  { id: "17", is: "stages", systems: ["webr2sync+@main"] },
  { id: "18", is: "lines", measure: "cpuShare", systems: ALL_OF_PAPER, bands: [{ name: "cpu", low: 1, high: 30 }] },
  { id: "20", is: "lines", measure: "traffic", systems: ALL_OF_PAPER, bands: [{ name: "20", low: 1_000, high: 120_000 }] },
  { id: "stages", is: "stages" },
  { id: "length", is: "byLength", measure: "ms" },
  { id: "still", is: "stillByLength" },
];

/** The cell that figures of one cell show, and the length of files in figures by edits. */
export interface Shown {
  kind: Kind;
  length: number;
  bytes: number;
}

/** Returns all figures, in the paper's order, ours last. */
export function figures(results: readonly Result[], shown: Shown, words: LabWords): Figure[] {
  return SPECS.map((spec): Figure => {
    const head = { id: spec.id, title: words.titles[spec.id], says: words.says[spec.id] };
    const measured = systemsOf(results);
    const lacked = (spec.systems ?? []).filter((system) => !measured.includes(system));
    const first = spec.systems?.[0];
    if (results.length === 0) return { ...head, missing: words.noResults };
    if (spec.measure === "cpuShare" && !results.some((one) => one.cpuMs !== undefined)) return { ...head, missing: words.needsProcessor };
    // A figure about one system needs that system; a figure about all needs any.
    const isLacking = spec.systems === ALL_OF_PAPER ? lacked.length === spec.systems.length : first !== undefined && !measured.includes(needed(spec));
    if (isLacking) {
      const names = list(lacked, words);
      return { ...head, missing: lacked.some((system) => placeOf(system) === "native") ? words.needsCommand(names) : words.needs(names) };
    }
    const made = make(spec, results, shown, words);
    return "missing" in made ? { ...head, missing: made.missing } : { ...head, ...made, runs: runsOf(results) };
  });
}

/** The system without which a figure says nothing. */
function needed({ id, systems }: Spec): System {
  return id === "2" || id === "3" ? "webrsync@main" : id === "7" ? "webrsync@worker" : systems![0]!;
}

function make(spec: Spec, results: readonly Result[], shown: Shown, words: LabWords): { draw: (width: number) => Drawing; table: Table } | { missing: string } {
  switch (spec.is) {
    case "lines":
      return lines(spec, results, shown, words);
    case "stages":
      return stages(spec, results, shown, words);
    case "lanes":
      return lanes(spec.systems!, results, { ...shown, kinds: spec.id === "4" ? kindsOf(results) : [shown.kind] }, words);
    case "byLength":
      return byLength(results, shown, words);
    case "stillByLength":
      return stillByLength(results, shown, words);
  }
}

const list = (systems: readonly System[], words: LabWords): string => systems.map(words.systemName).join(", ");

/** The systems of results, in a fixed order, ours first. */
export function systemsOf(results: readonly Result[]): System[] {
  const rank = (system: System) => (system === OURS ? -1 : rankOf(system));
  return [...new Set(results.map(({ system }) => system))].sort((a, b) => rank(a) - rank(b));
}

/** The kinds of results, in a fixed order. */
export const kindsOf = (results: readonly Result[]): Kind[] => KINDS.filter((kind) => results.some((one) => one.kind === kind));

/** The number of repeats, for the foot of a figure. */
export const runsOf = (results: readonly Result[]): number => Math.max(0, ...results.map(({ repeat }) => repeat + 1));

/** A number of dashes and marks for each system, equal in all figures. */
function styleOf(system: System): number {
  const order: readonly System[] = ["webr2sync+@main", "webrsync@main", "webr2sync@main", "rsync@native", "webrsync+@main", "webrsync@worker", "webr2sync-siphash@main", "webrsync@native", "whole@main"];
  const known = order.indexOf(system);
  return known >= 0 ? known : order.length + (rankOf(system) % 7);
}

function measured(results: readonly Result[], measure: Measure | "cpuShare"): Spread | undefined {
  if (measure !== "cpuShare") return spread(results, measure);
  const shares = results.filter((one) => one.cpuMs !== undefined).map((one) => ({ ...one, cpuMs: (one.cpuMs! / one.ms) * 100 }));
  return spread(shares, "cpuMs");
}

function unitOf(measure: Measure | "cpuShare", words: LabWords): (value: number) => string {
  if (measure === "cpuShare") return (value) => words.percent(value / 100);
  return measure === "traffic" ? words.bytes : words.time;
}

/** Lines by bytes of the edit, a panel for each kind. */
function lines({ id, measure = "ms", systems, bands = [] }: Spec, results: readonly Result[], { length }: Shown, words: LabWords) {
  const some = results.filter((one) => one.length === length);
  const wanted = systems === ALL_OF_PAPER ? systemsOf(some) : [OURS, ...systems!].filter((system) => some.some((one) => one.system === system));
  const edits = distinct(some, "bytes");
  const kinds = kindsOf(some);
  const at = (system: System, kind: Kind, bytes: number) => measured(resultsOf(some, system, { kind, length, bytes }), measure);
  const panels = kinds.map((kind): Panel => ({
    title: words.kinds[kind],
    series: wanted.map((system): Series => ({ name: words.systemName(system), isOurs: system === OURS, style: styleOf(system), values: edits.map((bytes) => at(system, kind, bytes)) })),
    bands: bands.map(({ name, of, low, high }): Band => ({
      name: words.bands[name],
      values: edits.map((bytes) => {
        const base = of === undefined ? { mid: 1 } : at(of, kind, bytes);
        return base && ([base.mid * low, base.mid * high] as const);
      }),
    })),
  }));
  const unit = unitOf(measure, words);
  const table: Table = {
    head: [words.kindColumn, words.bytesColumn, ...wanted.map(words.systemName)],
    rows: kinds.flatMap((kind) => edits.map((bytes) => [words.kinds[kind], words.bytes(bytes), ...wanted.map((system) => told(at(system, kind, bytes), unit))])),
  };
  const label = `${words.byEdit(words.titles[id])}, ${words.bytes(length)}`;
  return { draw: (width: number) => lineChart({ label, xs: edits.map(words.bytes), unit, panels }, width), table };
}

const told = (value: Spread | undefined, unit: (value: number) => string): string => (value ? unit(value.mid) : "–");

/** Bars of stages: for a figure of the paper by kind and edit, for ours by system. */
function stages({ id, systems }: Spec, results: readonly Result[], shown: Shown, words: LabWords) {
  const { length } = shown;
  const some = results.filter((one) => one.length === length && one.clientMs !== undefined);
  const own = systems === undefined;
  const wanted = systems ?? systemsOf(some);
  const edits = distinct(some, "bytes");
  const isServerKnown = some.some((one) => one.serverMs !== undefined);
  const parts = isServerKnown ? [words.parts.client, words.parts.server, words.parts.network] : [words.parts.client, words.parts.wait];
  const bars = (system: System, kind: Kind, bytes: number, name: string): Bar[] => {
    const cell = resultsOf(some, system, { kind, length, bytes });
    const [time, client, server] = [spread(cell, "ms"), spread(cell, "clientMs"), spread(cell, "serverMs")];
    if (!time || !client) return [];
    const inside = Math.min(client.mid, time.mid);
    const there = Math.min(server?.mid ?? 0, time.mid - inside);
    const rest = time.mid - inside - there;
    return [{ name, parts: isServerKnown ? [inside, there, rest] : [inside, rest], says: `${words.time(time.mid)}, ${words.parts.client} ${words.percent(inside / time.mid)}` }];
  };
  const panels = own
    ? [{ title: words.cell(words.kinds[shown.kind], shown.bytes, length), bars: wanted.flatMap((system) => bars(system, shown.kind, shown.bytes, words.systemName(system))) }]
    : wanted.flatMap((system) =>
        kindsOf(some)
          .filter((kind) => id !== "3" || kind === shown.kind)
          .map((kind) => ({ title: `${words.systemName(system)}, ${words.kinds[kind]}`, bars: edits.flatMap((bytes) => bars(system, kind, bytes, words.bytes(bytes))) })),
      );
  const drawn = panels.filter(({ bars }) => bars.length > 0);
  if (drawn.length === 0) return { missing: words.noResults };
  const table: Table = {
    head: [own ? words.system : words.systemAndEdit, ...parts, words.timeColumn],
    rows: drawn.flatMap(({ title, bars }) => bars.map(({ name, parts }) => [own ? name : `${title}, ${name}`, ...parts.map(words.time), words.time(parts.reduce((a, b) => a + b, 0))])),
  };
  return { draw: (width: number) => barChart({ label: `${words.titles[id]}, ${words.bytes(length)}`, parts, panels: drawn }, width), table };
}

/** StagMeter of these systems, for one cell or for a cell of each kind. */
export function lanes(systems: readonly System[], results: readonly Result[], { kinds, length, bytes }: Omit<Cell, "kind"> & { kinds: readonly Kind[] }, words: LabWords) {
  const cells = kinds.flatMap((kind) => systems.map((system) => ({ kind, system, one: typical(resultsOf(results, system, { kind, length, bytes })) })));
  const all = cells.flatMap(({ kind, system, one }): Lane[] => {
    if (!one || one.stagnation === undefined) return [];
    const under = kinds.length > 1 ? words.kinds[kind] : words.places[placeOf(system)];
    const says = words.laneSays(one.ms, one.up + one.down);
    return [{ name: words.systemName(system), under, isOurs: system === OURS, ms: one.ms, late: one.late, still: words.still(one.stagnation), isStill: one.stagnation > 0, says }];
  });
  if (all.length === 0) return { missing: words.noResults };
  const longest = Math.max(LEAST_LANE_MS, ...all.map(({ ms, late }) => Math.max(ms, ...late.map(([due, by]) => due + by))));
  const label = words.lanesLabel(all.map(({ name, under, still }) => `${name} (${under}): ${still}`).join("; "));
  const ends = { from: words.laneEnd(0), to: words.laneEnd(longest) };
  const table: Table = {
    head: [words.system, kinds.length > 1 ? words.kindColumn : words.place, words.timeColumn, words.stillColumn],
    rows: all.map(({ name, under, ms, still }) => [name, under, words.time(ms), still]),
  };
  return { draw: (width: number) => laneChart({ label, lanes: all, words: ends }, width, longest), table };
}

/** Lines by length of the file, a panel for each kind. */
function byLength(results: readonly Result[], { bytes }: Shown, words: LabWords) {
  const lengths = distinct(results, "length");
  if (lengths.length < 2) return { missing: words.needsLengths };
  const some = results.filter((one) => one.bytes === bytes);
  const [wanted, kinds] = [systemsOf(some), kindsOf(some)];
  const at = (system: System, kind: Kind, length: number) => spread(resultsOf(some, system, { kind, length, bytes }), "ms");
  const panels = kinds.map((kind): Panel => ({
    title: `${words.kinds[kind]}, ${words.bytes(bytes)}`,
    series: wanted.map((system): Series => ({ name: words.systemName(system), isOurs: system === OURS, style: styleOf(system), values: lengths.map((length) => at(system, kind, length)) })),
    bands: [],
  }));
  const table: Table = {
    head: [words.kindColumn, words.lengthColumn, ...wanted.map(words.systemName)],
    rows: kinds.flatMap((kind) => lengths.map((length) => [words.kinds[kind], words.bytes(length), ...wanted.map((system) => told(at(system, kind, length), words.time))])),
  };
  return { draw: (width: number) => lineChart({ label: words.titles.length, xs: lengths.map(words.bytes), unit: words.time, panels }, width), table };
}

/** Bars of stagnation, a panel for each length of the file. */
function stillByLength(results: readonly Result[], { kind, bytes }: Shown, words: LabWords) {
  const lengths = distinct(results, "length");
  if (lengths.length < 2) return { missing: words.needsLengths };
  const systems = systemsOf(results.filter((one) => one.stagnation !== undefined));
  const panels = lengths.map((length) => ({
    title: words.cell(words.kinds[kind], bytes, length),
    bars: systems.flatMap((system): Bar[] => {
      const still = spread(resultsOf(results, system, { kind, length, bytes }), "stagnation");
      return still ? [{ name: words.systemName(system), parts: [still.mid], says: words.time(still.mid) }] : [];
    }),
  }));
  const drawn = panels.filter(({ bars }) => bars.length > 0);
  if (drawn.length === 0) return { missing: words.noResults };
  const table: Table = {
    head: [words.lengthColumn, words.system, words.stillColumn],
    rows: drawn.flatMap(({ title, bars }) => bars.map(({ name, says }) => [title, name, says])),
  };
  return { draw: (width: number) => barChart({ label: words.titles.still, parts: [words.stillColumn], panels: drawn }, width), table };
}

/** Shortest scale of StagMeter, so that short syncs show some ticks. */
const LEAST_LANE_MS = 1_000;
