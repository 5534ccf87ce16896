// Files in memory, for the engine in any thread: no read blocks.

/** Files in memory, by number. */
export class MemoryFiles {
  #open = new Map();
  #last = 0;

  /** Opens a file with these bytes. Returns `{ file, len, modified_ms }`, as requests take it. */
  open(bytes, modified_ms) {
    this.#open.set(++this.#last, { bytes, len: bytes.length });
    return { file: this.#last, len: bytes.length, modified_ms };
  }

  /** Opens an empty file that a new version is written to. Returns the number of the file. */
  stage() {
    return this.open(new Uint8Array(), 0).file;
  }

  /** Returns the bytes that were written to a file. */
  bytes(file) {
    const { bytes, len } = this.#open.get(file);
    return bytes.subarray(0, len);
  }

  close(file) {
    this.#open.delete(file);
  }

  read(file, at, into) {
    const some = this.bytes(file).subarray(at, at + into.length);
    into.set(some);
    return some.length;
  }

  write(file, at, bytes) {
    const open = this.#open.get(file);
    const end = at + bytes.length;
    if (end > open.bytes.length) {
      const larger = new Uint8Array(Math.max(end, 2 * open.bytes.length));
      larger.set(open.bytes);
      open.bytes = larger;
    }
    open.bytes.set(bytes, at);
    open.len = Math.max(open.len, end);
    return 0;
  }
}
