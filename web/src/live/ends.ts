/** The known state of both ends of a synced folder: entries, and paths that may have changed since the last look. */
import { Problem } from "../api/http";
import { isMissing, type Local } from "./local";
import type { Remote } from "./remote";
import { parent, removeBelow, type Tree } from "./types";

/** The end there, as a follower uses it. */
export type RemoteEnd = Pick<Remote, "list" | "hasEntries" | "lookAll" | "digest" | "put" | "putSmall" | "fetchSmall" | "get" | "rename" | "remove" | "make">;

export interface Ends {
  here: KnownEnd<Local>;
  there: KnownEnd<RemoteEnd>;
}

export class KnownEnd<E extends Local | RemoteEnd> {
  tree: Tree = new Map();
  /** True if the tree or the ancestor may differ from those of the last plan. */
  isChanged = true;
  /** Time that the last complete look took. */
  tookMs = 0;
  /** Time at which the last complete look ended. */
  #last = performance.now();
  /** Paths that may have changed; "all" for everything. */
  #dirty: Set<string> | "all" = "all";
  /** Paths that this page changed. A server tells of these changes too, and such paths wait in `#echoes`. */
  #mine = new Set<string>();
  /** Paths of `#mine` that the end told of. They are looked at when nothing else is left. */
  #echoes = new Set<string>();

  constructor(readonly end: E) {}

  get isDirty(): boolean {
    return this.#dirty === "all" || this.#dirty.size > 0;
  }

  mark(path: string): void {
    if (this.#dirty === "all") return;
    this.#dirty.add(path);
    if (this.#dirty.size > MOST_DIRTY) this.markAll();
  }

  markAll(): void {
    this.#dirty = "all";
  }

  /** Marks everything if the last complete look is so long ago. */
  markIfDue(everyMs: number): boolean {
    const now = performance.now();
    if (now - this.#last < everyMs) return false;
    this.#last = now;
    this.markAll();
    return true;
  }

  /** Notes that this page is about to change the entry. */
  changes(path: string): void {
    this.#mine.add(path);
  }

  /** The end tells of a change. */
  hear(path: string): void {
    if (this.#mine.has(path)) this.#echoes.add(path);
    else this.mark(path);
  }

  /** Lets the next look see the paths that this page changed: another client may have changed them since. */
  hearEchoes(): void {
    for (const path of this.#echoes) this.mark(path);
    this.#forgetEchoes();
  }

  #forgetEchoes(): void {
    this.#echoes.clear();
    this.#mine.clear();
  }

  /** Looks at what may have changed. */
  async refresh(): Promise<void> {
    const dirty = this.#dirty;
    this.#dirty = new Set();
    if (dirty !== "all") return this.#lookAt(dirty);
    const began = performance.now();
    // These paths are listed now, and changes that the end tells of from now on are later changes.
    this.#forgetEchoes();
    this.tree = withDigests(await this.end.list(), this.tree);
    this.#last = performance.now();
    this.tookMs = this.#last - began;
    this.isChanged = true;
  }

  async #lookAt(paths: ReadonlySet<string>): Promise<void> {
    if (paths.size === 0) return;
    const { tree } = this;
    const found = await this.end.lookAll([...paths], tree);
    const listed = new Set<string>();
    const isListed = (path: string): boolean => path !== "" && (listed.has(path) || isListed(parent(path)));
    // Folders come before their entries.
    for (const path of [...paths].sort()) {
      const [was, now] = [tree.get(path), found.get(path)];
      const isSame = now !== "d" && (was === now || (typeof was === "object" && typeof now === "object" && was.tag === now.tag));
      if (isSame || isListed(path)) continue;
      this.isChanged = true;
      removeBelow(tree, path);
      if (now === undefined) continue;
      for (let dir = parent(path); dir; dir = parent(dir)) tree.set(dir, "d");
      tree.set(path, now);
      if (now !== "d") continue;
      listed.add(path);
      for (const [below, node] of await this.#listBelow(path)) tree.set(below, node);
    }
  }

  /** Lists a folder that was there just now. */
  async #listBelow(path: string): Promise<Tree> {
    try {
      return await this.end.list(path);
    } catch (error) {
      if (!isMissing(error) && !(error instanceof Problem && error.status === 404)) throw error;
      // The folder is gone by now. The next round looks again.
      this.mark(path);
      return new Map();
    }
  }
}

/** Keeps digests of versions that are still there. */
function withDigests(now: Tree, was: Tree): Tree {
  for (const [path, node] of was) {
    const present = now.get(path);
    if (typeof node === "object" && node.digest && typeof present === "object" && present.tag === node.tag) now.set(path, node);
  }
  return now;
}

/** Number of changed paths above which an end is listed whole. */
const MOST_DIRTY = 4_000;
