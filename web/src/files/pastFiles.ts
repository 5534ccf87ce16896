/** Restores and downloads of a whole folder, as it was at a moment. */
import { call, Problem } from "../api/http";
import { address, listPast, restoreFolder, type PastEntry, type Place } from "../api/volumes";
import { downloadFolder, pastName } from "../transfer/plain";

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

/** True if a folder can be downloaded: a volume as a whole needs a browser that can write a folder of this device. */
export const canSave = ({ path }: Place): boolean => path.length > 0 || window.showDirectoryPicker !== undefined;

/**
 * Downloads a folder as one archive. The files of a whole volume come one by one, into a new folder below a folder of
 * this device that the user chooses; then returns their number.
 */
export async function saveAll(folder: Place, moment: number): Promise<number | undefined> {
  if (folder.path.length > 0) {
    await downloadFolder(folder, moment);
    return undefined;
  }
  let chosen: FileSystemDirectoryHandle;
  try {
    chosen = await (window.showDirectoryPicker as (options: object) => Promise<FileSystemDirectoryHandle>)({ mode: "readwrite", id: "deltic-past" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return undefined;
    throw error;
  }
  const top = await chosen.getDirectoryHandle(pastName(folder.path.at(-1) ?? folder.volume, moment), { create: true });
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
