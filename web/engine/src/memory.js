// Files in memory.

/** A file in memory with the calls of a sync access handle: a short new version needs no file of the origin's storage. */
export class MemoryFile {
  #bytes;
  #len = 0;
  #most;

  /** A file for about `len` bytes, and for at most `most` bytes. */
  constructor(len, most) {
    this.#bytes = new Uint8Array(Math.min(len, most));
    this.#most = most;
  }

  /** Returns a file of any length that has these bytes, without a copy. */
  static of(bytes) {
    const file = new MemoryFile(0, Infinity);
    file.#bytes = bytes;
    file.#len = bytes.length;
    return file;
  }

  read(into, { at }) {
    const some = this.bytes.subarray(at, at + into.length);
    into.set(some);
    return some.length;
  }

  /** Returns the number of written bytes, which is 0 if the file would be too long. */
  write(bytes, { at }) {
    const end = at + bytes.length;
    if (end > this.#most) return 0;
    this.#hold(end);
    this.#bytes.set(bytes, at);
    this.#len = Math.max(this.#len, end);
    return bytes.length;
  }

  /** A new version that ends in zeros ends behind the last write. */
  truncate(len) {
    this.#hold(len);
    this.#bytes.fill(0, len);
    this.#len = len;
  }

  #hold(len) {
    if (len <= this.#bytes.length) return;
    const longer = new Uint8Array(Math.max(len, Math.min(2 * this.#bytes.length, this.#most)));
    longer.set(this.#bytes);
    this.#bytes = longer;
  }

  flush() {}

  close() {}

  /** The content, without a copy. */
  get bytes() {
    return this.#bytes.subarray(0, this.#len);
  }

  /** The content. */
  get blob() {
    return new Blob([this.bytes]);
  }
}

/** Files in memory, by number, for the engine in any thread: no read blocks. */
export class MemoryFiles {
  #open = new Map();
  #last = 0;

  /** Opens a file with these bytes. Returns `{ file, len, modified_ms }`, as requests take it. */
  open(bytes, modified_ms) {
    this.#open.set(++this.#last, MemoryFile.of(bytes));
    return { file: this.#last, len: bytes.length, modified_ms };
  }

  /** Opens an empty file that a new version is written to. Returns the number of the file. */
  stage() {
    return this.open(new Uint8Array(), 0).file;
  }

  /** Returns the bytes that were written to a file. */
  bytes(file) {
    return this.#open.get(file).bytes;
  }

  close(file) {
    this.#open.delete(file);
  }

  read(file, at, into) {
    return this.#open.get(file).read(into, { at });
  }

  write(file, at, bytes) {
    this.#open.get(file).write(bytes, { at });
    return 0;
  }
}
