/** StagMeter during one sync, with the late ticks, as the paper's figures show them. */
import { StagMeter } from "../stagnation";

export interface Stagnation {
  stagnation: number;
  /** Late ticks: the time when a tick was due since the begin, and the lateness, in ms. */
  late: [due: number, ms: number][];
}

/** Ticks from now on. */
export class Watch {
  #meter = new StagMeter();
  #late: [number, number][] = [];
  #begun = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ended: (() => void) | undefined;
  /** True if the page was hidden meanwhile. Browsers slow the timers of hidden pages. */
  wasHidden = document.hidden;

  constructor() {
    this.#tick();
    document.addEventListener("visibilitychange", this.#hidden);
  }

  /** Ends with the next tick. Returns the stagnation. */
  async end(): Promise<Stagnation> {
    await new Promise<void>((resolve) => (this.#ended = resolve));
    return { stagnation: this.#meter.stagnation, late: this.#late };
  }

  #hidden = () => {
    this.wasHidden = true;
  };

  #tick(): void {
    const now = performance.now();
    const { due } = this.#meter;
    this.#meter.tick(now);
    if (due !== undefined && now - due > StagMeter.TOLERANCE_MS) this.#late.push([due - this.#begun, now - due]);
    if (this.#ended) {
      document.removeEventListener("visibilitychange", this.#hidden);
      return this.#ended();
    }
    this.#timer = setTimeout(() => this.#tick(), StagMeter.PERIOD_MS);
  }

  /** Ends at once. */
  stop(): void {
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#hidden);
  }
}
