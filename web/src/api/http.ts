/** Requests to the server, with the token. Refusals become `Problem`, and lost connections become `Unreachable`. */
import { signal } from "@preact/signals";
import { root } from "../root";
import { endSession, token } from "../session";

/** A refusal by the server (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    /** Seconds to wait before the next attempt (`Retry-After`). */
    readonly retryAfter: number | undefined = undefined,
  ) {
    super(detail);
    this.name = "Problem";
  }
}

/** The server did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
    this.name = "Unreachable";
  }
}

/** State of the connection: on while the server answers, else off with the time of the next attempt. */
export const reach = signal<{ on: true } | { on: false; nextTry: number }>({ on: true });

export interface Ask {
  method?: "GET" | "HEAD" | "POST" | "DELETE" | Sending["method"];
  headers?: Record<string, string>;
  body?: BodyInit;
  signal?: AbortSignal | undefined;
  /** A token to use in place of the session's token. */
  token?: string;
}

/** Sends a request and returns a successful answer. Waits and tries again while the server is busy. */
export async function call(address: string, ask: Ask = {}): Promise<Response> {
  // All tries carry one token, since another user may sign in during a pause.
  const bearer = ask.token ?? token.value;
  for (let tries = 0; ; tries++) {
    const answer = await send(address, ask, bearer);
    if (answer.ok) return answer;
    const problem = await problemOf(answer);
    if (problem.status === 401 && ask.token === undefined) refused(bearer);
    if (!isBusy(problem) || tries >= BUSY_TRIES) throw problem;
    await pause(problem.retryAfter ?? 1, ask.signal);
  }
}

/** Ends the session if the server refused the session's token. A late refusal may be of the token of an earlier session. */
function refused(bearer: string | undefined): void {
  if (bearer !== undefined && bearer === token.value) endSession("unknown");
}

async function send(address: string, ask: Ask, bearer: string | undefined): Promise<Response> {
  const headers = new Headers(ask.headers);
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  try {
    const answer = await fetch(new URL(address, root()), {
      method: ask.method ?? "GET",
      headers,
      body: ask.body ?? null,
      signal: ask.signal ?? null,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
    // If the server is away, the proxy answers.
    if (answer.status === 502 || answer.status === 504) throw new TypeError("no server behind the proxy");
    return answer;
  } catch (error) {
    if (ask.signal?.aborted) throw error;
    lost();
    throw new Unreachable();
  }
}

/** A request with a body. */
export interface Sending {
  method: "PUT" | "PATCH";
  headers: Record<string, string>;
  body: Blob;
  /** Receives the number of bytes sent so far. */
  sent: (bytes: number) => void;
}

/** Sends a body and reports the number of bytes sent. Returns a reader of the answer's headers. */
export const sendBody: typeof sendLong = (address, sending, stop) =>
  sending.body.size <= SHORT_BYTES ? sendShort(address, sending, stop) : sendLong(address, sending, stop);

/** Sends a short body. Bytes by `fetch` cost the browser half the time of a Blob by XMLHttpRequest. */
async function sendShort(address: string, { method, headers, body, sent }: Sending, stop: AbortSignal): Promise<(name: string) => string | null> {
  const bearer = token.value;
  const bytes = await body.arrayBuffer().catch(() => Promise.reject(new Unreachable()));
  const answer = await send(address, { method, headers, body: bytes, signal: stop }, bearer);
  if (answer.status === 401) refused(bearer);
  if (!answer.ok) throw await problemOf(answer);
  sent(bytes.byteLength);
  return (name) => answer.headers.get(name);
}

/** Sends a long body by XMLHttpRequest, since `fetch` does not report progress. */
function sendLong(
  address: string,
  { method, headers, body, sent }: Sending,
  stop: AbortSignal,
): Promise<(name: string) => string | null> {
  return new Promise((resolve, reject) => {
    if (stop.aborted) return reject(stop.reason);
    const bearer = token.value;
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    stop.addEventListener("abort", abort, { once: true });
    request.open(method, new URL(address, root()));
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    if (bearer) request.setRequestHeader("Authorization", `Bearer ${bearer}`);
    request.upload.onprogress = (event) => sent(event.loaded);
    request.onloadend = () => stop.removeEventListener("abort", abort);
    request.onabort = () => reject(stop.reason);
    request.onerror = () => {
      reject(new Unreachable());
    };
    request.onload = () => {
      const { status } = request;
      if (status >= 200 && status < 300) return resolve((name) => request.getResponseHeader(name));
      if (status === 502 || status === 504) return reject(new Unreachable());
      if (status === 401) refused(bearer);
      reject(problem(status, request.responseText, request.getResponseHeader("Retry-After")));
    };
    request.send(body);
  });
}

export const isBusy = (error: unknown): error is Problem =>
  error instanceof Problem && (error.status === 429 || error.status === 503);

async function problemOf(answer: Response): Promise<Problem> {
  return problem(answer.status, await answer.text().catch(() => ""), answer.headers.get("Retry-After"));
}

function problem(status: number, text: string, retryAfter: string | null): Problem {
  let detail = "";
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed && "detail" in parsed) detail = String(parsed.detail);
  } catch {
    // The answer is a proxy's page. The text of a proxy's page is not shown.
  }
  const seconds = Number(retryAfter);
  return new Problem(status, detail, retryAfter && seconds >= 0 ? Math.min(seconds, 60) : undefined);
}

