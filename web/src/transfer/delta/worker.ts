/**
 * Runs the delta engine in a Web Worker: the module, the WebSocket and the reads of files. The page's own thread does
 * no computation.
 */
import { BlobFiles, Engine, MemoryFile, pullInto, pullStaged, TransferError, UnreadableFile, type Connection, type Options, type Result } from "../../../engine/src/browser.js";
import type { Discard, Download, Failure, FromWorker, Patch, ToWorker, Upload } from "./messages";

type Request = Upload | Download | Discard;

/** Time between two reports of a transfer. */
const REPORT_MS = 50;
/** Longest new version in memory. A version that has grown since the page saw it may be longer. */
const MEMORY_BYTES = 48 << 20;
/** Age of a file from which a change of its content changes its time as well, on every file system. */
const COARSE_TIME_MS = 3_000;
/** Time after the last transfer in which the connection stays open. */
const IDLE_MS = 10_000;
/** Time between two clock checks, and the time between two checks after which the device must have slept. */
const LOOK_MS = 5_000;
const SLEPT_MS = 30_000;

const files = new BlobFiles();
const engines = new Map<string, Promise<Engine>>();
const stops = new Map<number, AbortController>();
/** Connections by address of the engine's module. */
const open = new Map<string, { token: string; connection: Promise<Connection> }>();
let idle: ReturnType<typeof setTimeout> | undefined;

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.is === "stop") stops.get(data.id)?.abort(new Error("stopped by the page"));
  else if (data.is === "disconnect") disconnect();
  else if (data.is === "rate") pace(data.bytes);
  else if (data.is === "plan") void answer(data.id, async () => (await load(data.module)).reconcile(data.request));
  else if (data.is === "read") void answer(data.id, () => new Blob([...data.files]).arrayBuffer());
  else void run(data);
};

let last = Date.now();
// While the device slept, the server may have closed the connections.
setInterval(() => {
  const now = Date.now();
  if (now - last > SLEPT_MS) disconnect();
  last = now;
}, LOOK_MS);

function tell(message: FromWorker): void {
  postMessage(message);
}

async function run(request: Request): Promise<void> {
  const { id } = request;
  const stop = new AbortController();
  stops.set(id, stop);
  clearTimeout(idle);
  const options = { onprogress: reports(id), signal: stop.signal };
  try {
    if (request.is === "upload") tell({ is: "done", id, result: await upload(request, options) });
    else if (request.is === "discard") await discard(request, options);
    else tell({ is: "done", id, ...(await download(request, options)) });
  } catch (error) {
    tell({ is: "failed", id, failure: error instanceof Refused ? error.failure : reason(error) });
  } finally {
    stops.delete(id);
    if (stops.size === 0) idle = setTimeout(disconnect, IDLE_MS);
  }
}

async function answer(id: number, work: () => Promise<unknown>): Promise<void> {
  try {
    const value = await work();
    postMessage({ is: "answer", id, value } satisfies FromWorker, { transfer: value instanceof ArrayBuffer ? [value] : [] });
  } catch (error) {
    tell({ is: "failed", id, failure: reason(error) });
  }
}

async function upload(request: Upload, options: Options): Promise<Result> {
  const { file, volume, path, replaces, begins } = request;
  const opened = files.open(file);
  try {
    const connection = await connect(request);
    if (replaces === "" && connection.isPlain && rate === 0) throw new Refused({ is: "plain" });
    if (begins !== undefined && !connection.isPlain) {
      // An append that fails has changed nothing, or a session finds the new version there.
      const appended = await connection.append({ volume, path, ...opened, begins }, options).catch(() => undefined);
      options.signal?.throwIfAborted();
      if (appended) return appended;
    }
    return await connection.push({ volume, path, ...opened, replaces }, options);
  } catch (error) {
    throw files.reason(opened.file, error);
  } finally {
    files.close(opened.file);
  }
}

/**
 * Offers the file again, and reads no byte. The server takes the bytes that arrived, to go on with them, and removes
 * them when the file fails.
 */
async function discard(request: Discard, options: Options): Promise<never> {
  const { volume, path, bytes, modified } = request;
  const connection = await connect(request);
  await connection.push({ volume, path, file: NO_FILE, len: bytes, modified_ms: modified, on_request: true }, options).catch(() => undefined);
  throw new Refused({ is: "unreadable" });
}

/** Number of a file of which each read fails. */
const NO_FILE = 0;

async function download(request: Download, options: Options): Promise<{ result: Result; content?: Blob | Patch }> {
  const { file: old, volume, path, version } = request;
  if (typeof request.staged === "number") {
    const access = new MemoryFile(request.staged, MEMORY_BYTES);
    const { changes, ...result } = await pullInto(await connect(request), files, { volume, path, version, access, old }, options);
    if (!result.put) return { result };
    // On a file system with coarse times, a file that was just written may change again without a trace.
    if (!changes || Date.now() - old!.lastModified < COARSE_TIME_MS) return { result, content: access.blob };
    const parts = changes.map(({ at, end }) => ({ at, data: access.bytes.slice(at, end) }));
    return { result, content: { bytes: access.bytes.length, parts } };
  }
  const root = await navigator.storage.getDirectory();
  const staged = await root.getFileHandle(request.staged, { create: true });
  const connection = await connect(request);
  return { result: await pullStaged(connection, files, { volume, path, version, staged, old }, options) };
}

/** A failure that the engine does not know. */
class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.is);
  }
}

function reports(id: number): (progress: { settled: number; sent: number }) => void {
  let last = -REPORT_MS;
  return ({ settled, sent }) => {
    const now = performance.now();
    if (now - last < REPORT_MS) return;
    last = now;
    tell({ is: "progress", id, settled, sent });
  };
}

/** Returns the connection for this module and this token. Opens a connection if needed. */
function connect({ module, socket, token }: Request): Promise<Connection> {
  const found = open.get(module);
  if (found?.token === token) return found.connection;
  if (found) disconnect();
  const connection = load(module).then((engine) => engine.connect(socket, token));
  const opened = { token, connection };
  open.set(module, opened);
  const gone = () => {
    if (open.get(module) === opened) open.delete(module);
  };
  connection.then((connection) => {
    connection.rate = rate;
    connection.addEventListener("end", gone);
  }, gone);
  return connection;
}

/** Loads the engine from this module; a second call returns the same engine. */
function load(module: string): Promise<Engine> {
  const engine = engines.get(module) ?? fetch(module).then((response) => Engine.load(response, files));
  engines.set(module, engine);
  return engine;
}

let rate = 0;

function pace(bytes: number): void {
  rate = bytes;
  for (const { connection } of open.values()) void connection.then((connection) => (connection.rate = rate), () => undefined);
}

function disconnect(): void {
  for (const { connection } of open.values()) void connection.then((connection) => connection.close(), () => undefined);
  open.clear();
}

function reason(error: unknown): Failure {
  const why = error instanceof Error ? error.message : String(error);
  if (error instanceof UnreadableFile) return { is: "unreadable" };
  if (!(error instanceof TransferError)) return { is: "other", why };
  if (error.retrySecs !== undefined) return { is: "busy", secs: error.retrySecs, why };
  return error.isEnd ? { is: "ended" } : { is: "refused", why };
}
