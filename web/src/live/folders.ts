/** The synced folders of this page: those of the present sign-in are followed as soon as there is a token. */
import { computed, effect, signal, untracked } from "@preact/signals";
import type { Place } from "../api/volumes";
import { scoped } from "../root";
import { signer, token } from "../session";
import { canDownload } from "../transfer/delta/client";
import { Follower } from "./follower";
import { askPermission } from "./local";
import { dropFolder, keepFolder, keptFolders, type FolderRecord } from "./store";

export interface Folder {
  record: FolderRecord;
  /** Undefined while the folder is paused. */
  follower: Follower | undefined;
}

export const folders = signal<readonly Folder[]>([]);
/** Folders of another sign-in. Nothing of them moves without a press of a button. */
export const earlier = signal<readonly FolderRecord[]>([]);

/** True if this browser and this build can sync folders. */
export const canSync = (): boolean => canDownload && typeof navigator !== "undefined" && "locks" in navigator && window.showDirectoryPicker !== undefined;

/** The number of folders and files that wait for the user. */
export const needYou = computed(() => {
  let count = 0;
  for (const { follower } of folders.value) {
    const is = follower?.status.value.is;
    if (is === "permission" || is === "missing" || is === "asking" || is === "refused") count++;
    else count += follower?.troubles.value.length ?? 0;
  }
  return count;
});

/** Tells other tabs that the list has changed. */
const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(scoped("deltic.live"));
const tellTabs = (): void => tabs?.postMessage("changed");

/** Takes over changes that another tab made to the list. */
async function hearTabs(): Promise<void> {
  const records = await keptFolders();
  for (const folder of folders.peek()) {
    const now = records.find(({ id }) => id === folder.record.id);
    if (now && now.paused === folder.record.paused) continue;
    void folder.follower?.end();
    replace(folder, now && opened(now));
  }
  take(records, signer());
}

export function startFolders(): void {
  if (!canSync()) return;
  if (tabs) tabs.onmessage = () => void hearTabs().catch(() => undefined);
  effect(() => {
    const isSignedIn = token.value !== undefined;
    const by = signer();
    untracked(() => {
      for (const { record, follower } of folders.value) if (!isSignedIn || record.signer !== by) void follower?.end();
      folders.value = isSignedIn ? folders.value.filter(({ record }) => record.signer === by) : [];
      if (isSignedIn) void keptFolders().then((records) => take(records, by), () => undefined);
    });
  });
}

function take(records: readonly FolderRecord[], by: string): void {
  if (token.value === undefined || signer() !== by) return;
  const known = new Set(folders.value.map(({ record }) => record.id));
  const mine = records.filter((record) => record.signer === by && !known.has(record.id));
  earlier.value = records.filter((record) => record.signer !== by);
  folders.value = [...folders.value, ...mine.map(opened)];
}

function opened(record: FolderRecord): Folder {
  if (record.paused) return { record, follower: undefined };
  const follower = new Follower(record);
  follower.run();
  return { record, follower };
}

function replace(old: Folder, now: Folder | undefined): void {
  folders.value = folders.value.flatMap((folder) => (folder.record.id === old.record.id ? (now ? [now] : []) : [folder]));
}

/** Lets the user choose a folder of this device, and syncs the folder with `to`. Call this from a press of a button. */
export async function addFolder(to: Place): Promise<"added" | "twice" | "none"> {
  let handle: FileSystemDirectoryHandle;
  try {
    handle = await (window.showDirectoryPicker as (options: object) => Promise<FileSystemDirectoryHandle>)({ mode: "readwrite", id: "deltic" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return "none";
    throw error;
  }
  if ((await askPermission(handle)) !== "granted") return "none";
  for (const { record } of folders.value) if (await overlaps(record.handle, handle)) return "twice";
  const record: FolderRecord = { id: crypto.randomUUID(), signer: signer(), name: handle.name, handle, to, paused: false };
  await keepFolder(record);
  tellTabs();
  folders.value = [...folders.value, opened(record)];
  return "added";
}

/** True if the folders are the same, or one is inside the other. */
async function overlaps(one: FileSystemDirectoryHandle, other: FileSystemDirectoryHandle): Promise<boolean> {
  return (await one.resolve(other)) !== null || (await other.resolve(one)) !== null;
}

export async function pauseFolder(folder: Folder): Promise<void> {
  const record = { ...folder.record, paused: true };
  replace(folder, { record, follower: undefined });
  await keepFolder(record);
  tellTabs();
  await folder.follower?.end();
}

export async function resumeFolder(folder: Folder): Promise<void> {
  const record = { ...folder.record, paused: false };
  await keepFolder(record);
  tellTabs();
  replace(folder, opened(record));
}

/** Asks the browser for permission again. Call this from a press of a button. */
export async function allowFolder({ record, follower }: Folder): Promise<void> {
  if ((await askPermission(record.handle)) === "granted") follower?.again();
}

/** Stops syncing. Both folders stay as they are. */
export async function stopFolder(folder: Folder): Promise<void> {
  replace(folder, undefined);
  await dropFolder(folder.record.id);
  tellTabs();
  await folder.follower?.end();
  // The last step may have noted a state meanwhile.
  await dropFolder(folder.record.id);
}

/** Goes on with the folders of another sign-in. The last common state may be another one for this token: all is compared. */
export async function takeEarlier(): Promise<void> {
  const records = earlier.value.map((record) => ({ ...record, id: crypto.randomUUID(), signer: signer() }));
  await Promise.all(records.map(keepFolder));
  await dropEarlier();
  folders.value = [...folders.value, ...records.map(opened)];
}

export async function dropEarlier(): Promise<void> {
  const records = earlier.value;
  earlier.value = [];
  await Promise.all(records.map(({ id }) => dropFolder(id)));
}
