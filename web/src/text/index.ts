/** Texts of the page in the user's language. `t()` is called while drawing, so a new language redraws the page. */
import { computed, signal } from "@preact/signals";
import { german } from "./de";
import { english, type Words } from "./en";
import { numbers, useQuotes, type Numbers } from "./numbers";

export type Language = "en" | "de";

export const language = signal<Language>(first());

const both = computed<{ words: Words; numbers: Numbers }>(() => {
  if (language.value === "de") {
    const n = numbers("de", { today: "heute", yesterday: "gestern" });
    useQuotes("„“");
    return { words: german(n), numbers: n };
  }
  const n = numbers("en-GB", { today: "Today", yesterday: "Yesterday" });
  useQuotes("“”");
  return { words: english(n), numbers: n };
});

export const t = (): Words => both.value.words;
export const format = (): Numbers => both.value.numbers;

export function speak(next: Language): void {
  localStorage.setItem(KEY, next);
  language.value = next;
}

function first(): Language {
  const kept = localStorage.getItem("deltic.language");
  if (kept === "en" || kept === "de") return kept;
  return navigator.languages.find((tag) => /^(en|de)\b/.test(tag))?.startsWith("de") ? "de" : "en";
}

const KEY = "deltic.language";
