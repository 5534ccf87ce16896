/** Reads small files many at a time, each group by one request (docs/http.md, "Many small files"). */
import { call } from "../api/http";
import { contentsAddress, pathText, type Place } from "../api/volumes";

/** A file that is wanted: its place, and its greatest length. */
export interface Wanted {
  at: Place;
  bytes: number;
}

/** The content of a version of a file. */
export interface Fetched {
  tag: string;
  content: ArrayBuffer;
}

/**
 * Reads files of one volume by one request. Returns the files in the same order. A file is undefined if the answer has
 * no content for it, or no tag; all files are undefined if the server or a proxy takes no such request.
 */
export async function fetchSmall(files: readonly Wanted[], stop: AbortSignal): Promise<(Fetched | undefined)[]> {
  try {
    // A name that is no text is left to the request for one file.
    const lines = files.map(({ at, bytes }) => lineOf(at, bytes));
    const asked = files.filter((_, nth) => lines[nth] !== undefined);
    if (!asked.length) return lines.map(() => undefined);
    const body = lines.filter((line) => line !== undefined).join("");
    const headers = { "Content-Type": "application/octet-stream" };
    const answer = await call(contentsAddress(asked[0]!.at.volume), { method: "POST", headers, body, signal: stop });
    const most = asked.reduce((sum, { bytes }) => sum + LINE_BYTES + bytes, 0);
    const fetched = parseContents(await readAtMost(answer, most), asked);
    return lines.map((line) => (line === undefined ? undefined : fetched.shift()));
  } catch {
    // A request for one file meets the same trouble, or none.
    return files.map(() => undefined);
  }
}

/** Returns the line of a request that names a file; undefined for a name that a server cannot have sent. */
function lineOf(at: Place, bytes: number): string | undefined {
  try {
    return JSON.stringify({ path: pathText(at), bytes }) + "\n";
  } catch {
    return undefined;
  }
}

/** Reads a body of at most `most` bytes. Rejects a longer one. */
export async function readAtMost(answer: Response, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = answer.body?.getReader();
  for (let part = await reader?.read(); part?.value; part = await reader!.read()) {
    bytes += part.value.length;
    if (bytes > most) {
      await reader!.cancel().catch(() => undefined);
      throw new TypeError("the answer is too long");
    }
    parts.push(part.value);
  }
  const all = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Returns the files of an answer, in the order of the request. Throws if the answer has another form. */
export function parseContents(answer: Uint8Array<ArrayBuffer>, files: readonly Wanted[]): (Fetched | undefined)[] {
  let at = 0;
  const fetched = files.map(({ bytes: most }) => {
    const end = answer.indexOf(0x0a, at);
    if (end < 0) throw new TypeError("a line is missing");
    const line = JSON.parse(new TextDecoder().decode(answer.subarray(at, end))) as { status?: unknown; bytes?: unknown; etag?: unknown } | null;
    const { status, bytes, etag: tag } = line ?? {};
    if (!Number.isInteger(bytes) || (bytes as number) < 0 || (bytes as number) > most) throw new TypeError("the content has another length");
    at = end + 1 + (bytes as number);
    if (at > answer.length) throw new TypeError("the content ends early");
    return status === 200 && typeof tag === "string" && tag !== "" ? { tag, content: answer.slice(end + 1, at).buffer } : undefined;
  });
  if (at !== answer.length) throw new TypeError("more files than were asked for");
  return fetched;
}

/** Greatest length of a line of an answer, whose reason may have a path. */
const LINE_BYTES = 16 << 10;
