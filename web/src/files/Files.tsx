/** The screen of a folder: a bar of actions, a list of rows, and a pane with details of the selected row. */
import type { JSX } from "preact";
import { root } from "../root";
import { folderAddress, follow, route, screenAddress } from "../route";
import { format, t } from "../text";
import { Icon } from "../ui/Icon";
import { Strip } from "../ui/Strip";
import { shown } from "../transfer/names";
import { askDelete, dialog, download, pick, share } from "./actions";
import { entries, query, reload, rights, rows, selected, selection, status, targets, volume } from "./folder";
import { Below } from "./Below";
import { foundBelow, searchStatus } from "./searching";
import { List } from "./List";
import { Pane } from "./Pane";

export function Files(): JSX.Element {
  const { volume: name, path } = route.value;
  return (
    <>
      <h1 class="sr">{shown(path.at(-1) ?? name ?? "")}</h1>
      {selected.value.length ? <PickedBar /> : <FolderBar />}
      <Body />
    </>
  );
}

function Body(): JSX.Element {
  const words = t();
  const now = status.value;
  const searching = query.value.trim();
  if (now === "missing")
    return <Empty title={words.noFolder} help={words.noFolderHelp([route.value.volume, ...route.value.path].join("/"))} />;
  if (typeof now === "object")
    return (
      <Empty title={words.cannotRead} help={words.notNow(now.refused)}>
        <button class="btn" onClick={reload}>
          <Icon is="again" />
          {words.tryAgain}
        </button>
      </Empty>
    );
  if (now === "ready" && entries.value.length === 0 && !searching) return <Nothing />;
  const isBelow = searching && (foundBelow.value.length > 0 || searchStatus.value !== "done");
  if (searching && rows.value.length === 0 && now === "ready") {
    if (isBelow) return <Below />;
    return (
      <Empty title={words.noSuchName(searching)}>
        <button class="btn" onClick={() => (query.value = "")}>
          {words.clear} <kbd>Esc</kbd>
        </button>
      </Empty>
    );
  }
  return (
    <div class="split">
      <List />
      <Pane />
    </div>
  );
}

function FolderBar(): JSX.Element {
  const words = t();
  const { volume: name, path } = route.value;
  const found = query.value.trim();
  const isThere = status.value !== "missing";
  const may = isThere ? volume.value : undefined;
  return (
    <div class="bar">
      <nav aria-label={words.folder}>
        <ol class="crumbs">
          <li>
            <a href={folderAddress(undefined, [])} onClick={follow} aria-label={words.volumes}>
              <Icon is="disk" />
            </a>
          </li>
          {[name!, ...path].map((step, depth) => (
            <li key={depth}>
              {depth === path.length ? (
                <span aria-current="location">
                  <bdi>{shown(step)}</bdi>
                </span>
              ) : (
                <a href={folderAddress(name, path.slice(0, depth))} onClick={follow}>
                  <bdi>{shown(step)}</bdi>
                </a>
              )}
            </li>
          ))}
        </ol>
      </nav>
      {found && rows.value.length > 0 && <span class="soft mid found">{words.found(rows.value.length, found)}</span>}
      <span class="push" />
      {may?.versions && may.read && (
        <>
          <a class="btn" href={screenAddress("past")} aria-label={words.asOf} title={words.asOf} onClick={follow}>
            <Icon is="clock" />
            <span>{words.asOf}</span>
          </a>
          <a class="btn" href={screenAddress("deleted")} aria-label={words.deletedFiles} title={words.deletedFiles} onClick={follow}>
            <Icon is="bin" />
            <span>{words.deletedFiles}</span>
          </a>
        </>
      )}
      {isThere && rights.value?.share && (
        <button class="btn" aria-label={words.share} onClick={() => share()}>
          <Icon is="link" />
          <span>{words.share}</span>
        </button>
      )}
      {may?.write && (
        <>
          <button class="btn" aria-label={words.newFolder} onClick={() => (dialog.value = { kind: "folder" })}>
            <Icon is="plus" />
            <span>{words.newFolder}</span>
          </button>
          <button class="btn" aria-label={words.addFolder} onClick={() => pick("folder")}>
            <Icon is="folder" />
            <span>{words.addFolder}</span>
          </button>
          <button class="btn main-b" aria-label={words.addFiles} onClick={() => pick("files")}>
            <Icon is="up" />
            <span>{words.addFiles}</span>
          </button>
        </>
      )}
    </div>
  );
}

function PickedBar(): JSX.Element {
  const words = t();
  const some = targets.value;
  const files = some.filter(({ type }) => type === "file");
  const may = volume.value;
  const bytes = files.reduce((sum, entry) => sum + entry.bytes, 0);
  return (
    <div class="bar">
      <div class="picked">
        <button class="btn ghost icon" aria-label={words.clearSelection} onClick={() => (selection.value = new Set())}>
          <Icon is="x" />
        </button>
        <b>{words.selected(some.length)}</b>
        <span class="soft wide">{format().bytes(bytes)}</span>
      </div>
      <span class="push" />
      {may?.read && (
        <button class="btn" aria-label={words.download} disabled={!some.length} onClick={() => void download(some)}>
          <Icon is="down" />
          <span>{words.download}</span>
        </button>
      )}
      {may?.write && some.length === 1 && (
        <button class="btn" aria-label={words.rename} onClick={() => (dialog.value = { kind: "rename", entry: some[0]! })}>
          <Icon is="pen" />
          <span>{words.rename}</span>
        </button>
      )}
      {may?.write && (
        <button class="btn" aria-label={words.moveTo} onClick={() => (dialog.value = { kind: "move", entries: some })}>
          <Icon is="folder" />
          <span>{words.moveTo}</span>
        </button>
      )}
      {may?.delete && (
        <button class="btn danger" aria-label={words.remove} onClick={() => void askDelete(some)}>
          <Icon is="bin" />
          <span>{words.remove}</span>
        </button>
      )}
    </div>
  );
}

function Nothing(): JSX.Element {
  const words = t();
  const { volume: name, path } = route.value;
  const place = [name!, ...path].map(encodeURIComponent).join("/");
  if (!volume.value?.write) return <Empty title={words.nothingHere} help={words.nothingHereRead} />;
  return (
    <div class="empty">
      <div>
        <div class="first" aria-hidden="true">
          <span>{words.firstTime}</span>
          <Strip kind="thick" shares={{ kept: 0, sent: 1, toSend: 0, of: 1 }} />
          <span>{words.fromThenOn}</span>
          <Strip kind="thick" shares={{ kept: 94, sent: 6, toSend: 0, of: 100 }} />
        </div>
        <h2 class="t6">{words.nothingHere}</h2>
        <p class="soft">{words.nothingHereHelp}</p>
        <div class="btns">
          <button class="btn main-b" onClick={() => pick("files")}>
            <Icon is="up" />
            {words.addFiles}
          </button>
          <button class="btn" onClick={() => pick("folder")}>
            <Icon is="folder" />
            {words.addFolder}
          </button>
        </div>
        <p class="small faint">
          {words.terminal}{" "}
          <code>
            deltic sync -a DIR/ {root()}
            {place}/
          </code>
        </p>
      </div>
    </div>
  );
}

interface EmptyProps {
  title: string;
  help?: string;
  children?: JSX.Element;
}

function Empty({ title, help, children }: EmptyProps): JSX.Element {
  return (
    <div class="empty">
      <div>
        <h2 class="t6">{title}</h2>
        {help && <p class="soft">{help}</p>}
        {children && <div class="btns">{children}</div>}
      </div>
    </div>
  );
}

