/**
 * The experiments of the WebR2sync paper (sections 3.2 and 6.2): a file, an edit, and a system that syncs the edit. All
 * bytes come from seeds, so the page and `deltic` sync equal files. The paper edits files of its users; here the files
 * are noise, which no system compresses.
 */

export const KINDS = ["append", "insert", "cut", "inverse"] as const;
/** `inverse` replaces bytes by their complements, as the SkySync paper does. */
export type Kind = (typeof KINDS)[number];

/** Lengths of files, in bytes. */
export const LENGTHS = [1_000_000, 10_000_000, 100_000_000] as const;
/** Returns the lengths that this machine can hold several times. Not all browsers tell the memory of a machine. */
export function lengthsHere(): readonly number[] {
  const { deviceMemory = LEAST_MEMORY } = navigator as { deviceMemory?: number };
  return deviceMemory < LEAST_MEMORY ? LENGTHS.slice(0, -1) : LENGTHS;
}

/** Lengths of edits, in bytes. */
export const EDITS = [1, 1_000, 10_000, 100_000] as const;

/**
 * Where the engine runs. `main` is the page's own thread without a pause, as the published programs run. `turns` is the
 * page's own thread in turns of some milliseconds. `native` is the command in place of the page.
 */
export type Place = (typeof PLACES)[number];
/** Places in a page. */
export const PAGE_PLACES = ["main", "turns", "worker"] as const;
const PLACES = [...PAGE_PLACES, "native"] as const;

/** A strategy of `deltic sync --strategy`, or `whole`: the whole file by plain HTTP. */
export const STRATEGIES = ["deltic", "webr2sync+", "webr2sync-siphash", "webr2sync", "webrsync+", "webrsync", "rsync", "dsync", "whole"] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** A strategy in a place, as `strategy@place`. */
export type System = `${Strategy}@${Place}`;
export const strategyOf = (system: System): Strategy => system.split("@")[0] as Strategy;
export const placeOf = (system: System): Place => system.split("@")[1] as Place;

/** Places in the page where a strategy can run. A whole file needs no engine. */
export const placesOf = (strategy: Strategy): readonly Place[] => (strategy === "whole" ? ["main"] : PAGE_PLACES);
/** Returns a number by which systems are sorted: by strategy, then by place. */
export const rankOf = (system: System): number => STRATEGIES.indexOf(strategyOf(system)) * PLACES.length + PLACES.indexOf(placeOf(system));

/** The system of this page. */
export const OURS: System = "deltic@worker";

/** The names that the paper gives to systems. */
const PAPER_NAMES: Partial<Record<System, string>> = {
  "webrsync@main": "WebRsync",
  "webrsync@native": "WebRsync-native",
  "webrsync@worker": "WebRsync-parallel",
  "webrsync+@main": "WebRsync+",
  "webr2sync@main": "WebR2sync",
  "webr2sync-siphash@main": "WebR2sync with SipHash",
  "webr2sync+@main": "WebR2sync+",
  "rsync@native": "rsync",
};
/** Returns the paper's name of a system, if the paper has the system. */
export const paperName = (system: System): string | undefined => PAPER_NAMES[system];

/** An edit of a file. */
export interface Edit {
  kind: Kind;
  /** Length of the old file, in bytes. */
  length: number;
  /** Bytes that are added, removed or replaced. */
  bytes: number;
  /** Number of the repeat, from 0. Each repeat has other bytes and places. */
  repeat: number;
}

/** The choices of the user for a run. */
export interface Choice {
  kinds: readonly Kind[];
  lengths: readonly number[];
  edits: readonly number[];
  systems: readonly System[];
  repeats: number;
}

export interface Trial extends Edit {
  system: System;
}

/**
 * Returns the trials of a choice. Systems take turns, so that a busy moment of the machine meets all of them. Each edit
 * begins with another system: the first sync after the making of files is slower.
 */
