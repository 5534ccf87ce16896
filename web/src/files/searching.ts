/** The search below the open folder: the server compares names in all subfolders, a page at a time. */
import { computed, effect, signal } from "@preact/signals";
import { Problem } from "../api/http";
import { searchBelow, type FoundEntry } from "../api/volumes";
import { token } from "../session";
import { here, query, volume } from "./folder";

/** Entries in subfolders that match the search. */
export const foundBelow = signal<readonly FoundEntry[]>([]);
/** Why the search stands still: it has come to the end, has found enough for now, or was refused. */
export const searchStatus = signal<"searching" | "done" | "more" | { refused: string }>("done");

const wanted = computed(() => query.value.trim());
/** The place where the next page begins. */
let next: string | undefined;
let running: AbortController | undefined;

/** Searches below the open folder as soon as the user stops typing. */
export function startSearch(): void {
  effect(() => {
    const [text, at] = [wanted.value, here.value];
    running?.abort();
    foundBelow.value = [];
    next = undefined;
    if (!token.value || !at || !volume.value?.read || text.length < SHORTEST) {
      searchStatus.value = "done";
      return;
    }
    searchStatus.value = "searching";
    const timer = setTimeout(() => void searchOn(), PAUSE_MS);
    return () => clearTimeout(timer);
  });
}

/** Searches until enough new entries are found, or to the end. */
export async function searchOn(): Promise<void> {
  const [text, at] = [wanted.peek(), here.peek()];
  if (!at) return;
  const { signal: stop } = (running = new AbortController());
  searchStatus.value = "searching";
  const enough = foundBelow.peek().length + ENOUGH;
  try {
    do {
      const page = await searchBelow(at, text, next, stop);
      if (stop.aborted) return;
      // Entries of the folder itself are in its list.
      const deeper = page.entries.filter(({ path }) => path.length > at.path.length + 1);
      if (deeper.length) foundBelow.value = [...foundBelow.peek(), ...deeper];
      next = page.next ?? undefined;
    } while (next !== undefined && foundBelow.peek().length < enough);
    searchStatus.value = next === undefined ? "done" : "more";
  } catch (error) {
    if (stop.aborted) return;
    searchStatus.value = { refused: error instanceof Problem ? error.detail : String(error) };
  }
}

const SHORTEST = 2;
const PAUSE_MS = 250;
const ENOUGH = 100;
