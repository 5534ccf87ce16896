/**
 * The gentle rate: uploads leave room for other traffic on the network. A full network delays packets, so the time of a
 * request shows how full the network is. The aim is at most twice the time of a request without uploads.
 */
/** The first, the least and the greatest rate of a transfer, in bytes a second. */
export const FIRST = 250_000;
const LEAST = 30_000;
const MOST = 100_000_000;
/** Times below this vary by chance, as for requests on the same machine. */
const SLACK_MS = 20;
/** Growth of the rate per request, on an empty network. */
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

  /** Adjusts the rate to the time of a request, in ms. Returns the new rate. */
  heard(time: number): number {
    this.#idle = Math.min(this.#idle, time);
    // Aim at half of the greatest allowed delay, since the time varies around the aim.
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
