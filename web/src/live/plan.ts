/** Asks the engine for the plan of a synced folder. The page has no rules of its own. */
import { plan } from "../transfer/delta/client";
import type { Common, FileState, Node, Plan, Tree } from "./types";

const array = ({ tag, bytes, modified, digest }: FileState) => [tag, bytes, Math.trunc(modified), digest ?? null];
const node = (of: Node) => (typeof of === "string" ? of : array(of));
const common = (of: Common) => (of === "d" ? of : [array(of.here), array(of.there)]);

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
  const request = {
    ancestor: Array.from(ancestor, ([path, of]) => [path, common(of)]),
    here: Array.from(here, ([path, of]) => [path, node(of)]),
    there: Array.from(there, ([path, of]) => [path, node(of)]),
    day: `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
    here_name: "this device",
    there_name: "server",
    confirmed,
    deleted,
  };
  return (await plan(request)) as Plan;
}
