/** The folder of a volume. Every change names the version that it replaces. */
import { call, Problem, reach, sendBody, Unreachable } from "../api/http";
import { address, list, look, makeFolder, move, remove, type Place } from "../api/volumes";
import { transfer } from "../transfer/delta/client";
import { fetchSmall, type Fetched } from "../transfer/contents";
import { isSmall, NotBundled, sendSmall, sendWaiting } from "../transfer/bundle";
import { delta, way } from "../transfer/delta/engine";
import { Taken, Unreadable } from "../transfer/engine";
import { bytesOf, isPrivate, type Content, type Local } from "./local";
import { eachOf, Outdated, parent, type FileState, type Node, type Tree } from "./types";

/** Files up to this length travel whole. */
const WHOLE_BYTES = 64 * 1024;
/** The server computes digests up to this length. */
export const DIGEST_BYTES = 64 * 1024 * 1024;

/** A transfer's result: the state at the end that got the file, and the bytes that travelled. */
export interface Moved {
  state: FileState;
  bytes: number;
}

export class Remote {
  constructor(
    readonly root: Place,
    readonly stop: AbortSignal,
  ) {}

  at(path: string): Place {
    return { volume: this.root.volume, path: path ? [...this.root.path, ...path.split("/")] : this.root.path };
  }

  /** Lists the folder `at` with all folders below. */
  async list(at = ""): Promise<Tree> {
    const found: Tree = new Map();
    await this.#listAll([at], found, true);
    return found;
  }

  /** Returns false if the folder is empty. Rejects if the folder is gone, or may not be read. */
  async hasEntries(): Promise<boolean> {
    for await (const page of list(this.root, this.stop)) return page.length > 0;
    return false;
  }

