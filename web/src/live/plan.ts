/** Asks the engine for the plan of a synced folder. The page has no rules of its own. */
import { plan } from "../transfer/delta/client";
import type { Common, FileState, Node, Plan, Tree } from "./types";

const array = ({ tag, bytes, modified, digest }: FileState) => [tag, bytes, Math.trunc(modified), digest ?? null];
const node = (of: Node) => (typeof of === "string" ? of : array(of));
const common = (of: Common) => (of === "d" ? of : [array(of.here), array(of.there)]);

/** Writes a tree as JSON, in parts: the page reacts between two parts. */
async function textOf<T>(tree: ReadonlyMap<string, T>, shown: (of: T) => unknown): Promise<string> {
  const parts: string[] = [];
  let some: unknown[] = [];
  const put = () => {
    if (some.length > 0) parts.push(JSON.stringify(some).slice(1, -1));
    some = [];
  };
  for (const [path, of] of tree) {
    some.push([path, shown(of)]);
    if (some.length < PART) continue;
    put();
    await new Promise<void>((resolve) => setTimeout(resolve));
  }
  put();
  return `[${parts.join()}]`;
}

export interface Trees {
  ancestor: ReadonlyMap<string, Common>;
  here: Tree;
  there: Tree;
}

/**
 * Returns the plan. With `confirmed`, the plan may delete most files of an end. `deleted` has the numbers of files that
 * earlier plans deleted here and there.
 */
export async function planOf({ ancestor, here, there }: Trees, confirmed: boolean, deleted: readonly [number, number]): Promise<Plan> {
  const now = new Date();
  const two = (n: number) => String(n).padStart(2, "0");
  const rest = {
    day: `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
    here_name: "this device",
    there_name: "server",
    confirmed,
    deleted,
  };
  const trees = [await textOf(ancestor, common), await textOf(here, node), await textOf(there, node)];
  return (await plan(`{"ancestor":${trees[0]},"here":${trees[1]},"there":${trees[2]},${JSON.stringify(rest).slice(1)}`)) as Plan;
}

/** Entries of a part of the text. */
const PART = 4_000;
