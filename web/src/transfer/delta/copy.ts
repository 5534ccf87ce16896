/**
 * Updates an older copy on this device. Only new data comes over the network.
 *
 * The new version is assembled in the origin's own storage. Then the new version replaces the user's file in one step.
 * At every instant, the user's file is the old or the new version.
 */
import { Problem, Unreachable } from "../../api/http";
import type { Place } from "../../api/volumes";
import { Unreadable } from "../engine";
import { canDownload, transfer } from "./client";
import { way } from "./engine";

/** A file of the user that this page may write. Only Chromium has such handles. */
interface WritableHandle extends FileSystemFileHandle {
  requestPermission(rights: { mode: "readwrite" }): Promise<PermissionState>;
}

/** True if this browser lets the user open a file for writing. */
export const canUpdateCopies = (): boolean => canDownload && window.showOpenFilePicker !== undefined;

/** The result of an update: bytes received, and length of the new version. */
export interface Updated {
  name: string;
  came: number;
  bytes: number;
}

/**
 * Lets the user choose a copy, and gives the copy the content of the server's present version, or of an old `version`.
 * Returns undefined if the user chose no file.
 */
export async function updateCopy(from: Place, version?: string): Promise<Updated | undefined> {
  const handle = await chosen();
  if (!handle) return undefined;
  const old = await handle.getFile();
  const staged = `staged-${crypto.randomUUID()}`;
  const root = await navigator.storage.getDirectory();
  try {
    const end = await transfer({ is: "download", file: old, version, staged, ...way(from) }, () => undefined, new AbortController().signal);
    if (!end || "is" in end) throw refusal(end?.is, end && "why" in end ? end.why : "");
    if (!end.put) return { name: old.name, came: end.received, bytes: old.size };
    const now = await handle.getFile();
    if (now.size !== old.size || now.lastModified !== old.lastModified) throw new Unreadable();
    const made = await (await root.getFileHandle(staged)).getFile();
    await made.stream().pipeTo(await handle.createWritable());
    return { name: old.name, came: end.received, bytes: end.put.len };
  } finally {
    await root.removeEntry(staged).catch(() => undefined);
  }
}

async function chosen(): Promise<WritableHandle | undefined> {
  try {
    const [picked] = await window.showOpenFilePicker!();
    const handle = picked as WritableHandle;
    return (await handle.requestPermission({ mode: "readwrite" })) === "granted" ? handle : undefined;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return undefined;
    throw error;
  }
}

function refusal(is: string | undefined, why: string): Error {
  if (is === "unreadable") return new Unreadable();
  return is === "ended" ? new Unreachable() : new Problem(0, why);
}
