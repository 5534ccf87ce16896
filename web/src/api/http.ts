/** One request to the server: the token is added, refusals become `Problem`, and lost connections `Unreachable`. */
import { signal } from "@preact/signals";
import { root } from "../root";
import { endSession, token } from "../session";

/** The server's answer that a request is refused (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    /** Seconds after which the server wants to be asked again. */
    readonly retryAfter: number | undefined = undefined,
  ) {
    super(detail);
    this.name = "Problem";
  }
}

/** No answer came. */
export class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
    this.name = "Unreachable";
  }
}

/** Whether the server answers; while it does not, the time of the next try. */
export const reach = signal<{ on: true } | { on: false; nextTry: number }>({ on: true });

export interface Ask {
  method?: "GET" | "HEAD" | "POST" | "DELETE" | Sending["method"];
  headers?: Record<string, string>;
  body?: BodyInit;
  signal?: AbortSignal | undefined;
  /** A token to be tried; else that of the session. */
  token?: string;
}

/** Sends a request and returns the answer, which is a success. Waits where the server says that it is busy. */
export async function call(address: string, ask: Ask = {}): Promise<Response> {
  for (let tries = 0; ; tries++) {
    const answer = await send(address, ask);
    if (answer.ok) return answer;
    const problem = await problemOf(answer);
    if (problem.status === 401 && ask.token === undefined) endSession("unknown");
    if (!isBusy(problem) || tries >= BUSY_TRIES) throw problem;
    await pause(problem.retryAfter ?? 1, ask.signal);
  }
}

async function send(address: string, ask: Ask): Promise<Response> {
  const headers = new Headers(ask.headers);
  const bearer = ask.token ?? token.value;
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
    // A proxy in front of a server that is away answers in its stead.
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
  /** Hears how many bytes have left. */
  sent: (bytes: number) => void;
}

/** Sends a body, telling how many of its bytes have left. Returns a reader of the answer's headers. */
export const sendBody: typeof sendLong = (address, sending, stop) =>
  sending.body.size <= SHORT_BYTES ? sendShort(address, sending, stop) : sendLong(address, sending, stop);

/** Sends a short body: bytes and `fetch` take half of the browser's time for a Blob and XMLHttpRequest. */
async function sendShort(address: string, { method, headers, body, sent }: Sending, stop: AbortSignal): Promise<(name: string) => string | null> {
  const bytes = await body.arrayBuffer().catch(() => Promise.reject(new Unreachable()));
  const answer = await send(address, { method, headers, body: bytes, signal: stop });
  if (answer.status === 401) endSession("unknown");
  if (!answer.ok) throw await problemOf(answer);
  sent(bytes.byteLength);
  return (name) => answer.headers.get(name);
}

/** Sends a long body by XMLHttpRequest, as `fetch` tells nothing about a body under way. */
function sendLong(
  address: string,
  { method, headers, body, sent }: Sending,
  stop: AbortSignal,
): Promise<(name: string) => string | null> {
  return new Promise((resolve, reject) => {
    if (stop.aborted) return reject(stop.reason);
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    stop.addEventListener("abort", abort, { once: true });
    request.open(method, new URL(address, root()));
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    if (token.value) request.setRequestHeader("Authorization", `Bearer ${token.value}`);
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
      if (status === 401) endSession("unknown");
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
    // Not the server's own answer: a proxy's page, of which nothing is shown.
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

/** Notes that no answer came, and asks again after a pause that doubles. */
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

/** The browser knows first when the network goes and comes. */
export function followNetwork(): void {
  addEventListener("offline", lost);
  addEventListener("online", () => reach.value.on || void askAgain());
}

const SHORT_BYTES = 64 << 10;
const BUSY_TRIES = 8;
const ANSWER_MS = 10_000;
const LAST_PAUSE = 8;
/** Spread, so that many pages do not all return in the same moment. */
function firstPause(): number {
  return 0.25 + Math.random() * 0.5;
}
