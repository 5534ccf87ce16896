/** Sources of an upload: files and folders that the user picked, dropped or pasted. */
import type { Source } from "./queue";

export async function* pickedFiles(files: readonly File[]): AsyncGenerator<Source> {
  for (const file of files) {
    const path = file.webkitRelativePath ? file.webkitRelativePath.split("/") : [file.name];
    yield { path, open: () => Promise.resolve(file) };
  }
}

/** Yields the files and folders of handles, which the page can store. */
export async function* handledFiles(handles: readonly FileSystemHandle[]): AsyncGenerator<Source> {
  for (const handle of handles) yield* walkHandle(handle, []);
}

export interface Drop {
  sources: AsyncGenerator<Source>;
  /** A name for the whole drop. */
  name: string;
  count: number;
}

/** Reads dropped files and folders. Call this during the event, since the browser then clears the items. */
export function dropped(data: DataTransfer): Drop {
  const found = [...data.items]
    .filter((item) => item.kind === "file")
    .map((item) => ({ entry: item.webkitGetAsEntry() ?? item.getAsFile(), handle: handleOf(item) }));
  return { sources: walk(found), name: found.find(({ entry }) => entry)?.entry?.name ?? "", count: found.length };
}

declare global {
  interface DataTransferItem {
    // Chromium only.
    getAsFileSystemHandle?: () => Promise<FileSystemHandle | null>;
  }
}

const handleOf = (item: DataTransferItem): Promise<FileSystemHandle | null> =>
  item.getAsFileSystemHandle?.().catch(() => null) ?? Promise.resolve(null);

interface Dropped {
  entry: FileSystemEntry | File | null;
  handle: Promise<FileSystemHandle | null>;
}

async function* walk(found: readonly Dropped[]): AsyncGenerator<Source> {
  for (const { entry, handle } of found) {
    const held = await handle;
    if (held) yield* walkHandle(held, []);
    else if (!entry) continue;
    else if (entry instanceof File) yield { path: [entry.name], open: () => Promise.resolve(entry) };
    else yield* walkEntry(entry, []);
  }
}

async function* walkHandle(handle: FileSystemHandle, above: readonly string[], root?: FileSystemDirectoryHandle): AsyncGenerator<Source> {
  const path = [...above, handle.name];
  if (handle.kind === "file") {
    const file = handle as FileSystemFileHandle;
    yield { path, open: () => file.getFile(), handle: file, root };
    return;
  }
  const folder = handle as FileSystemDirectoryHandle;
  let empty = true;
  try {
    for await (const child of folder.values()) {
      empty = false;
      yield* walkHandle(child, path, root ?? folder);
    }
  } catch (error) {
    // The folder counts as a failed file. The other files continue.
    yield { path, open: () => Promise.reject(error) };
    return;
  }
  // An upload makes the parent folders, so only empty folders need a source.
  if (empty) yield { path, open: undefined };
}

async function* walkEntry(entry: FileSystemEntry, above: readonly string[]): AsyncGenerator<Source> {
  const path = [...above, entry.name];
  if (entry.isFile) {
    const file = entry as FileSystemFileEntry;
    yield { path, open: () => new Promise((resolve, reject) => file.file(resolve, reject)) };
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  let empty = true;
  // A reader returns some entries at a time, and an empty list at the end.
  try {
    for (let some = await read(reader); some.length > 0; some = await read(reader)) {
      empty = false;
      for (const child of some) yield* walkEntry(child, path);
    }
  } catch (error) {
    // The folder counts as a failed file. The other files continue.
    yield { path, open: () => Promise.reject(error) };
    return;
  }
  // An upload makes the parent folders, so only empty folders need a source.
  if (empty) yield { path, open: undefined };
}

function read(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject));
}

declare global {
  interface Window {
    // Chromium only.
    showOpenFilePicker?: (options?: { multiple: boolean }) => Promise<FileSystemFileHandle[]>;
    showDirectoryPicker?: () => Promise<FileSystemDirectoryHandle>;
  }
}

/** Lets the user pick handles. Returns an empty list after a cancel; undefined in a browser without a picker. */
export async function pickHandles(what: "files" | "folder"): Promise<FileSystemHandle[] | undefined> {
  try {
    if (what === "files") return await window.showOpenFilePicker?.({ multiple: true });
    return window.showDirectoryPicker && [await window.showDirectoryPicker()];
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return [];
    throw error;
  }
}
