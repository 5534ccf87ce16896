/** The versions of a file: the present version and the old versions. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "../api/http";
import { look, oldVersions, restore, type OldVersion, type Place, type Version } from "../api/volumes";
import { loadInto } from "../share/Shared";
import { format, t } from "../text";
import { downloadVersion } from "../transfer/plain";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { Name } from "../ui/Name";
import { Back } from "./Back";
import { reason } from "./actions";
import { reload, volume } from "./folder";

interface Known {
  now: Version | undefined;
  old: readonly OldVersion[] | undefined;
}

export function Versions({ at }: { at: Place }): JSX.Element {
  const words = t();
  const known = useSignal<Known | undefined>(undefined);
  const name = at.path.at(-1) ?? "";
  const load = () => void loadInto(known, async () => ({ now: await look(at), old: await oldVersions(at) }));
  useEffect(load, [at.volume, at.path.join("/")]);

  async function bringBack(version: OldVersion): Promise<void> {
    try {
      await restore(at, version.version, known.value?.now?.tag);
      say(words.versionBack(name, version.modified * 1000));
      reload();
    } catch (error) {
      const isOther = error instanceof Problem && error.status === 412;
      say(isOther ? words.changedMeanwhile(name) : reason(error), "bad");
    }
    load();
  }

  const { now, old } = known.value ?? {};
  return (
    <div class="page">
      <div class="head">
        <Back />
        <h1>
          {words.versions} · <Name of={name} />
        </h1>
      </div>
      {known.value && !old && <p>{words.keepsNone}</p>}
      {old && (
        <section class="card" aria-label={words.versions}>
          {now && (
            <div class="setr" role="group" aria-label={words.present}>
              <div>
                <b>{words.present}</b>
                <p class="help">{facts(now.modified, now.bytes)}</p>
              </div>
            </div>
          )}
          {old.map((version) => (
            <div class="setr" role="group" aria-label={format().when(version.modified * 1000)} key={version.version}>
              <div>
                <b>{format().when(version.modified * 1000)}</b>
                <p class="help">
                  {format().bytes(version.bytes)} · {words.replacedAt(version.replaced * 1000)}
                </p>
              </div>
              <span class="btns">
                <button class="btn" onClick={() => void downloadVersion(at, version.version).catch((error: unknown) => say(reason(error), "bad"))}>
                  <Icon is="down" />
                  {words.download}
                </button>
                {volume.value?.write && (
                  <button class="btn" onClick={() => void bringBack(version)}>
                    <Icon is="again" />
                    {words.restore}
                  </button>
                )}
              </span>
            </div>
          ))}
          {old.length === 0 && <p class="lfoot">{words.noVersions}</p>}
        </section>
      )}
      {old && <p class="help">{words.versionsHelp}</p>}
    </div>
  );
}

const facts = (modified: number, bytes: number): string => `${format().when(modified * 1000)} · ${format().bytes(bytes)}`;
