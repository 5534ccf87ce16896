/** Actions on entries of the open folder. Each action reports the result in the line at the bottom of the page. */
import { signal } from "@preact/signals";
import { Problem, Unreachable } from "../api/http";
import {
  list,
  look,
  makeFolder,
  move,
  oldVersions,
  remove,
  restore,
  type Entry,
  type Place,
} from "../api/volumes";
import { folderAddress, go, screenAddress } from "../route";
import { t } from "../text";
import { updateCopy } from "../transfer/delta/copy";
import { Unreadable } from "../transfer/engine";
import { downloadFolder, plain } from "../transfer/plain";
import { upload, type Source } from "../transfer/queue";
import { handledFiles, pickedFiles, pickHandles } from "../transfer/sources";
import { say } from "../ui/message";
import { previewOf } from "./kinds";
import { active, here, reload, rights, selection, volume } from "./folder";

export type Dialog =
  | { kind: "folder" }
  | { kind: "rename"; entry: Entry }
  | { kind: "share"; at: Place }
  | { kind: "move"; entries: readonly Entry[] }
  | { kind: "delete"; entries: readonly Entry[]; versions: boolean };

export const dialog = signal<Dialog | undefined>(undefined);

const at = (entry: Entry | string): Place => {
  const place = here.peek()!;
  return { ...place, path: [...place.path, typeof entry === "string" ? entry : entry.name] };
};

export function open(entry: Entry): void {
  const place = here.peek();
  if (!place) return;
  if (entry.type === "dir") go(folderAddress(place.volume, [...place.path, entry.name]));
  else if (entry.type === "file" && previewOf(entry.name) && volume.peek()?.read) go(screenAddress("preview", entry.name));
  else void download([entry]);
}

export function up(): void {
  const place = here.peek();
  if (!place) return;
  go(place.path.length ? folderAddress(place.volume, place.path.slice(0, -1)) : folderAddress(undefined, []));
}

export async function download(entries: readonly Entry[]): Promise<void> {
  const never = new AbortController().signal;
  for (const entry of entries) {
    if (entry.type !== "file" && entry.type !== "dir") continue;
    try {
      if (entry.type === "dir") await downloadFolder(at(entry));
      else await plain.download(at(entry), () => undefined, never);
    } catch (error) {
      say(t().failedFor(entry.name, reason(error)), "bad");
      return;
    }
  }
}

/** Lets the user choose an older copy on this device, and updates the copy to the server's version. */
export async function updateMine(entry: Entry): Promise<void> {
  try {
    const done = await updateCopy(at(entry));
    if (done) say(t().updated(done.name, done.came, done.bytes));
  } catch (error) {
    say(t().failedFor(entry.name, error instanceof Unreadable ? t().failure({ kind: "unreadable" }) : reason(error)), "bad");
  }
}

export function add(sources: AsyncIterable<Source>, name: string, to = here.peek()): void {
  if (to) upload(sources, name, to);
}

/** Lets the user pick files or a folder. In browsers with file handles, the transfers survive a reload. */
export async function pick(what: "files" | "folder"): Promise<void> {
  const handles = await pickHandles(what);
  if (handles?.length) add(handledFiles(handles), handles[0]!.name);
  if (handles) return;
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.webkitdirectory = what === "folder";
  input.onchange = () => {
    const files = [...(input.files ?? [])];
    if (files.length) add(pickedFiles(files), files[0]!.webkitRelativePath.split("/")[0] || files[0]!.name);
  };
  input.click();
}

/** Makes a folder. Returns an error message; undefined on success. */
export async function newFolder(name: string): Promise<string | undefined> {
  const wrong = wrongName(name);
  if (wrong) return wrong;
  try {
    if (!(await makeFolder(at(name)))) return t().nameTaken(name);
  } catch (error) {
    return refusal(error, name);
  }
  active.value = name;
  say(t().made(name));
  reload();
  return undefined;
}

export async function rename(entry: Entry, name: string): Promise<string | undefined> {
  const wrong = wrongName(name);
  if (wrong) return wrong;
  if (name === entry.name) return undefined;
  try {
    await move(at(entry), at(name).path);
  } catch (error) {
    return refusal(error, name);
  }
  active.value = name;
  selection.value = new Set();
  const moves = [{ from: at(entry), to: at(name).path }];
  say(t().renamed(name), "plain", { label: t().undo, run: () => void moveBack(moves) });
  reload();
  return undefined;
}

/** A file or folder that was moved. */
interface Move {
  from: Place;
  to: readonly string[];
}

/** Moves files and folders back to the old paths. The moves continue after a refusal; the first refusal is reported. */
async function moveBack(moves: readonly Move[]): Promise<void> {
  let failed: string | undefined;
  for (const { from, to } of moves) {
    const name = to.at(-1) ?? "";
    try {
      await move({ volume: from.volume, path: to }, from.path);
    } catch (error) {
      failed ??= t().failedFor(name, refusal(error, name));
    }
  }
  if (failed) say(failed, "bad");
  else say(t().movedBack(moves.length));
  reload();
}

