/**
 * The user's consent to the deletion of many files. A consent is for the files of the question, and for no others: a plan
 * that deletes another file too is a new question.
 */
import { planOf, type Trees } from "./plan";
import type { End, Plan } from "./types";

export class Consent {
  /** Files that the last question was about. */
  #asked: ReadonlySet<string> = new Set();
  /** Files that the user has agreed to delete. */
  #agreed: ReadonlySet<string> = new Set();
  /** Files that were deleted here and there without a question, since the user was asked last. */
  #deleted: [number, number] = [0, 0];

  /** Returns the plan: without its steps, if the user must be asked first. */
  async plan(trees: Trees): Promise<Plan> {
    const plan = await planOf(trees, false, this.#deleted);
    if (!plan.guard) return plan;
    const agreed = await planOf(trees, true, this.#deleted);
    const isFile = (end: End, path: string) => typeof trees[end].get(path) === "object";
    const files = agreed.steps.flatMap((step) => (step.is === "delete" && isFile(step.end, step.path) ? [key(step.end, step.path)] : []));
    if (files.every((file) => this.#agreed.has(file))) return agreed;
    this.#asked = new Set(files);
    return plan;
  }

  /** The user agrees to the deletions of the last question. */
  give(): void {
    this.#agreed = this.#asked;
    this.#deleted = [0, 0];
  }

  /** The user wants the files of the last question back. */
  refuse(): void {
    this.end();
    this.#deleted = [0, 0];
  }

  /** Ends the consent: its plan was executed, or could not be. */
  end(): void {
    this.#agreed = new Set();
  }

  /** Counts a file that was deleted. */
  count(end: End, path: string): void {
    if (!this.#agreed.has(key(end, path))) this.#deleted[end === "here" ? 0 : 1]++;
  }
}

const key = (end: End, path: string): string => `${end}/${path}`;
