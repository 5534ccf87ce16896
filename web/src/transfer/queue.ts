/**
 * The transfers of this page: batches of files. A bounded number of files is sent at a time.
 *
 * A batch of 10,000 files is 10,000 plain objects and one signal. The signal changes at most some times a second. The
 * screen then reads the objects.
 */
import { computed, signal } from "@preact/signals";
import { isBusy, pause, Problem, reachable, Unreachable } from "../api/http";
import { makeFolder, type Place, type Version } from "../api/volumes";
import { hasRoom, isSmall, NotBundled, sendBundles, sendSmall, type Sent } from "./bundle";
import { decide, type Choice } from "./conflicts";
import { CANCELLED, Taken, Unreadable, type Base, type Engine, type Stage } from "./engine";
import { dropBatch, dropItem, me, noteBatch, noteItem, type ItemRecord, type Kept } from "./journal";
import { otherName } from "./names";
import { brokeOff, delta, discard } from "./delta/engine";
import { cancelUpload } from "./pieces";
import { compare, lookIfAllowed } from "./plain";
import { signer } from "../session";

/** A file or an empty folder that was picked or dropped. */
export interface Source {
  /** Names below the target folder. */
  path: readonly string[];
  /** Opens the file; undefined for a folder. */
  open: (() => Promise<File>) | undefined;
  /** The handle of the user's file, if the browser lets a page store handles. */
  handle?: FileSystemFileHandle | undefined;
  /** The handle of the folder that the user chose, for a file below. The first name of `path` is the folder's. */
  root?: FileSystemDirectoryHandle | undefined;
}

export type State =
  | { is: "waiting" }
  | { is: "moving"; stage: Stage }
  | { is: "asking" }
  | { is: "done"; at: number }
  /** Both sides had the same content. */
  | { is: "equal"; at: number }
  /** The user kept the server's version. */
  | { is: "left"; at: number }
  | { is: "failed"; why: Failure }
  | { is: "cancelled" };

export type Failure =
  | { kind: "full" | "unreadable" | "forbidden" | "folder" | "too-large" | "ended" }
  | { kind: "later" }
  /** Only after a reload: the user must choose the file again, or allow the page to read the file. */
  | { kind: "choose" | "permission" }
  | { kind: "name" | "other"; detail: string };

export interface Item {
  /** Number of the item within the batch. */
  readonly no: number;
  source: Source;
  to: Place;
  /** The version that the upload may replace. */
  base: Base;
  bytes: number;
  /** Modification time in milliseconds since 1970; undefined until the file was opened. */
  modified: number | undefined;
  /** Bytes that the server had already. */
  kept: number;
  sent: number;
  /**
   * Bytes that earlier attempts have sent; undefined before the first attempt. The server has these bytes because of
   * the page, so they are no saving.
   */
  earlier?: number | undefined;
  state: State;
  /** True if the file is sent by a request of its own, since a bundle with the file was refused. */
  isAlone?: boolean;
}

export interface Batch {
  readonly id: number;
  /** The key in the journal. */
  readonly key: string;
  /** The sign-in under which the items are sent. */
  signer: string;
  readonly name: string;
  readonly to: Place;
  readonly items: Item[];
  readonly started: number;
  /** True once the sources are complete. */
  listed: boolean;
  paused: boolean;
  stop: AbortController;
  /** Index of the first item that was not started yet. */
  cursor: number;
  /** Number of items at the start of `items` that have ended. */
  ended: number;
  /** Items to start again: after an answer, a pause, or a failure. */
  readonly ready: Item[];
  /** Folders of the user that the items are below. */
  readonly roots: FileSystemDirectoryHandle[];
}

export const batches = signal<readonly Batch[]>([]);
/** Changes after progress of a transfer. Screens read this signal, so a change redraws the screens. */
export const beat = signal(0);

export interface Totals {
  files: number;
  done: number;
  equal: number;
  failed: number;
  /** The number of failed transfers that wait for the user to choose a version. */
  later: number;
  asking: number;
  moving: number;
  waiting: number;
  bytes: number;
  kept: number;
  sent: number;
  /** Bytes of failed files. These bytes are not sent, unless the user tries the files again. */
  stopped: number;
}

