/**
 * The folder at the server for files of the lab, in a volume where the user may write. The folder is noted in the storage
 * of the origin before it is made, so that the next visit removes what a closed page left behind.
 */
import { pause, Problem } from "../api/http";
import { list, look, makeFolder, remove, type Place } from "../api/volumes";
import { scoped } from "../root";

/** Makes an empty folder. */
export async function openScratch(volume: string): Promise<Place> {
  const folder: Place = { volume, path: [`.lab-${crypto.getRandomValues(new Uint32Array(1))[0]!.toString(16).padStart(8, "0")}`] };
  note([...noted(), folder]);
  try {
    await makeFolder(folder);
  } catch (error) {
    // The server refused, so there is no folder. Without an answer there may be one.
    if (error instanceof Problem) forget(folder);
    throw error;
  }
  return folder;
}

/** Removes a folder with its files. Files that a cancelled sync still writes are tried again. */
export async function removeScratch(folder: Place): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await removeFiles(folder);
      await remove(folder, "*");
      break;
    } catch (error) {
      if (error instanceof Problem && error.status === 404) break;
      if (tries >= TRIES) throw error;
      await pause(PAUSE_SECS);
    }
  }
  forget(folder);
}

/** Removes folders of earlier pages, which were closed during a run. Call this only while no page runs trials. */
export async function sweep(): Promise<void> {
  for (const folder of noted()) await removeScratch(folder).catch(() => undefined);
}

/** Removes a file, whatever its version. */
export async function removeFile(at: Place): Promise<void> {
  const there = await look(at);
  if (there?.tag !== undefined) await remove(at, there.tag);
}

async function removeFiles(folder: Place): Promise<void> {
  const names: string[] = [];
  for await (const page of list(folder, new AbortController().signal)) names.push(...page.map(({ name }) => name));
  for (const name of names) await removeFile({ ...folder, path: [...folder.path, name] });
}

/** Runs `work` if no other page of this origin runs trials. Returns false otherwise. */
export async function alone(work: () => Promise<void>): Promise<boolean> {
  // Without locks (no secure context) only the folder's own name keeps pages apart.
  if (!navigator.locks) return work().then(() => true);
  return navigator.locks.request(scoped("deltic.lab"), { ifAvailable: true }, async (lock) => {
    if (lock) await work();
    return lock !== null;
  });
}

function noted(): Place[] {
  try {
    return JSON.parse(localStorage.getItem(scoped(KEY)) ?? "[]") as Place[];
  } catch {
    return [];
  }
}

const forget = (folder: Place): void => note(noted().filter((one) => one.path[0] !== folder.path[0]));

function note(folders: Place[]): void {
  if (folders.length === 0) localStorage.removeItem(scoped(KEY));
  else localStorage.setItem(scoped(KEY), JSON.stringify(folders));
}

const KEY = "deltic.lab";
const TRIES = 10;
const PAUSE_SECS = 0.5;
