/**
 * Both ends of a synced folder in memory: a folder of this device, whose handles are those of a browser, and a server.
 * Each call takes a random time. A tab that is killed gets no answers any more; a server that is killed may have done
 * what it was asked.
 */
import { createHash } from "node:crypto";
import { lost, Problem, Unreachable } from "../src/api/http";
import type { RemoteEnd } from "../src/live/ends";
import type { Local } from "../src/live/local";
import type { Fetched } from "../src/transfer/contents";
import { base, Outdated, parent, type FileState, type Node, type Tree } from "../src/live/types";

/** Returns numbers below `most`, the same ones for each seed. */
export function random(seed: number): (most: number) => number {
  let x = seed >>> 0;
  return (most) => {
    x = (x + 0x6d2b79f5) >>> 0;
    let y = Math.imul(x ^ (x >>> 15), x | 1);
    y ^= y + Math.imul(y ^ (y >>> 7), y | 61);
    return ((y ^ (y >>> 14)) >>> 0) % most;
  };
}

/** Time as a test tells it. Timers of the page run in order, and each one's work is done before the next one runs. */
export class Clock {
  now = Date.UTC(2026, 10, 29);
  #last = 0;
  readonly #timers = new Map<number, { at: number; run: () => void }>();

  readonly setTimeout = (run: () => void, ms = 0): number => {
    this.#timers.set(++this.#last, { at: this.now + Math.max(0, ms), run });
    return this.#last;
  };
  readonly clearTimeout = (id: number): void => void this.#timers.delete(id);

  async run(ms: number): Promise<void> {
    const end = this.now + ms;
    for (;;) {
      // The work of all promises ends before an immediate.
      await new Promise(setImmediate);
      let next: number | undefined;
      for (const [id, { at }] of this.#timers) if (at <= end && (next === undefined || at < this.#timers.get(next)!.at)) next = id;
      if (next === undefined) break;
      const { at, run } = this.#timers.get(next)!;
      this.#timers.delete(next);
      this.now = at;
      run();
    }
    this.now = end;
  }
}

interface Stored {
  content: string;
  modified: number;
}

/** A tree of folders (`undefined`) and files, by path. */
export class Disk {
  readonly entries = new Map<string, Stored | undefined>();
  /** Called with the path of each change. */
  readonly followers = new Set<(path: string) => void>();
  /** True while the folder is moved away. */
  isAway = false;
  /** Bytes that the disk takes. */
  room = Infinity;
  #clock = 0;

  used(): number {
    return [...this.entries.values()].reduce((sum, file) => sum + (file?.content.length ?? 0), 0);
  }

