import type { Files, OpenFile } from "./engine.js";

/** Files in memory, by number, for the engine in any thread: no call blocks. */
export class MemoryFiles implements Files {
  /** Opens a file with these bytes. */
  open(bytes: Uint8Array, modified_ms: number): OpenFile;
  /** Opens an empty file for the new version of a pull. Returns the number of the file. */
  stage(): number;
  /** Returns the bytes of a file. */
  bytes(file: number): Uint8Array;
  close(file: number): void;
  read(file: number, at: number, into: Uint8Array): number;
  write(file: number, at: number, bytes: Uint8Array): number;
}
