/**
 * The folder on this device. Every change first compares the entry with the state that the plan was made for.
 *
 * A file is replaced in one step: the browser writes beside the file, and renames at the close.
 */
import type { Patch } from "../transfer/delta/messages";
import { Outdated, base, eachOf, parent, removeBelow, type FileState, type Node, type Tree } from "./types";

/** The part of the interface of directories that TypeScript does not declare. */
interface Permitted {
  queryPermission?(rights: { mode: "readwrite" }): Promise<PermissionState>;
  requestPermission?(rights: { mode: "readwrite" }): Promise<PermissionState>;
}

export async function permission(of: FileSystemDirectoryHandle): Promise<PermissionState> {
  return (await (of as Permitted).queryPermission?.({ mode: "readwrite" })) ?? "granted";
}

/** Asks the user. Call this only from a press of a button. */
export async function askPermission(of: FileSystemDirectoryHandle): Promise<PermissionState> {
  return (await (of as Permitted).requestPermission?.({ mode: "readwrite" })) ?? "granted";
}

export const stateOf = ({ size, lastModified }: File): FileState => ({
  tag: `${lastModified}.${size}`,
  bytes: size,
  modified: lastModified,
});

/** The folder at the server in which the lab of a page tests. */
export const SCRATCH_FOLDER = /^\.lab-[0-9a-f]{8}$/;

/** True for names that a browser, a server or the lab uses for files of the moment. Such names are synced from neither end. */
export const isPrivate = (name: string): boolean => name.endsWith(".crswap") || name === ".deltic" || SCRATCH_FOLDER.test(name);

/** A content of a file. A short one costs a browser less as bytes than as a Blob. A patch is for the version in place. */
export type Content = Blob | ArrayBuffer | Patch;
export const bytesOf = (content: Content): number => ("size" in content ? content.size : "parts" in content ? content.bytes : content.byteLength);

/** A folder that is being listed. */
interface Listed {
  path: string;
  dir: FileSystemDirectoryHandle;
}

/** Notes of files that are being made. A page that is killed meanwhile leaves an empty file. */
export interface MakingNotes {
  /** Resolves when the note is written. */
  making(path: string): Promise<void>;
  made(path: string): void;
}

export class Local {
  /** Undefined: no notes. */
  notes: MakingNotes | undefined;
  /** Folders that were found since the last look. A browser takes as long for a folder as for a file. */
  #dirs = new Map<string, Promise<FileSystemDirectoryHandle>>();

  constructor(readonly root: FileSystemDirectoryHandle) {}

  /** Lists the folder `at`, with all folders below. Rejects if the folder is gone, or may not be read. */
  async list(at = ""): Promise<Tree> {
    this.#dirs.clear();
    const found: Tree = new Map();
    const waiting: Listed[] = [{ path: at, dir: await this.#dir(at) }];
    let running = 0;
    let failure: unknown;
    await new Promise<void>((resolve, reject) => {
      const next = (): void => {
        if (failure !== undefined && running === 0) return reject(failure as Error);
        if (waiting.length === 0 && running === 0) return resolve();
        while (failure === undefined && running < DIRS_AT_ONCE && waiting.length > 0) {
          running++;
          const listed = waiting.pop()!;
          void this.#listOne(listed, found, waiting)
            .catch((error: unknown) => {
              // A folder below that is gone by now is no folder.
              if (listed.path !== at && isMissing(error)) removeBelow(found, listed.path);
              else failure = error;
            })
            .then(() => (running--, next()));
        }
      };
      next();
    });
    return found;
  }

  /** Lists one folder. The folders in this folder go to `dirs`. */
  async #listOne({ path: at, dir }: Listed, found: Tree, dirs: Listed[]): Promise<void> {
    let files: Promise<void>[] = [];
    for await (const [name, handle] of dir.entries()) {
      if (isPrivate(name)) continue;
      const path = at ? `${at}/${name}` : name;
      if (handle.kind === "directory") {
        found.set(path, "d");
        dirs.push({ path, dir: handle as FileSystemDirectoryHandle });
        continue;
      }
      const look = async () => {
        try {
          found.set(path, stateOf(await (handle as FileSystemFileHandle).getFile()));
        } catch (error) {
          // A file that is gone by now is no file; of other files nothing is known.
          if (!isMissing(error)) found.set(path, "o");
        }
      };
      files.push(look());
      if (files.length >= AT_ONCE) {
        await Promise.all(files);
        files = [];
      }
    }
    await Promise.all(files);
  }

  /** Returns false if the folder is empty. Rejects if the folder is gone, or may not be read. */
  async hasEntries(): Promise<boolean> {
    for await (const _ of this.root.entries()) return true;
    return false;
  }

  /** Returns the entries at many paths, as `look` does, several at a time. */
  async lookAll(paths: readonly string[]): Promise<Map<string, Node | undefined>> {
    this.#dirs.clear();
    const found = new Map<string, Node | undefined>();
    await eachOf(paths, AT_ONCE, async (path) => void found.set(path, await this.look(path)));
    return found;
  }

  /** Returns the entry at `path`; undefined if nothing is there. */
  look(path: string): Promise<Node | undefined> {
    return this.#lookIn(this.#dir(parent(path)), path);
  }

  async #lookIn(dir: Promise<FileSystemDirectoryHandle>, path: string): Promise<Node | undefined> {
    let above: FileSystemDirectoryHandle;
    try {
      above = await dir;
    } catch (error) {
      if (isMissing(error) || isOtherKind(error)) return undefined;
      throw error;
    }
    try {
      return stateOf(await (await above.getFileHandle(base(path))).getFile());
    } catch (error) {
      if (isMissing(error)) return undefined;
      if (!isOtherKind(error)) throw error;
      return above.getDirectoryHandle(base(path)).then(() => "d", () => "o");
    }
  }

