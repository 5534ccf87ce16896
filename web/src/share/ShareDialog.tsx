/** Makes a link for a folder: name, rights and end first, then the link, which is shown once. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { makeShare } from "../api/shares";
import type { Place } from "../api/volumes";
import { root } from "../root";
import { t } from "../text";
import { reason } from "../files/actions";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";

type Rights = "read" | "add" | "both";

interface Props {
  at: Place;
  close: () => void;
}

export function ShareDialog({ at, close }: Props): JSX.Element {
  const words = t();
  const folder = at.path.at(-1) ?? at.volume;
  const name = useSignal("");
  const rights = useSignal<Rights>("read");
  const days = useSignal("7");
  const wrong = useSignal<string | undefined>(undefined);
  const link = useSignal<string | undefined>(undefined);
  useEffect(() => document.getElementById("share-name")?.focus(), []);

  async function make(): Promise<void> {
    if (!name.value.trim()) return void (wrong.value = words.nameEmpty);
    const expires_in = days.value === "0" ? undefined : Number(days.value) * DAY_SECONDS;
    const wanted = { name: name.value.trim(), read: rights.value !== "add", write: rights.value !== "read", expires_in };
    try {
      link.value = linkOf(at, await makeShare(at, wanted));
    } catch (error) {
      wrong.value = reason(error);
    }
  }

  if (link.value !== undefined) return <MadeDialog link={link.value} folder={folder} close={close} />;
  return (
    <Dialog
      title={words.shareTitle(folder)}
      help={words.shareHelp}
      onClose={close}
      onSubmit={() => void make()}
      foot={
        <>
          <span class="push" />
          <button type="button" class="btn" onClick={close}>
            {words.cancel}
          </button>
          <button class="btn main-b">{words.makeLink}</button>
        </>
      }
    >
      <label class="field">
        <span>{words.shareName}</span>
        <input id="share-name" class="in" value={name} dir="auto" autocomplete="off" maxLength={80} onInput={(event) => (name.value = event.currentTarget.value)} />
        <span class="err" role="alert">
          {wrong.value && (
            <>
              <Icon is="warn" />
              <span>{wrong}</span>
            </>
          )}
        </span>
      </label>
      <Pick<Rights>
        label={words.shareRights}
        now={rights.value}
        options={[
          ["read", words.mayRead],
          ["add", words.mayAdd],
          ["both", words.mayBoth],
        ]}
        choose={(next) => (rights.value = next)}
      />
      <Pick<string>
        label={words.shareEnds}
        now={days.value}
        options={["1", "7", "30", "0"].map((count) => [count, count === "0" ? words.neverEnds : words.days(Number(count))] as const)}
        choose={(next) => (days.value = next)}
      />
    </Dialog>
  );
}

function MadeDialog({ link, folder, close }: { link: string; folder: string; close: () => void }): JSX.Element {
  const words = t();
  async function copy(): Promise<void> {
    await navigator.clipboard?.writeText(link);
    say(words.linkCopied);
  }
  return (
    <Dialog
      title={words.linkTitle(folder)}
      help={words.linkOnce}
      onClose={close}
      onSubmit={close}
      foot={
        <>
          <span class="push" />
          <button type="button" class="btn" onClick={() => void copy()}>
            <Icon is="copy" />
            {words.copyLink}
          </button>
          <button class="btn main-b">{words.close}</button>
        </>
      }
    >
      <label class="field">
        <span>{words.link}</span>
        <input class="in mono" readOnly value={link} onFocus={(event) => event.currentTarget.select()} />
      </label>
    </Dialog>
  );
}

interface PickProps<T extends string> {
  label: string;
  now: T;
  options: readonly (readonly [T, string])[];
  choose: (next: T) => void;
}

function Pick<T extends string>({ label, now, options, choose }: PickProps<T>): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <select class="in" value={now} onChange={(event) => choose(event.currentTarget.value as T)}>
        {options.map(([value, text]) => (
          <option value={value} key={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Returns the link. The token is in the fragment, which no request carries. */
function linkOf({ volume, path }: Place, token: string): string {
  return `${root()}${[volume, ...path].map((name) => encodeURIComponent(name) + "/").join("")}#t=${token}`;
}

const DAY_SECONDS = 24 * 60 * 60;
