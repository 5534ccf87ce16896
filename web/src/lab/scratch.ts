/**
 * The folder at the server for files of the lab, in a volume where the user may write. The folder is noted in the storage
 * of the origin before it is made, so that the next visit removes what a closed page left behind.
 */
import { pause, Problem } from "../api/http";
import { list, look, makeFolder, remove, volumes, type Place } from "../api/volumes";
import { SCRATCH_FOLDER } from "../live/local";
import { scoped } from "../root";

/** Makes an empty folder. */
export async function openScratch(volume: string): Promise<Place> {
  for (;;) {
    const folder: Place = { volume, path: [`.lab-${crypto.getRandomValues(new Uint32Array(1))[0]!.toString(16).padStart(8, "0")}`] };
    const before = noted();
    note([...before, { ...folder, at: Date.now() }]);
    if (await makeFolder(folder)) return folder;
    // The folder of another page has this name.
    note(before);
  }
}

/** Removes a folder with the files of trials. Files that a cancelled sync still writes are tried again. */
export async function removeScratch(folder: Place): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await removeFiles(folder);
      await remove(folder, "*");
      break;
    } catch (error) {
      const status = error instanceof Problem ? error.status : undefined;
      if (status === 404 && (await isUsable(folder.volume))) break;
      if (status === 404) throw error;
      if (tries >= TRIES || status === 401 || status === 403) throw error;
      await pause(PAUSE_SECS);
    }
  }
  note(noted().filter((one) => one.volume !== folder.volume || one.path[0] !== folder.path[0]));
}

/** True if this sign-in may do all in the volume. Otherwise the folder may be there, and be seen by another sign-in. */
async function isUsable(volume: string): Promise<boolean> {
  return (await volumes()).volumes.some(({ name, read, write, delete: may }) => name === volume && read && write && may);
}

/** Removes folders of earlier pages, which were closed during a run. Call this only within {@link alone}. */
export async function sweep(): Promise<void> {
  for (const folder of noted()) {
    // Without locks, another page may use a younger folder.
    if (!navigator.locks && Date.now() - folder.at < OLD_MS) continue;
    await removeScratch(folder).catch(() => undefined);
  }
}

/** Removes a file, whatever its version. */
export async function removeFile(at: Place): Promise<void> {
  const there = await look(at);
  if (there?.tag !== undefined) await remove(at, there.tag);
}

/** Removes the files of trials. Other files, which a user put into the folder, stay. */
async function removeFiles(folder: Place): Promise<void> {
  const names: string[] = [];
  for await (const page of list(folder, new AbortController().signal)) names.push(...page.map(({ name }) => name));
  for (const name of names) if (TRIAL_FILE.test(name)) await removeFile({ ...folder, path: [...folder.path, name] });
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

/** A folder of a page, and the time when the folder was made, in ms since 1970. */
interface Noted extends Place {
  at: number;
}

/** Returns the noted folders. Other programs of this origin can write to the storage, so other entries are left out. */
function noted(): Noted[] {
  try {
    const all: unknown = JSON.parse(localStorage.getItem(scoped(KEY)) ?? "[]");
    return Array.isArray(all) ? all.filter(isNoted) : [];
  } catch {
    return [];
  }
}

function isNoted(one: unknown): one is Noted {
  const { volume, path, at } = (one ?? {}) as Partial<Noted>;
  const isScratch = Array.isArray(path) && path.length === 1 && typeof path[0] === "string" && SCRATCH_FOLDER.test(path[0]);
  return typeof volume === "string" && typeof at === "number" && isScratch;
}

function note(folders: readonly Noted[]): void {
  if (folders.length === 0) localStorage.removeItem(scoped(KEY));
  else localStorage.setItem(scoped(KEY), JSON.stringify(folders));
}

const KEY = "deltic.lab";
const TRIES = 10;
const TRIAL_FILE = /^\d+\.bin$/;
/** Age from which a folder is removed where pages cannot lock each other out. */
const OLD_MS = 2 * 60 * 60 * 1000;
const PAUSE_SECS = 0.5;
