/** Asks about two versions of a file. No answer is preselected, and no file is replaced before the answer. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { format, t } from "../text";
import { answer, questions, type Choice } from "../transfer/conflicts";
import { otherName } from "../transfer/names";
import { Dialog } from "./Dialog";

export function ConflictDialog(): JSX.Element | null {
  const choice = useSignal<Exclude<Choice, "later"> | undefined>(undefined);
  const all = useSignal(false);
  const question = questions.value[0];
  if (!question) return null;
  const words = t();
  const { item, file, there, batch } = question;
  const name = item.to.path.at(-1) ?? "";
  const others = questions.value.filter((other) => other.batch === batch).length - 1;
  const more = batch.items.length > 1;
  const label = { mine: words.keepMine, theirs: words.keepTheirs, both: words.keepBoth };
  const option = (value: keyof typeof label) => ({ value, chosen: choice.value, choose: () => (choice.value = value) });
  return (
    <Dialog
      title={words.conflictTitle(name)}
      help={words.conflictHelp}
      closeLabel={words.later}
      onClose={() => answer("later", all.value)}
      onSubmit={() => choice.value && answer(choice.value, all.value)}
      foot={
        <>
          <span class="push" />
          <button type="button" class="btn" onClick={() => answer("later", all.value)}>
            {words.later}
          </button>
          <button class="btn main-b" disabled={!choice.value}>
            {choice.value ? label[choice.value] : words.chooseFirst}
          </button>
        </>
      }
    >
      <div class="stack" role="radiogroup" aria-label={words.which}>
        <div class="cols2">
          <Pick {...option("mine")} title={words.mine} tag={words.thisDevice}>
            <Facts modified={file.lastModified} bytes={file.size} />
          </Pick>
          <Pick {...option("theirs")} title={words.theirs} tag={words.onServer}>
            <Facts modified={there.modified * 1000} bytes={there.bytes} />
          </Pick>
        </div>
        <Pick {...option("both")} title={words.both}>
          <p class="small soft">{words.bothHelp(name, otherName(name, new Date()))}</p>
        </Pick>
      </div>
      {more && (
        <label class="check">
          <input class="box" type="checkbox" checked={all} onChange={(event) => (all.value = event.currentTarget.checked)} />
          <span>{others > 0 ? words.sameForAll(others) : words.sameForLater}</span>
        </label>
      )}
    </Dialog>
  );
}

interface PickProps {
  value: string;
  chosen: string | undefined;
  choose: () => void;
  title: string;
  tag?: string;
  children: JSX.Element;
}

function Pick({ value, chosen, choose, title, tag, children }: PickProps): JSX.Element {
  return (
    <label class={`pick ${chosen === value ? "on" : ""}`}>
      <div class="ph">
        <input class="box round" type="radio" name="which" aria-label={title} value={value} checked={chosen === value} onChange={choose} />
        <h2>{title}</h2>
        {tag && <span class="push tag">{tag}</span>}
      </div>
      {children}
    </label>
  );
}

function Facts({ modified, bytes }: { modified: number; bytes: number }): JSX.Element {
  const words = t();
  return (
    <dl class="facts">
      <dt>{words.changed}</dt>
      <dd>{format().when(modified)}</dd>
      <dt>{words.length}</dt>
      <dd>{format().bytes(bytes)}</dd>
    </dl>
  );
}
