/**
 * The token of this page.
 *
 * It arrives in the fragment of the printed address, which no request carries, and leaves the address bar before
 * anything else happens. It is kept in the storage of this origin: of the tab, or of the device if the user stays
 * signed in. There it is soon replaced by one that outlives the server (`api/session.ts`). It is sent in the `Authorization` header alone. Links to files carry tickets (docs/server.md, "Tokens").
 */
import { signal } from "@preact/signals";

export const token = signal<string | undefined>(undefined);
/** Why the page asks for a token, if it had one. */
export const ended = signal<"unknown" | "left" | undefined>(undefined);

/** Takes the token from the address, or else the one that was kept. To be called before anything is loaded. */
export function openSession(): void {
  if (!takeFromAddress()) token.value = sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? undefined;
  // The address was opened in a tab that has the page already.
  addEventListener("hashchange", takeFromAddress);
  // Another tab signed in or out, or has another token.
  addEventListener("storage", (event) => {
    if (event.key !== KEY || sessionStorage.getItem(KEY)) return;
    if (event.newValue === null) return endSession("left");
    ended.value = undefined;
    token.value = event.newValue;
  });
}

/** A token of the address, for the case that the kept one has ended. */
let offered: string | undefined;

/** A kept token that works stays: any site can link to this page with a token of its own. */
function takeFromAddress(): boolean {
  const given = tokenIn(location.hash);
  if (!given) return false;
  history.replaceState(history.state, "", location.pathname + location.search);
  const kept = token.value ?? sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
  if (kept && kept !== given) {
    offered = given;
    return false;
  }
  signIn(given, true);
  return true;
}

export function signIn(given: string, stay: boolean): void {
  forget();
  (stay ? localStorage : sessionStorage).setItem(KEY, given);
  ended.value = undefined;
  token.value = given;
}

/** Puts another token in the place of `old`, if that one is still in use; returns whether it was. */
export function exchange(old: string, lasting: string): boolean {
  if (token.value !== old) return false;
  signIn(lasting, sessionStorage.getItem(KEY) === null);
  return true;
}

export function endSession(why: "unknown" | "left"): void {
  const next = why === "unknown" ? offered : undefined;
  offered = undefined;
  if (next) return signIn(next, true);
  forget();
  ended.value = why;
  token.value = undefined;
}

function forget(): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}

/** The token in a fragment, in an address, or alone. */
export function tokenIn(text: string): string | undefined {
  return /(?:^|[^A-Za-z0-9_-])(dlt_[A-Za-z0-9_-]+)/.exec(text)?.[1];
}

const KEY = "deltic.token";
