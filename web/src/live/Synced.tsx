/** The screen of synced folders: a card for each folder, with the state, what to do, and the last edits. */
import type { JSX } from "preact";
import { here } from "../files/folder";
import { folderAddress, follow } from "../route";
import { format, t } from "../text";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { Name } from "../ui/Name";
import type { Status } from "./follower";
import { addFolder, allowFolder, dropEarlier, earlier, folders, pauseFolder, resumeFolder, stopFolder, takeEarlier, type Folder } from "./folders";
import type { Edit, Trouble } from "./steps";

export function Synced(): JSX.Element {
  const words = t();
  const to = here.value;
  const add = async () => {
    const done = await addFolder(to!).catch((error: unknown) => (say(String(error), "bad"), "none" as const));
    if (done === "twice") say(words.syncedTwice, "bad");
  };
  return (
    <div class="page">
      <div class="head">
        <div class="stack s2">
          <h1>{words.synced}</h1>
          <p class="soft">{words.syncedHelp}</p>
        </div>
        <span class="push" />
        {to && (
          <button class="btn main-b" onClick={() => void add()}>
            <Icon is="plus" />
            {words.syncFolder(to.path.at(-1) ?? to.volume)}
          </button>
        )}
      </div>
      {!to && <p>{words.syncChoose}</p>}
      {earlier.value.length > 0 && (
        <section class="card" aria-label={words.earlierSynced(earlier.value.length)}>
          <div class="setr">
            <div>
              <b>{words.earlierSynced(earlier.value.length)}</b>
              <p class="help">{words.earlierSyncedHelp}</p>
            </div>
            <div>
              <button class="btn" onClick={() => void takeEarlier()}>
                {words.earlierGoOn}
              </button>
              <button class="btn ghost" onClick={() => void dropEarlier()}>
                {words.stopSync}
              </button>
            </div>
          </div>
        </section>
      )}
      <div class="cols2">
        {folders.value.map((folder) => (
          <Card folder={folder} key={folder.record.id} />
        ))}
      </div>
      <p class="help">{words.syncedFoot}</p>
    </div>
  );
}

function Card({ folder }: { folder: Folder }): JSX.Element {
  const words = t();
  const { record, follower } = folder;
  const status: Status = follower?.status.value ?? { is: "paused" };
  const troubles = follower?.troubles.value ?? [];
  const there = [record.to.volume, ...record.to.path].join("/");
  return (
    <article class="card sync" aria-label={record.name} data-status={status.is}>
      <header>
        <i class={`led ${lamp(status, troubles)}`} aria-hidden="true" />
        <h2>
          <Name of={record.name} />
        </h2>
        <span class="push" />
        <span class="small" role="status">
          {status.is === "synced" && troubles.length > 0 ? words.needYou(troubles.length) : words.syncStatus(status)}
        </span>
      </header>
      <div class="pad stack s2">
        <p class="way">
          <Icon is="folder" /> <Name of={record.name} /> <span class="faint">↔</span> <Icon is="disk" />{" "}
          <a href={folderAddress(record.to.volume, record.to.path)} onClick={follow}>
            <Name of={there} />
          </a>
        </p>
        {words.syncToDo(status) && <p>{words.syncToDo(status)}</p>}
        {troubles.length > 0 && <Troubles of={troubles} />}
        {follower && follower.edits.value.length > 0 && <Edits of={follower.edits.value} />}
      </div>
      <footer>
        {status.is === "permission" && (
          <button class="btn main-b" onClick={() => void allowFolder(folder)}>
            {words.allowFolder}
          </button>
        )}
        {status.is === "asking" && (
          <>
            <button class="btn" onClick={() => follower?.bringBack()}>
              {words.bringBack}
            </button>
            <button class="btn" onClick={() => follower?.confirm()}>
              {words.deleteToo(status.guard.files)}
            </button>
          </>
        )}
        {(status.is === "missing" || status.is === "refused" || status.is === "offline" || troubles.length > 0) && (
          <button class="btn" onClick={() => follower?.again()}>
            {words.tryNow}
          </button>
        )}
        {follower ? (
          <button class="btn ghost" onClick={() => void pauseFolder(folder)}>
            <Icon is="pause" />
            {words.pauseSync}
          </button>
        ) : (
          <button class="btn" onClick={() => void resumeFolder(folder)}>
            <Icon is="go" />
            {words.resumeSync}
          </button>
        )}
        <span class="push" />
        <button class="btn ghost" onClick={() => void stopFolder(folder)}>
          {words.stopSync}
        </button>
      </footer>
    </article>
  );
}

function lamp({ is }: Status, troubles: readonly Trouble[]): string {
  if (troubles.length > 0 || is === "permission" || is === "missing" || is === "refused" || is === "asking") return "off";
  return is === "synced" || is === "working" ? "on" : "off";
}

function Troubles({ of }: { of: readonly Trouble[] }): JSX.Element {
  const words = t();
  return (
    <ul class="evs troubles" aria-label={words.needYou(of.length)}>
      {of.slice(0, SHOWN).map(({ path, why }) => (
        <li key={path + why.is}>
          {path && (
            <b>
              <Name of={path} />
            </b>
          )}{" "}
          {words.syncTrouble(why)}
        </li>
      ))}
      {of.length > SHOWN && <li>{words.others(of.length - SHOWN)}</li>}
    </ul>
  );
}

function Edits({ of }: { of: readonly Edit[] }): JSX.Element {
  const words = t();
  return (
    <ul class="evs" aria-label={words.lastEdits}>
      {of.slice(0, 3).map(({ step, bytes, ms, at }) => (
        <li class="ev" key={`${at} ${step.path} ${step.is}`}>
          <span class="nm">
            <Name of={"to" in step ? step.to : step.path} />
          </span>
          <span class="soft">{words.syncEdit(step, bytes, ms)}</span>
          <span class="faint num">{format().time(at)}</span>
        </li>
      ))}
    </ul>
  );
}

const SHOWN = 10;
