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
  common: Common;
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

export async function keptCommon(id: string): Promise<Map<string, Common>> {
  return new Map((await read<CommonRecord>(COMMON, ofFolder(id))).map(({ path, common }) => [path, common]));
}

/** Entries that both ends have alike. Changes are written soon, many at a time. */
export class Ancestor {
  #changed = new Map<string, Common | undefined>();
  #writing: Promise<void> | undefined;

  constructor(
    readonly id: string,
    readonly entries: Map<string, Common>,
  ) {}

  set(path: string, common: Common | undefined): void {
    if (common === undefined) this.entries.delete(path);
    else this.entries.set(path, common);
    this.#changed.set(path, common);
    this.#writing ??= new Promise<void>((resolve) => setTimeout(resolve, WRITE_MS)).then(() => this.#flush());
  }

  async #flush(): Promise<void> {
    const some = this.#changed;
    this.#changed = new Map();
    this.#writing = undefined;
    await write((_, store) => {
      for (const [path, common] of some) {
        if (common === undefined) store.delete([this.id, path]);
        else store.put({ folder: this.id, path, common });
      }
    });
  }

  /** Resolves when all changes are written. */
  async written(): Promise<void> {
    await this.#writing;
    if (this.#changed.size > 0) await this.#flush();
  }
}

const WRITE_MS = 50;
