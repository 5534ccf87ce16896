/**
 * Sends a file in requests that pass proxies (IETF resumable upload, docs/http.md). The first body is at most 1 MiB.
 * After bodies have passed, the limit grows to at most 8 MiB and about 20 s. Bytes that arrived are not sent again as
 * long as the server keeps the upload.
 */
import { call, Problem, sendBody, type Sending } from "../api/http";
import { address, uploadAddress, type Place } from "../api/volumes";
import { token } from "../session";
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

/** An upload that has begun. */
interface Begun {
  file: File;
  address: string;
  /** The token that began the upload. No other token continues or cancels the upload. */
  token: string | undefined;
}

/** Uploads that have begun, by the place of the file. */
const begun = new Map<string, Begun>();

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
    begun.delete(keyOf(whole.to));
  } catch (error) {
    if (stop.reason === CANCELLED) void cancelUpload(whole.to);
    throw error;
  }
}

/** Removes the bytes that arrived at the server for the file at `to`, if an upload has begun. */
export async function cancelUpload(to: Place): Promise<void> {
  const known = begun.get(keyOf(to));
  begun.delete(keyOf(to));
  if (!known) return;
  const { address, token } = known;
  await call(address, { method: "DELETE", ...(token === undefined ? {} : { token }) }).catch(() => undefined);
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
  const bearer = token.value;
  const answer = await sendBody(address("files", to), { method: "PUT", headers, body: new Blob(), sent: () => undefined }, stop);
  const name = answer("Location")?.split("/").at(-1);
  if (!name) throw new Problem(0, "a proxy took the address of the upload away");
  const place = uploadAddress(to.volume, name);
  begun.set(keyOf(to), { file, address: place, token: bearer });
  // The user may have cancelled the upload before the answer arrived.
  if (stop.reason === CANCELLED) void cancelUpload(to);
  return place;
}

/** Finds the address and the arrived bytes of an upload that this page began; undefined without such an upload. */
async function found({ file, to }: Whole): Promise<{ place: string; at: number } | undefined> {
  const known = begun.get(keyOf(to));
  if (!known || !isSame(known.file, file)) return undefined;
  try {
    const answer = await call(known.address, { method: "HEAD" });
    return { place: known.address, at: Number(answer.headers.get("Upload-Offset")) };
  } catch (error) {
    begun.delete(keyOf(to));
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

/** True if both are the same version of a file. A handle gives another `File` each time. */
const isSame = (one: File, other: File): boolean =>
  one === other || (one.name === other.name && one.size === other.size && one.lastModified === other.lastModified);

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
