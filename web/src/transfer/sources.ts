/** Files and folders that were picked, dropped or pasted, as sources of an upload. */
import type { Source } from "./queue";

export async function* pickedFiles(files: readonly File[]): AsyncGenerator<Source> {
  for (const file of files) {
    const path = file.webkitRelativePath ? file.webkitRelativePath.split("/") : [file.name];
    yield { path, open: () => Promise.resolve(file) };
  }
}

export interface Drop {
  sources: AsyncGenerator<Source>;
  /** A name for the whole. */
  name: string;
  count: number;
}

/** Takes what was dropped. To be called within the event, after which the browser forgets its items. */
export function dropped(data: DataTransfer): Drop {
  const entries = [...data.items]
    .filter((item) => item.kind === "file")
    .map((item) => item.webkitGetAsEntry() ?? item.getAsFile())
    .filter((entry) => entry !== null);
  return { sources: walk(entries), name: entries[0]?.name ?? "", count: entries.length };
}

async function* walk(entries: (FileSystemEntry | File)[]): AsyncGenerator<Source> {
  for (const entry of entries) {
    if (entry instanceof File) yield { path: [entry.name], open: () => Promise.resolve(entry) };
    else yield* walkEntry(entry, []);
  }
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
  // A reader gives some names at a time, and none at the end.
  try {
    for (let some = await read(reader); some.length > 0; some = await read(reader)) {
      empty = false;
      for (const child of some) yield* walkEntry(child, path);
    }
  } catch (error) {
    // The folder is named among the files that failed; the others go on.
    yield { path, open: () => Promise.reject(error) };
    return;
  }
  // Uploads make the folders above them, so only empty ones must be made.
  if (empty) yield { path, open: undefined };
}

function read(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject));
}
