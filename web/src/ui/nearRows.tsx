/**
 * Long lists in a page that scrolls. Only rows near the window are in the document. Spacers take the height of all other
 * rows, so 100,000 rows cost as much as 100.
 */
import { useSignal, type Signal } from "@preact/signals";
import type { JSX, RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface NearRows {
  /** Index of the first row that is drawn, and the index behind the last one. */
  range: Signal<{ from: number; to: number }>;
  /** Height of a row, in pixels. */
  height: Signal<number>;
}

/** Follows the scrolling of the window. `box` holds the rows; the selector `row` finds the first one. */
export function useNearRows(box: RefObject<HTMLElement | null>, row: string, usualHeight: number): NearRows {
  const range = useSignal({ from: 0, to: FIRST });
  const height = useSignal(usualHeight);
  // One height serves all rows: with the heights of single rows, two ranges could take turns for ever.
  const isMeasured = useRef(false);
  const measure = () => {
    if (!box.current) return;
    const first = isMeasured.current ? undefined : box.current.querySelector<HTMLElement>(row)?.offsetHeight;
    if (first) [height.value, isMeasured.current] = [first, true];
    const top = -box.current.getBoundingClientRect().top;
    const from = Math.max(0, Math.floor(top / height.value) - SPARE);
    const to = from + Math.ceil(innerHeight / height.value) + 2 * SPARE;
    // Round to steps of `STEP` rows, so that scrolling by a row does not redraw.
    const step = { from: from - (from % STEP), to: to + (STEP - (to % STEP)) };
    if (step.from !== range.value.from || step.to !== range.value.to) range.value = step;
  };
  // Parts above the list may have another height after a redraw.
  useEffect(measure);
  useEffect(() => {
    const resized = () => {
      isMeasured.current = false;
      measure();
    };
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", resized);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", resized);
    };
  }, []);
  return { range, height };
}

/** Takes the height of rows that are not drawn. The height is an attribute, since the page's policy forbids styles. */
export function Spacer({ rows, height }: { rows: number; height: number }): JSX.Element | null {
  return rows > 0 ? <svg width="1" height={rows * height} aria-hidden="true" role="presentation" /> : null;
}

const FIRST = 30;
const SPARE = 12;
const STEP = 8;
