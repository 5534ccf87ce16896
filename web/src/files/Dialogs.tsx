/** Questions about entries: a new folder, another name, another place, and whether to delete. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { list, type Entry } from "../api/volumes";
import { format, t } from "../text";
import { parts } from "../transfer/names";
import { ShareDialog } from "../share/ShareDialog";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { Name } from "../ui/Name";
import { deleteAll, dialog, moveTo, newFolder, rename } from "./actions";
import { here } from "./folder";
import { focusList } from "./keys";

export function FileDialogs(): JSX.Element | null {
  const now = dialog.value;
  switch (now?.kind) {
    case "folder":
      return <NameDialog title={t().newFolder} label={t().folderName} button={t().create} start="" run={newFolder} />;
    case "rename":
      return (
        <NameDialog
          title={t().renameTitle(now.entry.name)}
          label={now.entry.type === "dir" ? t().folderName : t().fileName}
          button={t().rename}
          start={now.entry.name}
          run={(name) => rename(now.entry, name)}
        />
      );
    case "share":
      return <ShareDialog at={now.at} close={close} />;
    case "move":
      return <MoveDialog entries={now.entries} />;
    case "delete":
      return <DeleteDialog entries={now.entries} versions={now.versions} />;
    default:
      return null;
  }
}

const close = (): void => {
  dialog.value = undefined;
  requestAnimationFrame(() => {
    if (document.activeElement === document.body) focusList();
  });
};

interface NameProps {
  title: string;
  label: string;
  button: string;
  start: string;
  /** Returns an error message; undefined on success. */
  run: (name: string) => Promise<string | undefined>;
}

function NameDialog({ title, label, button, start, run }: NameProps): JSX.Element {
  const name = useSignal(start);
  const wrong = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  useEffect(() => {
    const field = document.getElementById("name") as HTMLInputElement | null;
    field?.focus();
    // Select the stem alone, so that typing keeps the ending.
    field?.setSelectionRange(0, parts(start).stem.length);
  }, []);
  async function submit(): Promise<void> {
    if (busy.value) return;
    busy.value = true;
    wrong.value = await run(name.value);
    busy.value = false;
    if (!wrong.value) close();
  }
  return (
    <Dialog
      title={title}
      small
      onClose={close}
      onSubmit={() => void submit()}
      foot={
        <>
          <span class="push" />
          <button type="button" class="btn" onClick={close}>
            {t().cancel}
          </button>
          <button class="btn main-b">{button}</button>
        </>
      }
    >
      <label class="field">
        <span>{label}</span>
        <input
          id="name"
          class={`in ${wrong.value ? "bad" : ""}`}
          value={name}
          dir="auto"
          autocomplete="off"
          spellcheck={false}
          aria-invalid={wrong.value ? true : undefined}
          aria-describedby="wrong-name"
          onInput={(event) => {
            name.value = event.currentTarget.value;
            wrong.value = undefined;
          }}
        />
        <span id="wrong-name" class="err" role="alert">
          {wrong.value && (
            <>
              <Icon is="warn" />
              <span>{wrong}</span>
            </>
          )}
        </span>
      </label>
    </Dialog>
  );
}

function MoveDialog({ entries }: { entries: readonly Entry[] }): JSX.Element {
  const words = t();
  const volume = here.value?.volume ?? "";
  const path = useSignal<readonly string[]>(here.peek()?.path ?? []);
  const folders = useSignal<readonly string[] | undefined>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    folders.value = undefined;
    void (async () => {
      const found: string[] = [];
      for await (const page of list({ volume, path: path.value }, stop.signal))
        found.push(...page.filter(({ type }) => type === "dir").map(({ name }) => name));
      folders.value = found.sort(format().compare);
    })().catch(() => undefined);
    return () => stop.abort();
  }, [path.value]);
  const same = path.value.join("/") === (here.value?.path ?? []).join("/");
  const enter = (next: readonly string[]) => (path.value = next);
  return (
    <Dialog
      title={words.moveTitle(entries.length, entries[0]!.name)}
      small
      onClose={close}
      onSubmit={() => {
        if (same) return;
        const to = path.value;
        close();
        void moveTo(entries, to);
      }}
      foot={
        <>
          <span class="push" />
          <button type="button" class="btn" onClick={close}>
            {words.cancel}
          </button>
          <button class="btn main-b" disabled={same}>
            {words.moveHere(path.value.at(-1) ?? volume)}
          </button>
        </>
      }
    >
      <ol class="crumbs">
        {[volume, ...path.value].map((step, depth) => (
          <li key={depth}>
            <button type="button" class="link" onClick={() => enter(path.value.slice(0, depth))}>
              <Name of={step} />
            </button>
          </li>
        ))}
      </ol>
      <ul class="choose">
        {folders.value?.map((name) => (
          <li key={name}>
            <button type="button" onClick={() => enter([...path.value, name])}>
              <Icon is="folder" />
              <Name of={name} />
            </button>
          </li>
        ))}
        {folders.value?.length === 0 && <li class="soft">{words.noFolders}</li>}
      </ul>
    </Dialog>
  );
}

function DeleteDialog({ entries, versions }: { entries: readonly Entry[]; versions: boolean }): JSX.Element {
  const words = t();
  const folders = entries.some(({ type }) => type === "dir");
  return (
    <Dialog
      title={words.deleteTitle(entries.length, entries[0]!.name)}
      help={[folders ? words.deleteFolders : "", versions ? words.deleteVersions : words.deleteFor].filter(Boolean).join(" ")}
      small
      onClose={close}
      onSubmit={() => {
        close();
        void deleteAll(entries, versions);
      }}
      foot={
        <>
          <span class="push" />
          <button type="button" class="btn" onClick={close} autofocus>
            {words.cancel}
          </button>
          <button class="btn danger">
            <Icon is="bin" />
            {words.remove}
          </button>
        </>
      }
    />
  );
}
