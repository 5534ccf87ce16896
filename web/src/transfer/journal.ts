/**
 * The journal of unfinished transfers, in IndexedDB. The transfers continue after a reload, or in another tab after
 * this tab was closed.
 *
 * Each tab holds a lock until the tab ends, and owns the transfers that the tab began. The next page takes over the
 * transfers of an owner as soon as the owner's lock is free. Without locks, as on a page that came neither by https nor
 * from this machine, there is no journal.
 */
import type { Place } from "../api/volumes";
import { pause } from "../api/http";
import { scoped } from "../root";
import type { Base } from "./engine";
import type { Failure } from "./queue";

export interface BatchRecord {
  key: string;
  owner: string;
  /** The sign-in that began the transfers; undefined in journals of older pages. */
  signer?: string;
  name: string;
  to: Place;
  /** Milliseconds since 1970. */
  started: number;
  paused: boolean;
  /** Folders of the user that the items are below; undefined in journals of older pages. */
  roots?: FileSystemDirectoryHandle[];
}

export interface ItemRecord {
  batch: string;
  /** Number of the item within the batch. */
  no: number;
  path: readonly string[];
  to: Place;
  base: Base;
  /** Length, and modification time in milliseconds since 1970; undefined until the file was opened. */
  bytes: number | undefined;
  modified: number | undefined;
  /** The handle of the user's file, if the browser lets a page store handles. */
  handle: FileSystemFileHandle | undefined;
  /** Index of the folder in the batch's `roots`, for a file below such a folder. */
  root: number | undefined;
  isFolder: boolean;
  failed: Failure | undefined;
}

/** Unfinished items of a batch with adjacent numbers. */
interface PageRecord {
  batch: string;
  page: number;
  items: ItemRecord[];
}

export interface Kept {
  batch: BatchRecord;
  items: ItemRecord[];
}

/** True if this page keeps a journal. */
export const hasJournal = typeof navigator !== "undefined" && "locks" in navigator && "indexedDB" in globalThis;

/** The name of this page in the journal. */
export const me = hasJournal ? crypto.randomUUID() : "";

/** Unwritten changes of batches. */
let batches = new Map<string, { put: BatchRecord } | "delete">();
/**
 * Unfinished items, by batch, page and number. A page has the items of adjacent numbers, and is written as a whole: many
 * small records would cost the browser more than the transfer of small files.
 */
const pages = new Map<string, Map<number, Map<number, ItemRecord>>>();
/** Pages with unwritten changes, by batch. */
const changed = new Map<string, Set<number>>();
let isWriting = false;

export function noteBatch(record: BatchRecord): void {
  batches.set(record.key, { put: record });
  soon();
}

export function noteItem(record: ItemRecord): void {
  pageOf(record.batch, record.no).set(record.no, record);
  soon();
}

/** Forgets an item that has ended. */
export function dropItem(batch: string, no: number): void {
  pageOf(batch, no).delete(no);
  soon();
}

/** Returns the page of an item, which is then written. */
function pageOf(batch: string, no: number): Map<number, ItemRecord> {
  const page = Math.floor(no / PAGE);
  changed.set(batch, (changed.get(batch) ?? new Set()).add(page));
  const all = pages.get(batch) ?? new Map<number, Map<number, ItemRecord>>();
  pages.set(batch, all);
  const found = all.get(page) ?? new Map<number, ItemRecord>();
  all.set(page, found);
  return found;
}

/** Forgets a batch with all items. Written at once: after a reload, the next page would send the files again. */
export function dropBatch(key: string): void {
  batches.set(key, "delete");
  pages.delete(key);
  changed.delete(key);
  if (hasJournal) void flush().catch(() => undefined);
}

/** Writes changes in order. Changes during a write go into the next write, which waits if writes are frequent. */
function soon(): void {
  if (!hasJournal || isWriting) return;
  isWriting = true;
  queueMicrotask(() => {
    // Without room for the journal, transfers still run as long as the page is open.
    void flush()
      .catch(() => undefined)
      .then(() => (isBusy() && countChanged() < PAGES_AT_ONCE ? pause(GAP_SECS) : undefined))
      .then(() => {
        isWriting = false;
        if (batches.size + changed.size > 0) soon();
      });
  });
}

