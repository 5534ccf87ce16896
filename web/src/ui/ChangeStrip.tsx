/**
 * A bar for the length of a file, from its first byte to its last: kept bytes plain, moved bytes hatched, new bytes
 * green. A change is never thinner than a few pixels.
 */
import type { JSX } from "preact";
import type { ChangeMap } from "../api/volumes";
import { t } from "../text";

interface Props {
  change: ChangeMap;
  /** Where the strip stands: in a row of the list, or on its own. */
  kind?: "" | "thick" | "map";
  /** True if a text beside the strip says the same. */
  isTold?: boolean;
}

export function ChangeStrip({ change, kind = "", isTold = false }: Props): JSX.Element {
  const least = kind === "" ? LEAST_IN_ROWS : LEAST;
  const name = isTold ? { "aria-hidden": "true" as const } : { role: "img" as const, "aria-label": t().changeInWords(change) };
  const bars = (of: 1 | 2, look: string) =>
    barsOf(change, of, least).map(({ x, width }) => <rect class={look} x={`${x}%`} width={`${width}%`} height="100%" key={x} />);
  return (
    <svg class={`strip ${kind}`} {...name}>
      <rect class="k" width="100%" height="100%" />
      {bars(1, "m")}
      {bars(2, "n")}
    </svg>
  );
}

/** A part of the strip, in percent of its width. */
export interface Bar {
  x: number;
  width: number;
}

/**
 * Returns the bars for moved (1) or new (2) bytes, at least `least` percent wide. The place of bytes within a part of
 * the file is unknown: bars of neighbouring parts meet, and a single bar stands in the middle of its part.
 */
export function barsOf({ buckets }: ChangeMap, of: 1 | 2, least: number): Bar[] {
  const part = 100 / Math.max(1, buckets.length);
  const share = (at: number) => {
    const bucket = buckets[at];
    const whole = bucket ? bucket[0] + bucket[1] + bucket[2] : 0;
    return bucket && whole > 0 ? bucket[of] / whole : 0;
  };
  const bars: Bar[] = [];
  for (let at = 0; at < buckets.length; at++) {
    if (share(at) === 0) continue;
    const width = Math.max(share(at) * part, least);
    const [before, after] = [share(at - 1) > 0, share(at + 1) > 0];
    const inner = before && after ? part : width;
    const offset = before ? 0 : after ? part - inner : (part - inner) / 2;
    const x = Math.min(Math.max(0, at * part + offset), 100 - inner);
    const last = bars.at(-1);
    if (last && x <= last.x + last.width + 0.01) last.width = x + inner - last.x;
    else bars.push({ x, width: inner });
  }
  return bars;
}

/** The pattern of moved bytes, once for the whole page. */
export function Hatch(): JSX.Element {
  return (
    <svg class="sr" width="0" height="0" aria-hidden="true">
      <defs>
        <pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
          <rect class="hatch-ground" width="4" height="4" />
          <path class="hatch-line" d="M1 0v4" />
        </pattern>
      </defs>
    </svg>
  );
}

/** Least width in percent: 3 of about 300 px, and 3 of 84 px in a row of the list. */
const LEAST = 1;
const LEAST_IN_ROWS = 3.6;
