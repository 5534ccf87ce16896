// The engine of a page: syncs files of the user with a server over one WebSocket, or by plain HTTP where WebSockets are
// missing or cut.
//
//   const engine = await Engine.load(await fetch("push.wasm"), files);
//   const connection = await engine.connect("ws://127.0.0.1:8420/v1/ws", token);
//   const result = await connection.push({ volume: "photos", path: "2026/a.jpg", file: 1, len, modified_ms });
//
// `files` reads and writes open files by number, in blocking calls: `read(file, at, into)` returns the number of bytes,
// or -1 if the file changed; `write(file, at, bytes)` returns 0, or -1 if there is no room. In a browser such calls
// block in a Web Worker alone (FileReaderSync, sync access handles), so this module belongs there. The work is done in
// short turns; between turns, messages are sent and received.

import { StreamSocket } from "./streams.js";

const SUBPROTOCOL = "deltic.1";
// Longest time for a WebSocket to open. Some networks neither open nor refuse WebSockets.
const OPEN_MS = 5_000;
// Bytes that wait in the socket, above which the engine stands still.
const BUFFERED_BYTES = 1 << 20;
// A full socket says nothing when it has room again.
const POLL_MS = 5;
// Longest time of turns in a row, unless the caller chooses another time.
const TURNS_MS = 12;
// Time after which the engine looks again at a transfer that has begun.
const UNANSWERED_MS = 30;

/** The compiled module, with the files of the user. */
export class Engine {
  #wasm;

  constructor(wasm) {
    this.#wasm = wasm;
  }

  /** Loads the module from its bytes, a response, or a compiled module. */
  static async load(source, files) {
    let memory;
    const span = (pointer, len) => new Uint8Array(memory.buffer, pointer, len);
    const host = {
      read: (file, at, pointer, len) => files.read(file, at, span(pointer, len)),
      write: (file, at, pointer, len) => files.write(file, at, span(pointer, len)),
      fail: (pointer, len) => {
        throw new Error(new TextDecoder().decode(span(pointer, len)));
      },
    };
    const { exports } = await instantiate(source, { host });
    memory = exports.memory;
    return new Engine(exports);
  }

  /**
   * Opens a connection to the WebSocket at `url`, or by plain HTTP to the same server. Resolves once the server has
   * accepted the token. Option: `turnsMs`, the longest time in which the engine works without a pause for other code of
   * the thread. With `Infinity` the engine works until it waits for the server.
   */
  async connect(url, token, { turnsMs = TURNS_MS } = {}) {
    const socket = (await openSocket(url)) ?? new StreamSocket(url);
    return new Promise((resolve, reject) => new Connection(this.#wasm, socket, token, { resolve, reject, turnsMs: turnsMs > 0 ? turnsMs : TURNS_MS }));
  }

  /** Returns the plan for a synced folder. The request is a text of JSON (crates/page/src/reconcile.rs). */
  reconcile(request) {
    const { memory, deltic_alloc, deltic_reconcile, deltic_release } = this.#wasm;
    const text = new TextEncoder().encode(request);
    const pointer = deltic_alloc(text.length);
    new Uint8Array(memory.buffer, pointer, text.length).set(text);
    const answer = deltic_reconcile(pointer, text.length);
    const len = new DataView(memory.buffer).getUint32(answer, true);
    const plan = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, answer + 4, len)));
    deltic_release(answer, len + 4);
    if (plan.error) throw new Error(plan.error);
    return plan;
  }

  /** Bytes of memory that the module holds. A module never gives memory back. */
  get memoryBytes() {
    return this.#wasm.memory.buffer.byteLength;
  }
}

/**
 * A transfer that failed. `retrySecs` is set if another attempt may succeed; `isEnd` is true if the connection ended.
 */
export class TransferError extends Error {
  constructor(message, retrySecs, isEnd = false) {
    super(message);
    this.name = "TransferError";
    this.retrySecs = retrySecs ?? undefined;
    this.isEnd = isEnd;
  }
}

/** A connection to a server. */
export class Connection extends EventTarget {
  #wasm;
  #handle;
  #socket;
  #opening;
  #turnsMs;
  #busyMs = 0;
  #transfers = new Map();
  #timer;
  #soon = new MessageChannel();
  #isScheduled = false;
  #hasEnded = false;
  #rate = 0;
  /** Time before which no message is sent, as the rate demands. */
  #due = 0;

