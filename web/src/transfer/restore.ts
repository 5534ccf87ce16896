/** Restores transfers of pages that have ended. A transfer continues if the browser lets the page read the file. */
import { effect, signal, untracked } from "@preact/signals";
import { signer, token } from "../session";
import { dropBatch, takeOver, type ItemRecord, type Kept } from "./journal";
import { endOthers, failedItems, retry, takeUp, type FoundSource, type Item } from "./queue";
import { Unreadable } from "./engine";

interface AskingHandle extends FileSystemHandle {
  queryPermission?(rights: { mode: "read" }): Promise<PermissionState>;
  requestPermission?(rights: { mode: "read" }): Promise<PermissionState>;
}

/** Transfers in the journal by another sign-in. Without a press of a button, no file is sent and no name is shown. */
export const earlier = signal<readonly Kept[]>([]);

/**
 * Continues transfers as soon as there is a token: transfers of the journal, and transfers that failed by the end of
 * the last token. Both continue only for the same sign-in.
 */
export function startTransfers(): void {
  let begun = false;
  effect(() => {
    const isSignedIn = token.value !== undefined;
    untracked(endOthers);
    if (!isSignedIn) return;
    if (!begun) void takeOver(take).catch(() => undefined);
    begun = true;
    for (const { item, batch } of failedItems(["ended"])) if (batch.signer === signer()) retry(batch, item);
  });
}

async function take(kept: Kept): Promise<void> {
  if ((kept.batch.signer ?? "") === signer()) return takeUp(kept, finder(kept));
  if (kept.items.length > 0) earlier.value = [...earlier.value, kept];
  else dropBatch(kept.batch.key);
}

/** Continues the transfers of earlier sign-ins under the present sign-in. */
export function takeEarlier(): void {
  for (const kept of earlier.value) void takeUp(kept, finder(kept));
  earlier.value = [];
}

/** Forgets the transfers of earlier sign-ins. */
export function dropEarlier(): void {
  for (const { batch } of earlier.value) dropBatch(batch.key);
  earlier.value = [];
}

/** Returns a function that finds the user's file of an item of `kept`. */
function finder({ batch: { roots } }: Kept): (record: ItemRecord) => Promise<FoundSource> {
  // Thousands of files may be below one folder, and the browser is asked once for the folder.
  const states = new Map<FileSystemHandle, Promise<PermissionState | undefined>>();
  const stateOf = (handle: AskingHandle) => {
    const state = states.get(handle) ?? handle.queryPermission?.({ mode: "read" }).catch(() => "prompt" as const) ?? Promise.resolve(undefined);
    states.set(handle, state);
    return state;
  };
  return async ({ path, handle, root: at, isFolder }) => {
    if (isFolder) return { source: { path, open: undefined } };
    const root = at === undefined ? undefined : roots?.[at];
    const asked = root ?? handle;
    if (!asked) return { source: { path, open: () => Promise.reject(new Unreadable()) }, why: { kind: "choose" } };
    const source = { path, handle, root, open: () => (root ? openBelow(root, path) : handle!.getFile()) };
    const state = await stateOf(asked);
    return state === undefined || state === "granted" ? { source } : { source, why: { kind: "permission" } };
  };
}

/** Opens the file at `path`, whose first name is the name of the folder `root`. */
async function openBelow(root: FileSystemDirectoryHandle, path: readonly string[]): Promise<File> {
  let folder = root;
  for (const name of path.slice(1, -1)) folder = await folder.getDirectoryHandle(name);
  return (await folder.getFileHandle(path.at(-1)!)).getFile();
}

/** Asks the user for permission to read files again. Call this only from a press of a button. */
export async function allowAgain(): Promise<void> {
  for (const { item, batch } of failedItems(["permission"])) {
    const handle: AskingHandle | undefined = item.source.root ?? item.source.handle;
    if ((await handle?.requestPermission?.({ mode: "read" })) !== "granted") return;
    retry(batch, item);
  }
}

/** Takes files that the user chose again. Returns the number of files that match no missing file. */
export function takeChosen(files: readonly File[]): number {
  let strange = 0;
  for (const file of files) {
    const found = failedItems(["choose"]).find(({ item }) => isSame(item, file));
    if (!found) {
      strange++;
      continue;
    }
    found.item.source = { path: found.item.source.path, open: () => Promise.resolve(file) };
    retry(found.batch, found.item);
  }
  return strange;
}

/** True if the file has the name, the length and the modification time of the item. */
function isSame({ source, bytes, modified }: Item, file: File): boolean {
  const path = file.webkitRelativePath ? file.webkitRelativePath : file.name;
  const isNamed = source.path.join("/") === path || source.path.at(-1) === path;
  return isNamed && (modified === undefined || (file.size === bytes && file.lastModified === modified));
}

/** Lets the user choose the missing files again; opens a folder picker if all files came from folders. */
export function chooseAgain(done: (strange: number) => void): void {
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.webkitdirectory = failedItems(["choose"]).every(({ item }) => item.source.path.length > 1);
  input.onchange = () => done(takeChosen([...(input.files ?? [])]));
  input.click();
}
