// A stand-in for a WebSocket where a network cuts WebSockets. Each channel of the connection is a stream of requests to
// /v1/streams (docs/protocol.md, "Streams"); messages about channels are answered here.

// Most bytes of a body, and of a channel in one message. Proxies accept bodies of 1 MiB by default.
const BODY_BYTES = 512 << 10;
const MESSAGE_BYTES = 64 << 10;
// Streams at once. A stream takes two connections, and browsers open six to a host.
const STREAMS = 2;
// A request without an answer is repeated, as long as the server is not away for longer than AWAY_MS.
const ANSWER_MS = 60_000;
const AWAY_MS = 15_000;
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 4_000;

/** Has the part of the interface of WebSocket that the engine uses. */
export class StreamSocket {
  /** Bytes that the server has not taken yet. */
  bufferedAmount = 0;
  onmessage = null;
  onclose = null;
  #root;
  #token = "";
  #streams = new Map();
  #waiting = [];
  #hasEnded = false;

  /** `url` is the address of the WebSocket in whose place the streams are used. */
  constructor(url) {
    this.#root = url.replace(/^ws/, "http").replace(/ws$/, "");
  }

  send(message) {
    // As a WebSocket, keep a copy: the caller uses the memory again.
    const [channel, bytes] = decoded(message.slice());
    if (channel > 0) return void this.#streams.get(channel)?.send(bytes);
    const [[kind, said]] = Object.entries(JSON.parse(new TextDecoder().decode(bytes)));
    if (kind === "auth") void this.#welcome(said.token);
    else if (kind === "open") this.#open(said);
    else if (kind === "close") this.#streams.get(said.channel)?.close();
  }

  close() {
    this.end("the connection was closed");
  }

  /** Ends all streams. */
  end(reason) {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const stream of this.#streams.values()) stream.close();
    this.onclose?.({ reason });
  }

  /** Sends a request below /v1/. Returns the status and the bytes of an answer that is no refusal. */
  async ask(path, { method = "GET", body, stop } = {}) {
    const ended = new AbortController();
    const abort = () => ended.abort();
    const timer = setTimeout(abort, ANSWER_MS);
    stop?.addEventListener("abort", abort);
    try {
      const headers = { Authorization: `Bearer ${this.#token}` };
      const rest = { cache: "no-store", credentials: "omit", redirect: "error", signal: ended.signal };
      const answer = await fetch(this.#root + path, { method, headers, body, ...rest });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (!answer.ok) throw new Refusal(answer, bytes);
      return { status: answer.status, bytes };
    } finally {
      clearTimeout(timer);
      stop?.removeEventListener("abort", abort);
    }
  }

  /** Delivers bytes of a channel, as a message of the server. No bytes end the stream. */
  deliver(channel, bytes) {
    for (let at = 0; at === 0 || at < bytes.length; at += MESSAGE_BYTES) {
      if (this.#hasEnded) return;
      this.onmessage?.({ data: encoded(channel, bytes.subarray(at, at + MESSAGE_BYTES)) });
    }
  }

  /** Delivers a message about channels. */
  tell(message) {
    this.deliver(0, new TextEncoder().encode(JSON.stringify(message)));
  }

  async #welcome(token) {
    this.#token = token;
    try {
      await this.ask("volumes");
      this.tell({ welcome: { version: "", channels: STREAMS, message_bytes: MESSAGE_BYTES, can: ["replaces", "versions"] } });
    } catch (error) {
      this.end(error instanceof Refusal ? error.message : "the server does not answer");
    }
  }

  #open({ channel, ...wanted }) {
    // An older server refuses a stream with more than the volume.
    const stream = new Stream(this, channel, wanted);
    this.#streams.set(channel, stream);
    this.#waiting.push(stream);
    this.#next();
  }

  #next() {
    const running = this.#streams.size - this.#waiting.length;
    const stream = running < STREAMS ? this.#waiting.shift() : undefined;
    if (!stream) return;
    void stream.run().finally(() => {
      this.#streams.delete(stream.channel);
      this.#next();
    });
  }
}

/** A channel of a connection. */
class Stream {
  #socket;
  /** The body of the request that opens the stream. */
  #wanted;
  #path = "";
  #stop = new AbortController();
  /** Bytes for the server, and a function that ends the wait for some. */
  #pieces = [];
  #isWhole = false;
  #wake = () => undefined;
  #isOver = false;

  constructor(socket, channel, wanted) {
    this.#socket = socket;
    this.channel = channel;
    this.#wanted = wanted;
  }

  send(bytes) {
    if (bytes.length > 0) this.#pieces.push(bytes.slice());
    else this.#isWhole = true;
    this.#socket.bufferedAmount += bytes.length;
    this.#wake();
  }

  close() {
    this.#stop.abort();
    this.#wake();
  }

