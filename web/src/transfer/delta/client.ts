/** The page's end of the worker that runs the delta engine. */
import type { Result } from "../../../engine/src/engine.js";
import type { Discard, Download, Failure, FromWorker, Patch, Report, ToWorker, Upload } from "./messages";
import { effect } from "@preact/signals";
import { pace } from "../rate";
import { modules } from "./modules";
import script from "./worker?worker&url";

interface Running {
  on: (report: Report) => void;
  end: (end: Ended | Failure) => void;
}

/** The result of a transfer, with the content of a new version that came into memory. */
type Ended = Result & { content?: Blob | Patch };

const running = new Map<number, Running>();
let ids = 0;
let worker: Worker | undefined;

/** True if this build can download by deltas. */
export const canDownload = modules.download !== undefined;

/** Runs a transfer. Returns the result or the failure; undefined if this browser or build has no engine. */
export function transfer(
  request: Omit<Upload, "id" | "module"> | Omit<Download, "id" | "module"> | Omit<Discard, "id" | "module">,
  on: (report: Report) => void,
  stop: AbortSignal,
): Promise<Ended | Failure | undefined> {
  if (stop.aborted) return Promise.reject(stop.reason);
  const module = request.is === "download" ? modules.download : modules.upload;
  const to = module === undefined ? undefined : start();
  if (!to || module === undefined) return Promise.resolve(undefined);
  const id = ++ids;
  return new Promise((resolve, reject) => {
    const abort = () => {
      running.delete(id);
      tell(to, { is: "stop", id });
      reject(stop.reason);
    };
    stop.addEventListener("abort", abort, { once: true });
    const end = (end: Ended | Failure) => {
      stop.removeEventListener("abort", abort);
      running.delete(id);
      resolve(end);
    };
    running.set(id, { on, end });
    tell(to, { id, module: new URL(module, location.href).href, ...request });
  });
}

/** Asks the engine for the plan of a synced folder, by a request in JSON. Rejects if this browser or build has no engine. */
export function plan(request: string): Promise<unknown> {
  const module = modules.download;
  const to = module === undefined ? undefined : start();
  if (!to || module === undefined) return Promise.reject(new Error("this page has no engine"));
  return ask(to, (id) => ({ is: "plan", id, module: new URL(module, location.href).href, request }));
}

/**
 * Returns the contents of files, one after the other. The worker reads them: for each read of files, the browser keeps
 * the thread waiting that asks for the read.
 */
export function read(files: readonly File[]): Promise<ArrayBuffer> {
  const to = start();
  if (!to) return new Blob([...files]).arrayBuffer();
  return ask(to, (id) => ({ is: "read", id, files })) as Promise<ArrayBuffer>;
}

function ask(to: Worker, question: (id: number) => ToWorker): Promise<unknown> {
  const id = ++ids;
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject });
    tell(to, question(id));
  });
}

/** Questions without an answer. */
const asked = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();

effect(() => {
  const bytes = pace.value;
  if (worker) tell(worker, { is: "rate", bytes });
});

/** Closes the connections of the engine. Running uploads then resume on a new connection. */
export function disconnect(): void {
  if (worker) tell(worker, { is: "disconnect" });
}

/** Returns the worker, and starts the worker if needed; undefined in a browser without workers. */
function start(): Worker | undefined {
  if (worker) return worker;
  try {
    worker = new Worker(trusted(script), { type: "module" });
  } catch {
    return undefined;
  }
  worker.onmessage = ({ data }: MessageEvent<FromWorker>) => hear(data);
  tell(worker, { is: "rate", bytes: pace.peek() });
  worker.onerror = () => giveUp("the worker of the engine failed");
  return worker;
}

function tell(to: Worker, message: ToWorker): void {
  to.postMessage(message);
}

function hear(message: FromWorker): void {
  const question = asked.get(message.id);
  if (question) {
    asked.delete(message.id);
    if (message.is === "answer") return question.resolve(message.value);
    return question.reject(new Error(message.is === "failed" && "why" in message.failure ? message.failure.why : "no answer"));
  }
  const transfer = running.get(message.id);
  if (message.is === "progress") transfer?.on(message);
  else if (message.is === "done") transfer?.end(message.content ? { ...message.result, content: message.content } : message.result);
  else if (message.is === "failed") {
    transfer?.end(message.failure);
    // An engine with an internal failure is not used again.
    if (message.failure.is === "other" && running.size === 0) giveUp(message.failure.why);
  }
}

/** Ends the worker and all transfers of the worker. */
function giveUp(why: string): void {
  worker?.terminate();
  worker = undefined;
  for (const { end } of running.values()) end({ is: "other", why });
  for (const { reject } of asked.values()) reject(new Error(why));
  asked.clear();
}

declare global {
  // TypeScript does not declare this variable yet.
  var trustedTypes: { createPolicy: (name: string, rules: { createScriptURL: (address: string) => string }) => typeof rules } | undefined;
}

/** The page's security policy accepts addresses of scripts from this function alone. */
const policy = globalThis.trustedTypes?.createPolicy("deltic", { createScriptURL: (address) => address });
export const trusted = (address: string): string => policy?.createScriptURL(address) ?? address;
