// Files of a page, for the engine in a Web Worker: reads block.
import { TransferError } from "./engine.js";
import { MemoryFile } from "./memory.js";

// A scan reads blocks ahead, while the engine works or greets the server. Parts of a block that is late are read at once.
const AHEAD_BYTES = 4 << 20;
const PART_BYTES = 512 << 10;
// Length of the pieces in which a new version is compared with the old one.
const PIECE_BYTES = 64 << 10;
// A file up to this length is one block, and is kept: a pull reads the file twice, once to find and once to copy.
const KEPT_BYTES = 24 << 20;

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

  /** Opens a `File`. */
  open(file) {
    this.#open.set(++this.#last, new Reading(file));
    return { file: this.#last, len: file.size, modified_ms: file.lastModified };
  }

  /** Opens a sync access handle, or a `MemoryFile`, that a new version is written to. */
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

  /** Returns the spans of `bytes` that differ from an open file; undefined if half of the bytes or more differ. */
  changes(file, bytes) {
    const old = new Uint8Array(PIECE_BYTES);
    const spans = [];
    let changed = 0;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const piece = bytes.subarray(at, at + PIECE_BYTES);
      const was = old.subarray(0, piece.length);
      if (this.read(file, at, was) === piece.length && isEqual(piece, was)) continue;
      const end = at + piece.length;
      changed += piece.length;
      if (spans.at(-1)?.end === at) spans.at(-1).end = end;
      else spans.push({ at, end });
    }
    return 2 * changed < bytes.length ? spans : undefined;
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

/** Compares bytes at offsets that are multiples of 4. */
function isEqual(one, other) {
  const words = (bytes) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  const [a, b] = [words(one), words(other)];
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  for (let i = one.length & ~3; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

/** Reads all of a blob, into the memory of an earlier block if there is one: the browser collects memory late. */
async function filled(blob, spare) {
  let reader;
  try {
    reader = blob.stream().getReader({ mode: "byob" });
  } catch {
    // The streams of this browser bring memory of their own.
    return new Uint8Array(await blob.arrayBuffer());
  }
  let buffer = spare ?? new ArrayBuffer(blob.size < AHEAD_BYTES / 2 ? blob.size : Math.max(blob.size, AHEAD_BYTES));
  let got = 0;
  while (got < blob.size) {
    const { value, done } = await reader.read(new Uint8Array(buffer, got, blob.size - got));
    if (done) break;
    buffer = value.buffer;
    got += value.length;
  }
  return new Uint8Array(buffer, 0, got);
}

class Reading {
  isUnreadable = false;
  #file;
  /**
   * Blocks of the file that a scan has reached: the last one, and the one before, for reads that follow the scan. Of a
   * short file all blocks.
   */
  #blocks = [];
  /** Offset at which the scan goes on. */
  #end = 0;
  /** The block that is being read, while the engine works on earlier blocks. */
  #next;
  /** Memory of a block that is no longer needed. */
  #spare;

  constructor(file) {
    this.#file = file;
    this.#next = this.#begin(0);
  }

  read(at, into) {
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
    if (at === this.#end) this.#scan();
    const block = this.#blocks.find(({ from, bytes }) => at >= from && at < from + bytes.length);
    const found = block ? block.bytes.subarray(at - block.from) : this.#slice(at, into.length);
    const some = found.subarray(0, into.length);
    into.set(some);
    return some.length;
  }

  /** Moves the scan on by a block, and begins to read the next block. */
  #scan() {
    const from = this.#end;
    const next = this.#next;
    // A block that has not arrived is read in parts meanwhile, so that the engine does not wait for the whole block.
    const bytes = next?.bytes?.subarray(from - next.from) ?? this.#slice(from, Math.min(PART_BYTES, (next?.end ?? Infinity) - from));
    const [last, old] = this.#blocks;
    const isKept = this.#file.size <= KEPT_BYTES;
    this.#blocks = [{ from, bytes }, ...(isKept ? this.#blocks : last ? [last] : [])];
    if (!isKept && old?.bytes.buffer.byteLength === AHEAD_BYTES) this.#spare = old.bytes.buffer;
    this.#end = from + bytes.length;
    if (!next || this.#end >= next.end) this.#next = this.#begin(this.#end);
  }

  /** Begins to read a block. */
  #begin(from) {
    const { size } = this.#file;
    const end = size <= KEPT_BYTES ? size : Math.min(from + AHEAD_BYTES, size);
    if (from >= end) return undefined;
    const block = { from, end, bytes: undefined };
    const bytes = filled(this.#file.slice(from, end), this.#spare);
    this.#spare = undefined;
    // A block that cannot be read, or never arrives, is read again in parts by the scan.
    bytes.then((bytes) => bytes.length === end - from && (block.bytes = bytes), () => undefined);
    return block;
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
export async function pullStaged(connection, files, { staged, ...request }, options) {
  return pullInto(connection, files, { access: await staged.createSyncAccessHandle(), ...request }, options);
}

/**
 * Does the same into an open sync access handle, or into a `MemoryFile`, and closes it. Of a `MemoryFile` the result has
 * the spans that differ from the old version, as `changes`.
 */
export async function pullInto(connection, files, { access, old, ...place }, options) {
  const number = files.stage(access);
  const opened = old ? files.open(old) : null;
  try {
    const result = await connection.pull({ ...place, staged: number, old: opened }, options);
    if (result.put) access.truncate(result.put.len);
    access.flush();
    if (result.put && opened && access instanceof MemoryFile) return { ...result, changes: files.changes(opened.file, access.bytes) };
    return result;
  } catch (error) {
    throw files.reason(opened?.file, error);
  } finally {
    if (opened) files.close(opened.file);
    files.close(number);
    access.close();
  }
}
