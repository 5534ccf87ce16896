/**
 * The order of the rows. Lists of 100,000 names come page by page, and come again after each change. So a new list
 * starts from the order of the last list: only new names are sorted, and then merged.
 */
import type { Entry } from "../api/volumes";

export type Column = "name" | "bytes" | "modified";
export interface Order {
  by: Column;
  down: boolean;
}

type Compare = (a: string, b: string) => number;

/** Sorts entries by name, folders first. */
export class NameOrder {
  readonly #compare: Compare;
  /** The entries of the last list in the order of the server, and sorted. */
  #listed: readonly Entry[] = [];
  #sorted: readonly Entry[] = [];

  constructor(compare: Compare) {
    this.#compare = compare;
  }

  /** Returns the entries in order. Costs no comparison after `learn` with the same entries. */
  sort(entries: readonly Entry[]): readonly Entry[] {
    const { known, fresh } = this.#split(entries);
    this.#listed = entries;
    return (this.#sorted = this.#with(known, fresh));
  }

  /** Sorts entries in short turns. Calls `rest` between turns, and rejects as `rest` does. */
  async learn(entries: readonly Entry[], rest: () => Promise<void>): Promise<void> {
    const { known, fresh } = this.#split(entries);
    let sorted = known;
    for (let i = 0; i < fresh.length; i += TURN) {
      if (i > 0) await rest();
      sorted = this.#with(sorted, fresh.slice(i, i + TURN));
    }
    this.#listed = entries;
    this.#sorted = sorted;
  }

  #with(known: readonly Entry[], fresh: Entry[]): readonly Entry[] {
    const order = (a: Entry, b: Entry) => foldersFirst(a, b) || this.#compare(a.name, b.name);
    return fresh.length > 0 ? merged(known, fresh.sort(order), order) : known;
  }

  #split(entries: readonly Entry[]): { known: readonly Entry[]; fresh: Entry[] } {
    const isLonger = this.#listed.every((entry, i) => entry === entries[i]);
    return isLonger ? { known: this.#sorted, fresh: entries.slice(this.#listed.length) } : this.#changed(entries);
  }

  /** Splits entries: `known` were in the last list and are sorted, `fresh` are new or changed their type. */
  #changed(entries: readonly Entry[]): { known: readonly Entry[]; fresh: Entry[] } {
    const left = new Map<string, Entry>();
    for (const entry of entries) left.set(entry.name, entry);
    const known: Entry[] = [];
    for (const before of this.#sorted) {
      const entry = left.get(before.name);
      if (!entry || isFolder(entry) !== isFolder(before)) continue;
      left.delete(entry.name);
      known.push(isSame(before, entry) ? before : entry);
    }
    return { known, fresh: [...left.values()] };
  }
}

/** Returns entries that are sorted by name in the order of a column. Folders stay first. */
export function sortedBy({ by, down }: Order, byName: readonly Entry[]): readonly Entry[] {
  if (by === "name" && !down) return byName;
  const start = down ? byName.toReversed() : [...byName];
  // Equal entries keep the order of their names.
  const difference = (a: Entry, b: Entry) => (by === "name" ? 0 : a[by] - b[by]);
  return start.sort((a, b) => foldersFirst(a, b) || (down ? difference(b, a) : difference(a, b)));
}

/** True if both entries have the same row. A row whose entry stays the same object is not drawn again. */
const isSame = (one: Entry, other: Entry): boolean =>
  one.type === other.type && one.etag === other.etag && one.bytes === other.bytes && one.modified === other.modified && !one.change === !other.change;

const isFolder = ({ type }: Entry): boolean => type === "dir";
const foldersFirst = (a: Entry, b: Entry): number => Number(isFolder(b)) - Number(isFolder(a));

/** Merges two sorted lists. `fresh` is usually the much shorter list. */
function merged(known: readonly Entry[], fresh: readonly Entry[], order: (a: Entry, b: Entry) => number): readonly Entry[] {
  const all: Entry[] = [];
  let from = 0;
  for (const entry of fresh) {
    const to = placeOf(entry, known, from, order);
    while (from < to) all.push(known[from++]!);
    all.push(entry);
  }
  while (from < known.length) all.push(known[from++]!);
  return all;
}

/** Returns the index of the first entry from `from` on that stands behind `entry`. */
function placeOf(entry: Entry, known: readonly Entry[], from: number, order: (a: Entry, b: Entry) => number): number {
  let low = from;
  // The place is mostly near: of some thousand rows, hundreds are new at a time.
  let step = 1;
  for (; low + step <= known.length && order(known[low + step - 1]!, entry) <= 0; step *= 2) low += step;
  let high = Math.min(low + step - 1, known.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order(known[middle]!, entry) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Names that are sorted in a turn. A comparison by the rules of a language takes microseconds. */
const TURN = 250;
