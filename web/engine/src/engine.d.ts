/** Reads and writes open files by number. Calls block. */
export interface Files {
  /** Fills `into` from offset `at`. Returns the number of bytes, less only at the end; -1 if the file changed. */
  read(file: number, at: number, into: Uint8Array): number;
  /** Writes all of `bytes` at offset `at`. Returns 0, or -1 if there is no room. */
  write(file: number, at: number, bytes: Uint8Array): number;
}

/** A file of the user. */
export interface OpenFile {
  file: number;
  /** Length in bytes. */
  len: number;
  /** Modification time in milliseconds since 1970, an integer. */
  modified_ms: number;
}

export interface Place {
  volume: string;
  /** Path of the file in the volume. */
  path: string;
}

export interface Method {
  /** Name of the strategy, as in `deltic sync --strategy`; by default `deltic`. */
  strategy?: string;
}

export interface Progress {
  channel: number;
  /** Bytes of the file that are up to date, matched or sent. */
  settled: number;
  /** Length of the file. */
  of: number;
  /** Bytes over the connection. */
  sent: number;
  received: number;
}

export interface Result {
  channel: number;
  /** The new version in the staged file of a pull; null if the user's file is up to date. */
  put: { len: number; modified_ms: number } | null;
  /** 1 if the content changed. */
  changed: number;
  failed: number;
  /** Bytes of the new version: sent (`literal`), and already at the other end (`matched`). */
  literal: number;
  matched: number;
  /** Bytes over the connection. */
  sent: number;
  received: number;
  /** Weak sums, and strong sums and fingerprints, that this end compared. */
  weak: number;
  strong: number;
  /** Warnings. */
  troubles: string[];
}

export interface Options {
  onprogress?: (progress: Progress) => void;
  signal?: AbortSignal;
}

export class Engine {
  static load(source: Response | BufferSource | WebAssembly.Module, files: Files): Promise<Engine>;
  /**
   * `turnsMs` is the longest time in which the engine works without a pause for other code of the thread. With `Infinity`
   * the engine works until it waits for the server.
   */
  connect(url: string, token: string, options?: { turnsMs?: number }): Promise<Connection>;
  /** Returns the plan for a synced folder; only a module with `pull` has the function. */
  reconcile(request: string): unknown;
  readonly memoryBytes: number;
}

export class TransferError extends Error {
  constructor(message: string, retrySecs?: number, isEnd?: boolean);
  /** Seconds after which another attempt may succeed. */
  readonly retrySecs?: number;
  /** True if the connection ended. */
  readonly isEnd: boolean;
}

/** Events: `go_away`, `busy` (with `detail.secs`), `end`. */
export class Connection extends EventTarget {
  /** `version` is empty by plain HTTP. */
  readonly server?: { version: string; channels: number };
  /** True without a WebSocket. */
  readonly isPlain: boolean;
  /** Milliseconds in which the engine worked for this connection, reads of files included. */
  readonly busyMs: number;
  push(request: Place & OpenFile & Method & { on_request?: boolean; replaces?: string }, options?: Options): Promise<Result>;
  append(request: Place & OpenFile & { begins: number }, options?: Options): Promise<Result>;
  pull(request: Place & Method & { staged: number; old: OpenFile | null; version?: string }, options?: Options): Promise<Result>;
  /** Most bytes a second that this end sends; 0 for no limit. */
  set rate(bytes: number);
  close(): void;
}
