/**
 * The interface of an engine, which transfers a file. `plain.ts` transfers whole files by HTTP; `delta/engine.ts` sends
 * only the data that the server lacks.
 *
 * An engine knows neither the queue nor the screen, and never decides about a conflict. A write names the version to
 * replace, and is rejected with `Taken` if the server has another version.
 */
import type { Place, Version } from "../api/volumes";

/** The version that an upload may replace: no version, or the version with this entity tag. */
export type Base = "nothing" | { tag: string; bytes?: number; sha256?: string | undefined };

export type Stage = "reading" | "matching" | "sending" | "writing";

/** Progress of a transfer. Bytes of the file are kept, moved or new; only new bytes are sent. */
export interface Progress {
  stage: Stage;
  bytes: number;
  kept: number;
  moved: number;
  /** New bytes found so far. */
  fresh: number;
  /** New bytes sent so far. */
  sent: number;
}

export interface Engine {
  /** Resolves when the file is in place and on the server's disk. */
  upload(file: File, to: Place, base: Base, on: (progress: Progress) => void, stop: AbortSignal): Promise<void>;

  /** Downloads a file to this device. The plain engine hands the download to the browser. */
  download(from: Place, on: (progress: Progress) => void, stop: AbortSignal): Promise<void>;
}

/** The abort reason of a cancelled upload: the bytes that arrived are discarded. */
export const CANCELLED = new DOMException("cancelled", "AbortError");

/** The server's version is not the base of the upload. */
export class Taken extends Error {
  constructor(readonly there: Version | undefined) {
    super("another version is there");
    this.name = "Taken";
  }
}

/** The file on this device cannot be read, or changed during the read. */
export class Unreadable extends Error {
  constructor() {
    super("the file cannot be read");
    this.name = "Unreadable";
  }
}
