/** The versions of a file: the present version and the old versions, each with what changed in it. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "../api/http";
import { changes, history, look, restore, type Change, type ChangeMap, type History, type OldVersion, type Place, type Version } from "../api/volumes";
import { loadInto } from "../share/Shared";
import { format, t } from "../text";
import { canUpdateCopies, updateCopy } from "../transfer/delta/copy";
import { Unreadable } from "../transfer/engine";
import { downloadVersion } from "../transfer/plain";
import { ChangeStrip } from "../ui/ChangeStrip";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { Name } from "../ui/Name";
import { Back } from "./Back";
import { reason } from "./actions";
import { reload, volume } from "./folder";

interface Known {
  now: Version | undefined;
  old: History | undefined;
}

export function Versions({ at }: { at: Place }): JSX.Element {
  const words = t();
  const known = useSignal<Known | undefined>(undefined);
  const name = at.path.at(-1) ?? "";
  const load = () => void loadInto(known, async () => ({ now: await look(at), old: await history(at) }));
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

  /** Gives a copy on this device the content of a version. Only the differences come over the network. */
  async function toCopy({ version, modified }: OldVersion): Promise<void> {
    try {
      const done = await updateCopy(at, version);
      if (done) say(words.versionInCopy(done.name, modified * 1000, done.came, done.bytes));
    } catch (error) {
      say(words.failedFor(name, error instanceof Unreadable ? words.failure({ kind: "unreadable" }) : reason(error)), "bad");
    }
  }

  const { now, old } = known.value ?? {};
  const versions = old?.versions;
  const times = format().whens((versions ?? []).map(({ modified }) => modified * 1000));
  return (
    <div class="page">
      <div class="head">
        <Back />
        <h1>
          {words.versions} · <Name of={name} />
        </h1>
      </div>
      {known.value && !old && <p>{words.keepsNone}</p>}
      {versions && (
        <section class="card" aria-label={words.versions}>
          {now && (
            <div class="setr" role="group" aria-label={words.present}>
              <div>
                <b>{words.present}</b>
                <p class="help">{[format().when(now.modified * 1000), format().bytes(now.bytes), by(old.change)].filter(Boolean).join(" · ")}</p>
              </div>
              <What at={at} bytes={now.bytes} noted={old.change} isFirst={versions.length === 0} key={now.tag} />
            </div>
          )}
          {versions.map((version, place) => (
            <div class="setr" role="group" aria-label={times[place]!} key={version.version}>
              <div>
                <b>{times[place]}</b>
                <p class="help">
                  {[format().bytes(version.bytes), words.replacedAt(version.replaced * 1000), by(version.change)].filter(Boolean).join(" · ")}
                </p>
              </div>
              <span class="btns">
                <button class="btn" onClick={() => void downloadVersion(at, version.version).catch((error: unknown) => say(reason(error), "bad"))}>
                  <Icon is="down" />
                  {words.download}
                </button>
                {canUpdateCopies() && (
                  <button class="btn" onClick={() => void toCopy(version)}>
                    <Icon is="turn" />
                    {words.versionToCopy}
                  </button>
                )}
                {volume.value?.write && (
                  <button class="btn" onClick={() => void bringBack(version)}>
                    <Icon is="again" />
                    {words.restore}
                  </button>
                )}
              </span>
              <What
                at={at}
                version={version.version}
                bytes={version.bytes}
                noted={version.change}
                isFirst={place === versions.length - 1}
                isFar={place >= FEW}
              />
            </div>
          ))}
          {versions.length === 0 && <p class="lfoot">{words.noVersions}</p>}
        </section>
      )}
      {old && <p class="help">{words.versionsHelp}</p>}
    </div>
  );
}

const by = (change: Change | null): string => (change?.by ? t().byWhom(change.by) : "");

interface WhatProps {
  at: Place;
  /** Undefined for the present version. */
  version?: string;
  bytes: number;
  noted: Change | null;
  /** True if the volume has no version before this one. */
  isFirst: boolean;
  /** True if the server is asked only when the user wants to know. */
  isFar?: boolean;
}

/** What changed in a version: the noted change, or else the answer of the server, which may read both versions. */
function What({ at, version, bytes, noted, isFirst, isFar = false }: WhatProps): JSX.Element | null {
  const words = t();
  const asked = useSignal<ChangeMap | "asking" | "unknown" | undefined>(undefined);
  const ask = async () => {
    asked.value = "asking";
    try {
      asked.value = (await changes(at, version)) ?? "unknown";
    } catch {
      // The version may have expired meanwhile.
      asked.value = "unknown";
    }
  };
  const asksFirst = isFar || bytes > CHEAP_BYTES;
  useEffect(() => {
    if (!noted && !isFirst && !asksFirst) void ask();
  }, [version, noted === null, isFirst]);
  const change = noted ?? asked.value;
  if (change === "asking") return <p class="what help">{words.comparing}</p>;
  if (change === "unknown") return <p class="what help">{words.changeUnknown}</p>;
  if (change) return <ChangeInWords change={change} />;
  if (isFirst || !asksFirst) return null;
  return (
    <p class="what">
      <button class="link small" onClick={() => void ask()}>
        {words.whatChanged}
      </button>
    </p>
  );
}

/** A strip with its figures. */
export function ChangeInWords({ change }: { change: ChangeMap }): JSX.Element {
  const words = t();
  const figures = [
    ["k", words.kept, change.kept],
    ["m", words.moved, change.moved],
    ["n", words.fresh, change.new],
  ] as const;
  return (
    <div class="what">
      <ChangeStrip change={change} kind="thick" isTold />
      <p class="legend">
        {figures.map(([look, label, bytes]) => (
          <span key={look}>
            <svg class="swatch" aria-hidden="true">
              <rect class={look} width="100%" height="100%" />
            </svg>
            {label} <b class="num">{format().bytes(bytes)}</b>
          </span>
        ))}
      </p>
    </div>
  );
}

/** Number of versions whose change is asked for at once. */
const FEW = 12;
/** Longest file in bytes that the server may read to tell a change without a click. */
const CHEAP_BYTES = 16e6;
