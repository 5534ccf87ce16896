/**
 * Addresses of the page: the path names a volume and a folder in it, as in `deltic sync`; the fragment names a screen
 * over it, so that the way back to the folder is never lost.
 *
 * `/photos/2026/` · `/photos/2026/#transfers` · behind a proxy `/sync/-/photos/2026/`
 */
import { computed, signal } from "@preact/signals";

export type Screen = "files" | "transfers" | "settings";

export interface Route {
  /** Undefined on the list of volumes. */
  volume: string | undefined;
  /** Names from the volume down to the folder. */
  path: readonly string[];
  screen: Screen;
}

/** The address below which the server is. */
export const root = (): string => new URL(".", document.baseURI).href;

const place = signal(read());
export const route = computed(() => place.value);

function read(): Route {
  const base = new URL(root()).pathname;
  const rest = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
  const names = rest.replace(/^-\//, "").split("/").filter(Boolean).map(decode);
  const [volume, ...path] = names;
  const screen = location.hash.slice(1);
  return { volume, path, screen: screen === "transfers" || screen === "settings" ? screen : "files" };
}

/** The address of a folder. */
export function folderAddress(volume: string | undefined, path: readonly string[]): string {
  const names = volume === undefined ? [] : [volume, ...path];
  const prefix = /^\/-\//.test("/" + location.pathname.slice(new URL(root()).pathname.length)) ? "-/" : "";
  return new URL(root()).pathname + (names.length ? prefix : "") + names.map((name) => encodeURIComponent(name) + "/").join("");
}

export function screenAddress(screen: Screen): string {
  return location.pathname + (screen === "files" ? "" : `#${screen}`);
}

export function go(address: string): void {
  if (address !== location.pathname + location.hash) history.pushState(null, "", address);
  place.value = read();
  scrollTo(0, 0);
}

export function startRouting(): void {
  place.value = read();
  addEventListener("popstate", () => (place.value = read()));
  addEventListener("hashchange", () => (place.value = read()));
}

/** Follows a link within the page, unless the user wants another tab or window. */
export function follow(event: MouseEvent): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go((event.currentTarget as HTMLAnchorElement).getAttribute("href") ?? "/");
}

function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
