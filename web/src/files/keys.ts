/** Keys of the list, and keys that work everywhere. */
import { go, route, screenAddress } from "../route";
import { searchOpen } from "../ui/search";
import { askDelete, dialog, download, open, pick, share, up } from "./actions";
import { active, query, rows, selection, targets, volume } from "./folder";
import { clear, extend, selectAll, toggle } from "./selection";

/** Keys that act while the list has the focus. */
export function gridKeys(event: KeyboardEvent): void {
  if (event.target !== event.currentTarget || event.altKey) return;
  const command = event.ctrlKey || event.metaKey;
  const act = command ? withCommand[event.key.toLowerCase()] : (byKey[event.key] ?? byKey[event.key.toLowerCase()]);
  if (!act) return;
  event.preventDefault();
  act(event);
}

const withCommand: Record<string, () => void> = { a: selectAll };

const byKey: Record<string, (event: KeyboardEvent) => void> = {
  ArrowDown: (event) => step(1, event),
  ArrowUp: (event) => step(-1, event),
  PageDown: (event) => step(pageRows(), event),
  PageUp: (event) => step(-pageRows(), event),
  Home: (event) => step(-Infinity, event),
  End: (event) => step(Infinity, event),
  Enter: () => {
    const row = rows.value.find(({ name }) => name === active.value);
    if (row) open(row);
  },
  " ": () => active.value !== undefined && toggle(active.value),
  Delete: () => void askDelete(targets.value),
  Escape: () => {
    if (selection.value.size) clear();
    else query.value = "";
  },
  Backspace: () => up(),
  F2: () => {
    const [entry] = targets.value;
    if (entry && volume.value?.write) dialog.value = { kind: "rename", entry };
  },
  d: () => volume.value?.read && void download(targets.value),
  s: () => share(targets.value[0]),
  v: () => {
    const [entry] = targets.value;
    if (entry?.type === "file" && volume.value?.read && volume.value.versions) go(screenAddress("versions", entry.name));
  },
  u: () => volume.value?.write && pick("files"),
};

function step(by: number, event: KeyboardEvent): void {
  const all = rows.value;
  if (!all.length) return;
  const at = all.findIndex(({ name }) => name === active.value);
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]!;
  if (event.shiftKey) extend(next.name);
  else active.value = next.name;
}

const pageRows = (): number => Math.max(1, Math.floor(innerHeight / 36) - 6);

/** Keys that work wherever the focus is, except in fields. */
export function startKeys(): void {
  addEventListener("keydown", (event) => {
    const field = document.getElementById("search");
    if (event.key === "Escape" && event.target === field) {
      query.value = "";
      searchOpen.value = false;
      focusList();
      return;
    }
    if ((event.key === "Enter" || event.key === "ArrowDown") && event.target === field) {
      active.value = rows.value[0]?.name;
      event.preventDefault();
      focusList();
      return;
    }
    if (event.target === document.body && route.value.screen === "files" && wake(event)) return;
    const typing = (event.target as Element).closest?.("input, textarea, select, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (route.value.screen !== "files" || !route.value.volume) return;
    event.preventDefault();
    searchOpen.value = true;
    // Focus at once, so that the next letter goes into the field. A narrow screen shows the field in the next frame.
    field?.focus();
    if (document.activeElement !== field) requestAnimationFrame(() => document.getElementById("search")?.focus());
  });
}

/** Handles keys of the list when no element has the focus, for example after an empty folder. */
function wake(event: KeyboardEvent): boolean {
  if (event.key === "Backspace") up();
  else if (event.key.startsWith("Arrow") && rows.value.length) {
    active.value ??= rows.value[0]!.name;
    focusList();
  } else return false;
  event.preventDefault();
  return true;
}

export function focusList(): void {
  document.getElementById("list")?.focus({ preventScroll: true });
}
