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

  sort(entries: readonly Entry[]): readonly Entry[] {
    const isLonger = this.#listed.every((entry, i) => entry === entries[i]);
    const { known, fresh } = isLonger ? { known: this.#sorted, fresh: entries.slice(this.#listed.length) } : this.#changed(entries);
    this.#listed = entries;
    const order = (a: Entry, b: Entry) => foldersFirst(a, b) || this.#compare(a.name, b.name);
    return (this.#sorted = fresh.length > 0 ? merged(known, fresh.sort(order), order) : known);
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
      known.push(entry);
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
  let [low, high] = [from, known.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order(known[middle]!, entry) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
