/**
 * Deletions wait, and are looked at again: while a folder is being removed or moved, some of its files are gone before
 * others.
 */
import { pause } from "../api/http";
import type { Ends } from "./ends";
import { parent, type Plan, type Step } from "./types";

export class Settling {
  /** The deletions of the last plan, and the time of that plan. */
  #last = "";
  #at = 0;

  /** True if the deletions of the plan are new, and wait. */
  begins({ steps }: Plan): boolean {
    const deletions = JSON.stringify(steps.filter(({ is }) => is === "delete"));
    const isNew = deletions !== this.#last && deletions !== "[]";
    this.#last = deletions;
    this.#at = performance.now();
    return isNew;
  }

  /**
   * Waits, and marks what the next round looks at: the end where files are gone. If the whole folder of this end is gone,
   * as with a stick that was pulled, the round ends. An empty folder is listed again: the plan then asks the user.
   */
  async wait({ steps }: Plan, { here, there }: Ends, isObserved: boolean, stop: AbortSignal): Promise<void> {
    const left = SETTLE_SECS - (performance.now() - this.#at) / 1000;
    if (left > 0) await pause(left, stop);
    here.isChanged = true;
    if (!isObserved) here.markAll();
    const deletions = steps.flatMap((step) => (step.is === "delete" ? [step] : []));
    for (const { end, path } of deletions) (end === "here" ? there : here).mark(path);
    const [goHere, goThere] = (["here", "there"] as const).map((at) => deletions.some(({ end }) => end === at));
    // Of programs that delete many files there, the last look may have seen a part.
    if (goHere && there.tookMs < QUICK_MS) there.markAll();
    if (goThere && !(await here.end.hasEntries())) here.markAll();
    if (goHere && !(await there.end.hasEntries())) there.markAll();
  }
}

/** Returns the steps that need not wait for the deletions of a plan, and do not stand in for them. */
export function withoutDeletions(steps: readonly Step[]): Step[] {
  // Names that fold together are never created beside each other, and a folder takes the place of a file only after it.
  const folded = (path: string) => path.normalize("NFKC").toLowerCase();
  const waiting = new Set<string>();
  for (const step of steps) {
    if (step.is === "delete" || step.is === "aside" || step.is === "move") waiting.add(folded(step.path));
    if ("to" in step) waiting.add(folded(step.to));
  }
  const isFree = (path: string): boolean => path === "" || (!waiting.has(folded(path)) && isFree(parent(path)));
  return steps.filter(({ is, path }) => (is === "make" || is === "transfer") && isFree(path));
}

/** Time from the first sight of a deletion to its execution. */
const SETTLE_SECS = 0.7;
/** Longest time of a look at all of the server that is repeated before files are deleted here. */
const QUICK_MS = 500;
