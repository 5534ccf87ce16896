/** Formats of numbers, lengths and times in a language. */
import { shown } from "../transfer/names";

export interface Numbers {
  count: (n: number) => string;
  bytes: (n: number) => string;
  /** The time of the day. */
  time: (ms: number) => string;
  /** The day and the time, in a shorter form for recent times. */
  when: (ms: number) => string;
  /** The times of a list, with seconds where two times would look equal. */
  whens: (times: readonly number[]) => string[];
  duration: (seconds: number) => string;
  milliseconds: (ms: number) => string;
  /** Compares names in the order of the language. Digits compare as numbers. */
  compare: (a: string, b: string) => number;
}

/** Quotes a name for a sentence, and isolates the text direction of the name. */
export const name = (text: string): string => `${quotes[0]}\u2068${shown(text)}\u2069${quotes[1]}`;

let quotes = "“”";
export function useQuotes(pair: string): void {
  quotes = pair;
}

export function numbers(lang: string, words: { today: string; yesterday: string }): Numbers {
  const plain = new Intl.NumberFormat(lang);
  const digits = [0, 1, 2].map(
    (n) => new Intl.NumberFormat(lang, { minimumFractionDigits: n, maximumFractionDigits: n, useGrouping: false }),
  );
  const clock = new Intl.DateTimeFormat(lang, { hour: "2-digit", minute: "2-digit", hour12: false });
  const day = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short" });
  const year = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short", year: "numeric" });
  const exact = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  const collator = new Intl.Collator(lang, { numeric: true, sensitivity: "variant" });

  const when = (ms: number): string => {
    const then = new Date(ms);
    const now = new Date();
    if (then.toDateString() === now.toDateString()) return `${words.today} ${clock.format(then)}`;
    const before = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
    if (then.toDateString() === before.toDateString()) return `${words.yesterday} ${clock.format(then)}`;
    const recent = then.getFullYear() === now.getFullYear();
    return recent ? `${day.format(then)} ${clock.format(then)}` : year.format(then);
  };

  return {
    count: (n) => plain.format(n),
    bytes: (n) => {
      let unit = 0;
      let value = n;
      while (value >= 999.5 && unit < UNITS.length - 1) {
        value /= 1000;
        unit++;
      }
      const fraction = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 || unit === 1 ? 1 : 2;
      const short = unit === 1 && value >= 9.95 ? 0 : fraction;
      return `${digits[short]!.format(value)}\u00a0${UNITS[unit]}`;
    },
    time: (ms) => clock.format(ms),
    when,
    whens: (times) => {
      const short = times.map(when);
      return short.map((text, i) => (short.indexOf(text) === short.lastIndexOf(text) ? text : exact.format(times[i])));
    },
    duration: (seconds) => {
      if (seconds < 90) return `${plain.format(Math.max(1, Math.round(seconds)))}\u00a0s`;
      if (seconds < 5400) return `${plain.format(Math.round(seconds / 60))}\u00a0min`;
      return `${plain.format(Math.round(seconds / 3600))}\u00a0h`;
    },
    milliseconds: (ms) => `${plain.format(Math.round(ms))}\u00a0ms`,
    compare: collator.compare,
  };
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
