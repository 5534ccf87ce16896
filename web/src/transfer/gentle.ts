/**
 * The gentle rate: uploads leave room for others on the same network. A full network makes packets wait, so the time of
 * a request tells how full the network is: at most twice as long as without uploads.
 */
/** The rate of a transfer that began just now, and the least and most, in bytes a second. */
export const FIRST = 250_000;
const LEAST = 30_000;
const MOST = 100_000_000;
/** Requests on the same machine take a time of chance. */
const SLACK_MS = 20;
/** Growth of the rate from one request to the next, on an empty network. */
const GAIN = 0.015;

/** Finds the rate at which requests take at most twice as long as without uploads. */
export class GentleRate {
  /** Bytes a second. */
  rate = FIRST;
  #idle: number;
  #hasFilled = false;

  /** `idle` is the time of a request without uploads, in ms. */
  constructor(idle: number) {
    this.#idle = idle;
  }

  /** Takes the time of a request, in ms, and returns the rate from now on. */
  heard(time: number): number {
    this.#idle = Math.min(this.#idle, time);
    // Half of the longest wait, since the time varies around the aim.
    const wait = Math.max(this.#idle, SLACK_MS) / 2;
    const off = 1 - (time - this.#idle) / wait;
    if (off < 0 && !this.#hasFilled) {
      this.#hasFilled = true;
      this.rate /= 2;
    }
    this.rate *= this.#hasFilled ? 1 + GAIN * Math.max(off, -20) : 1.5;
    this.rate = Math.min(MOST, Math.max(LEAST, this.rate));
    return this.rate;
  }
}
