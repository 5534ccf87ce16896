// Files of a Node program, for the engine.
import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";

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