  /** Runs the session. Resolves after its end. */
  async run() {
    try {
      if (this.#stop.signal.aborted) return;
      const body = JSON.stringify(this.#wanted);
      const { bytes } = await this.#socket.ask("streams", { method: "POST", body, stop: this.#stop.signal });
      this.#path = `streams/${JSON.parse(new TextDecoder().decode(bytes)).stream}`;
      await Promise.all([this.#up(), this.#down()]);
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#isOver = true;
      this.close();
      for (const { length } of this.#pieces.splice(0)) this.#socket.bufferedAmount -= length;
    }
  }

  #failed(error) {
    if (this.#stop.signal.aborted) {
      if (this.#path) void this.#socket.ask(this.#path, { method: "DELETE" }).catch(() => undefined);
    } else if (error instanceof Refusal && !this.#path) {
      this.#socket.tell({ refused: { channel: this.channel, why: error.message, retry_secs: error.retrySecs } });
    } else {
      // A server that restarted does not know the stream: another connection continues.
      this.#socket.end(error instanceof Refusal ? error.message : "the server does not answer");
    }
  }

  async #up() {
    let at = 0;
    let body = new Uint8Array();
    while (!this.#isOver) {
      body = this.#filled(body);
      const end = this.#isWhole && this.#pieces.length === 0;
      if (body.length === 0 && !end) {
        if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
        await new Promise((resolve) => (this.#wake = resolve));
        continue;
      }
      const { bytes } = await this.#insist("POST", `?at=${at}${end ? "&end=true" : ""}`, body);
      const taken = Math.min(Math.max(JSON.parse(new TextDecoder().decode(bytes)).at - at, 0), body.length);
      this.#socket.bufferedAmount -= taken;
      at += taken;
      body = body.subarray(taken);
      if (end && body.length === 0) return;
      if (taken === 0) await pause(FIRST_PAUSE_MS);
    }
  }

  /** Returns the bytes with as many more as a body may have. */
  #filled(body) {
    let len = body.length;
    const more = [body];
    while (this.#pieces.length > 0 && len + this.#pieces[0].length <= BODY_BYTES) {
      len += this.#pieces[0].length;
      more.push(this.#pieces.shift());
    }
    if (more.length === 1) return body;
    const filled = new Uint8Array(len);
    let at = 0;
    for (const piece of more) {
      filled.set(piece, at);
      at += piece.length;
    }
    return filled;
  }

  async #down() {
    for (let at = 0; ; ) {
      const { status, bytes } = await this.#insist("GET", `?at=${at}`);
      if (status === 204) continue;
      if (bytes.length === 0) this.#isOver = true;
      this.#socket.deliver(this.channel, bytes);
      if (this.#isOver) return this.#wake();
      at += bytes.length;
    }
  }

  /** Repeats a request until the server answers, for a limited time. */
  async #insist(method, query, body) {
    const begun = performance.now();
    for (let wait = FIRST_PAUSE_MS; ; wait = Math.min(2 * wait, LAST_PAUSE_MS)) {
      try {
        return await this.#socket.ask(this.#path + query, { method, body, stop: this.#stop.signal });
      } catch (error) {
        // After the end of the session the server forgets the stream.
        if (this.#isOver && method === "POST") return { bytes: new TextEncoder().encode('{"at":0}') };
        if (this.#stop.signal.aborted) throw error;
        // A proxy answers so while the server restarts.
        if (error instanceof Refusal && error.status < 500) throw error;
        if (performance.now() - begun > AWAY_MS) throw error;
      }
      await pause(wait);
    }
  }
}

/** A request that the server refused. */
class Refusal extends Error {
  constructor(answer, bytes) {
    super(reason(bytes) ?? `the server answered ${answer.status}`);
    this.status = answer.status;
    const secs = Number(answer.headers.get("Retry-After") ?? NaN);
    const isBusy = answer.status === 429 || answer.status === 503;
    this.retrySecs = isBusy ? Math.min(secs >= 0 ? Math.ceil(secs) : 1, 60) : null;
  }
}

function reason(bytes) {
  try {
    return String(JSON.parse(new TextDecoder().decode(bytes)).detail);
  } catch {
    // A proxy's own page.
    return undefined;
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Splits a message into the number of its channel, a varint (LEB128), and the bytes of the channel. */
function decoded(message) {
  let [number, at] = [0, 0];
  do number += (message[at] & 0x7f) * 2 ** (7 * at);
  while (message[at++] & 0x80);
  return [number, message.subarray(at)];
}

/** Returns a message with bytes of a channel. */
function encoded(channel, bytes) {
  const head = [];
  for (; channel >= 0x80; channel = Math.floor(channel / 0x80)) head.push((channel % 0x80) | 0x80);
  head.push(channel);
  const message = new Uint8Array(head.length + bytes.length);
  message.set(head);
  message.set(bytes, head.length);
  return message.buffer;
}