  /** Lists folders several at once, with `isDeep` the folders below too. */
  async #listAll(dirs: readonly string[], found: Tree, isDeep: boolean): Promise<void> {
    let level = dirs;
    while (level.length > 0) {
      const next: string[] = [];
      await eachOf(level, AT_ONCE, async (dir) => void next.push(...(await this.#listOne(dir, found))));
      level = isDeep ? next : [];
    }
  }

  async #listOne(dir: string, found: Tree): Promise<string[]> {
    const dirs: string[] = [];
    for await (const page of list(this.at(dir), this.stop)) {
      for (const { name, type, bytes, modified, etag } of page) {
        const path = dir ? `${dir}/${name}` : name;
        // A list that repeats itself has no end.
        if (found.has(path)) throw new Problem(0, `the server lists ${path} twice`);
        if (found.size >= MOST_ENTRIES) throw new Problem(0, `more than ${MOST_ENTRIES} entries`);
        const isOther = !isPlain(name) || isPrivate(name);
        if (type === "dir" && !isOther) dirs.push(path);
        const node = type === "dir" ? "d" : type === "file" && etag !== undefined ? { tag: etag, bytes, modified } : "o";
        found.set(path, isOther ? "o" : node);
      }
    }
    return dirs;
  }

  /** Returns the entry at `path`; undefined if nothing is there. */
  async look(path: string): Promise<Node | undefined> {
    try {
      const there = await look(this.at(path));
      return there && { tag: there.tag ?? "", bytes: there.bytes, modified: there.modified };
    } catch (error) {
      if (error instanceof Problem && error.status === 409) return "d";
      throw error;
    }
  }

  /**
   * Returns the entries at many paths, as `look` does. Folders of which many entries are wanted are listed. `known` has
   * the entries of the last list.
   */
  async lookAll(paths: readonly string[], known: Tree): Promise<Map<string, Node | undefined>> {
    const dirs = paths.length <= FEW ? [] : dirsToList(paths, known);
    const listed: Tree = new Map();
    const one = async (dir: string) => {
      try {
        await this.#listAll([dir], listed, false);
      } catch (error) {
        // A folder that is gone, or is a file by now, has no entries. Without the synced folder itself, nothing is known.
        if (dir === "" || !(error instanceof Problem) || ![404, 409].includes(error.status)) throw error;
      }
    };
    await eachOf(dirs, AT_ONCE, one);
    const isListed = new Set(dirs);
    const found = new Map<string, Node | undefined>(paths.map((path) => [path, listed.get(path)]));
    await eachOf(paths.filter((path) => !isListed.has(parent(path))), AT_ONCE, async (path) => void found.set(path, await this.look(path)));
    return found;
  }

  async digest(path: string, of: FileState): Promise<string> {
    if (of.bytes > DIGEST_BYTES) return "unknown there";
    const there = await look(this.at(path), { sha256: true });
    if (there?.tag !== of.tag) throw new Outdated();
    return there.sha256 ?? "unknown there";
  }

  /** Uploads a file in place of the version `was`. */
  async put(path: string, file: File, was: FileState | undefined): Promise<Moved> {
    const to = this.at(path);
    try {
      if (file.size < WHOLE_BYTES) {
        const conditions: Record<string, string> = was ? { "If-Match": was.tag } : { "If-None-Match": "*" };
        const headers = { ...conditions, "Content-Type": "application/octet-stream" };
        const answer = await sendBody(address("files", to), { method: "PUT", headers, body: file, sent: () => undefined }, this.stop);
        const state = { tag: answer("ETag") ?? "", bytes: file.size, modified: Math.floor(Date.now() / 1000) };
        return { state, bytes: file.size };
      }
      let sent = 0;
      await delta.upload(file, to, was ? { tag: was.tag } : "nothing", (progress) => (sent = progress.sent), this.stop);
      return { state: await this.#verified(path, file), bytes: sent };
    } catch (error) {
      if (error instanceof Taken || (error instanceof Problem && error.status === 412)) throw new Outdated();
      // A request whose file cannot be read looks like a lost connection.
      if (error instanceof Unreadable || (error instanceof Unreachable && reach.value.on)) throw new Outdated();
      throw error;
    }
  }

  /** Uploads a small file in place of the version `was`, by one request with other files that are uploaded at the same time. */
  async putSmall(path: string, file: File, was: FileState | undefined): Promise<Moved> {
    if (!isSmall(file)) return this.put(path, file, was);
    const sent = sendSmall(file, this.at(path), this.stop, was?.tag);
    sendWaiting();
    try {
      const { is, tag } = await sent;
      const state = tag === undefined ? await this.#verified(path, file) : { tag, bytes: file.size, modified: Math.floor(Date.now() / 1000) };
      return { state, bytes: is === "equal" ? 0 : file.size };
    } catch (error) {
      const isTaken = error instanceof Problem && error.status === 412;
      // An older server replaces no file by such a request.
      if (error instanceof NotBundled || (isTaken && was)) return this.put(path, file, was);
      if (isTaken || error instanceof Unreadable) throw new Outdated();
      throw error;
    }
  }

  /**
   * Returns the version there, if the version is the uploaded file. Another client may have replaced the file at once:
   * then the tag is empty, and the next plan sees a change there.
   */
  async #verified(path: string, file: File): Promise<FileState> {
    const there = await look(this.at(path), file.size <= QUICK_BYTES ? { sha256: true } : {});
    if (!there || there.bytes !== file.size) return { tag: "", bytes: file.size, modified: 0 };
    const state = { tag: there.tag ?? "", bytes: there.bytes, modified: there.modified };
    const isSame = there.modified === Math.floor(file.lastModified / 1000);
    if (isSame && file.size > QUICK_BYTES) return state;
    const sum = there.sha256 ?? (file.size <= DIGEST_BYTES ? (await look(this.at(path), { sha256: true }))?.sha256 : undefined);
    return sum !== undefined && sum === (await digestOf(file)) ? state : { ...state, tag: "" };
  }

  /**
   * Reads small files by one request, before `get` is called for each of them. Returns the contents by path, undefined
   * for a content that `get` must read by itself. No content rejects.
   */
  fetchSmall(files: ReadonlyMap<string, FileState>): Map<string, Promise<Fetched | undefined>> {
    const wanted = [...files].map(([path, { bytes }]) => ({ at: this.at(path), bytes }));
    const fetched = fetchSmall(wanted, this.stop);
    return new Map([...files.keys()].map((path, nth) => [path, fetched.then((contents) => contents[nth])]));
  }

  /**
   * Downloads the version `of` into the file `path` of this device, which is in the state `was`. `fetched` is the content
   * that `fetchSmall` has read.
   */
  async get(path: string, of: FileState, local: Local, was: FileState | undefined, fetched?: Promise<Fetched | undefined>): Promise<Moved & { there: FileState }> {
    if (was && was.bytes >= WHOLE_BYTES && of.bytes >= WHOLE_BYTES) return this.#pull(path, of, local, was);
    const small = await fetched;
    // A content of another version is read again: the plan may be older than the request.
    if (small?.tag === of.tag && small.content.byteLength === of.bytes) return { state: await local.write(path, small.content, was), bytes: of.bytes, there: of };
    const answer = await call(address("files", this.at(path)), { signal: this.stop });
    const tag = answer.headers.get("ETag") ?? "";
    const content = await contentOf(answer, of.bytes);
    // While a program writes the file, there is no tag, and the bytes may be of two versions.
    if (tag === "") throw new Outdated();
    const state = await local.write(path, content, was);
    const bytes = bytesOf(content);
    return { state, bytes, there: { ...of, tag, bytes } };
  }

  async #pull(path: string, of: FileState, local: Local, was: FileState): Promise<Moved & { there: FileState }> {
    const from = this.at(path);
    const old = (await local.expect(path, was))!;
    const staged = of.bytes <= MEMORY_BYTES ? of.bytes : `live-${crypto.randomUUID()}`;
    const storage = await navigator.storage.getDirectory();
    try {
      const end = await transfer({ is: "download", file: old, staged, ...way(from) }, () => undefined, this.stop);
      if (!end || "is" in end) throw refusal(end);
      // The plan has seen this version before the transfer. If it is there after the transfer too, it is what arrived.
      const isThat = async () => {
        if ((await look(from))?.tag !== of.tag) throw new Outdated();
      };
      if (!end.put) {
        await isThat();
        return { state: was, bytes: end.received, there: of };
      }
      const made = end.content ?? (await (await storage.getFileHandle(String(staged))).getFile());
      return { state: await local.write(path, made, was, isThat()), bytes: end.received, there: of };
    } finally {
      if (typeof staged === "string") await storage.removeEntry(staged).catch(() => undefined);
    }
  }

