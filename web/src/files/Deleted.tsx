/** The deleted files of a folder and of the folders below, as far as the volume keeps their versions. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "../api/http";
import { deletedFiles, restore, type DeletedFile } from "../api/volumes";
import { folderAddress, follow, route } from "../route";
import { format, t } from "../text";
import { shown } from "../transfer/names";
import { downloadVersion } from "../transfer/plain";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { Name } from "../ui/Name";
import { Back } from "./Back";
import { reason } from "./actions";
import { volume } from "./folder";

/** The deleted files that are listed so far; undefined before the first page. */
const listed = signal<readonly DeletedFile[] | undefined>(undefined);
const state = signal<"listing" | "ready" | { failed: string }>("listing");

export function Deleted(): JSX.Element {
  const words = t();
  const { volume: volumeName, path } = route.value;
  useEffect(() => {
    const stop = new AbortController();
    void load(stop.signal);
    return () => stop.abort();
  }, [volumeName, path.join("/")]);
  const files = listed.value;
  const now = state.value;
  const may = volume.value;
  return (
    <div class="page">
      <div class="head">
        <Back />
        <h1>
          {words.deletedFiles} · <Name of={path.at(-1) ?? volumeName ?? ""} />
        </h1>
      </div>
      {typeof now === "object" && <p class="bad">{now.failed}</p>}
      <section class="card" aria-label={words.deletedFiles} aria-busy={now === "listing"}>
        {files?.slice(0, MOST).map((file) => (
          <Row file={file} mayRestore={may?.write ?? false} key={file.path} />
        ))}
        {now === "listing" && <p class="lfoot">{words.listing}</p>}
        {now === "ready" && files?.length === 0 && <p class="lfoot">{words.noDeleted}</p>}
        {files && files.length > MOST && <p class="lfoot">{words.moreDeleted(files.length - MOST)}</p>}
      </section>
      <p class="help">{words.deletedHelp}</p>
    </div>
  );
}

function Row({ file, mayRestore }: { file: DeletedFile; mayRestore: boolean }): JSX.Element {
  const words = t();
  const names = file.path.split("/");
  const name = names.at(-1) ?? "";
  const [newest] = file.versions;
  const at = { volume: route.value.volume ?? "", path: names };
  const folder = names.slice(0, -1);
  const bringBack = async () => {
    try {
      await restore(at, newest!.version);
      listed.value = listed.value?.filter(({ path }) => path !== file.path);
      say(words.fileBack(name));
    } catch (error) {
      const isTaken = error instanceof Problem && error.status === 412;
      say(words.failedFor(name, isTaken ? words.nameTaken(name) : reason(error)), "bad");
    }
  };
  return (
    <div class="setr" role="group" aria-label={shown(file.path)}>
      <div>
        <b>
          <Name of={name} />
        </b>
        <p class="help">
          {format().bytes(newest!.bytes)} · {words.deletedAt(newest!.replaced * 1000)} ·{" "}
          <a href={folderAddress(at.volume, folder)} onClick={follow}>
            <bdi>{shown([at.volume, ...folder].join("/"))}</bdi>
          </a>
        </p>
      </div>
      <span class="btns">
        <button
          class="btn"
          aria-label={`${words.download}: ${shown(name)}`}
          onClick={() => void downloadVersion(at, newest!.version).catch((error: unknown) => say(reason(error), "bad"))}
        >
          <Icon is="down" />
          {words.download}
        </button>
        {mayRestore && (
          <button class="btn" aria-label={`${words.restore}: ${shown(name)}`} onClick={() => void bringBack()}>
            <Icon is="again" />
            {words.restore}
          </button>
        )}
      </span>
    </div>
  );
}

/** Lists the deleted files of the open folder, the last deleted one first. */
async function load(stop: AbortSignal): Promise<void> {
  const { volume: name, path } = route.peek();
  if (name === undefined) return;
  listed.value = undefined;
  state.value = "listing";
  const came: DeletedFile[] = [];
  try {
    for await (const page of deletedFiles({ volume: name, path }, stop)) {
      came.push(...page);
      listed.value = [...came].sort((one, other) => other.versions[0]!.replaced - one.versions[0]!.replaced);
    }
    state.value = "ready";
  } catch (error) {
    if (stop.aborted) return;
    const keepsNone = error instanceof Problem && error.status === 404;
    state.value = { failed: keepsNone ? t().keepsNone : reason(error) };
  }
}

/** Most files in the document. */
const MOST = 500;