const none = (): Totals => ({ files: 0, done: 0, equal: 0, failed: 0, later: 0, asking: 0, moving: 0, waiting: 0, bytes: 0, kept: 0, sent: 0, stopped: 0 });

export function totals(of: readonly Batch[]): Totals {
  const sum = none();
  for (const batch of of) {
    const part = totalsOf(batch);
    for (const key of Object.keys(sum) as (keyof Totals)[]) sum[key] += part[key];
  }
  return sum;
}

/** Sums of each batch as of the last beat. A screen reads the sums several times, and the items are counted once. */
const counted = new WeakMap<Batch, { beat: number; sum: Totals }>();

function totalsOf(batch: Batch): Totals {
  const known = counted.get(batch);
  if (known?.beat === beat.peek()) return known.sum;
  const sum = none();
  for (const { state, bytes, kept, sent } of batch.items) {
    const { is } = state;
    if (is === "cancelled") continue;
    sum.files++;
    if (is === "left" || is === "equal") sum.done++;
    if (is === "failed" && state.why.kind === "later") sum.later++;
    if (is !== "left") sum[is]++;
    if (is === "equal" || is === "left") continue;
    sum.bytes += bytes;
    sum.kept += kept;
    sum.sent += sent;
    if (is === "failed") sum.stopped += bytes - kept - sent;
  }
  counted.set(batch, { beat: beat.peek(), sum });
  return sum;
}

export const isBatchOpen = (batch: Batch): boolean =>
  !batch.listed || batch.items.some(({ state }) => state.is === "waiting" || state.is === "moving" || state.is === "asking");
export const openBatches = computed(() => (beat.value, batches.value.filter(isBatchOpen)));
export const needsYou = computed(() => {
  const sum = (beat.value, totals(batches.value));
  return sum.failed + sum.asking;
});

/** Bytes that are still to be sent. */
export const toSend = ({ bytes, kept, sent, stopped }: Totals): number => bytes - kept - sent - stopped;

/** Rate of the last seconds, in bytes a second; undefined as long as too little is known. */
export const rate = signal<number | undefined>(undefined);

let ids = 0;
const engine: Engine = delta;
const finished = new Set<(place: Place) => void>();

/** Calls `then` with each place at which a file or folder of a transfer has arrived. */
export function onArrival(then: (place: Place) => void): () => void {
  finished.add(then);
  return () => finished.delete(then);
}

/** Starts an upload. The first files are sent while `sources` still finds files. */
export function upload(sources: AsyncIterable<Source>, name: string, to: Place): Batch {
  const batch = opened({ key: `${me}.${ids}`, signer: signer(), name, to, started: Date.now(), paused: false });
  noteBatch(recordOf(batch));
  void collect(sources, batch);
  return batch;
}

function opened(of: Pick<Batch, "key" | "signer" | "name" | "to" | "started" | "paused"> & Partial<Batch>): Batch {
  const batch: Batch = { id: ++ids, items: [], listed: false, stop: new AbortController(), cursor: 0, ended: 0, ready: [], roots: [], ...of };
  if (batch.paused) batch.stop.abort(PAUSED);
  batches.value = [batch, ...batches.value];
  return batch;
}

/** A file of the user, and the reason why the page cannot read the file yet, if any. */
export interface FoundSource {
  source: Source;
  why?: Failure;
}

/** Continues a batch of a page that has ended. */
export async function takeUp({ batch: of, items }: Kept, find: (record: ItemRecord) => Promise<FoundSource>): Promise<void> {
  const found = await Promise.all(items.map(find));
  const { key, name, to, started, paused, roots = [] } = of;
  const batch = opened({ key, signer: signer(), name, to, started, paused, roots });
  noteBatch(recordOf(batch));
  for (const [i, { no, to, base, bytes = 0, modified, failed }] of items.entries()) {
    // The user has signed in again, so a failure by the end of the sign-in is over.
    const { source, why = failed?.kind === "ended" ? undefined : failed } = found[i]!;
    const state: State = why ? { is: "failed", why } : { is: "waiting" };
    brokeOff(to);
    // The server may have bytes of a new file only because the earlier page has sent them.
    const earlier = base === "nothing" ? bytes : undefined;
    batch.items.push({ no, source, to, base, bytes, modified, kept: 0, sent: 0, earlier, state });
  }
  batch.listed = true;
  if (!batch.items.length) dropBatch(batch.key);
  changed();
  fill();
}