/** Waits, or rejects as soon as `stop` is aborted. */
export function pause(seconds: number, stop?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      clearTimeout(timer);
      reject(stop?.reason);
    };
    const timer = setTimeout(() => {
      stop?.removeEventListener("abort", done);
      resolve();
    }, seconds * 1000);
    if (stop?.aborted) return done();
    stop?.addEventListener("abort", done, { once: true });
  });
}

let waiters: (() => void)[] = [];
let pauseSeconds = firstPause();
let retry: ReturnType<typeof setTimeout> | undefined;

/** Resolves when the server answers again. */
export function reachable(stop?: AbortSignal): Promise<void> {
  if (reach.value.on) return Promise.resolve();
  return new Promise((resolve, reject) => {
    waiters.push(resolve);
    stop?.addEventListener("abort", () => reject(stop.reason), { once: true });
  });
}

/** Notes that the server does not answer. Asks again after a pause, which doubles each time. */
export function lost(): void {
  if (retry !== undefined) return;
  reach.value = { on: false, nextTry: Date.now() + pauseSeconds * 1000 };
  retry = setTimeout(askAgain, pauseSeconds * 1000);
}

/** True if the server answers now. */
export async function answers(): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MS);
    return (await fetch(new URL("healthz", root()), { cache: "no-store", credentials: "omit", signal })).ok;
  } catch {
    return false;
  }
}

/** Asks whether the server is back, at once. */
export async function askAgain(): Promise<void> {
  clearTimeout(retry);
  retry = undefined;
  if (!(await answers())) {
    pauseSeconds = Math.min(pauseSeconds * 2, LAST_PAUSE);
    lost();
    return;
  }
  pauseSeconds = firstPause();
  reach.value = { on: true };
  const resumed = waiters;
  waiters = [];
  for (const resume of resumed) resume();
}

/** Follows the browser's events about the network, which come before a request fails. */
export function followNetwork(): void {
  addEventListener("offline", lost);
  addEventListener("online", () => reach.value.on || void askAgain());
}

const SHORT_BYTES = 64 << 10;
const BUSY_TRIES = 8;
const ANSWER_MS = 10_000;
const LAST_PAUSE = 8;
/** Returns a random pause, so that many pages do not return in the same moment. */
function firstPause(): number {
  return 0.25 + Math.random() * 0.5;
}
