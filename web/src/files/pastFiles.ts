/** Restores and downloads of a whole folder, as it was at a moment. */
import { call, Problem } from "../api/http";
import { address, listPast, restoreFolder, type PastEntry, type Place } from "../api/volumes";

/** A file that a folder, or a folder below, had at a moment. */
interface PastFile {
  entry: PastEntry;
  at: Place;
}

/** Lists all files below a folder, as they were at `moment`. */
async function* filesOf(folder: Place, moment: number, stop: AbortSignal): AsyncGenerator<PastFile> {
  const dirs = [folder];
  for (let dir = dirs.pop(); dir; dir = dirs.pop())
    for await (const { entries } of listPast(dir, moment, stop))
      for (const entry of entries) {
        const at = { ...dir, path: [...dir.path, entry.name] };
        if (entry.type === "dir") dirs.push(at);
        else if (entry.type === "file") yield { entry, at };
      }
}

/** The result of a restore of a folder. */
export interface Restored {
  /** Number of files that have other bytes now. */
  count: number;
  /** Files that could not be restored, by their paths in the volume. */
  failed: { name: string; error: unknown }[];
}

/**
 * Restores all files below a folder that another version has replaced since, or that are gone. Rejects if a request
 * fails as a whole; pages before that request stay restored.
 */
export async function restoreAll(folder: Place, moment: number, told: (count: number) => void): Promise<Restored> {
  const all: Restored = { count: 0, failed: [] };
  for await (const { restored, failed } of restoreFolder(folder, moment)) {
    told((all.count += restored));
    all.failed.push(...failed.map(({ path, status, detail }) => ({ name: path, error: new Problem(status, detail) })));
  }
  return all;
}

/** True if this browser can write a folder of this device. */
export const canSave = (): boolean => window.showDirectoryPicker !== undefined;

/**
 * Lets the user choose a folder of this device, and downloads all files into a new folder there. Returns their number;
 * undefined if the user chose no folder.
 */
export async function saveAll(folder: Place, moment: number): Promise<number | undefined> {
  let chosen: FileSystemDirectoryHandle;
  try {
    chosen = await (window.showDirectoryPicker as (options: object) => Promise<FileSystemDirectoryHandle>)({ mode: "readwrite", id: "deltic-past" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return undefined;
    throw error;
  }
  const day = new Date(moment * 1000).toISOString().slice(0, 19).replaceAll(":", ".");
  const top = await chosen.getDirectoryHandle(`${folder.path.at(-1) ?? folder.volume} ${day}Z`, { create: true });
  const stop = new AbortController().signal;
  let count = 0;
  for await (const { entry, at } of filesOf(folder, moment, stop)) {
    let dir = top;
    for (const name of at.path.slice(folder.path.length, -1)) dir = await dir.getDirectoryHandle(name, { create: true });
    const query = entry.version === undefined ? "" : `?version=${encodeURIComponent(entry.version)}`;
    const answer = await call(`${address("files", at)}${query}`, { signal: stop });
    const out = await (await dir.getFileHandle(entry.name, { create: true })).createWritable();
    await answer.body!.pipeTo(out);
    count++;
  }
  return count;
}