const recordOf = ({ key, signer, name, to, started, paused, roots }: Batch) => ({ key, owner: me, signer, name, to, started, paused, roots });

/** Returns the index of the item's folder among the folders of the batch, which the journal stores once. */
function rootOf({ source: { root } }: Item, batch: Batch): number | undefined {
  if (!root) return undefined;
  const at = batch.roots.indexOf(root);
  if (at >= 0) return at;
  batch.roots.push(root);
  noteBatch(recordOf(batch));
  return batch.roots.length - 1;
}

/** Notes an item in the journal, or drops an item that has ended. */
function note(item: Item, batch: Batch): void {
  const { no, to, base, bytes, modified, state } = item;
  const { path, handle, open } = item.source;
  if (HAS_ENDED.includes(state.is)) return isOver(batch) ? dropBatch(batch.key) : dropItem(batch.key, no);
  // A reload finds again which files the user must choose or allow. All other failures are stored.
  const why = state.is === "failed" ? state.why : undefined;
  const failed = why && ["choose", "permission"].includes(why.kind) ? undefined : why;
  const root = rootOf(item, batch);
  noteItem({ batch: batch.key, no, path, to, base, bytes, modified, handle: root === undefined ? handle : undefined, root, isFolder: open === undefined, failed });
}

/** True if the journal can forget the batch. An item that has ended does not begin again. */
function isOver(batch: Batch): boolean {
  while (batch.ended < batch.items.length && HAS_ENDED.includes(batch.items[batch.ended]!.state.is)) batch.ended++;
  return batch.listed && batch.ended === batch.items.length;
}

async function collect(sources: AsyncIterable<Source>, batch: Batch): Promise<void> {
  let turn = performance.now();
  try {
    for await (const source of sources) {
      if (performance.now() - turn > TURN) {
        await new Promise((next) => setTimeout(next));
        turn = performance.now();
      }
      const to = { volume: batch.to.volume, path: [...batch.to.path, ...source.path] };
      // A folder may still be read while the sign-in ends.
      const state: State = batch.stop.signal.reason === ENDED ? { is: "failed", why: { kind: "ended" } } : { is: "waiting" };
      const item: Item = { no: batch.items.length, source, to, base: "nothing", bytes: 0, modified: undefined, kept: 0, sent: 0, state };
      batch.items.push(item);
      note(item, batch);
      changed();
      fill();
    }
  } finally {
    batch.listed = true;
    if (isOver(batch)) dropBatch(batch.key);
    changed();
  }
}

// ---------- the workers ----------

/** Places that are taken of those for files which are opened or sent at a time. */
let active = 0;
/** Files that are being opened, and may then wait for a bundle. */
let opening = 0;

/** The place of a file that is opened or sent. A file that waits for a bundle leaves the place. */
class Slot {
  #isOpening = true;
  #isTaken = true;

  constructor() {
    active++;
    opening++;
  }

