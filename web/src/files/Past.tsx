/** The screen of a folder as of a moment, with deleted entries whose versions the volume still keeps. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "../api/http";
import { listPast, restore, type PastEntry, type Place } from "../api/volumes";
import { follow, go, pastAddress, route } from "../route";
import { format, t } from "../text";
import { shown } from "../transfer/names";
import { downloadVersion, plain } from "../transfer/plain";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { Name } from "../ui/Name";
import { Back } from "./Back";
import { reason } from "./actions";
import { volume } from "./folder";
import { canSave, restoreAll, saveAll } from "./pastFiles";

interface Listed {
  entries: readonly PastEntry[];
  younger: number;
  isWhole: boolean;
  failed?: string;
}

export function Past(): JSX.Element {
  const words = t();
  const { volume: volumeName = "", path, moment } = route.value;
  // The list, the buttons and the restore are of one moment, however long the screen is open.
  const now = useSignal(Math.floor(Date.now() / 1000)).value;
  const at = moment ?? now - DAY;
  const place: Place = { volume: volumeName, path };
  const name = path.at(-1) ?? volumeName;
  const listed = useSignal<Listed | undefined>(undefined);
  /** Files that were restored so far; undefined while none is being restored. */
  const restored = useSignal<number | undefined>(undefined);
  const asks = useSignal(false);
  const again = useSignal(0);

  useEffect(() => {
    const stop = new AbortController();
    listed.value = undefined;
    void load(place, at, stop.signal, (now) => (listed.value = now));
    return () => stop.abort();
  }, [volumeName, path.join("/"), moment, again.value]);

  const restoreFolder = async () => {
    asks.value = false;
    restored.value = 0;
    try {
      const { count, failed } = await restoreAll(place, at, (count) => (restored.value = count));
      if (failed[0]) say(`${words.pastRestored(count)} ${refusal(failed[0].error, failed[0].name)}`, "bad");
      else say(words.pastRestored(count));
    } catch (error) {
      say(refusal(error, name), "bad");
    }
    restored.value = undefined;
    again.value++;
  };
  const saveFolder = () => saveAll(place, at).then((count) => count === undefined || say(words.pastSaved(count)), (error: unknown) => say(reason(error), "bad"));

  const isRestoring = restored.value !== undefined;
  const { entries = [], younger = 0, isWhole = false, failed } = listed.value ?? {};
  return (
    <div class="page">
      <div class="head">
        <Back />
        <h1>
          <Name of={name} /> · {format().when(at * 1000)}
        </h1>
      </div>
      <section class="card">
        <div class="pad stack s2">
          <label class="lbl" for="moment">
            {words.pastMoment}
          </label>
          <span class="btns">
            <input
              id="moment"
              class="in"
              type="datetime-local"
              step="1"
              max={local(Math.floor(Date.now() / 1000))}
              value={local(at)}
              onChange={({ currentTarget }) => {
                const chosen = Math.floor(new Date(currentTarget.value).getTime() / 1000);
                if (chosen >= 0) go(pastAddress(volumeName, path, chosen));
              }}
            />
            {AGO.map(([what, seconds]) => (
              <a class="btn" href={pastAddress(volumeName, path, now - seconds)} onClick={follow} key={what}>
                {words.pastAgo(what)}
              </a>
            ))}
          </span>
        </div>
      </section>
      {failed && <p class="bad">{failed}</p>}
      <section class="card" aria-label={words.past(name)} aria-busy={!isWhole && !failed}>
        {isWhole && entries.length > 0 && (
          <div class="setr">
            <p class="help" role="status">
              {isRestoring ? words.pastRestoring(restored.value ?? 0) : ""}
            </p>
            <span class="btns">
              {canSave(place) && (
                <button class="btn" disabled={isRestoring} onClick={() => void saveFolder()}>
                  <Icon is="down" />
                  {words.pastSaveAll}
                </button>
              )}
              {volume.value?.write && (
                <button class="btn" disabled={isRestoring} onClick={() => (asks.value = true)}>
                  <Icon is="again" />
                  {words.pastRestoreAll}
                </button>
              )}
            </span>
          </div>
        )}
        {entries.slice(0, MOST).map((entry) => (
          <Row entry={entry} in={place} at={at} onRestored={() => again.value++} key={entry.name} />
        ))}
        {!isWhole && !failed && <p class="lfoot">{words.listing}</p>}
        {isWhole && entries.length === 0 && <p class="lfoot">{words.pastNone}</p>}
        {entries.length > MOST && <p class="lfoot">{words.others(entries.length - MOST)}</p>}
        {isWhole && younger > 0 && <p class="lfoot">{words.pastYounger(younger)}</p>}
      </section>
      <p class="help">{words.pastHelp}</p>
      {asks.value && (
        <Dialog
          title={words.pastRestoreAsk(name, at * 1000)}
          help={words.pastHelp}
          small
          onClose={() => (asks.value = false)}
          onSubmit={() => void restoreFolder()}
          foot={
            <>
              <button type="button" class="btn" onClick={() => (asks.value = false)}>
                {words.cancel}
              </button>
              <button class="btn main-b">{words.restore}</button>
            </>
          }
        />
      )}
    </div>
  );
}

