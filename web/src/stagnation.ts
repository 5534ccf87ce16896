/**
 * StagMeter of the WebR2sync paper (section 3.3): a timer of the page's own thread is due ten times a second. A tick that
 * comes later than due shows that the page did not react meanwhile. The sum of these delays is the stagnation.
 */
export class StagMeter {
  /** Time between two ticks. */
  static readonly PERIOD_MS = 100;
  /** A shorter delay is the inaccuracy of timers, and counts as none. */
  static readonly TOLERANCE_MS = 50;

  /** Sum of delays, in ms. */
  stagnation = 0;
  /** Longest delay, in ms, also below the tolerance. */
  longest = 0;
  /** Measured time, in ms. */
  measured = 0;
  due: number | undefined;

  /** Takes the time of a tick, in ms. The next tick is due after `PERIOD_MS`. */
  tick(now: number): void {
    if (this.due !== undefined) {
      const late = Math.max(0, now - this.due);
      this.measured += StagMeter.PERIOD_MS + late;
      this.longest = Math.max(this.longest, late);
      if (late > StagMeter.TOLERANCE_MS) this.stagnation += late;
    }
    this.due = now + StagMeter.PERIOD_MS;
  }

  /** Pauses the measurement until the next tick. */
  rest(): void {
    this.due = undefined;
  }
}
