/**
 * The token of this page.
 *
 * The token arrives in the fragment of the printed address, which no request carries. The page removes the token from
 * the address bar first of all. The token is kept in the storage of this origin: for the tab, or for the device if the
 * user stays signed in. A session token, which outlives the server, soon replaces the stored token (`api/session.ts`).
 * Requests carry the token in the `Authorization` header alone. Links to files carry tickets (docs/server.md,
 * "Tokens").
 */
import { signal } from "@preact/signals";
import { scoped } from "./root";

export const token = signal<string | undefined>(undefined);
/** The reason for the end of the last session; undefined if the page had no session. */
export const ended = signal<"unknown" | "left" | undefined>(undefined);

/** Takes the token from the address, or else from storage. Call this before the page loads anything. */
export function openSession(): void {
  if (!takeFromAddress()) token.value = kept(KEY);
  // The user opened a printed address in a tab that already shows the page.
  addEventListener("hashchange", takeFromAddress);
  // Another tab signed in, signed out, or replaced the token.
  addEventListener("storage", (event) => {
    if (event.key !== scoped(KEY) || sessionStorage.getItem(scoped(KEY))) return;
    // An event may be older than the stored token, so read the storage, and remove nothing from the storage.
    const now = localStorage.getItem(scoped(KEY)) ?? undefined;
    if (now === token.value) return;
    if (now === undefined) offered = undefined;
    ended.value = now === undefined ? "left" : undefined;
    token.value = now;
  });
}

/** A token from an address opened during another session. The sign-in form offers this token after that session. */
export let offered: string | undefined;

/** Signs in with the address's token, unless another token is stored: any site can link here with a token. */
function takeFromAddress(): boolean {
  const given = tokenIn(location.hash);
  if (!given) return false;
  history.replaceState(history.state, "", location.pathname + location.search);
  const old = token.value ?? kept(KEY);
  if (old && old !== given) {
    offered = given;
    return false;
  }
  signIn(given, true);
  return true;
}

/** Signs in with a token. `by` names the sign-in; by default the sign-in is new. */
export function signIn(given: string, stay: boolean, by = Math.random().toString(36).slice(2)): void {
  // Replace a stored token without a removal, which would sign out the other tabs.
  const [storage, other] = stay ? [localStorage, sessionStorage] : [sessionStorage, localStorage];
  for (const name of [KEY, SIGNER]) other.removeItem(scoped(name));
  storage.setItem(scoped(SIGNER), by);
  storage.setItem(scoped(KEY), given);
  ended.value = undefined;
  token.value = given;
}

/** Replaces the token `old` by `lasting`. Returns false, without a change, if `old` is no longer in use. */
export function exchange(old: string, lasting: string): boolean {
  if (token.value !== old) return false;
  signIn(lasting, sessionStorage.getItem(scoped(KEY)) === null, signer());
  return true;
}

/** Returns the name of the sign-in. The name stays when a session token replaces the token. */
export const signer = (): string => kept(SIGNER) ?? "";

export function endSession(why: "unknown" | "left"): void {
  if (why === "left") offered = undefined;
  forget();
  ended.value = why;
  token.value = undefined;
}

function forget(): void {
  for (const storage of [sessionStorage, localStorage]) for (const name of [KEY, SIGNER]) storage.removeItem(scoped(name));
}

const kept = (name: string): string | undefined =>
  sessionStorage.getItem(scoped(name)) ?? localStorage.getItem(scoped(name)) ?? undefined;

/** Finds the token in a fragment, in an address, or alone. */
export function tokenIn(text: string): string | undefined {
  return /(?:^|[^A-Za-z0-9_-])(dlt_[A-Za-z0-9_-]+)/.exec(text)?.[1];
}

const KEY = "deltic.token";
const SIGNER = "deltic.signer";
