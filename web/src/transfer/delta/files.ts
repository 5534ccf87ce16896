/** Files of the user for the engine, in a Web Worker: reads block. */
import type { Files } from "../../../engine/src/engine.js";

export interface OpenedFile {
  file: File;
  /** Runs before the first read; false means that no byte may be read. */
  permit: () => boolean;
}

// In workers alone; the compiler's declarations of workers and of pages exclude each other.
declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}
/** A file of the origin's own storage, which blocks. */
export interface StagedFile {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
}

/** Reads ahead of a scan. Other reads, such as those of new bytes, are short. */
const AHEAD_BYTES = 8 * 1024 * 1024;

export class UserFiles implements Files {
  #open = new Map<number, Reading>();
  #staged = new Map<number, StagedFile>();
  #last = 0;

  open(opened: OpenedFile): number {
    this.#open.set(++this.#last, new Reading(opened));
    return this.#last;
  }

  /** Opens a file that a new version is written to. */
  stage(file: StagedFile): number {
    this.#staged.set(++this.#last, file);
    return this.#last;
  }

  close(file: number): void {
    this.#open.delete(file);
    this.#staged.delete(file);
  }

  /** True if a read failed. */
  isUnreadable(file: number): boolean {
    return this.#open.get(file)?.isUnreadable ?? false;
  }

  read(file: number, at: number, into: Uint8Array): number {
    return this.#open.get(file)?.read(at, into) ?? this.#staged.get(file)?.read(into, { at }) ?? -1;
  }

  write(file: number, at: number, bytes: Uint8Array): number {
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
  #file: File;
  #permit: () => boolean;
  /** Bytes that were read ahead, and their offset. */
  #ahead = new Uint8Array();
  #from = 0;

  constructor({ file, permit }: OpenedFile) {
    this.#file = file;
    this.#permit = permit;
  }

  read(at: number, into: Uint8Array): number {
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
  #copy(at: number, into: Uint8Array): number {
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
  #slice(at: number, len: number): Uint8Array<ArrayBuffer> {
    const bytes = new FileReaderSync().readAsArrayBuffer(this.#file.slice(at, at + len));
    if (bytes.byteLength === 0) throw new Error("the file is shorter than it was");
    return new Uint8Array(bytes);
  }
}
