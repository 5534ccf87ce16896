/** Results of trials: medians, and the table as CSV, which can be read back. */
import type { Kind, System, Trial } from "./experiment";

/** A result of a trial. Times are in ms. */
export interface Result extends Trial {
  /** Time at which the trial began, in ms since 1970. */
  at: number;
  /** From the begin of the sync to the new version in place at the server. */
  ms: number;
  /** Part of the time in which the engine worked, here or in the worker. Undefined where nothing can measure it. */
  clientMs?: number | undefined;
  /** Part of the time in which the server's processor worked. A page cannot see it. */
  serverMs?: number | undefined;
  /** Processor time of the browser, or of the command. A page cannot see it. */
  cpuMs?: number | undefined;
  /** Bytes to the server and from the server. */
  up: number;
  down: number;
  /** Stagnation by StagMeter; undefined without a page. */
  stagnation?: number | undefined;
  /** Late ticks of StagMeter: the time when a tick was due since the begin, and the lateness. */
  late: readonly (readonly [due: number, ms: number])[];
  /** True if the server's file has the hash of the new version. */
  isEqual: boolean;
}

/** The settings that trials share if the trials differ only in the system, or in the number of the repeat. */
export interface Cell {
  kind: Kind;
  length: number;
  bytes: number;
}

export type Measure = "ms" | "clientMs" | "serverMs" | "cpuMs" | "stagnation" | "traffic";

/** A median with the least and the greatest value. */
export interface Spread {
  mid: number;
  low: number;
  high: number;
}

/** Returns the results of a system in a cell, in order. */
export const resultsOf = (results: readonly Result[], system: System, { kind, length, bytes }: Cell): Result[] =>
  results.filter((one) => one.system === system && one.kind === kind && one.length === length && one.bytes === bytes);

/** Returns the median of a measure; undefined if no result has the measure. */
export function spread(results: readonly Result[], measure: Measure | "up" | "down"): Spread | undefined {
  const values = results.map((one) => valueOf(one, measure)).filter((value) => value !== undefined);
  if (values.length === 0) return undefined;
  values.sort((a, b) => a - b);
  const half = values.length >> 1;
  const mid = values.length % 2 ? values[half]! : (values[half - 1]! + values[half]!) / 2;
  return { mid, low: values[0]!, high: values.at(-1)! };
}

function valueOf(result: Result, measure: Measure | "up" | "down"): number | undefined {
  return measure === "traffic" ? result.up + result.down : result[measure];
}

/** Returns the result with the median time. Its ticks are shown. */
export function typical(results: readonly Result[]): Result | undefined {
  const sorted = [...results].sort((a, b) => a.ms - b.ms);
  return sorted[(sorted.length - 1) >> 1];
}

/** The distinct values of a field, in ascending order. */
export function distinct<K extends "length" | "bytes">(results: readonly Result[], field: K): number[] {
  return [...new Set(results.map((one) => one[field]))].sort((a, b) => a - b);
}

const COLUMNS = ["system", "kind", "file_bytes", "edit_bytes", "repeat", "at", "ms", "client_ms", "server_ms", "cpu_ms", "up_bytes", "down_bytes", "stagnation_ms", "late_ticks", "equal"] as const;

/** Returns the results as CSV. `late_ticks` has `due+lateness` in ms for each late tick. */
export function toCsv(results: readonly Result[]): string {
  const round = (value: number | undefined, digits = 3) => (value === undefined ? "" : String(Number(value.toFixed(digits))));
  const lines = results.map((one) =>
    [
      one.system,
      one.kind,
      one.length,
      one.bytes,
      one.repeat,
      new Date(one.at).toISOString(),
      round(one.ms),
      round(one.clientMs),
      round(one.serverMs),
      round(one.cpuMs),
      one.up,
      one.down,
      round(one.stagnation, 1),
      one.late.map(([due, ms]) => `${round(due, 0)}+${round(ms, 0)}`).join(" "),
      one.isEqual,
    ].join(","),
  );
  return [COLUMNS.join(","), ...lines, ""].join("\n");
}

/** Reads what `toCsv` wrote. */
export function fromCsv(text: string): Result[] {
  const [head, ...lines] = text.trim().split("\n");
  if (head !== COLUMNS.join(",")) throw new Error(`not a table of the lab: ${head}`);
  return lines.map((line) => {
    const cells = line.split(",");
    const cell = (name: (typeof COLUMNS)[number]) => cells[COLUMNS.indexOf(name)] ?? "";
    const number = (name: (typeof COLUMNS)[number]) => Number(cell(name));
    const optional = (name: (typeof COLUMNS)[number]) => (cell(name) === "" ? undefined : number(name));
    return {
      system: cell("system") as System,
      kind: cell("kind") as Kind,
      length: number("file_bytes"),
      bytes: number("edit_bytes"),
      repeat: number("repeat"),
      at: Date.parse(cell("at")),
      ms: number("ms"),
      clientMs: optional("client_ms"),
      serverMs: optional("server_ms"),
      cpuMs: optional("cpu_ms"),
      up: number("up_bytes"),
      down: number("down_bytes"),
      stagnation: optional("stagnation_ms"),
      late: cell("late_ticks").split(" ").filter(Boolean).map((tick) => tick.split("+").map(Number) as [number, number]),
      isEqual: cell("equal") === "true",
    };
  });
}
