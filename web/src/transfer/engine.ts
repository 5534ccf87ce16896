/**
 * How one file moves. `plain.ts` moves whole files by HTTP; the delta engine in wasm will stand beside it.
 *
 * An engine knows neither the queue nor the screen. It never decides about a conflict: a write names the version that
 * it may replace, and is rejected with `Taken` if another one is there.
 */
import type { Place, Version } from "../api/volumes";

/** The version that an upload may replace: no version, or the version with this entity tag. */
export type Base = "nothing" | { tag: string };

export type Stage = "reading" | "matching" | "sending" | "writing";

/** Where a transfer stands. Bytes of the file are kept, moved or new; only new ones are sent. */
export interface Progress {
  stage: Stage;
  bytes: number;
  kept: number;
  moved: number;
  /** New bytes found so far. */
  fresh: number;
  /** New bytes that have left. */
  sent: number;
}

export interface Engine {
  /** Resolves when the file is in place and on the server's disk. */
  upload(file: File, to: Place, base: Base, on: (progress: Progress) => void, stop: AbortSignal): Promise<void>;

  /** Brings a file to this device. The plain engine hands it to the browser's own downloads. */
  download(from: Place, on: (progress: Progress) => void, stop: AbortSignal): Promise<void>;
}

/** The reason with which an upload is stopped for good: what has arrived is not wanted any more. */
export const CANCELLED = new DOMException("cancelled", "AbortError");

/** The place does not have the base of an upload. */
export class Taken extends Error {
  constructor(readonly there: Version | undefined) {
    super("another version is there");
    this.name = "Taken";
  }
}

/** The file on this device cannot be read, or changed while it was. */
export class Unreadable extends Error {
  constructor() {
    super("the file cannot be read");
    this.name = "Unreadable";
  }
}
