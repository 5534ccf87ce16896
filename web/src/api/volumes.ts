/** Requests about volumes, folders and files (docs/http.md). */
import { call, Problem } from "./http";

export interface Volume {
  name: string;
  read: boolean;
  write: boolean;
  delete: boolean;
  /** True if replaced and deleted files stay as old versions. */
  versions: boolean;
  bytes?: { used: number; quota: number | null };
  files?: { used: number; quota: number | null };
}

export interface Entry {
  name: string;
  type: "file" | "dir" | "symlink" | "special";
  bytes: number;
  /** Seconds since 1970. */
  modified: number;
  /** The entity tag of a file. */
  etag?: string;
  /** The last change of a file, if the server knows it without reading the file. */
  change?: Change;
}

/** Bytes of a file that a change kept, moved and added. */
export interface ChangeMap {
  kept: number;
  moved: number;
  new: number;
  /** The same for equal parts of the file, from the start to the end. */
  buckets: readonly (readonly [kept: number, moved: number, fresh: number])[];
}

/** A change that the server noted. */
export interface Change extends ChangeMap {
  /** Seconds since 1970. */
  at: number;
  /** Name of the token that made the change. The server tells the name only to tokens that may write the whole volume. */
  by?: string;
}

/** A file in a volume. */
export interface Place {
  volume: string;
  path: readonly string[];
}

/** The server's version of a file. */
export interface Version {
  /** The entity tag. Absent while a program of the server writes the file. */
  tag: string | undefined;
  bytes: number;
  /** Seconds since 1970. */
  modified: number;
  /** SHA-256 in base64, if requested. */
  sha256: string | undefined;
}

/** Volumes of a token, and rights beyond files. */
export interface Opened {
  volumes: Volume[];
  /** True if the token may make other tokens. */
  share: boolean;
  /** True if the token may see and revoke all tokens. */
  admin: boolean;
}

/** Asks for the volumes and rights of a token, by default the token of the session. */
export async function volumes(token?: string): Promise<Opened> {
  const answer = await call("v1/volumes", token === undefined ? {} : { token });
  return (await answer.json()) as Opened;
}

/**
 * Lists a folder page by page, in the order of the server. With `changes`, files have their last changes.
 *
 * The server prints a name that is not text with escapes, and another entry may really have the printed name. The
 * listed name of such an entry ends with `NO_TEXT`, so that no request is sent about the other entry.
 */
export async function* list(at: Place, stop: AbortSignal, { changes = false } = {}): AsyncGenerator<Entry[]> {
  let after: string | undefined;
  for (;;) {
    const query = after === undefined ? "" : `&after=${encodeURIComponent(after)}`;
    const answer = await call(`${address("tree", at)}?limit=${PAGE}${changes ? "&changes=true" : ""}${query}`, { signal: stop });
    const page = (await answer.json()) as { entries: (Entry & { exact?: boolean })[]; more: boolean };
    yield page.entries.map(({ exact = true, ...entry }) => (exact ? entry : { ...entry, name: entry.name + NO_TEXT }));
    after = page.entries.at(-1)?.name;
    if (!page.more || after === undefined) return;
  }
}

/** An entry that a search found. */
export interface FoundEntry extends Entry {
  /** Names from the volume down to the entry. */
  path: readonly string[];
}

/** Finds entries below a folder whose names have a text. `after` is the `next` of the page before. */
export async function searchBelow(
  at: Place,
  text: string,
  after: string | undefined,
  stop: AbortSignal,
): Promise<{ entries: FoundEntry[]; next: string | null }> {
  const from = after === undefined ? "" : `&after=${encodeURIComponent(after)}`;
  const answer = await call(`${address("tree", at)}?as=search&name=${encodeURIComponent(text)}${from}`, { signal: stop });
  type Told = Omit<FoundEntry, "path"> & { path: string; exact?: boolean };
  const page = (await answer.json()) as { entries: Told[]; next: string | null };
  const entries = page.entries.map(({ exact = true, path, ...entry }) => {
    const names = path.split("/");
    if (exact) return { ...entry, path: names };
    return { ...entry, name: entry.name + NO_TEXT, path: [...names.slice(0, -1), entry.name + NO_TEXT] };
  });
  return { entries, next: page.next };
}

