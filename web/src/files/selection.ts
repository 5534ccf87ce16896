/** Selecting rows by pointer and keyboard. */
import { active, rows, selection } from "./folder";

/** Where a range of rows begins. */
let anchor: string | undefined;

export function toggle(name: string): void {
  const next = new Set(selection.value);
  if (!next.delete(name)) next.add(name);
  selection.value = next;
  active.value = name;
  anchor = name;
}

/** Selects from the anchor to this row. */
export function extend(name: string): void {
  const names = rows.value.map((row) => row.name);
  const from = names.indexOf(anchor ?? active.value ?? name);
  const to = names.indexOf(name);
  anchor ??= active.value ?? name;
  selection.value = new Set(names.slice(Math.min(from, to), Math.max(from, to) + 1));
  active.value = name;
}

export function selectAll(): void {
  selection.value = new Set(rows.value.map(({ name }) => name));
}

export function clear(): void {
  selection.value = new Set();
  anchor = undefined;
}