/** Moves entries into another folder. The moves continue after a refusal; the first refusal is reported. */
export async function moveTo(entries: readonly Entry[], folder: readonly string[]): Promise<void> {
  const moved: Move[] = [];
  let failed: string | undefined;
  for (const entry of entries) {
    try {
      const to = [...folder, entry.name];
      await move(at(entry), to);
      moved.push({ from: at(entry), to });
    } catch (error) {
      failed ??= t().failedFor(entry.name, refusal(error, entry.name));
    }
  }
  selection.value = new Set();
  const text = t().movedFiles(moved.length, folder.at(-1) ?? here.peek()!.volume);
  const back = { label: t().undo, run: () => void moveBack(moved) };
  say(failed ?? text, failed ? "bad" : "plain", moved.length ? back : undefined);
  reload();
}

/** Opens the dialog for a link to a folder: the folder `entry`, or else the open folder. */
export function share(entry?: Entry): void {
  const place = here.peek();
  if (place && rights.peek()?.share) dialog.value = { kind: "share", at: entry?.type === "dir" ? at(entry) : place };
}

/** Asks before deleting entries. If deleted files stay as old versions, files are deleted at once, with an undo. */
export async function askDelete(entries: readonly Entry[]): Promise<void> {
  if (!entries.length || !volume.peek()?.delete) return;
  const versions = volume.peek()?.versions ?? false;
  if (versions && entries.every(({ type }) => type === "file")) return deleteAll(entries, true);
  dialog.value = { kind: "delete", entries, versions };
}

/** Deletes entries. The deletion continues after a refusal; the first refusal is reported. */
export async function deleteAll(entries: readonly Entry[], versions: boolean): Promise<void> {
  const gone: Gone[] = [];
  let failed: string | undefined;
  for (const entry of entries) {
    try {
      if (entry.type === "dir") await deleteFolder(at(entry), gone);
      else if (await isAsSeen(entry, gone)) continue;
      else failed ??= t().changedSince(entry.name);
    } catch (error) {
      if (error instanceof Problem && error.status === 412) failed ??= t().changedSince(entry.name);
      else failed ??= t().failedFor(entry.name, reason(error));
    }
  }
  selection.value = new Set();
  reload();
  const files = gone.filter(({ isFolder }) => !isFolder).length;
  const text = entries.length === 1 ? t().deletedOne(entries[0]!.name) : t().deleted(Math.max(files, entries.length));
  say(failed ?? text, failed ? "bad" : "plain", versions && gone.length ? { label: t().undo, run: () => void undo(gone) } : undefined);
}

/** Deletes the listed version of a file. Returns false, without deleting, if the server has another version now. */
async function isAsSeen(entry: Entry, gone: Gone[]): Promise<boolean> {
  const there = await look(at(entry));
  if (!there) return true;
  if (there.tag === undefined || there.bytes !== entry.bytes || there.modified !== entry.modified) return false;
  await remove(at(entry), there.tag);
  gone.push(at(entry));
  return true;
}

/** A deleted file or folder. */
type Gone = Place & { isFolder?: boolean };

async function deleteFolder(place: Place, gone: Gone[]): Promise<void> {
  const stop = new AbortController().signal;
  for await (const page of list(place, stop))
    for (const entry of page) {
      const below = { ...place, path: [...place.path, entry.name] };
      if (entry.type === "dir") await deleteFolder(below, gone);
      else {
        const there = await look(below);
        if (!there) continue;
        await remove(below, there.tag ?? '"none"');
        gone.push(below);
      }
    }
  await remove(place, "*");
  gone.push({ ...place, isFolder: true });
}

/** Restores deleted files and folders. The restores continue after a refusal; the first refusal is reported. */
async function undo(places: readonly Gone[]): Promise<void> {
  let back = 0;
  let failed: string | undefined;
  for (const place of places) {
    try {
      // The restore of a file has made the folder already. Only empty folders are missing.
      if (place.isFolder) await makeFolder(place);
      if (place.isFolder) continue;
      const [newest] = (await oldVersions(place)) ?? [];
      if (!newest) continue;
      await restore(place, newest.version);
      back++;
    } catch (error) {
      const name = place.path.at(-1) ?? "";
      failed ??= t().failedFor(name, error instanceof Problem && error.status === 412 ? t().nameTaken(name) : reason(error));
    }
  }
  if (failed) say(failed, "bad");
  else say(t().restored(back));
  reload();
}

function wrongName(name: string): string | undefined {
  if (!name.trim()) return t().nameEmpty;
  if (name.includes("/") || name === "." || name === "..") return t().nameSlash;
  return undefined;
}

function refusal(error: unknown, name: string): string {
  if (error instanceof Problem && error.status === 409) return t().nameTaken(name);
  if (error instanceof Problem && error.status === 400) return t().nameRefused(error.detail);
  return reason(error);
}

export function reason(error: unknown): string {
  if (error instanceof Unreachable) return t().noAnswer(1);
  if (error instanceof Problem) return t().notNow(error.detail || String(error.status));
  return String(error);
}
