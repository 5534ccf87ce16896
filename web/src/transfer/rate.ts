/** The most bytes a second that uploads send, as set by the user on this device. */
import { effect, signal } from "@preact/signals";

/** Rates to choose from, in bytes a second; 0 is no limit. */
export const RATES = [0, 500_000, 2_000_000, 10_000_000] as const;

export const limit = signal<number>(kept());

export function startRate(): void {
  effect(() => localStorage.setItem(KEY, String(limit.value)));
}

function kept(): number {
  const found = Number(localStorage.getItem(KEY));
  return RATES.find((rate) => rate === found) ?? 0;
}

const KEY = "deltic.rate";