  /** Two writes never have one time: an end would not notice the second one. */
  put(path: string, content: string): void {
    for (let dir = parent(path); dir; dir = parent(dir)) {
      if (this.entries.get(dir) !== undefined) throw new Error(`${dir} is a file`);
      this.entries.set(dir, undefined);
    }
    this.#clock = Math.max(this.#clock + 1, Date.now());
    this.entries.set(path, { content, modified: this.#clock });
    this.tell(path);
  }

  make(path: string): void {
    for (let dir = path; dir; dir = parent(dir)) if (!this.entries.has(dir)) this.entries.set(dir, undefined);
    this.tell(path);
  }

  below(path: string): string[] {
    return [...this.entries.keys()].filter((other) => path === "" || other.startsWith(`${path}/`));
  }

  remove(path: string): void {
    for (const other of [...this.below(path), path]) if (this.entries.delete(other)) this.tell(other);
  }

  /** Renames an entry, with everything below. The times stay. */
  rename(from: string, to: string): void {
    for (const path of [from, ...this.below(from)]) {
      this.entries.set(to + path.slice(from.length), this.entries.get(path));
      this.entries.delete(path);
    }
    this.tell(from);
    this.tell(to);
  }

  isDir(path: string): boolean {
    return path === "" || (this.entries.has(path) && this.entries.get(path) === undefined);
  }

  tell(path: string): void {
    for (const follower of this.followers) follower(path);
  }

  /** The contents of all files by path, and folders. */
  shown(): Record<string, string> {
    return Object.fromEntries([...this.entries].map(([path, of]) => [path, of ? of.content : "/"] as const).sort());
  }
}

/** A tab, or a computer that runs it. */
export class Tab {
  isDead = false;
  constructor(readonly below: (most: number) => number) {}

  /** Waits a while. A killed tab waits for ever. */
  async turn(): Promise<void> {
    await new Promise<void>((resolve) => setTimeout(resolve, this.below(4)));
    if (this.isDead) await new Promise<never>(() => undefined);
  }
}

const missing = () => new DOMException("gone", "NotFoundError");
const otherKind = () => new DOMException("another kind", "TypeMismatchError");

/** Returns the handle of a folder of `disk`, as a browser gives it to a tab. */
export function directory(disk: Disk, tab: Tab, path = ""): FileSystemDirectoryHandle {
  const at = (name: string) => (path ? `${path}/${name}` : name);
  const check = async () => {
    await tab.turn();
    if (disk.isAway || !disk.isDir(path)) throw missing();
  };
  const handle = {
    kind: "directory",
    name: base(path),
    disk,
    async getDirectoryHandle(name: string, { create = false } = {}) {
      await check();
      if (!disk.entries.has(at(name)) && create) disk.make(at(name));
      if (!disk.entries.has(at(name))) throw missing();
      if (!disk.isDir(at(name))) throw otherKind();
      return directory(disk, tab, at(name));
    },
    async getFileHandle(name: string, { create = false } = {}) {
      await check();
      if (!disk.entries.has(at(name)) && create) disk.put(at(name), "");
      if (!disk.entries.has(at(name))) throw missing();
      if (disk.isDir(at(name))) throw otherKind();
      return fileHandle(disk, tab, at(name));
    },
    /** At once: a browser has no removal of a version, so nobody writes between the look of the page and this call. */
    async removeEntry(name: string, { recursive = false } = {}) {
      if (tab.isDead) await tab.turn();
      if (!disk.entries.has(at(name))) throw missing();
      if (!recursive && disk.below(at(name)).length > 0) throw new DOMException("not empty", "InvalidModificationError");
      disk.remove(at(name));
      await tab.turn();
    },
    async *entries() {
      await check();
      for (const one of disk.below(path).filter((one) => parent(one) === path))
        yield [base(one), disk.isDir(one) ? directory(disk, tab, one) : fileHandle(disk, tab, one)];
    },
  };
  return handle as unknown as FileSystemDirectoryHandle;
}

/** Returns a file that is read at once: a test with times of its own cannot wait for other threads. */
function fileOf(content: string, lastModified: number): File {
  const bytes = new TextEncoder().encode(content);
  const read = { text: () => Promise.resolve(content), arrayBuffer: () => Promise.resolve(bytes.buffer) };
  return { size: bytes.length, lastModified, ...read } as unknown as File;
}

function fileHandle(disk: Disk, tab: Tab, path: string): FileSystemFileHandle {
  const there = () => {
    const file = disk.entries.get(path);
    if (!file) throw missing();
    return file;
  };
  const handle = {
    kind: "file",
    name: base(path),
    async getFile() {
      await tab.turn();
      const { content, modified } = there();
      return fileOf(content, modified);
    },
    async createWritable() {
      await tab.turn();
      there();
      let written = "";
      return {
        async write(content: Blob) {
          written = await content.text();
          await tab.turn();
        },
        /** At once, as `removeEntry`. */
        async close() {
          if (tab.isDead) await tab.turn();
          if (disk.isAway || !disk.isDir(parent(path)) || disk.isDir(path)) throw missing();
          if (disk.used() + written.length > disk.room) throw new DOMException("the disk is full", "QuotaExceededError");
          disk.put(path, written);
          await tab.turn();
        },
        async abort() {
          await tab.turn();
        },
      };
    },
  };
  return handle as unknown as FileSystemFileHandle;
}

/** A server with one volume. */
export class Server {
  readonly disk = new Disk();
  isDown = false;
  constructor(readonly below: (most: number) => number) {}

  tag(path: string): string {
    const file = this.disk.entries.get(path);
    return file ? `"${file.modified}.${file.content.length}"` : "";
  }

  state(path: string): Node | undefined {
    if (!this.disk.entries.has(path)) return undefined;
    const file = this.disk.entries.get(path);
    return file ? { tag: this.tag(path), bytes: file.content.length, modified: Math.floor(file.modified / 1000) } : "d";
  }

  /** Returns a small file as a request for many files does. Now and then the answer lacks a file. */
  fetched(path: string): Fetched | undefined {
    const content = this.disk.entries.get(path)?.content;
    if (content === undefined || this.below(8) === 0) return undefined;
    return { tag: this.tag(path), content: new TextEncoder().encode(content).buffer };
  }

  /** Answers a request of a tab. A server that is killed meanwhile may have done the work, and gives no answer. */
  async answer<T>(tab: Tab, work: () => T): Promise<T> {
    await tab.turn();
    if (this.isDown) return this.#none();
    await tab.turn();
    // The request came before the server was killed.
    const done = this.isDown && this.below(2) === 0 ? undefined : work();
    await tab.turn();
    return this.isDown || done === undefined ? this.#none() : done;
  }

  #none(): never {
    lost();
    throw new Unreachable();
  }

  /** Returns the server as `Remote` shows it to a tab. */
  remote(tab: Tab): RemoteEnd {
    const { disk } = this;
    const expect = (path: string, was: FileState | undefined) => {
      if (was ? this.tag(path) !== was.tag : disk.entries.has(path)) throw new Outdated();
    };
    const state = (path: string) => this.state(path) as FileState;
    const put = async (path: string, file: File, was: FileState | undefined) => {
      const content = await file.text();
      return this.answer(tab, () => {
        expect(path, was);
        for (let dir = parent(path); dir; dir = parent(dir)) if (disk.entries.get(dir)) throw new Outdated();
        if (disk.used() + content.length > disk.room) throw new Problem(507, "the quota is full");
        disk.put(path, content);
        return { state: state(path), bytes: content.length };
      });
    };
    const list = (at = "") =>
      this.answer(tab, () => {
        if (!disk.isDir(at)) throw missing();
        return new Map(disk.below(at).map((path) => [path, this.state(path)!])) as Tree;
      });
    return {
      list,
      hasEntries: async () => (await list()).size > 0,
      lookAll: (paths) => this.answer(tab, () => new Map(paths.map((path) => [path, this.state(path)]))),
      digest: (path, of) =>
        this.answer(tab, () => {
          expect(path, of);
          return digest(disk.entries.get(path)!.content);
        }),
      put,
      putSmall: put,
      fetchSmall: (files) => {
        const fetched = this.answer(tab, () => new Map([...files.keys()].map((path) => [path, this.fetched(path)]))).catch(() => undefined);
        return new Map([...files.keys()].map((path) => [path, fetched.then((contents) => contents?.get(path))]));
      },
      get: async (path: string, of: FileState, local: Local, was: FileState | undefined, fetched?: Promise<Fetched | undefined>) => {
        const small = await fetched;
        const known = small?.tag === of.tag ? new TextDecoder().decode(small.content) : undefined;
        const read = () =>
          this.answer(tab, () => {
            expect(path, of);
            return disk.entries.get(path)!.content;
          });
        const content = known ?? (await read());
        return { state: await local.write(path, fileOf(content, 0), was), bytes: content.length, there: of };
      },
      rename: (from, to, was) =>
        this.answer(tab, () => {
          expect(from, was);
          if (disk.entries.has(to)) throw new Outdated();
          for (let dir = parent(to); dir; dir = parent(dir)) if (disk.entries.get(dir)) throw new Outdated();
          disk.make(parent(to));
          disk.rename(from, to);
          return state(to);
        }),
      remove: (path, was) =>
        this.answer(tab, () => {
          if (was !== "d") expect(path, was);
          else if (!disk.isDir(path) || disk.below(path).length > 0) throw new Outdated();
          disk.remove(path);
          return "removed";
        }).then(() => undefined),
      make: (path) =>
        this.answer(tab, () => {
          for (let dir = path; dir; dir = parent(dir)) if (disk.entries.get(dir)) throw new Outdated();
          disk.make(path);
          return "made";
        }).then(() => undefined),
    };
  }

}

const digest = (content: string): string => createHash("sha256").update(content).digest("base64");

/** The part of IndexedDB that `live/store.ts` uses. A transaction is done after a while, or not at all. */
export class Database {
  stores = new Map<string, Map<string, unknown>>([
    ["folders", new Map()],
    ["common", new Map()],
  ]);

