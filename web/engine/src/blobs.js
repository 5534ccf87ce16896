// Files of a page, for the engine in a Web Worker: reads block.
import { TransferError } from "./engine.js";

// Reads ahead of a scan. Other reads, such as those of new bytes, are short.
const AHEAD_BYTES = 8 * 1024 * 1024;

/** A transfer that failed because a file of the user changed, or cannot be read. */
export class UnreadableFile extends TransferError {
  constructor() {
    super("the file changed, or cannot be read");
    this.name = "UnreadableFile";
  }
}

/** Files that the user chose, and files of the origin's own storage that new versions are written to. */
export class BlobFiles {
  #open = new Map();
  #staged = new Map();
  #last = 0;

  /** Opens a `File`. `permit` runs before the first read; false means that no byte may be read. */
  open(file, permit = () => true) {
    this.#open.set(++this.#last, new Reading(file, permit));
    return { file: this.#last, len: file.size, modified_ms: file.lastModified };
  }

  /** Opens a sync access handle that a new version is written to. */
  stage(access) {
    this.#staged.set(++this.#last, access);
    return this.#last;
  }

  close(file) {
    this.#open.delete(file);
    this.#staged.delete(file);
  }

  /** Returns the reason why a transfer of this file failed: `error`, unless a read failed. */
  reason(file, error) {
    return this.#open.get(file)?.isUnreadable ? new UnreadableFile() : error;
  }

  read(file, at, into) {
    return this.#open.get(file)?.read(at, into) ?? this.#staged.get(file)?.read(into, { at }) ?? -1;
  }

  write(file, at, bytes) {
    try {
      // The storage of the origin may be full.
      return this.#staged.get(file)?.write(bytes, { at }) === bytes.length ? 0 : -1;
    } catch {
      return -1;
    }
  }
}

class Reading {
  isUnreadable = false;
  #isPermitted = false;
  #file;
  #permit;
  /** Bytes that were read ahead, and their offset. */
  #ahead = new Uint8Array();
  #from = 0;

  constructor(file, permit) {
    this.#file = file;
    this.#permit = permit;
  }

  read(at, into) {
    this.#isPermitted ||= this.#permit();
    if (!this.#isPermitted) return -1;
    try {
      let got = 0;
      while (got < into.length && at + got < this.#file.size) got += this.#copy(at + got, into.subarray(got));
      return got;
    } catch {
      this.isUnreadable = true;
      return -1;
    }
  }

  /** Copies some bytes from offset `at` into a place. Returns their number, at least 1. */
  #copy(at, into) {
    if (at === this.#from + this.#ahead.length) {
      this.#ahead = this.#slice(at, AHEAD_BYTES);
      this.#from = at;
    }
    const isAhead = at >= this.#from && at < this.#from + this.#ahead.length;
    const found = isAhead ? this.#ahead.subarray(at - this.#from) : this.#slice(at, into.length);
    const some = found.subarray(0, into.length);
    into.set(some);
    return some.length;
  }

  /** Reads at most `len` bytes. Throws if the file changed since the user chose it. */
  #slice(at, len) {
    const bytes = new FileReaderSync().readAsArrayBuffer(this.#file.slice(at, at + len));
    if (bytes.byteLength === 0) throw new Error("the file is shorter than it was");
    return new Uint8Array(bytes);
  }
}

/**
 * Pulls a file into the file `staged` of the origin's own storage: `{ volume, path, staged: handle, old: File | null }`.
 * If the result has `put`, the staged file is the new version.
 */
export async function pullStaged(connection, files, { staged, old, ...place }, options) {
  const access = await staged.createSyncAccessHandle();
  const number = files.stage(access);
  const opened = old ? files.open(old) : null;
  try {
    const result = await connection.pull({ ...place, staged: number, old: opened }, options);
    if (result.put) access.truncate(result.put.len);
    access.flush();
    return result;
  } catch (error) {
    throw files.reason(opened?.file, error);
  } finally {
    if (opened) files.close(opened.file);
    files.close(number);
    access.close();
  }
}