  async file(path: string): Promise<File> {
    return (await (await this.#dir(parent(path))).getFileHandle(base(path))).getFile();
  }

  /** Rejects if the file is not in the state `was`; undefined is no file. */
  async expect(path: string, was: FileState | undefined): Promise<File | undefined> {
    if (was === undefined) {
      if ((await this.look(path)) !== undefined) throw new Outdated();
      return undefined;
    }
    const now = await this.file(path);
    if (stateOf(now).tag !== was.tag) throw new Outdated();
    return now;
  }

  /**
   * Replaces the file at `path`, which is in the state `was`. Returns the new state. If `proof` rejects, the file stays
   * as it is.
   */
  async write(path: string, content: Content, was: FileState | undefined, proof?: Promise<void>): Promise<FileState> {
    // A rejection is awaited below, or no longer matters.
    void proof?.catch(() => undefined);
    const dir = await this.#dir(parent(path), true);
    const isNoted = !was && bytesOf(content) > 0;
    if (isNoted) await this.notes?.making(path);
    try {
      await this.expect(path, was);
      return await this.#put(dir, path, content, was, proof);
    } finally {
      if (isNoted) this.notes?.made(path);
    }
  }

  async #put(dir: FileSystemDirectoryHandle, path: string, content: Content, was: FileState | undefined, proof?: Promise<void>): Promise<FileState> {
    const handle = await dir.getFileHandle(base(path), { create: true });
    try {
      const out = await handle.createWritable({ keepExistingData: "parts" in content });
      if ("parts" in content) {
        for (const { at, data } of content.parts) await out.write({ type: "write", position: at, data });
        await out.truncate(content.bytes);
      } else {
        // The browser copies a Blob without the page's own thread.
        await out.write(content);
      }
      await proof?.catch(async (error: unknown) => {
        await out.abort();
        throw error;
      });
      // The user may have written to the file meanwhile.
      const now = stateOf(await handle.getFile());
      if (was ? now.tag !== was.tag : now.bytes > 0) {
        await out.abort();
        throw new Outdated();
      }
      await out.close();
    } catch (error) {
      // A new file has been made empty.
      if (!was && (await handle.getFile().catch(() => undefined))?.size === 0) await dir.removeEntry(base(path)).catch(() => undefined);
      throw error;
    }
    const state = stateOf(await handle.getFile());
    // The user may have written to the file since.
    if (state.bytes !== bytesOf(content)) throw new Outdated();
    return state;
  }

  /** Renames the file `from`, which is in the state `was`, to the free path `to`. Returns the new state. */
  async rename(from: string, to: string, was: FileState): Promise<FileState> {
    const content = (await this.expect(from, was))!;
    const state = await this.write(to, content, undefined);
    await this.remove(from, was);
    return state;
  }

  /** Removes the file, which is in the state `was`, or the empty folder. */
  async remove(path: string, was: FileState | "d"): Promise<void> {
    const dir = await this.#dir(parent(path));
    // Nothing is between the look and the removal: browsers remove no version that a page names.
    if (was !== "d") await this.expect(path, was);
    // Without `recursive`, a folder with entries stays.
    await dir.removeEntry(base(path));
    if (was === "d") this.#dirs.clear();
  }

  async make(path: string): Promise<void> {
    await this.#dir(path, true);
  }

  #dir(path: string, create = false): Promise<FileSystemDirectoryHandle> {
    if (path === "") return Promise.resolve(this.root);
    const known = this.#dirs.get(path);
    if (known) return known;
    const found = this.#dir(parent(path), create).then((above) => above.getDirectoryHandle(base(path), { create }));
    this.#dirs.set(path, found);
    // A folder that is not there may be made.
    found.catch(() => this.#dirs.delete(path));
    return found;
  }
}

export const isMissing = (error: unknown): boolean => error instanceof DOMException && error.name === "NotFoundError";
/** True if a file was expected and a folder is there, or the other way round. */
const isOtherKind = (error: unknown): boolean => error instanceof DOMException && error.name === "TypeMismatchError";

// ---------- changes ----------

interface ChangeRecord {
  type: string;
  relativePathComponents: readonly string[];
  relativePathMovedFrom?: readonly string[] | null;
}

interface Observer {
  observe(handle: FileSystemHandle, options: { recursive: boolean }): Promise<void>;
  disconnect(): void;
}

declare global {
  // Chromium only.
  var FileSystemObserver: (new (changed: (records: readonly ChangeRecord[]) => void) => Observer) | undefined;
}

/**
 * Calls `changed` with the path of each change, and with undefined if anything may have changed. Returns a function
 * that ends this, or undefined if this browser tells no changes of this folder.
 */
export async function observe(root: FileSystemDirectoryHandle, changed: (path: string | undefined) => void): Promise<(() => void) | undefined> {
  const Watching = globalThis.FileSystemObserver;
  if (!Watching) return undefined;
  const observer = new Watching((records) => {
    for (const { type, relativePathComponents: path, relativePathMovedFrom: from } of records) {
      const isKnown = ["appeared", "disappeared", "modified", "moved"].includes(type);
      changed(isKnown && path.length > 0 ? path.join("/") : undefined);
      if (from?.length) changed(from.join("/"));
    }
  });
  try {
    await observer.observe(root, { recursive: true });
    return () => observer.disconnect();
  } catch {
    return undefined;
  }
}

/** Number of files that are looked at at once, in each folder. */
const AT_ONCE = 64;
const DIRS_AT_ONCE = 4;