/** Returns the server's version of the file at `at`; undefined if no file is there. */
export async function look(at: Place, want: { sha256?: boolean } = {}): Promise<Version | undefined> {
  try {
    const headers: Record<string, string> = want.sha256 ? { "Want-Repr-Digest": "sha-256=1" } : {};
    const answer = await call(address("files", at), { method: "HEAD", headers });
    return {
      tag: answer.headers.get("ETag") ?? undefined,
      bytes: Number(answer.headers.get("Content-Length")),
      modified: Date.parse(answer.headers.get("Last-Modified") ?? "") / 1000 || 0,
      sha256: /sha-256=:([^:]*):/.exec(answer.headers.get("Repr-Digest") ?? "")?.[1],
    };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

/** Makes a folder. Returns false if the folder exists already. */
export async function makeFolder(at: Place): Promise<boolean> {
  return (await call(address("tree", at), { method: "POST" })).status === 201;
}

/** Moves a file or a folder, with `tag` only this version. A move never replaces an entry. Returns the new tag of a file. */
export async function move(from: Place, to: readonly string[], tag?: string): Promise<string | undefined> {
  const headers: Record<string, string> = tag === undefined ? {} : { "If-Match": tag };
  const answer = await call(`${address("files", from)}?as=move&to=${encodeURIComponent(to.join("/"))}`, { method: "POST", headers });
  return answer.headers.get("ETag") ?? undefined;
}

/** Removes the version `tag` of a file, or with `*` an empty folder. */
export async function remove(at: Place, tag: string): Promise<void> {
  await call(address("files", at), { method: "DELETE", headers: { "If-Match": tag } });
}

/** The purpose of a ticket: an old version, a folder as ZIP archive, a preview, or by default a single download. */
export interface TicketFor {
  version?: string;
  /** The folder as it is now, or as it was at a moment in seconds since 1970. */
  zip?: "now" | number;
  preview?: boolean;
}

/** Returns an address for a single download within a minute, or for a preview within an hour. */
export async function ticketAddress(at: Place, { version, zip, preview = false }: TicketFor = {}): Promise<string> {
  const body = JSON.stringify({ volume: at.volume, path: at.path.join("/"), preview });
  const answer = await call("v1/tickets", { method: "POST", body, headers: { "Content-Type": "application/json" } });
  const { ticket } = (await answer.json()) as { ticket: string };
  const archive = zip === "now" ? "&as=zip" : `&as=zip&at=${zip}`;
  const of = zip !== undefined ? archive : version === undefined ? "" : `&version=${encodeURIComponent(version)}`;
  return `${address("files", at)}?ticket=${encodeURIComponent(ticket)}${of}`;
}

export interface OldVersion {
  version: string;
  /** Times in seconds since 1970. */
  replaced: number;
  modified: number;
  bytes: number;
  /** The change from the version before, if the server noted it. */
  change: Change | null;
}

/** The old versions of a file. */
export interface History {
  /** The newest first. */
  versions: OldVersion[];
  /** The change that made the present version, if the server noted it. */
  change: Change | null;
}

/** Returns old versions of a file, the newest first; undefined if the volume does not keep versions. */
export const oldVersions = async (at: Place): Promise<OldVersion[] | undefined> => (await history(at))?.versions;

/** Returns the old versions of a file, with the changes; undefined if the volume does not keep versions. */
export async function history(at: Place): Promise<History | undefined> {
  try {
    const answer = await call(`${address("files", at)}?as=versions`);
    return (await answer.json()) as History;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

/**
 * Asks for the change between the version before and `version`, by default the present version. The server may read
 * both versions. Undefined if the change is unknown: no version is before, or the versions are too long.
 */
export async function changes(at: Place, version?: string): Promise<ChangeMap | undefined> {
  const of = version === undefined ? "" : `&version=${encodeURIComponent(version)}`;
  const answer = await call(`${address("files", at)}?as=changes${of}`);
  const change = (await answer.json()) as ChangeMap & { known: string | null };
  return change.known === null ? undefined : change;
}

/** A deleted file with its old versions. */
export interface DeletedFile {
  /** Path in the volume. */
  path: string;
  /** The newest first. */
  versions: OldVersion[];
}

/** Lists the deleted files below a folder that have old versions, page by page. */
export async function* deletedFiles(at: Place, stop: AbortSignal): AsyncGenerator<DeletedFile[]> {
  let after = "";
  for (;;) {
    const query = `?as=versions&after=${encodeURIComponent(after)}`;
    const answer = await call(address("tree", at) + query, { signal: stop });
    const page = (await answer.json()) as { files: (DeletedFile & { deleted: boolean })[]; next: string | null };
    yield page.files.filter(({ deleted, versions }) => deleted && versions.length > 0);
    if (page.next === null || page.next === after) return;
    after = page.next;
  }
}

/** An entry that a folder had at a moment. */
export interface PastEntry {
  name: string;
  type: Entry["type"];
  bytes?: number;
  /** Seconds since 1970. */
  modified?: number;
  /** The old version with the content of then; absent if the present file has it. */
  version?: string;
  /** The state of the path now: the same version, another version, or nothing. */
  now: "same" | "other" | "gone";
  /** The entity tag of the present file. */
  etag?: string;
}

/** Entries that a folder had at a moment, and the number of entries that came later. */
export interface PastPage {
  entries: PastEntry[];
  younger: number;
}

/** Lists a folder page by page, as the folder was at `moment`, in seconds since 1970. */
export async function* listPast(at: Place, moment: number, stop: AbortSignal): AsyncGenerator<PastPage> {
  let after = "";
  for (;;) {
    const answer = await call(`${address("tree", at)}?at=${moment}&limit=${PAGE}&after=${encodeURIComponent(after)}`, { signal: stop });
    type Told = Omit<PastPage, "entries"> & { entries: (PastEntry & { exact?: boolean })[]; next: string | null };
    const { entries, younger, next } = (await answer.json()) as Told;
    yield { entries: entries.map(({ exact = true, ...entry }) => (exact ? entry : { ...entry, name: entry.name + NO_TEXT })), younger };
    if (next === null || next === after) return;
    after = next;
  }
}

/**
 * Restores an old version. The restored version replaces the version `tag`; without `tag`, no file may exist. Returns
 * false if the file has the bytes of the version already.
 */
export async function restore(at: Place, version: string, tag?: string): Promise<boolean> {
  const query = `?as=restore&version=${encodeURIComponent(version)}`;
  const answer = await call(address("files", at) + query, {
    method: "POST",
    headers: tag === undefined ? { "If-None-Match": "*" } : { "If-Match": tag },
  });
  return answer.status !== 200;
}

/** The result of a restore of some files of a folder. */
export interface RestoredPage {
  /** Number of files that have other bytes now. */
  restored: number;
  /** Files that could not be restored, by their paths in the volume. */
  failed: { path: string; status: number; detail: string }[];
}

/** Restores the files below a folder page by page, as they were at `moment`, in seconds since 1970. */
export async function* restoreFolder(at: Place, moment: number): AsyncGenerator<RestoredPage> {
  let after = "";
  for (;;) {
    const answer = await call(`${address("tree", at)}?as=restore&at=${moment}&after=${encodeURIComponent(after)}`, { method: "POST" });
    const { next, ...page } = (await answer.json()) as RestoredPage & { next: string | null };
    yield page;
    if (next === null || next === after) return;
    after = next;
  }
}

/** The address of an upload in several requests. */
export const uploadAddress = (volume: string, name: string): string =>
  `v1/volumes/${encodeURIComponent(volume)}/uploads/${encodeURIComponent(name)}`;

/** The address to which many small files are sent at once. */
export const bundleAddress = (volume: string): string => `v1/volumes/${encodeURIComponent(volume)}/files`;

/** The address from which many small files are read at once. */
export const contentsAddress = (volume: string): string => `v1/volumes/${encodeURIComponent(volume)}/contents`;

/** Returns the path as a text. Refuses names that no request may carry. */
export function pathText({ path }: Place): string {
  // A hostile server may list such a name, and the path would name another file.
  if (path.some((name) => name === "." || name === ".." || name.includes("/"))) throw new Problem(400, "no such name");
  if (path.some((name) => name.includes(NO_TEXT))) throw new Problem(400, "the name is not text");
  return path.join("/");
}

export function address(kind: "files" | "tree", at: Place): string {
  const names = pathText(at).split("/").map(encodeURIComponent).join("/");
  return `v1/volumes/${encodeURIComponent(at.volume)}/${kind}/${names}`;
}

const PAGE = 1000;
/** A letter that no file system takes in a name. The page shows this letter as a mark. */
const NO_TEXT = "\0";
