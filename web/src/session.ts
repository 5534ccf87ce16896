/**
 * The token of this page.
 *
 * It arrives in the fragment of the printed address, which no request carries, and leaves the address bar before
 * anything else happens. It is kept in the storage of this origin: of the tab, or of the device if the user stays
 * signed in. There it is soon replaced by one that outlives the server (`api/session.ts`). It is sent in the
 * `Authorization` header alone. Links to files carry tickets (docs/server.md, "Tokens").
 */
import { signal } from "@preact/signals";
import { scoped } from "./root";

export const token = signal<string | undefined>(undefined);
/** Why the page asks for a token, if it had one. */
export const ended = signal<"unknown" | "left" | undefined>(undefined);

/** Takes the token from the address, or else the one that was kept. To be called before anything is loaded. */
export function openSession(): void {
  if (!takeFromAddress()) token.value = kept(KEY);
  // The address was opened in a tab that has the page already.
  addEventListener("hashchange", takeFromAddress);
  // Another tab signed in or out, or has another token.
  addEventListener("storage", (event) => {
    if (event.key !== scoped(KEY) || sessionStorage.getItem(scoped(KEY))) return;
    if (event.newValue === null) return endSession("left");
    ended.value = undefined;
    token.value = event.newValue;
  });
}

/** A token of the address that came while the page had another one: the user may sign in by it once that has ended. */
export let offered: string | undefined;

/** A kept token that works stays: any site can link to this page with a token of its own. */
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

/** Signs in. Without `by`, this is another sign-in than the last one. */
export function signIn(given: string, stay: boolean, by = Math.random().toString(36).slice(2)): void {
  forget();
  const storage = stay ? localStorage : sessionStorage;
  storage.setItem(scoped(SIGNER), by);
  storage.setItem(scoped(KEY), given);
  ended.value = undefined;
  token.value = given;
}

/** Puts another token in the place of `old`, if that one is still in use; returns whether it was. */
export function exchange(old: string, lasting: string): boolean {
  if (token.value !== old) return false;
  signIn(lasting, sessionStorage.getItem(scoped(KEY)) === null, signer());
  return true;
}

/** Identifies the sign-in: one name for a token and for the lasting tokens that take its place. */
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

/** The token in a fragment, in an address, or alone. */
export function tokenIn(text: string): string | undefined {
  return /(?:^|[^A-Za-z0-9_-])(dlt_[A-Za-z0-9_-]+)/.exec(text)?.[1];
}

const KEY = "deltic.token";
const SIGNER = "deltic.signer";
