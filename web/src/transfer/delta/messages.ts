/** Messages between the page and the worker of the delta engine. */
import type { Result } from "../../../engine/src/engine.js";

/** A request about a file of the server. */
interface Request {
  id: number;
  /** Address of the engine's module for this kind of request. */
  module: string;
  volume: string;
  /** Path of the file in the volume. */
  path: string;
  /** Address of the server's WebSocket; without WebSockets the engine uses plain HTTP to the same server. */
  socket: string;
  token: string;
}

export interface Upload extends Request {
  is: "upload";
  /** The new version. */
  file: File;
  /** Entity tag of the version that the upload may replace, without quotes; empty if the upload may only create the file. */
  replaces: string;
  /** Length of the version that the upload replaces, if that version is the beginning of the file. */
  begins: number | undefined;
}

export interface Download extends Request {
  is: "download";
  /** The old version. */
  file: File;
  /** Name of an old version at the server, which comes in place of the present version. */
  version?: string | undefined;
  /**
   * Name in the origin's storage of the file that gets the new version; or the length of the new version, as far as the
   * page knows it, if the new version is short and comes with the answer.
   */
  staged: string | number;
}

/**
 * A request to remove the bytes of a cancelled upload at the server. The worker answers with the failure `unreadable`.
 */
export interface Discard extends Request {
  is: "discard";
  /** Length of the new version. */
  bytes: number;
  /** Modification time of the new version, in milliseconds since 1970. */
  modified: number;
}

/** A request for the plan of a synced folder (`live/plan.ts`). */
export interface Planning {
  is: "plan";
  id: number;
  module: string;
  /** The request in JSON. */
  request: string;
}

/** A request for the contents of files, one after the other. */
export interface Reading {
  is: "read";
  id: number;
  files: readonly File[];
}

export type ToWorker =
  | Reading
  | Upload
  | Download
  | Discard
  | Planning
  | { is: "stop"; id: number }
  /** Most bytes a second from now on; 0 for no limit. */
  | { is: "rate"; bytes: number }
  /** Closes all connections, because the network changed. */
  | { is: "disconnect" };

/** A new version as changes of the old version: the version's length, and bytes for some of its places. */
export interface Patch {
  bytes: number;
  parts: { at: number; data: Uint8Array<ArrayBuffer> }[];
}

/** Progress: `settled` counts bytes of the file that the server has; `sent` counts bytes on the wire. */
export interface Report {
  settled: number;
  sent: number;
}

export type Failure =
  /** The file on this device changed, or cannot be read. */
  | { is: "unreadable" }
  /** The connection ended. */
  | { is: "ended" }
  /** There is no WebSocket, and plain HTTP carries a whole file in longer bodies. */
  | { is: "plain" }
  /** The server asks for another attempt later. */
  | { is: "busy"; secs: number; why: string }
  /** The server refused the transfer. */
  | { is: "refused"; why: string }
  /** The engine failed. */
  | { is: "other"; why: string };

export type FromWorker =
  | ({ is: "progress"; id: number } & Report)
  | { is: "done"; id: number; result: Result; content?: Blob | Patch }
  | { is: "answer"; id: number; value: unknown }
  | { is: "failed"; id: number; failure: Failure };
