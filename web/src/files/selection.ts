/** Selecting rows by pointer and keyboard. */
import { active, rows, selection } from "./folder";

/** The row at which a range selection begins. */
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

/**
 * Selects by touch. A long press selects a row. While rows are selected, a tap selects or unselects a row. A press that
 * moves is the beginning of scrolling.
 */
export const press = {
  isTouch: false,
  timer: undefined as ReturnType<typeof setTimeout> | undefined,
  at: { x: 0, y: 0 },
  /** The row that this press selected. The click at the end of the press must not open the row. */
  selected: undefined as string | undefined,

  begin(event: PointerEvent, name: string): void {
    this.end();
    this.isTouch = event.pointerType === "touch";
    this.selected = undefined;
    if (!this.isTouch || (event.target as Element).closest("button, input")) return;
    this.at = { x: event.clientX, y: event.clientY };
    this.timer = setTimeout(() => {
      this.selected = name;
      toggle(name);
    }, LONG_PRESS);
  },

  move(event: PointerEvent): void {
    if (Math.hypot(event.clientX - this.at.x, event.clientY - this.at.y) > SLACK) this.end();
  },

  end(): void {
    clearTimeout(this.timer);
  },

  /** True if the click at the end of a touch belongs to a selection, and must not open the row. */
  took(name: string, event: MouseEvent): boolean {
    if (!this.isTouch || (event.target as Element).closest("button, input")) return false;
    if (this.selected === name) {
      this.selected = undefined;
      return true;
    }
    if (!selection.value.size) return false;
    toggle(name);
    return true;
  },
};

const LONG_PRESS = 500;
const SLACK = 10;
