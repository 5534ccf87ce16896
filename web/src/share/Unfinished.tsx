/** The unfinished uploads in all volumes, with buttons to cancel. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { cancelUpload, unfinishedUploads, type UnfinishedUpload } from "../api/shares";
import { reason } from "../files/actions";
import { volumeList } from "../files/folder";
import { t } from "../text";
import { shown } from "../transfer/names";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { loadInto } from "./Shared";

interface Unfinished extends UnfinishedUpload {
  volume: string;
}

export function Unfinished(): JSX.Element | null {
  const words = t();
  const list = useSignal<readonly Unfinished[] | undefined>(undefined);
  const names = (volumeList.value ?? []).map(({ name }) => name);
  const load = () => void loadInto(list, () => allOf(names));
  useEffect(load, [names.join("/")]);
  async function cancel({ volume, id, path }: Unfinished): Promise<void> {
    try {
      await cancelUpload(volume, id);
      say(words.uploadCancelled(path));
    } catch (error) {
      say(reason(error), "bad");
    }
    load();
  }
  if (!list.value?.length) return null;
  return (
    <section class="card" aria-label={words.unfinished}>
      <header>
        <h2>{words.unfinished}</h2>
      </header>
      {list.value.map((upload) => (
        <div class="setr" role="group" aria-label={upload.path} key={upload.volume + upload.id}>
          <div>
            <b>
              <bdi>{shown(`${upload.volume}/${upload.path}`)}</bdi>
            </b>
            <p class="help">
              {[words.unfinishedHelp(upload.arrived, upload.bytes, upload.expires * 1000), upload.token].filter(Boolean).join(" · ")}
            </p>
          </div>
          <button class="btn danger" aria-label={words.cancelUpload(upload.path)} onClick={() => void cancel(upload)}>
            <Icon is="x" />
            {words.cancel}
          </button>
        </div>
      ))}
    </section>
  );
}

async function allOf(volumes: readonly string[]): Promise<Unfinished[]> {
  const all = await Promise.all(volumes.map(async (volume) => (await unfinishedUploads(volume)).map((upload) => ({ ...upload, volume }))));
  return all.flat();
}
