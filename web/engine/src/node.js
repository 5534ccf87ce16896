// Delta sync for programs of Node and Deno.
import { closeSync, fchmodSync, fstatSync, fsyncSync, ftruncateSync, futimesSync, openSync, readSync, writeSync } from "node:fs";
import { readFile, realpath, rename, rm, stat } from "node:fs/promises";

import { Client } from "./client.js";
import { TransferError } from "./engine.js";

export { Connection, Engine, TransferError } from "./engine.js";

/** Returns a client for the server at `url`. Nothing is sent before the first transfer. */
export function open({ url, token }) {
  return new NodeClient({ url, token });
}

class NodeClient {
  #files = new NodeFiles();
  #client;

  constructor({ url, token }) {
    const load = (end) => readFile(new URL(`../dist/${end}.wasm`, import.meta.url));
    this.#client = new Client({ url, token, files: this.#files, load });
  }

  async upload(path, place, options) {
    const opened = this.#files.open(path);
    try {
      return await (await this.#client.connect("push")).push({ ...place, ...opened }, options);
    } finally {
      this.#files.close(opened.file);
    }
  }

  /** The file at `path` is at every instant the old or the new version. */
  async download(place, path, options) {
    // A symlink stays; the file that the symlink names is replaced.
    const target = await realpath(path).catch(() => path);
    const before = await stat(target).catch(() => undefined);
    if (before && !before.isFile()) throw new TransferError(`${path} is not a regular file`);
    const connection = await this.#client.connect("pull");
    const part = `${target}.${crypto.randomUUID()}.part`;
    const staged = this.#files.open(part, "wx+");
    const old = before ? this.#files.open(target) : null;
    try {
      const result = await connection.pull({ ...place, staged: staged.file, old }, options);
      if (result.put) await this.#put(result.put, { staged, part, target, before });
      return result;
    } finally {
      if (old) this.#files.close(old.file);
      this.#files.close(staged.file);
      await rm(part, { force: true });
    }
  }

  async #put({ len, modified_ms }, { staged, part, target, before }) {
    const { file } = staged;
    ftruncateSync(file, len);
    if (before) fchmodSync(file, before.mode & 0o777);
    // A microsecond more, since Node rounds seconds down.
    const modified = modified_ms / 1000 + 1e-6;
    futimesSync(file, modified, modified);
    fsyncSync(file);
    const now = await stat(target).catch(() => undefined);
    const isSame = now?.ino === before?.ino && now?.size === before?.size && now?.mtimeMs === before?.mtimeMs;
    if (!isSame) throw new TransferError(`${target} changed during the download`);
    await rename(part, target);
  }

  close() {
    this.#client.close();
  }
}

/** Open files, each with the length and the time at which it was opened. */
export class NodeFiles {
  #open = new Map();

  /** Opens a file. Returns `{ file, len, modified_ms }`, as requests take it. */
  open(path, flags = "r") {
    const file = openSync(path, flags);
    const { size, mtimeMs } = fstatSync(file);
    this.#open.set(file, flags === "r" ? { size, mtimeMs } : null);
    return { file, len: size, modified_ms: Math.floor(mtimeMs) };
  }

  close(file) {
    this.#open.delete(file);
    closeSync(file);
  }

  read(file, at, into) {
    try {
      let got = 0;
      while (got < into.length) {
        const more = readSync(file, into, got, into.length - got, at + got);
        if (more === 0) break;
        got += more;
      }
      return this.#isUnchanged(file) ? got : -1;
    } catch {
      return -1;
    }
  }

  write(file, at, bytes) {
    try {
      let done = 0;
      while (done < bytes.length) done += writeSync(file, bytes, done, bytes.length - done, at + done);
      return 0;
    } catch {
      return -1;
    }
  }

  /** A browser refuses to read a file that changed since it was chosen; here the time and the length tell. */
  #isUnchanged(file) {
    const opened = this.#open.get(file);
    if (!opened) return this.#open.has(file);
    const { size, mtimeMs } = fstatSync(file);
    return size === opened.size && mtimeMs === opened.mtimeMs;
  }
}