  /** Notes that the file does not wait for a bundle. */
  opened(): void {
    if (this.#isOpening) opening--;
    this.#isOpening = false;
  }

  leave(): void {
    this.opened();
    if (this.#isTaken) active--;
    this.#isTaken = false;
  }
}

function fill(): void {
  while (active < AT_A_TIME && hasRoom()) {
    const found = next();
    if (!found) break;
    const slot = new Slot();
    found.item.state = { is: "moving", stage: "reading" };
    void run(found.item, found.batch, slot).finally(() => {
      slot.leave();
      changed();
      fill();
    });
  }
  sendBundles(opening > 0, fill);
}

function next(): { item: Item; batch: Batch } | undefined {
  for (let i = batches.value.length - 1; i >= 0; i--) {
    const batch = batches.value[i]!;
    // A batch of another sign-in is not sent, unless the user tries the batch again.
    if (batch.stop.signal.aborted || batch.signer !== signer()) continue;
    const item = nextOf(batch);
    if (item) return { item, batch };
  }
  return undefined;
}

function nextOf(batch: Batch): Item | undefined {
  for (let item = batch.ready.shift(); item; item = batch.ready.shift()) if (item.state.is === "waiting") return item;
  while (batch.cursor < batch.items.length) {
    const item = batch.items[batch.cursor++]!;
    if (item.state.is === "waiting") return item;
  }
  return undefined;
}

/** Returns the bytes that this attempt and earlier attempts have sent. All that the server has of a new file was sent. */
const sentSoFar = ({ base, bytes, earlier = 0, sent }: Item): number => (base === "nothing" ? bytes : Math.max(earlier, sent));

/** Puts an item back into the queue. */
function wait(item: Item, batch: Batch): void {
  item.state = { is: "waiting" };
  item.kept = 0;
  item.sent = 0;
  batch.ready.push(item);
}

async function run(item: Item, batch: Batch, slot: Slot): Promise<void> {
  const stop = batch.stop.signal;
  try {
    await moveItem(item, batch, { stop, slot });
    if (item.state.is === "done") for (const then of finished) then(item.to);
  } catch (error) {
    failed(item, batch, stop, error);
  }
  note(item, batch);
}

function failed(item: Item, batch: Batch, stop: AbortSignal, error: unknown): void {
  if (item.earlier !== undefined) item.earlier = sentSoFar(item);
  if (stop.reason === PAUSED) wait(item, batch);
  else if (stop.reason === ENDED) item.state = { is: "failed", why: { kind: "ended" } };
  else if (stop.aborted) item.state = { is: "cancelled" };
  else item.state = { is: "failed", why: failure(error) };
  item.kept = 0;
  item.sent = 0;
}

/** The way of an item: the signal that stops the item, and the place that the item has. */
interface Way {
  stop: AbortSignal;
  slot: Slot;
}

async function moveItem(item: Item, batch: Batch, { stop, slot }: Way): Promise<void> {
  if (!item.source.open) {
    slot.opened();
    await again(stop, () => makeFolder(item.to));
    item.state = { is: "done", at: Date.now() };
    return;
  }
  const file = await open(item.source);
  item.bytes = file.size;
  item.modified = file.lastModified;
  note(item, batch);
  try {
    const isInBundle = item.base === "nothing" && isSmall(file) && !item.isAlone;
    if (!isInBundle) slot.opened();
    const sent = await again(stop, () => (isInBundle ? bundled(item, file, { stop, slot }) : send(item, file, stop)));
    if (sent !== "equal") item.sent = item.bytes - item.kept;
    item.state = { is: sent === "equal" ? "equal" : "done", at: Date.now() };
  } catch (error) {
    if (error instanceof NotBundled) {
      item.isAlone = true;
      return wait(item, batch);
    }
    if (!(error instanceof Taken)) throw error;
    await onTaken(item, file, error.there, batch, stop);
  }
}

/** Sends a small file with others by one request. Meanwhile other files are opened. */
async function bundled(item: Item, file: File, { stop, slot }: Way): Promise<Sent["is"]> {
  item.state = { is: "moving", stage: "sending" };
  const sent = sendSmall(file, item.to, stop);
  slot.leave();
  fill();
  try {
    const { is } = await sent;
    if (is === "created") count(file.size);
    return is;
  } catch (error) {
    if (error instanceof Problem && error.status === 412) throw new Taken(await lookIfAllowed(item.to));
    throw error;
  }
}

/** Handles another version at the server. Equal contents count as done; otherwise the user is asked. */
async function onTaken(item: Item, file: File, there: Version | undefined, batch: Batch, stop: AbortSignal): Promise<void> {
  stop.throwIfAborted();
  item.kept = 0;
  item.sent = 0;
  item.earlier = undefined;
  if (!there) {
    // The version to replace is gone: upload a new file. Without a base, the token may not see the version there.
    if (item.base === "nothing") throw new Problem(409, "the path exists");
    item.base = "nothing";
    return wait(item, batch);
  }
  item.base = "nothing";
  item.state = { is: "moving", stage: "matching" };
  const compared = await again(stop, () => compare(file, item.to));
  // The comparison does not stop early. A comparison under the next sign-in says nothing about this transfer.
  stop.throwIfAborted();
  if (compared.isEqual) {
    item.state = { is: "equal", at: Date.now() };
    return;
  }
  // The comparison tells the digest of the version too.
  const shown = compared.there ?? there;
  item.state = { is: "asking" };
  // An open question does not hold up other files, so the answer is not awaited.
  decide({ item, file, there: shown, batch }, stop)
    .then((choice) => decided(item, batch, shown, choice))
    .catch((error: unknown) => failed(item, batch, stop, error))
    .finally(() => {
      note(item, batch);
      changed();
      fill();
    });
}

function decided(item: Item, batch: Batch, there: Version, choice: Choice): void {
  if (choice === "later") throw new Later();
  if (choice === "theirs") {
    item.state = { is: "left", at: Date.now() };
    return;
  }
  if (choice === "both") {
    const name = item.to.path.at(-1) ?? "";
    item.to = { ...item.to, path: [...item.to.path.slice(0, -1), otherName(name, new Date())] };
  } else {
    // A file has no tag while a program writes the file, so the upload could not name the version to replace.
    if (there.tag === undefined) throw new Problem(409, "another program is writing this file");
    item.base = { tag: there.tag, bytes: there.bytes, sha256: there.sha256 };
  }
  wait(item, batch);
}

class Later extends Error {}
/** The user must allow the page to read the file again. */
class NotPermitted extends Error {}

async function send(item: Item, file: File, stop: AbortSignal): Promise<undefined> {
  item.state = { is: "moving", stage: "sending" };
  const earlier = item.earlier === undefined ? 0 : sentSoFar(item);
  item.earlier = earlier;
  let before = 0;
  await engine.upload(
    file,
    item.to,
    item.base,
    (progress) => {
      // Bytes that an earlier attempt has sent are at the server already.
      const resumed = Math.min(earlier, progress.kept);
      item.kept = progress.kept + progress.moved - resumed;
      item.sent = progress.sent + resumed;
      if (item.state.is === "moving") item.state.stage = progress.stage;
      count(progress.sent - before);
      before = progress.sent;
      changed();
    },
    stop,
  );
}

async function open(source: Source): Promise<File> {
  try {
    return await source.open!();
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotAllowedError") throw new NotPermitted();
    throw new Unreadable();
  }
}

/** Repeats `work` until success or refusal. Waits for a lost connection or a busy server. */
async function again<T>(stop: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (stop.aborted) throw error;
      if (isBusy(error)) await pause(error.retryAfter ?? 1, stop);
      else if (error instanceof Unreachable) await reachable(stop);
      else throw error;
    }
  }
}

