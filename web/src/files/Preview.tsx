/**
 * Shows a file: text by the first bytes; pictures, audio and video by a ticket for many ranges. The server chooses the
 * content type, and never a type with code that a browser runs.
 */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { call } from "../api/http";
import { address, look, ticketAddress, type Entry, type Place, type Version } from "../api/volumes";
import { go, route, screenAddress } from "../route";
import { loadInto } from "../share/Shared";
import { format, t } from "../text";
import { Icon } from "../ui/Icon";
import { Name } from "../ui/Name";
import { Back } from "./Back";
import { download } from "./actions";
import { previewOf, type Kind } from "./kinds";
import { rows } from "./folder";

interface Shown {
  version: Version;
  text?: string;
  address?: string;
}

export function Preview({ at }: { at: Place }): JSX.Element {
  const words = t();
  const shown = useSignal<Shown | undefined>(undefined);
  const broken = useSignal(false);
  const name = at.path.at(-1) ?? "";
  const kind = previewOf(name);
  useEffect(() => {
    shown.value = undefined;
    broken.value = false;
    void loadInto(shown, () => load(at, kind));
  }, [at.volume, at.path.join("/")]);
  useEffect(() => {
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const now = shown.value;
  return (
    <div class="page">
      <div class="head">
        <Back />
        <h1>
          <Name of={name} />
        </h1>
        <span class="push" />
        <button class="btn main-b" onClick={() => void download([entryOf(name, now)])}>
          <Icon is="down" />
          {words.download}
        </button>
      </div>
      {now && (
        <p class="soft">
          {format().bytes(now.version.bytes)} · {format().when(now.version.modified * 1000)}
        </p>
      )}
      {now && (kind === undefined || broken.value) && <p>{words.noPreview}</p>}
      {now?.text !== undefined && (
        <>
          <pre class="text" tabIndex={0} dir="auto" aria-label={name}>
            {now.text}
          </pre>
          {now.version.bytes > TEXT_BYTES && <p class="help">{words.firstPart(TEXT_BYTES)}</p>}
        </>
      )}
      {now?.address !== undefined && !broken.value && <Media kind={kind!} address={now.address} name={name} failed={() => (broken.value = true)} />}
    </div>
  );
}

interface MediaProps {
  kind: Kind;
  address: string;
  name: string;
  failed: () => void;
}

function Media({ kind, address, name, failed }: MediaProps): JSX.Element {
  if (kind === "picture")
    return (
      <div class="dark-box">
        <img src={address} alt={name} onError={failed} />
      </div>
    );
  if (kind === "sound") return <audio controls preload="metadata" src={address} aria-label={name} onError={failed} />;
  return (
    <div class="dark-box">
      <video controls preload="metadata" src={address} aria-label={name} onError={failed} />
    </div>
  );
}

async function load(at: Place, kind: Kind | undefined): Promise<Shown | undefined> {
  const version = await look(at);
  if (!version) throw new Error(t().noFolderHelp(at.path.join("/")));
  if (kind === undefined) return { version };
  if (kind !== "text") return { version, address: new URL(await ticketAddress(at, { preview: true }), document.baseURI).href };
  if (version.bytes === 0) return { version, text: "" };
  const answer = await call(address("files", at), { headers: { Range: `bytes=0-${TEXT_BYTES - 1}` } });
  return { version, text: new TextDecoder().decode(await answer.arrayBuffer()) };
}

const entryOf = (name: string, shown: Shown | undefined): Entry => ({
  name,
  type: "file",
  bytes: shown?.version.bytes ?? 0,
  modified: shown?.version.modified ?? 0,
});

/** Left and right arrows show the previous and the next file with a preview. Escape goes back to the folder. */
function keys(event: KeyboardEvent): void {
  if (event.altKey || event.ctrlKey || event.metaKey || (event.target as Element).closest?.("input, dialog, audio, video, pre")) return;
  if (event.key === "Escape") return go(screenAddress("files"));
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const files = rows.peek().filter(({ type, name }) => type === "file" && previewOf(name));
  const at = files.findIndex(({ name }) => name === route.peek().name);
  const next = files[at + step];
  if (next) go(screenAddress("preview", next.name));
  event.preventDefault();
}

const TEXT_BYTES = 256 * 1024;
