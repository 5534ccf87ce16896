/** Questions about conflicting versions. An answer is for a single file, or for all files of a batch. */
import { signal } from "@preact/signals";
import type { Version } from "../api/volumes";
import type { Batch, Item } from "./queue";

/** `mine` replaces the server's version, `theirs` keeps that version, `both` uploads under another name. */
export type Choice = "mine" | "theirs" | "both" | "later";

export interface Conflict {
  item: Item;
  file: File;
  there: Version;
  batch: Batch;
}

interface Question extends Conflict {
  answer: (choice: Choice) => void;
}

export const questions = signal<readonly Question[]>([]);
/** Answers for the rest of a batch. */
const forAll = new WeakMap<Batch, Choice>();

export function decide(conflict: Conflict, stop: AbortSignal): Promise<Choice> {
  if (stop.aborted) return Promise.reject(stop.reason);
  const all = forAll.get(conflict.batch);
  if (all) return Promise.resolve(all);
  return new Promise((resolve, reject) => {
    const question: Question = {
      ...conflict,
      answer: (choice) => {
        take(question);
        resolve(choice);
      },
    };
    stop.addEventListener(
      "abort",
      () => {
        take(question);
        reject(stop.reason);
      },
      { once: true },
    );
    questions.value = [...questions.value, question];
  });
}

/** Answers the first question. With `all`, the answer is for all questions of the batch, now and later. */
export function answer(choice: Choice, all: boolean): void {
  const [first, ...rest] = questions.value;
  if (!first) return;
  if (all && choice !== "later") forAll.set(first.batch, choice);
  first.answer(choice);
  if (all) for (const other of rest) if (other.batch === first.batch) other.answer(choice);
}

function take(question: Question): void {
  questions.value = questions.value.filter((other) => other !== question);
}
