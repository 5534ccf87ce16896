/** Measures the network for the gentle rate while uploads run. */
import { computed, effect } from "@preact/signals";
import { root } from "../root";
import { FIRST, GentleRate } from "./gentle";
import { openBatches } from "./queue";
import { GENTLE, gentleRate, limit } from "./rate";

export function startGentle(): void {
  const isGentle = computed(() => limit.value === GENTLE && openBatches.value.length > 0);
  effect(() => {
    if (!isGentle.value) return;
    const stop = new AbortController();
    void follow(stop.signal);
    return () => stop.abort();
  });
}

async function follow(stop: AbortSignal): Promise<void> {
  gentleRate.value = FIRST;
  let found: GentleRate | undefined;
  while (!stop.aborted) {
    const time = await ask(stop);
    if (time !== undefined && found) gentleRate.value = found.heard(time);
    else if (time !== undefined) found = new GentleRate(time);
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  }
}

/** Returns the time of a request, in ms; undefined if there was no answer. */
async function ask(stop: AbortSignal): Promise<number | undefined> {
  const begun = performance.now();
  try {
    await fetch(new URL("healthz", root()), { cache: "no-store", credentials: "omit", signal: stop });
    return performance.now() - begun;
  } catch {
    return undefined;
  }
}

/** Time between two requests. */
const ASK_MS = 250;
