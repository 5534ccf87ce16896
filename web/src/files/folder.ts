/** The open folder: entries page by page, the sort order, the search, and the selection. */
import { batch, computed, effect, signal } from "@preact/signals";
import { pause, Problem, reach, reachable, Unreachable } from "../api/http";
import { list, volumes, type Entry, type Place, type Volume } from "../api/volumes";
import { route } from "../route";
import { token } from "../session";
import { format } from "../text";
import { onArrival } from "../transfer/queue";
import { follow } from "./events";
import { NameOrder, sortedBy, type Order } from "./sorting";

export type Status = "loading" | "listing" | "ready" | "missing" | { refused: string };
export type { Column } from "./sorting";

export const volumeList = signal<readonly Volume[] | undefined>(undefined);
/** Rights of the token beyond files; undefined until the server has answered. */
export const rights = signal<{ share: boolean; admin: boolean } | undefined>(undefined);
export const entries = signal<readonly Entry[]>([]);
export const status = signal<Status>("loading");
export const query = signal("");
export const order = signal<Order>({ by: "name", down: false });
/** Names of selected entries. */
export const selection = signal<ReadonlySet<string>>(new Set());
/** The name of the row that the keyboard is on. */
export const active = signal<string | undefined>(undefined);

export const volume = computed(() => volumeList.value?.find(({ name }) => name === route.value.volume));
export const here = computed<Place | undefined>(() => {
  const { volume, path } = route.value;
  return volume === undefined ? undefined : { volume, path };
});

/** Entries that match the search, in the chosen order. */
export const rows = computed<readonly Entry[]>(() => {
  const wanted = query.value.trim().toLocaleLowerCase();
  const found = wanted ? sorted.value.filter(({ name }) => name.toLocaleLowerCase().includes(wanted)) : sorted.value;
  return found;
});

const nameOrder = computed(() => new NameOrder(format().compare));
const byName = computed(() => nameOrder.value.sort(entries.value));
const sorted = computed(() => sortedBy(order.value, byName.value));

export const selected = computed(() => rows.value.filter(({ name }) => selection.value.has(name)));
/** Entries for an action: the selection, or else the active row. */
export const targets = computed<readonly Entry[]>(() => {
  if (selected.value.length) return selected.value;
  const row = rows.value.find(({ name }) => name === active.value);
  return row ? [row] : [];
});

let nextActive: string | undefined;
/** Names the row that the keyboard is on after the next folder was opened. */
export function activeNext(name: string): void {
  nextActive = name;
}

let loading: AbortController | undefined;
/** The running list request, and the duration of the last list request. */
let underWay: Promise<void> = Promise.resolve();
let tookMs = 0;

/** Lists the folder `at`. With `again`, the old rows stay until the new list is complete. */
function load(at: Place, again: boolean): Promise<void> {
  const began = performance.now();
  underWay = loadNow(at, again).finally(() => (tookMs = performance.now() - began));
  return underWay;
}

async function loadNow(at: Place, again: boolean): Promise<void> {
  loading?.abort();
  const { signal: stop } = (loading = new AbortController());
  const came: Entry[] = [];
  if (!again) batch(() => ((entries.value = []), (status.value = "loading")));
  try {
    for await (const page of list(at, stop, { changes: true })) {
      came.push(...page);
      if (!again) await show(came.slice(), "listing", stop);
    }
    await show(came, "ready", stop);
  } catch (error) {
    if (stop.aborted) return;
    if (error instanceof Unreachable) return reachable(stop).then(() => load(at, again), () => undefined);
    if (error instanceof Problem && error.status === 401) return;
    const missing = error instanceof Problem && error.status === 404;
    status.value = missing ? "missing" : { refused: error instanceof Problem ? error.detail : String(error) };
  }
}

/** Shows a list. The list is sorted before, in short turns, so that the page answers the user meanwhile. */
async function show(list: readonly Entry[], now: Status, stop: AbortSignal): Promise<void> {
  await nameOrder.peek().learn(list, () => pause(0, stop));
  stop.throwIfAborted();
  batch(() => ((entries.value = list), (status.value = now)));
}

async function loadVolumes(): Promise<void> {
  try {
    const { volumes: list, share, admin } = await volumes();
    batch(() => {
      volumeList.value = list;
      rights.value = { share, admin };
    });
  } catch (error) {
    if (error instanceof Unreachable) return reachable().then(loadVolumes);
  }
}

export function reload(): void {
  const at = here.peek();
  if (at) void load(at, true);
  else void loadVolumes();
}

let isDue = false;
let lastDue = -Infinity;
/** Lists the folder again soon. Many changes cost one list a second; long lists take a quarter of the time. */
export function reloadSoon(): void {
  if (isDue) return;
  isDue = true;
  void underWay.then(() =>
    setTimeout(
      () => {
        isDue = false;
        lastDue = performance.now();
        reload();
      },
      Math.max(CALM, 3 * tookMs, lastDue + SECOND - performance.now()),
    ),
  );
}

/** Lists the folder of the page's address, and follows changes on the server. */
export function startFiles(): void {
  let open = "";
  effect(() => {
    if (!token.value) {
      open = "";
      volumeList.value = undefined;
      rights.value = undefined;
      return;
    }
    void loadVolumes();
  });
  effect(() => {
    const at = here.value;
    if (!token.value) return;
    const key = at ? JSON.stringify([at.volume, at.path]) : "volumes";
    if (key === open) return;
    const left = open;
    open = key;
    batch(() => {
      query.value = "";
      selection.value = new Set();
      active.value = nextActive ?? (at ? childOf(at, left) : undefined);
      nextActive = undefined;
    });
    if (at) void load(at, false);
    else void loadVolumes();
  });
  effect(() => {
    const name = volume.value?.read ? volume.value.name : undefined;
    if (!token.value || name === undefined || !reach.value.on) return;
    return follow(name, (path) => {
      const at = here.peek();
      if (at && isWithin(path, at.path)) reloadSoon();
    });
  });
  onArrival((place) => {
    const at = here.peek();
    if (at && at.volume === place.volume && isWithin(place.path.join("/"), at.path)) reloadSoon();
  });
}

/** Returns the row to activate after the way up: the folder that the user left. */
function childOf(at: Place, left: string): string | undefined {
  try {
    const [volume, path] = JSON.parse(left) as [string, string[]];
    return volume === at.volume && path.length === at.path.length + 1 ? path.at(-1) : undefined;
  } catch {
    return undefined;
  }
}

/** True if a change at `path` can change the list of `folder`. */
function isWithin(path: string, folder: readonly string[]): boolean {
  const names = path.split("/");
  // A change in a subfolder matters only if the subfolder is not listed yet.
  if (!folder.every((name, i) => names[i] === name)) return false;
  return names.length <= folder.length + 1 || !entries.peek().some(({ name }) => name === names[folder.length]);
}

/** Time from a change to the list, and least time between two lists. */
const CALM = 300;
const SECOND = 1000;
