/** Syncs a file by the engine, in this thread: the page's own, or that of a worker. */
import { Engine, type Connection, type Files, type OpenFile } from "../../engine/src/engine.js";

/** Files that this thread can read, and a function that opens a file of the user. */
export interface Reader {
  files: Files & { close(file: number): void };
  open(file: File): OpenFile | Promise<OpenFile>;
}

/** A way to the server, and the module of the engine. */
export interface Way {
  module: string;
  socket: string;
  token: string;
  /** Longest time of turns of the engine in a row, in ms; undefined for the engine's own limit. */
  turnsMs?: number | undefined;
}

/** A request to sync a file. */
export interface Sync {
  file: File;
  volume: string;
  path: string;
  /** Undefined for the default. */
  strategy: string | undefined;
}

/** The cost of a sync, beside the time. */
export interface Cost {
  /** Time in which the engine worked, in ms. */
  clientMs: number;
  up: number;
  down: number;
}

export class Runner {
  #reader: Reader;
  #engines = new Map<string, Promise<Engine>>();
  #connection: Connection | undefined;

  constructor(reader: Reader) {
    this.#reader = reader;
  }

  /** Loads the engine if needed, and opens a connection in place of the last one. */
  async open({ module, socket, token, turnsMs }: Way): Promise<void> {
    this.close();
    const engine = this.#engines.get(module) ?? fetch(module).then((response) => Engine.load(response, this.#reader.files));
    this.#engines.set(module, engine);
    engine.catch(() => this.#engines.delete(module));
    this.#connection = await (await engine).connect(socket, token, turnsMs === undefined ? {} : { turnsMs });
  }

  /** Syncs a file over the open connection. The cost has the first read of the file. */
  async sync({ file, volume, path, strategy }: Sync): Promise<Cost> {
    const connection = this.#connection;
    if (!connection) throw new Error("no connection is open");
    const begun = performance.now();
    const opened = await this.#reader.open(file);
    const read = performance.now() - begun;
    try {
      const before = connection.busyMs;
      const request = { volume, path, ...opened, on_request: true, ...(strategy === undefined ? {} : { strategy }) };
      const { sent, received } = await connection.push(request);
      return { clientMs: read + connection.busyMs - before, up: sent, down: received };
    } finally {
      this.#reader.files.close(opened.file);
    }
  }

  /** Closes the connection. A running sync fails. */
  close(): void {
    this.#connection?.close();
    this.#connection = undefined;
  }
}
