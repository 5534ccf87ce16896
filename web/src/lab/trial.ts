/** Runs one trial: puts the old version at the server, syncs the new version, and proves the result. */
import { MemoryFiles } from "../../engine/src/memory.js";
import { address, look, type Place as FilePlace } from "../api/volumes";
import { root } from "../root";
import { token } from "../session";
import { way } from "../transfer/delta/engine";
import { trusted } from "../transfer/delta/client";
import { modules } from "../transfer/delta/modules";
import { plain } from "../transfer/plain";
import { OURS, placeOf, strategyOf, type Edit, type Trial } from "./experiment";
import { Watch } from "./meter";
import type { Result } from "./results";
import { Runner, type Cost, type Reader, type Sync, type Way } from "./runner";
import { removeFile } from "./scratch";
import script from "./worker?worker&url";
import type { Answer, Calls, Made } from "./worker";

/** True if this build has the engine. */
export const hasEngine = modules.upload !== undefined;

/** A trial whose page was hidden. Its times are worth nothing. */
export class Hidden extends Error {}

/** Runs trials one after the other. */
export class Bench {
  #worker: Worker;
  #own = new Runner(inMemory());
  #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  #last = 0;
  #made: { edit: Edit; files: Made } | undefined;
  #folder: FilePlace;
  #files = 0;
  #stop: AbortSignal;

  constructor(folder: FilePlace, stop: AbortSignal) {
    this.#folder = folder;
    this.#stop = stop;
    this.#worker = new Worker(trusted(script), { type: "module" });
    this.#worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      const call = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if ("error" in data) call?.reject(new Error(data.error));
      else call?.resolve(data.value as never);
    };
    const fail = (error: Error) => {
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
    this.#worker.onerror = () => fail(new Error("the worker of the lab failed"));
    stop.addEventListener("abort", () => {
      this.close();
      fail(stop.reason);
    });
  }

  async run(trial: Trial): Promise<Result> {
    const stop = this.#stop;
    const files = await this.#versions(trial);
    const at: FilePlace = { ...this.#folder, path: [...this.#folder.path, `${++this.#files}.bin`] };
    await plain.upload(files.old, at, "nothing", () => undefined, stop);
    stop.throwIfAborted();
    const begin = await this.#prepared(trial, files.edited, at);
    stop.throwIfAborted();
    await paused(QUIET_MS);
    const [startedAt, begun] = [Date.now(), performance.now()];
    const watch = new Watch();
    try {
      const cost = await begin();
      const ms = performance.now() - begun;
      const stagnation = await watch.end();
      stop.throwIfAborted();
      if (watch.wasHidden) throw new Hidden();
      const there = { address: new URL(address("files", at), root()).href, token: token.value ?? "" };
      const isEqual = await this.#call("isEqual", { file: files.edited, there });
      const { kind, length, bytes, repeat, system } = trial;
      return { kind, length, bytes, repeat, system, at: startedAt, ms, ...cost, ...stagnation, isEqual };
    } finally {
      watch.stop();
      if (!stop.aborted) await removeFile(at);
    }
  }

  /** Closes connections, and ends the worker. */
  close(): void {
    this.#worker.terminate();
    this.#own.close();
  }

  /** Makes the files of a trial. Trials of several systems share the files. */
  async #versions({ kind, length, bytes, repeat }: Trial): Promise<Made> {
    const made = this.#made?.edit;
    if (this.#made && made?.kind === kind && made.length === length && made.bytes === bytes && made.repeat === repeat) return this.#made.files;
    this.#made = undefined;
    const edit = { kind, length, bytes, repeat };
    const files = await this.#call("make", edit);
    this.#made = { edit, files };
    return files;
  }

  /** Opens connections, which are not measured. Returns a function that syncs. */
  async #prepared({ system }: Trial, file: File, at: FilePlace): Promise<() => Promise<Omit<Cost, "clientMs"> & Partial<Cost>>> {
    if (strategyOf(system) === "whole") {
      const tag = (await look(at))?.tag ?? "";
      return async () => {
        await plain.upload(file, at, { tag }, () => undefined, this.#stop);
        return { up: file.size, down: 0 };
      };
    }
    const { socket, token, volume, path } = way(at);
    const turnsMs = placeOf(system) === "main" ? Infinity : undefined;
    const to: Way = { module: new URL(modules.upload!, location.href).href, socket, token, turnsMs };
    const sync: Sync = { file, volume, path, strategy: strategyOf(system) === strategyOf(OURS) ? undefined : strategyOf(system) };
    if (placeOf(system) === "worker") {
      await this.#call("open", to);
      return () => this.#call("sync", sync);
    }
    await this.#own.open(to);
    return () => this.#own.sync(sync);
  }

  #call<K extends keyof Calls>(call: K, of: Parameters<Calls[K]>[0]): Promise<Awaited<ReturnType<Calls[K]>>> {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      // A worker that has ended does not answer.
      if (this.#stop.aborted) return reject(this.#stop.reason);
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call, of });
    });
  }
}

/** Reads whole files into memory, since reads cannot block in the page's own thread. */
function inMemory(): Reader {
  const files = new MemoryFiles();
  return { files, open: async (file) => files.open(new Uint8Array(await file.arrayBuffer()), file.lastModified) };
}

const paused = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Pause before each measured sync, so that the work for the old version is over. */
const QUIET_MS = 50;
