/**
 * Sends a file in requests that pass proxies (IETF resumable upload, docs/http.md). The first body is at most 1 MiB.
 * After bodies have passed, the limit grows to at most 8 MiB and about 20 s. Bytes that arrived are not sent again as
 * long as the server keeps the upload.
 */
import { call, Problem, sendBody, type Sending } from "../api/http";
import { address, uploadAddress, type Place } from "../api/volumes";
import { CANCELLED } from "./engine";

export interface Whole {
  file: File;
  to: Place;
  /** Headers with the conditions under which the file may be replaced. */
  conditions: Record<string, string>;
}

/** Greatest length of the next body, in bytes. */
let most = 1 << 20;
/** True after a proxy has refused a body as too long. Bodies then stop growing. */
let isCramped = false;

/** Uploads that have begun, by file: the place of the file, and the address of the upload. */
const begun = new WeakMap<File, { to: string; address: string }>();

export async function sendPieces(whole: Whole, sent: (bytes: number) => void, stop: AbortSignal): Promise<void> {
  const { file, to, conditions } = whole;
  if (file.size <= most) {
    const headers = { ...conditions, "Content-Type": "application/octet-stream" };
    try {
      return void (await timed({ method: "PUT", headers, body: file, sent }, address("files", to), stop));
    } catch (error) {
      if (!isTooLong(error, file.size)) throw error;
    }
  }
  try {
    await inPieces(whole, sent, stop);
    begun.delete(file);
  } catch (error) {
    if (stop.reason === CANCELLED) void forget(file);
    throw error;
  }
}

async function inPieces(whole: Whole, sent: (bytes: number) => void, stop: AbortSignal): Promise<void> {
  const { file } = whole;
  let { place, at } = (await found(whole)) ?? { place: await begin(whole, stop), at: 0 };
  for (let wrong = 0; ; ) {
    const end = Math.min(file.size, at + most);
    const isLast = end === file.size;
    const headers = { "Content-Type": "application/partial-upload", "Upload-Offset": String(at), "Upload-Complete": isLast ? "?1" : "?0" };
    const from = at;
    try {
      await timed({ method: "PATCH", headers, body: file.slice(at, end), sent: (bytes) => sent(from + bytes) }, place, stop);
      if (isLast) return;
      at = end;
    } catch (error) {
      if (isTooLong(error, end - from)) continue;
      // The answer of an earlier request was lost, or the server has forgotten the upload.
      if (!(error instanceof Problem && (error.status === 409 || error.status === 404)) || ++wrong > TRIES) throw error;
      ({ place, at } = (await found(whole)) ?? { place: await begin(whole, stop), at: 0 });
    }
  }
}

/** Begins an upload, without content. Returns the address of the upload. */
async function begin({ file, to, conditions }: Whole, stop: AbortSignal): Promise<string> {
  const headers = { ...conditions, "Upload-Complete": "?0", "Upload-Length": String(file.size) };
  const answer = await sendBody(address("files", to), { method: "PUT", headers, body: new Blob(), sent: () => undefined }, stop);
  const name = answer("Location")?.split("/").at(-1);
  if (!name) throw new Problem(0, "a proxy took the address of the upload away");
  const place = uploadAddress(to.volume, name);
  begun.set(file, { to: keyOf(to), address: place });
  return place;
}

/** Finds the address and the arrived bytes of an upload that this page began; undefined without such an upload. */
async function found({ file, to }: Whole): Promise<{ place: string; at: number } | undefined> {
  const known = begun.get(file);
  if (known?.to !== keyOf(to)) return undefined;
  try {
    const answer = await call(known.address, { method: "HEAD" });
    return { place: known.address, at: Number(answer.headers.get("Upload-Offset")) };
  } catch (error) {
    begun.delete(file);
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

async function forget(file: File): Promise<void> {
  const known = begun.get(file);
  begun.delete(file);
  if (known) await call(known.address, { method: "DELETE" }).catch(() => undefined);
}

/** Sends a body, and sets the length of the next body by the time taken. */
async function timed(sending: Sending, place: string, stop: AbortSignal): Promise<void> {
  const began = performance.now();
  await sendBody(place, sending, stop);
  const took = Math.max(1, performance.now() - began);
  if (sending.body.size < LEAST || isCramped) return;
  most = Math.max(LEAST, Math.min(LONGEST, (sending.body.size / took) * LONGEST_MS, most * 8));
  most = Math.floor(most);
}

/** True if a proxy refused a body as too long, and a shorter body may pass. */
function isTooLong(error: unknown, bytes: number): boolean {
  if (!(error instanceof Problem) || error.status !== 413 || bytes <= LEAST) return false;
  isCramped = true;
  most = Math.max(LEAST, Math.min(1 << 20, bytes >> 2));
  return true;
}

const keyOf = ({ volume, path }: Place): string => [volume, ...path].join("/");

const LEAST = 256 << 10;
const LONGEST = 8 << 20;
const LONGEST_MS = 20_000;
const TRIES = 3;
