import { TransferError, type Connection, type Files, type OpenFile, type Options, type Place, type Result } from "./engine.js";

export * from "./engine.js";

/** A new version in the origin's own storage. */
export interface Downloaded extends Result {
  /** The file of the server; `old` itself if `old` was up to date. */
  file: File;
  /** Removes the new version from the origin's storage. */
  discard(): Promise<void>;
}

/** A client of one server, for a Web Worker of a page. */
export interface PageClient {
  /**
   * Sends the data of `file` that the server lacks. The server's file is replaced in one step.
   * Rejects with `TransferError`, or with the reason of `options.signal`.
   */
  upload(file: File, place: Place, options?: Options): Promise<Result>;
  /** Fetches the data that the older version `old` lacks. Errors: as for `upload`. */
  download(place: Place, old?: File | null, options?: Options): Promise<Downloaded>;
  /** Closes all connections. Transfers that run fail. */
  close(): void;
}

/** Functions that fetch the modules. By default the modules are fetched from the package's folder `dist`. */
export interface Modules {
  push(): Promise<Response | ArrayBuffer>;
  pull(): Promise<Response | ArrayBuffer>;
}

/** Returns a client for the server at `url`. The client sends no request before the first transfer. */
export function open(server: { url: string; token: string; modules?: Modules }): PageClient;

/** A file in the origin's own storage. Calls block. */
export interface StagedFile {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
}

/** A transfer that failed because a file of the user changed, or cannot be read. */
export class UnreadableFile extends TransferError {
  constructor();
}

/** Files that the user chose, and files in the origin's own storage for new versions. */
export class BlobFiles implements Files {
  open(file: File): OpenFile;
  /** Opens a sync access handle for a new version. Returns the number of the file, for requests. */
  stage(access: StagedFile): number;
  close(file: number): void;
  /** Returns the reason why a transfer of this file failed: `error`, unless a read failed. */
  reason(file: number, error: unknown): unknown;
  read(file: number, at: number, into: Uint8Array): number;
  write(file: number, at: number, bytes: Uint8Array): number;
}

/**
 * Pulls a file into the file `staged` of the origin's own storage. If the result has `put`, the staged file is the new
 * version.
 */
export function pullStaged(
  connection: Connection,
  files: BlobFiles,
  request: Place & { staged: FileSystemFileHandle; old: File | null; version?: string | undefined },
  options?: Options,
): Promise<Result>;

/** A file in memory for a short new version. */
export class MemoryFile implements StagedFile {
  /** A file for about `len` bytes, and for at most `most` bytes. */
  constructor(len: number, most: number);
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(len: number): void;
  flush(): void;
  close(): void;
  /** The content, without a copy. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The content. */
  readonly blob: Blob;
}

/**
 * Pulls a file into `access`, as `pullStaged` does, and closes `access`. Of a `MemoryFile`, `changes` are the spans that
 * differ from the old version; undefined if half of the bytes or more differ.
 */
export function pullInto(
  connection: Connection,
  files: BlobFiles,
  request: Place & { access: MemoryFile | (StagedFile & { truncate(len: number): void; flush(): void; close(): void }); old: File | null; version?: string | undefined },
  options?: Options,
): Promise<Result & { changes?: { at: number; end: number }[] | undefined }>;
