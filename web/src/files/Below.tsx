/** The entries of subfolders that match the search, below the list of the folder. */
import type { JSX } from "preact";
import type { FoundEntry } from "../api/volumes";
import { folderAddress, follow, route } from "../route";
import { format, t } from "../text";
import { parts, shown } from "../transfer/names";
import { Icon, iconOf } from "../ui/Icon";
import { Name } from "../ui/Name";
import { foundBelow, searchOn, searchStatus } from "./searching";
import { activeNext, query } from "./folder";

export function Below(): JSX.Element | null {
  const words = t();
  const state = searchStatus.value;
  const found = foundBelow.value;
  if (state === "done" && !found.length) return null;
  return (
    <section class="below" aria-label={words.inSubfolders}>
      <h2 class="t3">{words.inSubfolders}</h2>
      <ul>
        {found.map((entry) => (
          <FoundRow entry={entry} key={entry.path.join("/")} />
        ))}
      </ul>
      <p class="lfoot" role="status">
        {state === "searching" ? words.searching : typeof state === "object" ? words.notNow(state.refused) : words.foundBelow(found.length)}{" "}
        {state === "more" && (
          <button class="btn" onClick={() => void searchOn()}>
            {words.searchMore}
          </button>
        )}
      </p>
    </section>
  );
}

function FoundRow({ entry }: { entry: FoundEntry }): JSX.Element {
  const { volume } = route.value;
  const folder = entry.type === "dir" ? entry.path : entry.path.slice(0, -1);
  const open = (event: MouseEvent) => {
    if (entry.type !== "dir") activeNext(entry.name);
    follow(event);
  };
  return (
    <li>
      <a href={folderAddress(volume, folder)} onClick={open}>
        <span class="nm">
          <Icon is={iconOf(entry.type, parts(entry.name).ending)} />
          <Name of={entry.name} find={query.value.trim()} />
        </span>
        <span class="soft small">
          <bdi>{entry.path.slice(0, -1).map(shown).join(" / ")}</bdi>
          {entry.type === "file" && ` · ${format().bytes(entry.bytes)}`}
          {` · ${format().when(entry.modified * 1000)}`}
        </span>
      </a>
    </li>
  );
}