export function trials({ kinds, lengths, edits, systems, repeats }: Choice): Trial[] {
  const all: Trial[] = [];
  let first = 0;
  for (const length of lengths)
    for (let repeat = 0; repeat < repeats; repeat++)
      for (const kind of kinds)
        for (const bytes of edits) {
          const turned = [...systems.slice(first), ...systems.slice(0, first)];
          all.push(...turned.map((system) => ({ kind, length, bytes, repeat, system })));
          first = (first + 1) % Math.max(1, systems.length);
        }
  return all;
}

/** Returns random numbers from 0 to 1 (mulberry32). */
function random(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x = (x + Math.imul(x ^ (x >>> 7), x | 61)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns bytes without a pattern (xorshift), in parts of at most `most` bytes. */
export function* noiseParts(length: number, seed: number, most: number): Generator<Uint8Array<ArrayBuffer>> {
  let x = Math.imul(seed, 0x9e3779b1) | 1;
  for (let at = 0; at < length; at += most) {
    const bytes = Math.min(most, length - at);
    const words = new Uint32Array(Math.ceil(bytes / 4));
    for (let i = 0; i < words.length; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      words[i] = x;
    }
    yield new Uint8Array(words.buffer, 0, bytes);
  }
}

/** Returns bytes without a pattern. */
export function noise(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const [all = new Uint8Array()] = noiseParts(length, seed, length);
  return all;
}

/** A range of the old file. For an insertion, `length` counts bytes inserted before `at`. */
export interface Piece {
  at: number;
  length: number;
}

/**
 * Returns the pieces of an edit, in the order of the file. An edit from 1 kB on has 1 to 20 pieces at random places, an
 * appended edit one piece (section 3.2).
 */
export function pieces({ kind, length, bytes, repeat }: Edit): Piece[] {
  if (kind === "append") return [{ at: length, length: bytes }];
  const next = random(length * 31 + bytes * 7 + repeat * 1_000_003 + KINDS.indexOf(kind));
  const count = bytes < DISPERSED_BYTES ? 1 : 1 + Math.floor(next() * MOST_PIECES);
  const cuts = Array.from({ length: count - 1 }, () => 1 + Math.floor(next() * (bytes - 1)));
  const edges = [0, ...new Set(cuts), bytes].sort((a, b) => a - b);
  const lengths = edges.slice(1).map((edge, i) => edge - edges[i]!);
  // The pieces of a cut or an inversion take room in the old file, and do not overlap.
  const room = kind === "insert" ? length : length - bytes;
  const places = lengths.map(() => Math.floor(next() * (room + 1))).sort((a, b) => a - b);
  let before = 0;
  return lengths.map((piece, i) => {
    const at = places[i]! + (kind === "insert" ? 0 : before);
    before += piece;
    return { at, length: piece };
  });
}

/** Returns the new version of a file: parts of the old version, which are not copied, and bytes of the edit. */
async function edited(old: Blob, edit: Edit): Promise<Blob> {
  const { kind, bytes, repeat } = edit;
  const fresh = noise(bytes, FRESH_SEED + repeat);
  const parts: BlobPart[] = [];
  let [from, used] = [0, 0];
  for (const { at, length } of pieces(edit)) {
    parts.push(old.slice(from, at));
    from = at;
    if (kind === "append" || kind === "insert") parts.push(fresh.subarray(used, (used += length)));
    else from += length;
    if (kind === "inverse") parts.push(new Uint8Array(await old.slice(at, from).arrayBuffer()).map((byte) => ~byte));
  }
  return new Blob([...parts, old.slice(from)]);
}

/** Returns the old and the new version of an edit. A browser may keep them outside the memory of the page. */
export async function versions(edit: Edit): Promise<{ old: Blob; edited: Blob }> {
  const parts: Blob[] = [];
  for (const part of noiseParts(edit.length, edit.repeat + 1, PART_BYTES)) parts.push(new Blob([part]));
  const old = new Blob(parts);
  return { old, edited: await edited(old, edit) };
}

const DISPERSED_BYTES = 1_000;
const MOST_PIECES = 20;
const FRESH_SEED = 1_000_000;
/** Bytes of a file that are made at once. A multiple of 4: noise is made in words. */
const PART_BYTES = 1 << 20;
/** Memory of a machine, in GB, below which a page does not sync the longest files. */
const LEAST_MEMORY = 4;
