/** A bar for the length of a file, with shares for kept, sent and unsent bytes. Never thinner than 3 px. */
import type { JSX } from "preact";

export interface Shares {
  kept: number;
  sent: number;
  toSend: number;
  /** The whole length. Bytes outside the shares were not read yet. */
  of: number;
}

export function Strip({ shares, kind = "", label }: { shares: Shares; kind?: string; label?: string }): JSX.Element {
  const whole = Math.max(shares.of, 1);
  const percent = (part: number) => `${Math.min(100, (part / whole) * 100)}%`;
  const { kept, sent, toSend } = shares;
  const name = label === undefined ? { "aria-hidden": "true" as const } : { role: "img" as const, "aria-label": label };
  return (
    <svg class={`strip ${kind}`} {...name}>
      {kept > 0 && <rect class="k" width={percent(kept)} height="100%" />}
      {toSend > 0 && <rect class="w" x={percent(kept + sent)} width={percent(toSend)} height="100%" />}
      {sent > 0 && <rect class="n" x={percent(kept)} width={percent(sent)} height="100%" />}
    </svg>
  );
}
