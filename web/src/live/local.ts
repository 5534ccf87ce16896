/**
 * The folder on this device. Every change first compares the entry with the state that the plan was made for.
 *
 * A file is replaced in one step: the browser writes beside the file, and renames at the close.
 */
import { Outdated, base, parent, type FileState, type Node, type Tree } from "./types";

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

/** True for names that the browser itself uses while it writes a file. Such names are synced from neither end. */
export const isPrivate = (name: string): boolean => name.endsWith(".crswap") || name === ".deltic";

export class Local {
  constructor(readonly root: FileSystemDirectoryHandle) {}

  /** Lists the folder `at`, with all folders below. Rejects if the folder is gone, or may not be read. */
  async list(at = ""): Promise<Tree> {
    const found: Tree = new Map();
    await this.#walk(await this.#dir(at), at ? `${at}/` : "", found);
    return found;
  }

  async #walk(dir: FileSystemDirectoryHandle, prefix: string, found: Tree): Promise<void> {
    let files: Promise<void>[] = [];
    for await (const [name, handle] of dir.entries()) {
      if (isPrivate(name)) continue;
      const path = prefix + name;
      if (handle.kind === "directory") {
        const below: Tree = new Map([[path, "d"]]);
        try {
          await this.#walk(handle as FileSystemDirectoryHandle, `${path}/`, below);
        } catch (error) {
          // The folder was removed meanwhile.
          if (!isMissing(error)) throw error;
          continue;
        }
        for (const [entry, node] of below) found.set(entry, node);
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

  /** Returns the entry at `path`; undefined if nothing is there. */
  async look(path: string): Promise<Node | undefined> {
    try {
      return stateOf(await this.file(path));
    } catch (error) {
      if (error instanceof DOMException && error.name === "TypeMismatchError") {
        return (await this.#dir(path).then(() => true, () => false)) ? "d" : "o";
      }
      if (isMissing(error)) return undefined;
      throw error;
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

  /** Replaces the file at `path`, which is in the state `was`. Returns the new state. */
  async write(path: string, content: Blob, was: FileState | undefined): Promise<FileState> {
    const dir = await this.#dir(parent(path), true);
    await this.expect(path, was);
    const handle = await dir.getFileHandle(base(path), { create: true });
    try {
      const out = await handle.createWritable();
      // The browser copies a Blob without the page's own thread.
      await out.write(content);
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
    return stateOf(await handle.getFile());
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
    if (was !== "d") await this.expect(path, was);
    // Without `recursive`, a folder with entries stays.
    await (await this.#dir(parent(path))).removeEntry(base(path));
  }

  async make(path: string): Promise<void> {
    await this.#dir(path, true);
  }

  async #dir(path: string, create = false): Promise<FileSystemDirectoryHandle> {
    let dir = this.root;
    for (const name of path ? path.split("/") : []) dir = await dir.getDirectoryHandle(name, { create });
    return dir;
  }
}

export const isMissing = (error: unknown): boolean => error instanceof DOMException && error.name === "NotFoundError";

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

/** Number of files that are looked at at once. */
const AT_ONCE = 64;
