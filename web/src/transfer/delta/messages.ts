/** Messages between the page and the worker of the delta engine. */
import type { Result } from "../../../engine/src/engine.js";

/** A transfer of one file. */
interface Request {
  id: number;
  /** Address of the engine's module for this kind of transfer. */
  module: string;
  /** The user's version: the new one of an upload, the old one of a download. */
  file: File;
  volume: string;
  /** Path of the file in the volume. */
  path: string;
  /** Address of the server's WebSocket; without WebSockets the engine uses plain HTTP to the same server. */
  socket: string;
  token: string;
}

export interface Upload extends Request {
  is: "upload";
  /** Address of the file by plain HTTP, at which the worker asks for the version that is there. */
  address: string;
  /** Entity tag of the only version that the upload may replace; undefined if it may replace none. */
  tag: string | undefined;
}

export interface Download extends Request {
  is: "download";
  /** Name in the origin's storage of the file that gets the new version. */
  staged: string;
}

export type ToWorker =
  | Upload
  | Download
  | { is: "stop"; id: number }
  /** Most bytes a second from now on; 0 for no limit. */
  | { is: "rate"; bytes: number }
  /** Ends all connections: the network is another one now. */
  | { is: "disconnect" };

/** Bytes of the file are settled once the server has them; `sent` counts the bytes on the wire. */
export interface Report {
  settled: number;
  sent: number;
}

export type Failure =
  /** Another version is at the server, or none. */
  | { is: "taken" }
  /** The file on this device changed, or cannot be read. */
  | { is: "unreadable" }
  /** The connection ended. */
  | { is: "ended" }
  /** There is no WebSocket, and plain HTTP carries a whole file in longer bodies. */
  | { is: "plain" }
  /** The server asks for another attempt later. */
  | { is: "busy"; secs: number; why: string }
  | { is: "other"; why: string };

export type FromWorker =
  | ({ is: "progress"; id: number } & Report)
  | { is: "done"; id: number; result: Result }
  | { is: "failed"; id: number; failure: Failure };
