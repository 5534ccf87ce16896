/** Types of a synced folder: what each end has, and the plan that the engine makes (crates/tree/src/reconcile.rs). */

export type End = "here" | "there";

/** A version of a file at one end. */
export interface FileState {
  /** Changes with each change: the entity tag there; length and time here. */
  tag: string;
  bytes: number;
  /** Milliseconds since 1970 here, seconds there. */
  modified: number;
  /** SHA-256 in base64, if it was needed. */
  digest?: string | undefined;
}

/** An entry: a folder, another kind of entry that no step touches, or a file. */
export type Node = "d" | "o" | FileState;
/** Entries by path below the folder. */
export type Tree = Map<string, Node>;

/** An entry that was equal at both ends. */
export type Common = "d" | { here: FileState; there: FileState };

export type Step =
  | { is: "aside" | "move"; end: End; path: string; to: string }
  | { is: "delete" | "make" | "transfer"; end: End; path: string }
  | { is: "compare" | "adopt" | "forget"; path: string };

/** A path that stays different until the user acts. */
export type Clash =
  | { is: "folds"; end: End; path: string; with: string }
  | { is: "other"; end: End; path: string }
  | { is: "name"; path: string };

export interface Guard {
  end: End;
  files: number;
  of: number;
}

export interface Plan {
  steps: Step[];
  clashes: Clash[];
  guard: Guard | null;
}

/** The state of an end is not as the plan knew. The next plan decides. */
export class Outdated extends Error {
  constructor() {
    super("the file changed meanwhile");
    this.name = "Outdated";
  }
}

/** The folder above a path, and the name of the last part. */
export const parent = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf("/")));
export const base = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** Works on the values, at most `most` at a time. */
export async function eachOf<T>(values: readonly T[], most: number, work: (value: T) => Promise<void>): Promise<void> {
  let next = 0;
  const one = async () => {
    while (next < values.length) await work(values[next++]!);
  };
  await Promise.all(Array.from({ length: Math.min(most, values.length) }, one));
}

/** Removes the entry at `path` from a tree, with everything below. */
export function removeBelow(tree: Tree, path: string): void {
  const was = tree.get(path);
  tree.delete(path);
  if (was === "d") for (const other of [...tree.keys()]) if (other.startsWith(`${path}/`)) tree.delete(other);
}
