/** Measures the stagnation of this page while transfers run. */
import { computed, effect, signal } from "@preact/signals";
import { StagMeter } from "../stagnation";
import { openBatches } from "./queue";

/** Stagnation and measured time since the page was opened, in ms. */
export const stagnation = signal({ stagnation: 0, measured: 0 });

export function startStagMeter(): void {
  const meter = new StagMeter();
  const isMoving = computed(() => openBatches.value.length > 0);
  const tick = () => {
    // Browsers slow the timers of a page that nobody sees.
    if (document.hidden) return meter.rest();
    meter.tick(performance.now());
    const { stagnation: sum, measured } = meter;
    stagnation.value = { stagnation: sum, measured };
  };
  effect(() => {
    if (!isMoving.value) return;
    let timer: ReturnType<typeof setTimeout>;
    const next = () => {
      tick();
      timer = setTimeout(next, StagMeter.PERIOD_MS);
    };
    next();
    return () => {
      clearTimeout(timer);
      meter.rest();
    };
  });
}
