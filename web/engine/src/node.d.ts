import type { Files, OpenFile, Options, Place, Result } from "./engine.js";

export * from "./engine.js";

/** A client of one server, for a program of Node or Deno. */
export interface NodeClient {
  /**
   * Sends the data of the file at `path` that the server lacks. The server's file is replaced in one step.
   * Rejects with `TransferError`, with the reason of `options.signal`, or with an error of the file system.
   */
  upload(path: string, place: Place, options?: Options): Promise<Result>;
  /**
   * Fetches the data that the file at `path` lacks, or the whole file if no file is there. The file at `path` is at
   * every instant the old or the new version. Errors: as for `upload`.
   */
  download(place: Place, path: string, options?: Options): Promise<Result>;
  /** Closes all connections. Transfers that run fail. */
  close(): void;
}

/** Returns a client for the server at `url`. The client sends no request before the first transfer. */
export function open(server: { url: string; token: string }): NodeClient;

/** Open files, each with the length and the modification time at opening. */
export class NodeFiles implements Files {
  /** Opens a file. `flags` are the flags of `fs.open`. */
  open(path: string, flags?: string): OpenFile;
  close(file: number): void;
  read(file: number, at: number, into: Uint8Array): number;
  write(file: number, at: number, bytes: Uint8Array): number;
}
