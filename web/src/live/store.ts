/** The synced folders of this browser, in IndexedDB: handles, places, and what both ends had when they were equal. */
import type { Place } from "../api/volumes";
import { scoped } from "../root";
import type { Common } from "./types";

export interface FolderRecord {
  id: string;
  /** The sign-in that began the sync. Another sign-in does not go on by itself. */
  signer: string;
  name: string;
  handle: FileSystemDirectoryHandle;
  to: Place;
  paused: boolean;
}

interface CommonRecord {
  folder: string;
  path: string;
  /** `making`: a file that is being made here. A page that is killed meanwhile leaves an empty file. */
  common: Common | "making";
  /** Time of the note `making`, in ms since 1970. */
  at?: number;
}

/** A file that an earlier page was making here, and when. */
export interface HalfMade {
  path: string;
  at: number;
}

const FOLDERS = "folders";
const COMMON = "common";

let opened: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  return (opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(scoped("deltic.live"), 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(FOLDERS, { keyPath: "id" });
      request.result.createObjectStore(COMMON, { keyPath: ["folder", "path"] });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  }));
}

async function write(change: (folders: IDBObjectStore, common: IDBObjectStore) => void): Promise<void> {
  const both = (await database()).transaction([FOLDERS, COMMON], "readwrite");
  change(both.objectStore(FOLDERS), both.objectStore(COMMON));
  await new Promise<void>((resolve, reject) => {
    both.oncomplete = () => resolve();
    both.onabort = () => reject(both.error);
  });
}

async function read<T>(store: string, range?: IDBKeyRange): Promise<T[]> {
  const request = (await database()).transaction(store).objectStore(store).getAll(range) as IDBRequest<T[]>;
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const ofFolder = (id: string): IDBKeyRange => IDBKeyRange.bound([id], [id, []]);

export const keptFolders = (): Promise<FolderRecord[]> => read(FOLDERS);
export const keepFolder = (folder: FolderRecord): Promise<void> => write((folders) => folders.put(folder));

export function dropFolder(id: string): Promise<void> {
  return write((folders, common) => {
    folders.delete(id);
    common.delete(ofFolder(id));
  });
}

/** Returns the entries that both ends had alike, and the files that an earlier page was making here. */
export async function keptCommon(id: string): Promise<{ entries: Map<string, Common>; making: HalfMade[] }> {
  const [entries, making]: [Map<string, Common>, HalfMade[]] = [new Map(), []];
  for (const { path, common, at = 0 } of await read<CommonRecord>(COMMON, ofFolder(id))) {
    if (common === "making") making.push({ path, at });
    else entries.set(path, common);
  }
  return { entries, making };
}

/** Entries that both ends have alike. Changes are written soon, many at a time. */
export class Ancestor {
  #changed = new Map<string, CommonRecord["common"] | undefined>();
  #writing: Promise<void> | undefined;
  /** The next write of notes. */
  #noting: Promise<void> | undefined;
  /** The last write, which may have failed. */
  #last: Promise<void> = Promise.resolve();

  constructor(
    readonly id: string,
    readonly entries: Map<string, Common>,
  ) {}

  set(path: string, common: Common | undefined): void {
    if (common === undefined) this.entries.delete(path);
    else this.entries.set(path, common);
    this.#note(path, common);
  }

  /** Notes that the file at `path`, which is not there, is about to be made here. Resolves when the note is written. */
  making(path: string): Promise<void> {
    this.#changed.set(path, "making");
    // Notes that come while others are being written are written together.
    return (this.#noting ??= this.#last.then(() => this.#flush()));
  }

  /** Takes the note back: the file is made, or is not made. */
  made(path: string): void {
    this.#note(path, this.entries.get(path));
  }

  #note(path: string, common: Common | undefined): void {
    this.#changed.set(path, common);
    this.#writing ??= new Promise<void>((resolve) => setTimeout(resolve, WRITE_MS)).then(() => this.#flush());
  }

  async #flush(): Promise<void> {
    const some = this.#changed;
    this.#changed = new Map();
    this.#writing = this.#noting = undefined;
    if (some.size === 0) return;
    const done = write((_, store) => {
      for (const [path, common] of some) {
        if (common === undefined) store.delete([this.id, path]);
        else store.put({ folder: this.id, path, common, ...(common === "making" ? { at: Date.now() } : {}) });
      }
    });
    this.#last = done.catch(() => undefined);
    await done;
  }

  /** Resolves when all changes are written, which begins now. */
  async written(): Promise<void> {
    await this.#flush();
    await this.#last;
  }
}

const WRITE_MS = 50;
