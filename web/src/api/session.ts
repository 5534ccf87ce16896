/**
 * Keeps the page signed in. The token of the printed address is traded for a session token, which outlives the server.
 * A session token is extended while in use (docs/server.md, "Sessions").
 */
import { effect, signal } from "@preact/signals";
import { scoped } from "../root";
import { endSession, exchange, token } from "../session";
import { call, isBusy, pause, Problem, reachable, Unreachable } from "./http";

/** Requests a session token for each new token, and once a day while the page is open. */
export function keepSession(): void {
  const left = localStorage.getItem(scoped(LEAVING));
  if (left) void revoke(left);
  effect(() => {
    if (token.value) void keep(token.value);
  });
  setInterval(() => token.value && void keep(token.value), DAY_MS);
}

async function keep(old: string): Promise<void> {
  try {
    const answer = await call("v1/session", { method: "POST", token: old });
    const { token: lasting } = (await answer.json()) as { token?: string };
    // Another tab replaced the token first, or the user signed out. Revoke the new token, which stays unused.
    if (lasting && !exchange(old, lasting)) await call("v1/session", { method: "DELETE", token: lasting });
  } catch {
    // Keep the old token. If the old token has expired, the next request ends the session.
  }
}

/** Signs out: forgets the token at once, and revokes a session token after `last`, the last requests with the token. */
export function signOut(last: Promise<void>): void {
  const left = token.value;
  if (left) void Promise.race([last, pause(LAST_SECS)]).then(() => revoke(left));
  endSession("left");
}

/** True while the server has not ended the session of a sign-out. */
export const leaving = signal(false);

/** Revokes a token. While the server does not answer, or fails, the page tries again, also at the next visit. */
async function revoke(left: string): Promise<void> {
  for (;;) {
    try {
      await call("v1/session", { method: "DELETE", token: left });
    } catch (error) {
      const hasFailed = isBusy(error) || (error instanceof Problem && error.status >= 500);
      if (hasFailed || error instanceof Unreachable) {
        localStorage.setItem(scoped(LEAVING), left);
        leaving.value = true;
        if (hasFailed) await pause(error.retryAfter ?? FAILED_SECS);
        await reachable();
        continue;
      }
      // A token of `deltic token add` is no session token, and stays valid.
    }
    if (localStorage.getItem(scoped(LEAVING)) === left) localStorage.removeItem(scoped(LEAVING));
    leaving.value = false;
    return;
  }
}

const LEAVING = "deltic.leaving";
/** Longest wait for the last requests of a token. */
const LAST_SECS = 3;
/** Pause after an error of the server, in seconds. */
const FAILED_SECS = 5;

const DAY_MS = 24 * 60 * 60 * 1000;
