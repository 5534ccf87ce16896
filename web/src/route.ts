/**
 * Addresses of the page. The path names a volume and a folder, as in `deltic sync`. The fragment names a screen over
 * the folder, so that the way back to the folder is never lost.
 *
 * `/photos/2026/` · `/photos/2026/#transfers` · behind a proxy `/sync/-/photos/2026/`
 */
import { computed, signal } from "@preact/signals";
import { root } from "./root";

export type Screen = "files" | "transfers" | "synced" | "settings" | "shared" | "server" | "deleted" | "past" | "lab" | FileScreen;
/** A screen for a single file of the folder. */
export type FileScreen = "versions" | "preview";

export interface Route {
  /** Undefined on the list of volumes. */
  volume: string | undefined;
  /** Names from the volume down to the folder. */
  path: readonly string[];
  screen: Screen;
  /** The file of a `FileScreen`. */
  name?: string;
  /** The moment of the screen `past`, in seconds since 1970. */
  moment?: number;
}

const SCREENS = ["transfers", "synced", "settings", "shared", "server", "deleted", "lab"] as const;
const FILE_SCREENS = ["versions", "preview"] as const;
const isOneOf = <T extends string>(of: readonly T[], text: string): text is T => (of as readonly string[]).includes(text);

const place = signal(read());
export const route = computed(() => place.value);

function read(): Route {
  const base = new URL(root()).pathname;
  const rest = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
  const names = rest.replace(/^-\//, "").split("/").filter(Boolean).map(decode);
  const [volume, ...path] = names;
  const [screen = "", name] = location.hash.slice(1).split("/");
  if (name && isOneOf(FILE_SCREENS, screen) && volume !== undefined) return { volume, path, screen, name: decode(name) };
  if (screen === "past" && volume !== undefined) return { volume, path, screen, ...(/^\d{1,11}$/.test(name ?? "") ? { moment: Number(name) } : {}) };
  return { volume, path, screen: isOneOf(SCREENS, screen) ? screen : "files" };
}

/** The address of a folder. */
export function folderAddress(volume: string | undefined, path: readonly string[]): string {
  const names = volume === undefined ? [] : [volume, ...path];
  const prefix = /^\/-\//.test("/" + location.pathname.slice(new URL(root()).pathname.length)) ? "-/" : "";
  return new URL(root()).pathname + (names.length ? prefix : "") + names.map((name) => encodeURIComponent(name) + "/").join("");
}

export function screenAddress(screen: Screen, name?: string): string {
  const file = name === undefined ? "" : `/${encodeURIComponent(name)}`;
  return location.pathname + (screen === "files" ? "" : `#${screen}${file}`);
}

/** The address of a folder as of a moment, in seconds since 1970. */
export const pastAddress = (volume: string, path: readonly string[], moment?: number): string =>
  `${folderAddress(volume, path)}#past${moment === undefined ? "" : `/${moment}`}`;

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