function failure(error: unknown): Failure {
  if (error instanceof Later) return { kind: "later" };
  if (error instanceof NotPermitted) return { kind: "permission" };
  if (error instanceof Unreadable) return { kind: "unreadable" };
  if (!(error instanceof Problem)) return { kind: "other", detail: String(error) };
  if (error.status === 401) return { kind: "ended" };
  if (error.status === 403 || error.status === 404) return { kind: "forbidden" };
  if (error.status === 413) return { kind: "too-large" };
  if (error.status === 507) return { kind: "full" };
  if (error.status === 400) return { kind: "name", detail: error.detail };
  if (error.status === 409) return { kind: "folder" };
  return { kind: "other", detail: error.detail };
}

// ---------- actions of the user ----------

/** Cancels a batch. The promise ends once the server has removed the bytes that arrived. */
export async function cancel(batch: Batch): Promise<void> {
  batch.paused = false;
  const begun = batch.items.filter(({ state }) => !HAS_ENDED.includes(state.is));
  for (const item of batch.items) if (item.state.is === "waiting") item.state = { is: "cancelled" };
  batch.stop.abort(CANCELLED);
  dropBatch(batch.key);
  changed();
  // The abort tells nothing to uploads that are paused or have failed.
  const isMine = batch.signer === signer();
  await Promise.all([isMine ? discard(begun) : undefined, ...begun.map(({ to }) => cancelUpload(to))]);
}

/** Pauses a batch. The server keeps the arrived bytes of a large file; a file sent by PUT begins again. */
export function hold(batch: Batch): void {
  batch.paused = true;
  noteBatch(recordOf(batch));
  batch.stop.abort(PAUSED);
  changed();
}

