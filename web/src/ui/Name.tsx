/** The name of a file. The ending of the name is always shown whole and last, for long names and for right-to-left names. */
import type { JSX } from "preact";
import { parts, shown } from "../transfer/names";

export function Name({ of, find = "" }: { of: string; find?: string }): JSX.Element {
  const { stem, ending } = parts(of);
  return (
    <span class="w0">
      <bdi class="stem">{marked(shown(stem), find)}</bdi>
      {ending && <span class="ext">{shown(ending)}</span>}
    </span>
  );
}

function marked(stem: string, find: string): JSX.Element | string {
  const at = find ? stem.toLocaleLowerCase().indexOf(find.toLocaleLowerCase()) : -1;
  if (at < 0) return stem;
  return (
    <>
      {stem.slice(0, at)}
      <mark>{stem.slice(at, at + find.length)}</mark>
      {stem.slice(at + find.length)}
    </>
  );
}