  constructor(wasm, socket, token, opening) {
    super();
    this.#wasm = wasm;
    this.#socket = socket;
    this.#opening = opening;
    this.#turnsMs = opening.turnsMs;
    this.#soon.port1.onmessage = () => this.#pump();
    this.#handle = this.#give(token, (pointer, len) => wasm.deltic_connect(pointer, len));
    socket.onmessage = ({ data }) => this.#received(data);
    socket.onerror = null;
    socket.onclose = ({ reason }) => this.#ended(reason || "the connection ended");
    this.#schedule();
  }

  /**
   * Pushes a file of the user: `{ volume, path, file, len, modified_ms, replaces, on_request, strategy }`. `replaces` is
   * the entity tag, without quotes, of the version that the push may replace; if empty, the push may only create the
   * file. With another version at the server, the push fails. With `on_request`, the file is read only after the server
   * has requested the content. With either, equal lengths and times do not count as equal content. `strategy` is a name
   * as in `deltic sync --strategy`, by default `deltic`.
   * Options: `onprogress({ settled, of, sent, received })`, and an `AbortSignal` as `signal`.
   */
  push(request, options = {}) {
    return this.#begin("deltic_push", request, options);
  }

  /**
   * Appends to a file by one message: `{ volume, path, file, len, modified_ms, begins }`. The server's version must be
   * the first `begins` bytes of the file; otherwise the promise rejects, and nothing is changed. The file has at most
   * 32 MiB, and the new bytes and the path together at most 256 KiB. Not without a WebSocket.
   */
  append(request, options = {}) {
    return this.#begin("deltic_append", request, options);
  }

  /**
   * Pulls a file into the empty file `staged`: `{ volume, path, staged, old: { file, len, modified_ms } | null }`, and
   * `strategy` as for a push. With `version`, the name of an old version, the pull reads that version in place of the
   * present version. The result has `put: { len, modified_ms }` if the staged file is a new version, complete and
   * proven. Without `put` the old version is up to date.
   */
  pull(request, options = {}) {
    return this.#begin("deltic_pull", request, options);
  }

  /** Milliseconds in which the engine worked for this connection, reads of files included. */
  get busyMs() {
    return this.#busyMs;
  }

  /** True without a WebSocket. Such a connection is slower, since each body is short and awaits its answer. */
  get isPlain() {
    return this.#socket instanceof StreamSocket;
  }

  /** Most bytes a second that this end sends; 0 for no limit. */
  set rate(bytes) {
    this.#rate = bytes;
    this.#due = 0;
    this.#schedule();
  }

  /** Closes the connection. Transfers that run fail. */
  close() {
    this.#socket.close();
    this.#ended("the connection was closed");
  }