  async rename(from: string, to: string, was: FileState): Promise<FileState> {
    try {
      return { ...was, tag: (await move(this.at(from), this.at(to).path, was.tag)) ?? "" };
    } catch (error) {
      if (error instanceof Problem && (error.status === 412 || error.status === 404)) throw new Outdated();
      throw error;
    }
  }

  async remove(path: string, was: FileState | "d"): Promise<void> {
    try {
      await remove(this.at(path), was === "d" ? "*" : was.tag);
    } catch (error) {
      if (error instanceof Problem && (error.status === 412 || error.status === 404)) throw new Outdated();
      throw error;
    }
  }

  async make(path: string): Promise<void> {
    await makeFolder(this.at(path));
  }
}

/** Returns the folders of `paths` for which one list costs less than the looks. */
function dirsToList(paths: readonly string[], known: Tree): string[] {
  const looks = new Map<string, number>();
  for (const path of paths) looks.set(parent(path), (looks.get(parent(path)) ?? 0) + 1);
  const entries = new Map<string, number>();
  for (const path of known.keys()) if (looks.has(parent(path))) entries.set(parent(path), (entries.get(parent(path)) ?? 0) + 1);
  return [...looks].filter(([dir, count]) => count * ENTRIES_OF_LOOK > (entries.get(dir) ?? 0)).map(([dir]) => dir);
}

/** Reads an answer of at most `most` bytes. A longer one is another version, or the server does not tell the truth. */
async function contentOf(answer: Response, most: number): Promise<Content> {
  const told = answer.headers.get("Content-Length");
  if (Number(told ?? 0) > most) throw new Outdated();
  // The browser reads no more than the told length, unless the bytes that travel are coded.
  if (told !== null && !answer.headers.has("Content-Encoding")) return Number(told) < WHOLE_BYTES ? answer.arrayBuffer() : answer.blob();
  let bytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, out) {
      bytes += part.length;
      if (bytes > most) throw new Outdated();
      out.enqueue(part);
    },
  });
  const content = new Response(answer.body?.pipeThrough(counted) ?? null).blob();
  // Some browsers reject with an error of their own.
  return content.catch((error: unknown) => Promise.reject(bytes > most ? new Outdated() : error));
}

/** SHA-256 of a file in base64, or a text that equals no digest. */
export async function digestOf(file: File): Promise<string> {
  // `crypto.subtle` is missing if the page came neither by https nor from this machine.
  if (file.size > DIGEST_BYTES || !globalThis.crypto?.subtle) return "unknown here";
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return btoa(String.fromCharCode(...sum));
}

/** True for a name that can be a path of one part. A hostile server may list others. */
const isPlain = (name: string): boolean => name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);

function refusal(end: { is: string; why?: string; secs?: number } | undefined): Error {
  if (end?.is === "unreadable") return new Outdated();
  if (end?.is === "ended") return new Unreachable();
  return new Problem(end?.is === "busy" ? 503 : 0, end?.why ?? "", end?.secs);
}

/** Most entries of a synced folder. */
const MOST_ENTRIES = 1_000_000;
const QUICK_BYTES = 1 << 20;
/** Longest new version that is put together in memory. */
const MEMORY_BYTES = 24 << 20;
/** Most entries that are looked at one by one. */
const FEW = 8;
/** A look costs as much as a list of so many entries. */
const ENTRIES_OF_LOOK = 200;
/** Requests at once. Browsers open six connections to a server. */
const AT_ONCE = 4;
