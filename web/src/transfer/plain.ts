/** Transfers whole files by plain HTTP: uploads in requests of bounded length, downloads by links with tickets. */
import { lost, reach, Problem, Unreachable } from "../api/http";
import { look, ticketAddress, type Place, type Version } from "../api/volumes";
import { Taken, Unreadable, type Base, type Engine, type Progress } from "./engine";
import { sendPieces } from "./pieces";

export const plain: Engine = {
  async upload(file, to, base, on, stop) {
    // The server reads a refused body to the end, so check for a conflict before a large upload.
    if (base === "nothing" && file.size > ASK_FIRST) {
      const there = await lookIfAllowed(to);
      if (there) throw new Taken(there);
    }
    on(progress(file, 0));
    const told = (sent: number) => on(progress(file, Math.min(sent, file.size)));
    try {
      await sendPieces({ file, to, conditions: conditions(base) }, told, stop);
    } catch (error) {
      if (stop.aborted) throw error;
      if (error instanceof Problem && error.status === 412) throw new Taken(await lookIfAllowed(to));
      if (error instanceof Unreachable) {
        if (!(await isReadable(file))) throw new Unreadable();
        if (reach.value.on) lost();
      }
      throw error;
    }
  },

  async download(from) {
    save(await ticketAddress(from), from.path.at(-1) ?? "");
  },
};

/** Hands an old version of a file to the browser's own downloads. */
export async function downloadVersion(from: Place, version: string): Promise<void> {
  save(await ticketAddress(from, { version }), from.path.at(-1) ?? "");
}

/**
 * Hands a folder, as a ZIP archive, to the browser's own downloads: the folder as it is now, or as it was at a moment in
 * seconds since 1970.
 */
export async function downloadFolder(from: Place, zip: "now" | number = "now"): Promise<void> {
  const name = from.path.at(-1) ?? "";
  save(await ticketAddress(from, { zip }), `${zip === "now" ? name : pastName(name, zip)}.zip`);
}

/** Returns the name of a copy of a folder as it was at a moment, in seconds since 1970. */
export const pastName = (name: string, moment: number): string =>
  `${name} ${new Date(moment * 1000).toISOString().slice(0, 19).replaceAll(":", ".")}Z`;

function save(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.rel = "noreferrer";
  link.click();
}

/** Returns the server's version of a file, if any; undefined too if the token may write but not read. */
export async function lookIfAllowed(at: Place): Promise<Version | undefined> {
  try {
    return await look(at);
  } catch (error) {
    if (error instanceof Problem && error.status === 403) return undefined;
    throw error;
  }
}

function conditions(base: Base): Record<string, string> {
  return base === "nothing" ? { "If-None-Match": "*" } : { "If-Match": base.tag };
}

function progress(file: File, sent: number): Progress {
  const stage = sent >= file.size ? "writing" : "sending";
  return { stage, bytes: file.size, kept: 0, moved: 0, fresh: file.size, sent };
}

/** True if the file is readable. A failed request does not show if the network or the file is gone. */
async function isReadable(file: File): Promise<boolean> {
  try {
    await file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

/**
 * Compares a file with the server's version. `isEqual` is undefined if a comparison is not possible. `there` has the
 * digest of the version, if the server computes digests of files as long as `file`.
 */
export async function compare(file: File, at: Place): Promise<{ there: Version | undefined; isEqual: boolean | undefined }> {
  const there = await look(at, file.size <= DIGEST_BYTES ? { sha256: true } : {});
  return { there, isEqual: there && (await isContent(file, there)) };
}

/** True if `file` is the content of a version. Undefined without a digest. */
export async function isContent(file: Blob, { bytes, sha256 }: Pick<Version, "bytes" | "sha256">): Promise<boolean | undefined> {
  if (bytes !== file.size) return false;
  // `crypto.subtle` is missing if the page came neither by https nor from this machine.
  if (sha256 === undefined || !globalThis.crypto?.subtle) return undefined;
  let content: ArrayBuffer;
  try {
    content = await file.arrayBuffer();
  } catch {
    throw new Unreadable();
  }
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return btoa(String.fromCharCode(...sum)) === sha256;
}

const ASK_FIRST = 64 * 1024;
/** The server computes digests of files up to this length. */
const DIGEST_BYTES = 64 * 1024 * 1024;
