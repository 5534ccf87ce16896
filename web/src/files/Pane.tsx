/** The details of the selected entry; on wide screens the details stand beside the list. */
import type { JSX } from "preact";
import { follow, route, screenAddress } from "../route";
import { format, t } from "../text";
import { canUpdateCopies } from "../transfer/delta/copy";
import { shown } from "../transfer/names";
import { Icon } from "../ui/Icon";
import { askDelete, dialog, download, share, updateMine } from "./actions";
import { ChangeInWords } from "./Versions";
import { active, rights, rows, volume } from "./folder";

export function Pane(): JSX.Element {
  const words = t();
  const entry = rows.value.find(({ name }) => name === active.value) ?? rows.value[0];
  if (!entry) return <aside class="pane" aria-label={words.details} />;
  const may = volume.value;
  const kind = { file: words.kindFile, dir: words.kindFolder, symlink: words.kindLink, special: words.kindSpecial };
  return (
    <aside class="pane" aria-label={words.details}>
      <div class="stack s2">
        <h2>
          <bdi>{shown(entry.name)}</bdi>
        </h2>
        <p class="small soft">
          {entry.type === "file" ? `${format().bytes(entry.bytes)} · ` : ""}
          {format().when(entry.modified * 1000)}
          {entry.change?.by ? ` · ${words.byWhom(entry.change.by)}` : ""}
        </p>
      </div>
      {entry.change && (
        <section class="stack s2" aria-label={words.lastChangeMoved}>
          <b class="small">{words.lastChangeMoved}</b>
          <ChangeInWords change={entry.change} />
        </section>
      )}
      <div class="acts2">
        {(entry.type === "file" || entry.type === "dir") && may?.read && (
          <button class="btn main-b" onClick={() => void download([entry])}>
            <Icon is="down" />
            {entry.type === "dir" ? words.downloadZip : words.download}
          </button>
        )}
        {entry.type === "file" && may?.read && canUpdateCopies() && (
          <button class="btn" onClick={() => void updateMine(entry)}>
            <Icon is="again" />
            {words.updateMine}
          </button>
        )}
        {entry.type === "file" && may?.read && may.versions && (
          <a class="btn" href={screenAddress("versions", entry.name)} onClick={follow}>
            <Icon is="clock" />
            {words.versions}
          </a>
        )}
        {entry.type === "dir" && rights.value?.share && (
          <button class="btn" onClick={() => share(entry)}>
            <Icon is="link" />
            {words.share}
          </button>
        )}
        {may?.write && (
          <button class="btn" onClick={() => (dialog.value = { kind: "rename", entry })}>
            <Icon is="pen" />
            {words.rename}
          </button>
        )}
        {may?.delete && (
          <button class="btn" onClick={() => void askDelete([entry])}>
            <Icon is="bin" />
            {words.remove}
          </button>
        )}
      </div>
      <dl class="facts">
        <dt>{words.kind}</dt>
        <dd>{kind[entry.type]}</dd>
        {entry.type === "file" && (
          <>
            <dt>{words.length}</dt>
            <dd>{format().count(entry.bytes)} B</dd>
          </>
        )}
        <dt>{words.path}</dt>
        <dd class="mono">
          <bdi>{shown([...route.value.path, entry.name].join("/"))}</bdi>
        </dd>
      </dl>
    </aside>
  );
}
