/**
 * Sends small files in bundles: many files by one request (docs/http.md, "Many small files").
 *
 * Files wait until a bundle is full, or until no other file is about to come. At most `AT_ONCE` requests are under way,
 * so bundles grow as long as the network or the server is slow. The files of a bundle have one volume and one signal.
 */
import { call, isBusy, pause, Problem } from "../api/http";
import { bundleAddress, pathText, type Place } from "../api/volumes";
import { Unreadable } from "./engine";
import { read } from "./delta/client";
import { pace } from "./rate";

/** A file of a bundle at the server. `equal`: the server had a file with the same content already. */
export interface Sent {
  is: "created" | "replaced" | "equal";
  /** Entity tag of the file; undefined from an older server. */
  tag: string | undefined;
}

/** The file must be sent alone: this server or a proxy takes no bundle. */
export class NotBundled extends Error {}

interface Waiting {
  file: File;
  to: Place;
  stop: AbortSignal;
  /** Entity tag of the version that the file replaces; undefined for a new file. */
  replaces: string | undefined;
  resolve: (sent: Sent) => void;
  reject: (error: unknown) => void;
}

const waiting: Waiting[] = [];
/** Signals whose abort removes the files that wait. */
const followed = new WeakSet<AbortSignal>();
let underWay = 0;
/** Greatest length of a body. Many proxies take 1 MiB. */
let most = 1_000_000;
/** True once a server or a proxy has refused bundles. */
let isRefused = false;

/** True if the file may be sent in a bundle. */
export const isSmall = (file: File): boolean => file.size <= SMALL_BYTES && !isRefused;

/** True if another file may wait for a bundle. */
export const hasRoom = (): boolean => waiting.length < FILES;

/**
 * Sends a file in a bundle, as a new file, or in place of the version with the tag `replaces`. Rejects with a `Problem`
 * that the server has with this file alone.
 */
export function sendSmall(file: File, to: Place, stop: AbortSignal, replaces?: string): Promise<Sent> {
  return new Promise((resolve, reject) => {
    if (stop.aborted) return reject(stop.reason);
    // One listener serves all files of a signal. Files of a request under way are rejected by the request.
    if (!followed.has(stop)) stop.addEventListener("abort", () => leave(stop), { once: true });
    followed.add(stop);
    waiting.push({ file, to, stop, replaces, resolve, reject });
  });
}

/** Rejects all files that wait with this signal. */
function leave(stop: AbortSignal): void {
  const left = waiting.filter((one) => one.stop === stop);
  waiting.splice(0, waiting.length, ...waiting.filter((one) => one.stop !== stop));
  for (const { reject } of left) reject(stop.reason);
}

/** Sends bundles that are due. `isMoreComing` is true if other files are about to wait. `ended` runs after a request. */
export function sendBundles(isMoreComing: boolean, ended: () => void): void {
  while (underWay < AT_ONCE && waiting.length > 0 && (!isMoreComing || isFull())) {
    underWay++;
    void send(take()).finally(() => {
      underWay--;
      ended();
    });
  }
}

/** Sends all waiting files, those that come meanwhile too. Many calls in a short time cost one. */
export function sendWaiting(): void {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    sendBundles(false, sendWaiting);
  });
}
let isDue = false;

const isFull = (): boolean => !hasRoom() || waiting.reduce((sum, { file }) => sum + file.size + LINE_BYTES, 0) >= most;

/** Takes the files of the next bundle. */
function take(): Waiting[] {
  const { to, stop } = waiting[0]!;
  const bundle: Waiting[] = [];
  let bytes = 0;
  for (let i = 0; i < waiting.length && bundle.length < FILES; ) {
    const one = waiting[i]!;
    bytes += one.file.size + LINE_BYTES + 4 * one.to.path.join("/").length;
    if (bundle.length > 0 && bytes > most) break;
    if (one.stop === stop && one.to.volume === to.volume) bundle.push(...waiting.splice(i, 1));
    else i++;
  }
  return bundle;
}

async function send(bundle: Waiting[]): Promise<void> {
  const { to, stop } = bundle[0]!;
  const { files, body } = await bodyOf(bundle);
  if (!files.length) return;
  try {
    const headers = { "Content-Type": "application/octet-stream" };
    const answer = await call(bundleAddress(to.volume), { method: "POST", headers, body, signal: stop });
    const { files: results } = (await answer.json()) as { files: { status: number; detail?: string; etag?: string }[] };
    for (const [i, { replaces, resolve, reject }] of files.entries()) {
      const { status, detail = "", etag: tag } = results[i] ?? { status: 0, detail: "the server left out a file" };
      const is = status === 201 ? "created" : replaces === undefined ? "equal" : "replaced";
      if (status === 201 || status === 200) resolve({ is, tag });
      else reject(new Problem(status, detail, status === 503 ? 1 : undefined));
    }
    if (pace.peek() > 0) await pause(body.byteLength / pace.peek(), stop).catch(() => undefined);
  } catch (error) {
    const why = refusal(error);
    for (const { reject } of files) reject(why);
  }
}

/** Returns the reason for which the files of a refused bundle are not sent in this bundle. */
function refusal(error: unknown): unknown {
  if (isBusy(error) || !(error instanceof Problem) || error.status === 401) return error;
  // A proxy may refuse the length of the body, an older server the request.
  if (error.status === 413 && most > LEAST_BODY) most = LEAST_BODY;
  else if ([404, 405, 413, 501].includes(error.status)) isRefused = true;
  return new NotBundled();
}

interface Body {
  /** The files that can be read. */
  files: Waiting[];
  body: Uint8Array<ArrayBuffer>;
}

/** Reads the files of a bundle. Files that cannot be read are rejected, and are no part of the body. */
async function bodyOf(bundle: Waiting[]): Promise<Body> {
  const contents: (Uint8Array | undefined)[] = [];
  for (let i = 0; i < bundle.length; i += READ) contents.push(...(await contentsOf(bundle.slice(i, i + READ))));
  const files: Waiting[] = [];
  const parts: Uint8Array[] = [];
  for (const [i, one] of bundle.entries()) {
    const content = contents[i];
    try {
      if (content?.length !== one.file.size) throw new Unreadable();
      const line = JSON.stringify({ path: pathText(one.to), bytes: content.length, replaces: one.replaces });
      parts.push(new TextEncoder().encode(line + "\n"), content);
      files.push(one);
    } catch (error) {
      one.reject(error);
    }
  }
  return { files, body: joined(parts) };
}

/** Reads files; undefined for a file that cannot be read. One read of many files costs half as much as many reads. */
async function contentsOf(some: readonly Waiting[]): Promise<(Uint8Array | undefined)[]> {
  const together = await read(some.map(({ file }) => file)).catch(() => undefined);
  if (!together) return Promise.all(some.map(({ file }) => file.arrayBuffer().then((bytes) => new Uint8Array(bytes), () => undefined)));
  const bytes = new Uint8Array(together);
  let end = 0;
  return some.map(({ file }) => bytes.subarray(end, (end += file.size)));
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Longest file that travels in a bundle. */
export const SMALL_BYTES = 64 << 10;
/** Most files of a bundle. */
const FILES = 128;
/** Most files of a read. The browser takes a part of a millisecond for each file, in which the page does nothing else. */
const READ = 32;
/** Bytes of a line, beside the path. */
const LINE_BYTES = 128;
const LEAST_BODY = 200_000;
/** Requests at once: the next bundle is read while the server writes the files of the last one. */
const AT_ONCE = 2;