/** Writes all changes of batches, and some changed pages. A write copies each page, and the page does nothing meanwhile. */
function flush(): Promise<void> {
  const [some, others] = [batches, new Map<string, Set<number>>()];
  batches = new Map();
  let room = PAGES_AT_ONCE;
  for (const [batch, numbers] of changed) {
    const taken = [...numbers].slice(0, room);
    if (taken.length < numbers.size) for (const page of taken) numbers.delete(page);
    else changed.delete(batch);
    others.set(batch, new Set(taken));
    room -= taken.length;
    if (room === 0) break;
  }
  return write(some, others);
}

const countChanged = (): number => [...changed.values()].reduce((sum, { size }) => sum + size, 0);

/** Number of writes in the present second, and the beginning of the second. */
let writes = 0;
let second = 0;

/** Counts a write. True after many writes within a second, as for a folder of small files. */
function isBusy(): boolean {
  const now = performance.now();
  if (now - second > 1000) [second, writes] = [now, 0];
  return ++writes > MOST_WRITES;
}

async function write(some: typeof batches, others: ReadonlyMap<string, ReadonlySet<number>>): Promise<void> {
  const both = (await database()).transaction([BATCHES, PAGES], "readwrite");
  const [forBatches, forPages] = [both.objectStore(BATCHES), both.objectStore(PAGES)];
  for (const [batch, numbers] of others)
    for (const page of numbers) {
      const items = [...(pages.get(batch)?.get(page)?.values() ?? [])];
      if (items.length) forPages.put({ batch, page, items } satisfies PageRecord);
      else forPages.delete([batch, page]);
    }
  for (const [key, change] of some) {
    if (change !== "delete") forBatches.put(change.put);
    else {
      forBatches.delete(key);
      forPages.delete(IDBKeyRange.bound([key, 0], [key, Infinity]));
    }
  }
  await new Promise<void>((resolve, reject) => {
    both.oncomplete = () => resolve();
    both.onabort = () => reject(both.error);
  });
}

/** Takes over each batch of a page that has ended, now or later: makes this page the owner, then calls `then`. */
export async function takeOver(then: (kept: Kept) => Promise<void>): Promise<void> {
  if (!hasJournal) return;
  // Hold the lock until this page ends.
  void navigator.locks.request(lockOf(me), () => new Promise(() => undefined));
  const found = await read<BatchRecord>(BATCHES);
  for (const owner of new Set(found.map(({ owner }) => owner))) {
    if (owner === me) continue;
    void navigator.locks.request(lockOf(owner), async () => {
      for (const batch of await read<BatchRecord>(BATCHES)) {
        if (batch.owner !== owner) continue;
        const mine = { ...batch, owner: me };
        await write(new Map([[batch.key, { put: mine }]]), new Map());
        const found = await read<PageRecord>(PAGES, IDBKeyRange.bound([batch.key, 0], [batch.key, Infinity]));
        pages.set(batch.key, new Map(found.map(({ page, items }) => [page, new Map(items.map((item) => [item.no, item]))])));
        await then({ batch: mine, items: found.flatMap(({ items }) => items) });
      }
    });
  }
}

const lockOf = (owner: string): string => `deltic.page.${owner}`;

let opened: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  return (opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(scoped("deltic"), 2);
    request.onupgradeneeded = () => {
      for (const name of Array.from(request.result.objectStoreNames)) request.result.deleteObjectStore(name);
      request.result.createObjectStore(BATCHES, { keyPath: "key" });
      request.result.createObjectStore(PAGES, { keyPath: ["batch", "page"] });
    };
    request.onsuccess = () => {
      // A newer page may change the form of the journal. This page then goes on without a journal.
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  }));
}

async function read<T>(store: string, range?: IDBKeyRange): Promise<T[]> {
  const request = (await database()).transaction(store).objectStore(store).getAll(range) as IDBRequest<T[]>;
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Number of writes in a second before a pause follows each write. */
const MOST_WRITES = 10;
/** Pause after each further write. */
const GAP_SECS = 0.5;
const BATCHES = "batches";
const PAGES = "pages";
/** Items of a page. */
const PAGE = 256;
/** Most pages of a write. */
const PAGES_AT_ONCE = 4;
