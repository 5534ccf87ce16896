/** The rate limit of uploads in bytes a second, as set by the user on this device. */
import { computed, effect, signal } from "@preact/signals";
import { FIRST } from "./gentle";

const KEY = "deltic.rate";
/** Stands for the gentle rate, which leaves room for other traffic (`gentle.ts`). */
export const GENTLE = -1;
/** Rates to choose from, in bytes a second; 0 is no limit. */
export const RATES = [0, GENTLE, 500_000, 2_000_000, 10_000_000] as const;

export const limit = signal<number>(kept());
/** The present gentle rate, in bytes a second. */
export const gentleRate = signal(FIRST);
/** The present limit of the engine, in bytes a second; 0 is no limit. */
export const pace = computed(() => (limit.value === GENTLE ? gentleRate.value : limit.value));

export function startRate(): void {
  effect(() => localStorage.setItem(KEY, String(limit.value)));
}

function kept(): number {
  const found = Number(localStorage.getItem(KEY));
  return RATES.find((rate) => rate === found) ?? 0;
}