interface RowProps {
  entry: PastEntry;
  in: Place;
  at: number;
  onRestored: () => void;
}

function Row({ entry, in: folder, at, onRestored }: RowProps): JSX.Element {
  const words = t();
  const { name, type, bytes, modified, version, now, etag } = entry;
  const place = { ...folder, path: [...folder.path, name] };
  const told = [bytes !== undefined && format().bytes(bytes), modified !== undefined && format().when(modified * 1000), words.pastIs(now)];
  const bringBack = async () => {
    try {
      await restore(place, version!, etag);
      say(words.fileBack(name));
    } catch (error) {
      say(refusal(error, name), "bad");
    }
    onRestored();
  };
  const load = () => (version === undefined ? plain.download(place, () => undefined, new AbortController().signal) : downloadVersion(place, version));
  return (
    <div class="setr" role="group" aria-label={shown(name)} data-now={now}>
      <div>
        <b>
          {type === "dir" ? (
            <a href={pastAddress(folder.volume, place.path, at)} onClick={follow}>
              <Icon is="folder" /> <Name of={name} />
            </a>
          ) : (
            <Name of={name} />
          )}
        </b>
        <p class="help">{told.filter(Boolean).join(" · ")}</p>
      </div>
      {type === "file" && (
        <span class="btns">
          <button class="btn" aria-label={`${words.download}: ${shown(name)}`} onClick={() => void load().catch((error: unknown) => say(reason(error), "bad"))}>
            <Icon is="down" />
            {words.download}
          </button>
          {version !== undefined && volume.value?.write && (
            <button class="btn" aria-label={`${words.restore}: ${shown(name)}`} onClick={() => void bringBack()}>
              <Icon is="again" />
              {words.restore}
            </button>
          )}
        </span>
      )}
    </div>
  );
}

async function load(place: Place, at: number, stop: AbortSignal, tell: (listed: Listed) => void): Promise<void> {
  const entries: PastEntry[] = [];
  let younger = 0;
  try {
    for await (const page of listPast(place, at, stop)) {
      entries.push(...page.entries);
      younger += page.younger;
      tell({ entries, younger, isWhole: false });
    }
    const order = ({ type, name }: PastEntry, other: PastEntry) => Number(other.type === "dir") - Number(type === "dir") || format().compare(name, other.name);
    tell({ entries: entries.sort(order), younger, isWhole: true });
  } catch (error) {
    if (stop.aborted) return;
    const keepsNone = error instanceof Problem && error.status === 404 && !volume.peek()?.versions;
    tell({ entries, younger, isWhole: false, failed: keepsNone ? t().keepsNone : reason(error) });
  }
}

function refusal(error: unknown, name: string): string {
  const isTaken = error instanceof Problem && error.status === 412;
  return isTaken ? t().changedMeanwhile(name) : t().failedFor(name, reason(error));
}

/** Returns a time as the browser's field has it: in the zone of this device. */
function local(seconds: number): string {
  const at = new Date(seconds * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const HOUR = 3600;
const DAY = 24 * HOUR;
const AGO = [
  ["hour", HOUR],
  ["day", DAY],
  ["week", 7 * DAY],
  ["month", 30 * DAY],
] as const;
/** Most entries in the document. */
const MOST = 1_000;
