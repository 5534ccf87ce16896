/**
 * Keeps the page signed in: the token of a printed address is traded for one that outlives the server, and that one is
 * extended while it is in use (docs/server.md, "Sessions").
 */
import { effect, signal } from "@preact/signals";
import { scoped } from "../root";
import { endSession, exchange, token } from "../session";
import { call, reachable, Unreachable } from "./http";

/** Asks for the trade as soon as there is a token, and once a day as long as the page is open. */
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
    // Another tab was first, or the user signed out meanwhile: nobody uses this one.
    if (lasting && !exchange(old, lasting)) await call("v1/session", { method: "DELETE", token: lasting });
  } catch {
    // The old token goes on as long as it lasts, and the next request tells if it has ended.
  }
}

/** Signs out: revokes the token if it is of a session, and forgets it. */
export function signOut(): void {
  if (token.value) void revoke(token.value);
  endSession("left");
}

/** True while the server has not heard of a sign-out. */
export const leaving = signal(false);

/** Revokes a token, if need be when the server answers again, or at the next visit. */
async function revoke(left: string): Promise<void> {
  for (;;) {
    try {
      await call("v1/session", { method: "DELETE", token: left });
    } catch (error) {
      if (error instanceof Unreachable) {
        localStorage.setItem(scoped(LEAVING), left);
        leaving.value = true;
        await reachable();
        continue;
      }
      // A token of `deltic token add` is not of a session, and stays.
    }
    if (localStorage.getItem(scoped(LEAVING)) === left) localStorage.removeItem(scoped(LEAVING));
    leaving.value = false;
    return;
  }
}

const LEAVING = "deltic.leaving";

const DAY_MS = 24 * 60 * 60 * 1000;