export function resume(batch: Batch): void {
  // Items that are still stopping belong to the old controller.
  batch.stop = new AbortController();
  batch.paused = false;
  batch.signer = signer();
  noteBatch(recordOf(batch));
  changed();
  fill();
}

export function retry(batch: Batch, item: Item): void {
  if (batch.stop.signal.aborted && !batch.paused) batch.stop = new AbortController();
  batch.signer = signer();
  wait(item, batch);
  noteBatch(recordOf(batch));
  note(item, batch);
  changed();
  fill();
}

/** Tries failed items again, except files that must be chosen again. */
export function retryFailed(of: readonly Batch[] = batches.value): void {
  for (const batch of of)
    for (const item of batch.items) if (item.state.is === "failed" && item.state.why.kind !== "choose") retry(batch, item);
}

/** Returns failed items of these kinds, each with the batch. */
export function failedItems(kinds: readonly Failure["kind"][], of: readonly Batch[] = batches.value): { item: Item; batch: Batch }[] {
  const isOne = ({ state }: Item) => state.is === "failed" && kinds.includes(state.why.kind);
  return of.flatMap((batch) => batch.items.filter(isOne).map((item) => ({ item, batch })));
}

/** True if some transfers could not continue without the user at the next visit, if the page closed now. */
export const asksBeforeClosing = (): boolean =>
  batches.value.some(
    (batch) =>
      isBatchOpen(batch) &&
      (!batch.listed || batch.items.some(({ source, state }) => source.open && !source.handle && !source.root && !HAS_ENDED.includes(state.is) && state.is !== "failed")),
  );

/**
 * Fails all unfinished items of other sign-ins, so that no file of one user is sent with the token of the next user.
 * The user may try these items again.
 */
export function endOthers(): void {
  for (const batch of batches.value) {
    if (batch.signer === signer()) continue;
    for (const item of batch.items) if (item.state.is === "waiting") item.state = { is: "failed", why: { kind: "ended" } };
    // Items that are being sent, and items with an open question, fail by the abort. A paused batch is aborted already.
    if (!batch.paused) batch.stop.abort(ENDED);
  }
  changed();
}

/** Cancels a batch and removes the batch from the list, with all failed files. */
export function forget(batch: Batch): void {
  void cancel(batch);
  batches.value = batches.value.filter((other) => other !== batch);
}

/** Removes finished batches without failures from the list. */
export function clearFinished(): void {
  for (const batch of batches.value) if (!isBatchOpen(batch) && totals([batch]).failed === 0) dropBatch(batch.key);
  batches.value = batches.value.filter((batch) => isBatchOpen(batch) || totals([batch]).failed > 0);
}

export async function stopAll(): Promise<void> {
  await Promise.all(batches.value.map(cancel));
}

// ---------- drawing and rates ----------

let drawn = false;
/** Redraws the screens, at most every `BEAT` milliseconds. */
function changed(): void {
  if (drawn) return;
  drawn = true;
  setTimeout(() => {
    drawn = false;
    beat.value++;
  }, BEAT);
}

const samples: { at: number; bytes: number }[] = [];
function count(bytes: number): void {
  const now = performance.now();
  const last = samples.at(-1);
  // Thousands of small files arrive in a second.
  if (last && now - last.at < SAMPLE) last.bytes += bytes;
  else samples.push({ at: now, bytes });
  while (samples.length > 1 && samples[0]!.at < now - RATE_WINDOW) samples.shift();
  const span = now - samples[0]!.at;
  if (span < 500) return;
  rate.value = (samples.reduce((sum, sample) => sum + sample.bytes, 0) / span) * 1000;
}

const HAS_ENDED: readonly State["is"][] = ["done", "equal", "left", "cancelled"];
const PAUSED = new DOMException("paused", "AbortError");
const ENDED = new DOMException("the sign-in ended", "AbortError");
/** Number of files sent at a time. Browsers open six connections to a server; two stay free for lists and tickets. */
const AT_A_TIME = 4;
const BEAT = 80;
const RATE_WINDOW = 3000;
/** Least time between two samples. */
const SAMPLE = 50;
/** Longest time for which listed files are noted without a turn for the screen. */
const TURN = 8;