  /** Returns the records as they are now. */
  copy(): Map<string, Map<string, unknown>> {
    return new Map([...this.stores].map(([name, records]) => [name, new Map(records)]));
  }

  open(): object {
    const request: { result: object; onupgradeneeded?: () => void; onsuccess?: () => void } = { result: {} };
    const paths = new Map<string, string | string[]>();
    request.result = {
      createObjectStore: (name: string, { keyPath }: { keyPath: string | string[] }) => void paths.set(name, keyPath),
      transaction: () => this.#transaction(paths),
    };
    setTimeout(() => {
      request.onupgradeneeded?.();
      request.onsuccess?.();
    });
    return request;
  }

  #transaction(paths: Map<string, string | string[]>): object {
    const changes: (() => void)[] = [];
    const transaction: { objectStore: (name: string) => object; oncomplete?: () => void } = {
      objectStore: (name) => ({
        put: (record: Record<string, unknown>) => {
          const path = paths.get(name)!;
          const key = Array.isArray(path) ? path.map((field) => record[field]) : record[path];
          const copy = { ...record };
          changes.push(() => this.stores.get(name)!.set(JSON.stringify(key), copy));
        },
        delete: (key: unknown) => {
          changes.push(() => {
            const records = this.stores.get(name)!;
            const isRange = typeof key === "object" && key !== null && "of" in key;
            if (!isRange) return void records.delete(JSON.stringify(key));
            for (const one of [...records.keys()]) if ((JSON.parse(one) as string[])[0] === key.of) records.delete(one);
          });
        },
        getAll: (range?: { of: string }) => {
          const request: { result: unknown[]; onsuccess?: () => void } = { result: [] };
          setTimeout(() => {
            const records = [...this.stores.get(name)!];
            request.result = records.filter(([key]) => !range || (JSON.parse(key) as string[])[0] === range.of).map(([, record]) => record);
            request.onsuccess?.();
          });
          return request;
        },
      }),
    };
    setTimeout(() => {
      for (const change of changes) change();
      transaction.oncomplete?.();
    }, 1);
    return transaction;
  }
}