  #begin(call, request, { onprogress, signal }) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      if (!this.#handle) return reject(new TransferError("the connection has ended"));
      const text = JSON.stringify({ ...request, random: randomHex() });
      const channel = this.#give(text, (pointer, len) => this.#wasm[call](this.#handle, pointer, len));
      const transfer = { resolve, reject, onprogress, troubles: [] };
      this.#transfers.set(channel, transfer);
      signal?.addEventListener("abort", () => this.#abort(channel, signal.reason), { once: true });
      // An other end that says nothing counts as far away after a moment.
      setTimeout(() => this.#schedule(), UNANSWERED_MS);
      this.#schedule();
    });
  }

  #abort(channel, reason) {
    const transfer = this.#transfers.get(channel);
    if (!transfer || !this.#handle) return;
    this.#transfers.delete(channel);
    this.#wasm.deltic_close(this.#handle, channel);
    this.#schedule();
    transfer.reject(reason);
  }

  /** Passes a text or bytes to a function of the module, which frees them. */
  #give(data, call) {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const pointer = this.#wasm.deltic_alloc(bytes.length);
    new Uint8Array(this.#wasm.memory.buffer, pointer, bytes.length).set(bytes);
    return call(pointer, bytes.length);
  }

  /** Returns the module's output, which the next call of the module changes. */
  #output(len) {
    return new Uint8Array(this.#wasm.memory.buffer, this.#wasm.deltic_output(this.#handle), len);
  }

  #received(data) {
    // A server sends no text.
    if (!this.#handle || !(data instanceof ArrayBuffer)) return;
    const begun = performance.now();
    this.#give(new Uint8Array(data), (pointer, len) => {
      this.#wasm.deltic_receive(this.#handle, pointer, len);
    });
    this.#busyMs += performance.now() - begun;
    this.#schedule();
  }

  /** Lets the engine go on after the messages that have arrived. A timer of 0 ms would wait for 4. */
  #schedule() {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#soon.port2.postMessage(null);
  }

  #pump() {
    this.#isScheduled = false;
    if (!this.#handle) return;
    const begun = performance.now();
    try {
      let goesOn = true;
      let hasRoom = this.#send();
      while (hasRoom && goesOn && performance.now() - begun < this.#turnsMs) {
        goesOn = this.#wasm.deltic_turn(this.#handle, performance.now()) !== 0;
        hasRoom = this.#send();
      }
      this.#report();
      clearTimeout(this.#timer);
      if (!hasRoom) this.#timer = setTimeout(() => this.#schedule(), POLL_MS);
      else if (goesOn) this.#schedule();
    } catch (trap) {
      // After a trap the module's memory cannot be trusted.
      this.#handle = 0;
      this.#socket.close();
      this.#fail(new Error(`an internal error ended the engine: ${trap}`));
    } finally {
      this.#busyMs += performance.now() - begun;
    }
  }

  /** Sends messages while the socket has room and the rate allows. Returns false if some wait. */
  #send() {
    for (;;) {
      const now = performance.now();
      if (this.#socket.bufferedAmount >= BUFFERED_BYTES || now < this.#due) return false;
      const len = this.#wasm.deltic_next_message(this.#handle);
      if (len === 0) return true;
      // A socket copies the bytes.
      this.#socket.send(this.#output(len));
      if (this.#rate > 0) this.#due = now + (len / this.#rate) * 1000;
    }
  }

  #report() {
    let len;
    while (this.#handle && (len = this.#wasm.deltic_next_event(this.#handle)) > 0) {
      const [[kind, event]] = entries(JSON.parse(new TextDecoder().decode(this.#output(len))));
      this.#take(kind, event);
    }
  }

  #take(kind, event) {
    const transfer = this.#transfers.get(event?.channel);
    switch (kind) {
      case "welcome":
        this.server = event;
        this.#opening.resolve(this);
        break;
      case "progress":
        transfer?.onprogress?.(event);
        break;
      case "trouble":
        transfer?.troubles.push(event.why);
        break;
      case "finished":
        this.#transfers.delete(event.channel);
        if (event.failed > 0) transfer?.reject(new TransferError(transfer.troubles.join("; ")));
        else transfer?.resolve({ ...event, troubles: transfer.troubles });
        break;
      case "failed":
        this.#transfers.delete(event.channel);
        transfer?.reject(new TransferError(event.why, event.retry_secs, this.#hasEnded));
        break;
      case "broken":
        this.#socket.close();
        this.#ended(event.why);
        break;
      default:
        // "go_away" and "busy": the page decides.
        this.dispatchEvent(Object.assign(new Event(kind), { detail: event }));
    }
  }

  #ended(why) {
    if (!this.#handle) return;
    this.#hasEnded = true;
    this.#give(why, (pointer, len) => this.#wasm.deltic_end(this.#handle, pointer, len));
    const handle = this.#handle;
    this.#report();
    this.#handle = 0;
    this.#wasm.deltic_free(handle);
    this.#fail(new TransferError(why));
    this.dispatchEvent(new Event("end"));
  }

  #fail(error) {
    clearTimeout(this.#timer);
    this.#soon.port1.close();
    this.#opening.reject(error);
    for (const { reject } of this.#transfers.values()) reject(error);
    this.#transfers.clear();
  }
}

/** Opens a WebSocket. Returns undefined where WebSockets are missing or cut. */
function openSocket(url) {
  return new Promise((resolve) => {
    if (typeof WebSocket === "undefined") return resolve(undefined);
    const socket = new WebSocket(url, SUBPROTOCOL);
    socket.binaryType = "arraybuffer";
    const failed = () => {
      clearTimeout(timer);
      socket.onopen = null;
      socket.close();
      resolve(undefined);
    };
    const timer = setTimeout(failed, OPEN_MS);
    socket.onerror = failed;
    socket.onclose = failed;
    socket.onopen = () => {
      clearTimeout(timer);
      socket.onclose = null;
      resolve(socket);
    };
  });
}

async function instantiate(source, imports) {
  if (source instanceof WebAssembly.Module) return new WebAssembly.Instance(source, imports);
  if (typeof Response !== "undefined" && source instanceof Response) {
    return (await WebAssembly.instantiateStreaming(source, imports)).instance;
  }
  return (await WebAssembly.instantiate(source, imports)).instance;
}

/** An event is a word, or an object with one field. */
function entries(event) {
  return typeof event === "string" ? [[event, null]] : Object.entries(event);
}

function randomHex() {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
