/** The list of all transfers: questions and failures first, then running transfers, then finished transfers. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { folderAddress, follow } from "../route";
import { format, t } from "../text";
import {
  batches,
  beat,
  cancel,
  clearFinished,
  failedItems,
  forget,
  hold,
  isBatchOpen,
  rate,
  resume,
  retry,
  retryFailed,
  toSend,
  totals,
  type Batch,
  type Item,
} from "../transfer/queue";
import { allowAgain, chooseAgain, dropEarlier, earlier, takeEarlier } from "../transfer/restore";
import { Icon } from "./Icon";
import { say } from "./message";
import { Name } from "./Name";
import { Spacer, useNearRows } from "./nearRows";
import { Strip } from "./Strip";

export function Transfers(): JSX.Element {
  const words = t();
  beat.value;
  const all = batches.value;
  // Not `openBatches`, which may be older: a batch that has just ended would be shown twice.
  const open = all.filter(isBatchOpen);
  const failed = all.filter((batch) => !isBatchOpen(batch) && totals([batch]).failed > 0);
  const done = all.filter((batch) => !isBatchOpen(batch) && totals([batch]).failed === 0);
  return (
    <div class="page">
      <div class="head">
        <h1>{words.transfers}</h1>
      </div>
      <Summary open={open} />
      <Earlier />
      {failed.length > 0 && (
        <Group title={words.needYouTitle} count={failed.length} kind="ask">
          <Mend />
          <Rows of={failed} />
        </Group>
      )}
      {open.length > 0 && (
        <Group title={words.movingTitle} count={open.length}>
          <Rows of={open} />
        </Group>
      )}
      {done.length > 0 && (
        <Group title={words.doneTitle}>
          <button class="btn ghost" onClick={clearFinished}>
            {words.clearList}
          </button>
          <Rows of={done} />
        </Group>
      )}
      <p class="help">{words.stayOpen}</p>
    </div>
  );
}

/** Transfers that another sign-in began. Shows the number of files, but no names. */
function Earlier(): JSX.Element | null {
  const words = t();
  const count = earlier.value.reduce((sum, { items }) => sum + items.length, 0);
  if (!count) return null;
  return (
    <section class="card" aria-label={words.earlierTitle(count)}>
      <header>
        <h2>{words.earlierTitle(count)}</h2>
        <span class="push" />
        <button class="btn ghost" onClick={dropEarlier}>
          {words.discard}
        </button>
        <button class="btn" onClick={takeEarlier}>
          {words.earlierGoOn}
        </button>
      </header>
      <p class="help">{words.earlierHelp}</p>
    </section>
  );
}

/** Buttons for failed transfers: first to choose or allow files again, then to retry. */
function Mend(): JSX.Element {
  const words = t();
  const label = { choose: words.chooseAgain, permission: words.allowAgain };
  const kind = (["permission", "choose"] as const).find((kind) => failedItems([kind]).length > 0);
  if (!kind)
    return (
      <button class="btn ghost" onClick={() => retryFailed()}>
        <Icon is="again" />
        {words.retryFailed}
      </button>
    );
  return (
    <button class="btn" onClick={() => mend(kind)}>
      <Icon is={kind === "choose" ? "file" : "go"} />
      {label[kind]}
    </button>
  );
}

function mend(kind: "choose" | "permission"): void {
  if (kind === "permission") return void allowAgain();
  chooseAgain((strange) => strange > 0 && say(t().notThose(strange), "bad"));
}

function Summary({ open }: { open: readonly Batch[] }): JSX.Element {
  const words = t();
  const sum = totals(open);
  const left = toSend(sum);
  if (!open.length)
    return (
      <section class="card sum">
        <p class="big calm">{words.nothingMoves}</p>
      </section>
    );
  return (
    <section class="card sum">
      <p class="big">
        {format().bytes(left)} <small>{words.leftToSend(sum)}</small>
      </p>
      <div class="stack s2">
        <Strip kind="map" shares={{ kept: sum.kept, sent: sum.sent, toSend: left, of: sum.bytes }} label={words.sentOf(sum.sent, sum.bytes)} />
        <div class="legend">
          {sum.kept > 0 && (
            <span>
              <svg class="swatch" aria-hidden="true">
                <rect class="k" width="100%" height="100%" />
              </svg>
              {words.kept} <b>{format().bytes(sum.kept)}</b>
            </span>
          )}
          <span>
            <svg class="swatch" aria-hidden="true">
              <rect class="n" width="100%" height="100%" />
            </svg>
            {words.sent} <b>{format().bytes(sum.sent)}</b>
          </span>
          <span>
            <svg class="swatch" aria-hidden="true">
              <rect class="w" width="100%" height="100%" />
            </svg>
            {words.toSend} <b>{format().bytes(left)}</b>
          </span>
        </div>
      </div>
      <p class="num">
        {rate.value && left > 0 ? (
          <>
            <b>{words.secondsLeft(left / rate.value)}</b>
            <br />
            <span class="soft">{words.perSecond(rate.value)}</span>
          </>
        ) : null}
      </p>
    </section>
  );
}

interface GroupProps {
  title: string;
  count?: number;
  kind?: string;
  children: (JSX.Element | false)[] | JSX.Element;
}

function Group({ title, count, kind = "", children }: GroupProps): JSX.Element {
  const [button, list] = Array.isArray(children) ? children : [undefined, children];
  return (
    <section class="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {count !== undefined && <span class={`badge ${kind}`}>{format().count(count)}</span>}
        <span class="push" />
        {button}
      </header>
      {list}
    </section>
  );
}

function Rows({ of }: { of: readonly Batch[] }): JSX.Element {
  return (
    <div role="list">
      {of.map((batch) => (
        <BatchRow batch={batch} key={batch.id} />
      ))}
    </div>
  );
}

/** Batches whose files are shown. A batch that ends moves to another part of the screen, and its files stay shown. */
const unfolded = new WeakSet<Batch>();

function BatchRow({ batch }: { batch: Batch }): JSX.Element {
  beat.value;
  const words = t();
  const sum = totals([batch]);
  const single = batch.listed && batch.items.length === 1 ? batch.items[0] : undefined;
  const open = isBatchOpen(batch);
  const opened = useSignal(unfolded.has(batch));
  const shown = opened.value || (!single && sum.failed > 0);
  const kind = open ? "" : sum.failed ? "failed" : "quiet";
  const kindNow = sum.asking || (!open && sum.failed > 0 && sum.later === sum.failed) ? "asks" : kind;
  const shares = { kept: sum.kept, sent: sum.sent, toSend: open ? toSend(sum) : 0, of: sum.bytes };
  return (
    <div role="listitem">
      <div class={`tr ${kindNow}`}>
        <span class="ic">
          {single ? (
            <Icon is={sum.asking || sum.failed ? "warn" : open ? "up" : "check"} />
          ) : (
            <button
              class="btn ghost icon"
              aria-expanded={shown}
              aria-label={words.showFiles(batch.name)}
              onClick={() => {
                opened.value = !shown;
                if (shown) unfolded.delete(batch);
                else unfolded.add(batch);
              }}
            >
              <Icon is={shown ? "open" : "turn"} />
            </button>
          )}
        </span>
        <div class="name">
          <span class="nm">
            <Name of={single?.to.path.at(-1) ?? batch.name} />
            {!single && <span class="tag">{words.filesCount(sum.files)}</span>}
          </span>
        </div>
        <p class="say">{saying(batch, single)}</p>
        <Strip kind="thick" shares={shares} />
        <progress class="sr" max={Math.max(sum.bytes, 1)} value={sum.kept + sum.sent} aria-label={batch.name} />
        <div class="nums">
          <span>{sum.bytes > 0 ? words.sentOf(sum.sent, sum.bytes) : ""}</span>
          {sum.kept > 0 && <span>{words.saved(sum.kept, sum.bytes)}</span>}
        </div>
        <div class="acts">
          {open && (
            <>
              <button
                class="btn ghost icon"
                aria-label={batch.paused ? words.resume(batch.name) : words.pause(batch.name)}
                onClick={() => (batch.paused ? resume(batch) : hold(batch))}
              >
                <Icon is={batch.paused ? "go" : "pause"} />
              </button>
              <button class="btn ghost icon" aria-label={words.cancelOne(batch.name)} onClick={() => void cancel(batch)}>
                <Icon is="x" />
              </button>
            </>
          )}
          {!open && sum.failed > 0 && (
            <button class="btn ghost icon" aria-label={words.forget(batch.name)} onClick={() => forget(batch)}>
              <Icon is="x" />
            </button>
          )}
          {!open && !sum.failed && (
            <a
              class="btn ghost icon"
              href={folderAddress(batch.to.volume, batch.to.path)}
              onClick={follow}
              aria-label={words.showFolder(batch.name)}
            >
              <Icon is="folder" />
            </a>
          )}
        </div>
        {single?.state.is === "failed" && (
          <div class="tell">
            <p>{words.failure(single.state.why)}</p>
            <RetryOne item={single} batch={batch} />
          </div>
        )}
      </div>
      {shown && !single && <Inside batch={batch} failed={sum.failed} />}
    </div>
  );
}

function RetryOne({ item, batch }: { item: Item; batch: Batch }): JSX.Element | null {
  const words = t();
  if (item.state.is !== "failed") return null;
  const { kind } = item.state.why;
  const label = kind === "later" ? words.choose : kind === "choose" ? words.chooseAgain : kind === "permission" ? words.allowAgain : words.tryAgain;
  return (
    <button class="btn" onClick={() => (kind === "choose" || kind === "permission" ? mend(kind) : retry(batch, item))}>
      {label}
    </button>
  );
}

function saying(batch: Batch, single: Item | undefined): string {
  const words = t();
  if (batch.paused) return words.paused;
  if (single) return sayingOf(single);
  const sum = totals([batch]);
  const now = batch.items.find(({ state }) => state.is === "moving")?.state;
  return [
    now?.is === "moving" ? words.stage[now.stage] : "",
    sum.asking ? words.asks : "",
    sum.failed > sum.later ? words.failedOf(sum.failed - sum.later) : "",
    sum.later ? words.needYou(sum.later) : "",
    words.doneOf(sum.done),
    sum.equal ? words.equalOf(sum.equal) : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function sayingOf({ state, bytes, kept, sent }: Item): string {
  const words = t();
  switch (state.is) {
    case "waiting":
      return words.waiting;
    case "moving":
      return bytes > 0 && state.stage === "sending"
        ? `${words.stage[state.stage]} · ${Math.floor(((kept + sent) / bytes) * 100)} %`
        : words.stage[state.stage];
    case "asking":
      return words.asks;
    case "done":
      return `${words.doneAt(state.at)} · ${kept > 0 ? words.partNew(sent, bytes) : words.allNew(bytes)}`;
    case "equal":
      return `${words.doneAt(state.at)} · ${words.equal}`;
    case "left":
      return `${words.doneAt(state.at)} · ${words.leftAlone}`;
    case "failed":
      return state.why.kind === "later" ? words.asks : words.stopped;
    case "cancelled":
      return words.cancelled;
  }
}

/** The files of a batch; after failures, only the failed files. */
function Inside({ batch, failed }: { batch: Batch; failed: number }): JSX.Element {
  const words = t();
  const box = useRef<HTMLDivElement>(null);
  const { range, height } = useNearRows(box, ".srow", 40);
  const some = failed ? batch.items.filter(({ state }) => state.is === "failed") : inOrder(batch.items);
  const from = Math.min(range.value.from, some.length);
  const part = some.slice(from, range.value.to);
  return (
    <div class="sub">
      {failed > 0 && (
        <div class="shead">
          <b>{words.needYou(failed)}</b>
          <span class="push" />
          <button class="btn ghost" onClick={() => void copyNames(some)}>
            <Icon is="copy" />
            {words.copyNames}
          </button>
          <button class="btn" onClick={() => retryFailed([batch])}>
            <Icon is="again" />
            {words.retryAll(failed)}
          </button>
        </div>
      )}
      <div role="list" ref={box}>
        <Spacer rows={from} height={height.value} />
        {part.map((item, i) => (
          <InsideRow item={item} batch={batch} at={from + i + 1} of={some.length} key={failed ? item.no : i} />
        ))}
        <Spacer rows={some.length - from - part.length} height={height.value} />
      </div>
    </div>
  );
}

function InsideRow({ item, batch, at, of }: { item: Item; batch: Batch; at: number; of: number }): JSX.Element {
  const { state, source, bytes } = item;
  return (
    <div class="srow" role="listitem" aria-posinset={at} aria-setsize={of}>
      <Icon is={state.is === "failed" ? "warn" : source.open ? "file" : "folder"} />
      <span class="nm">
        <Name of={source.path.join("/")} />
      </span>
      <span class="why soft">{state.is === "failed" ? t().failure(state.why) : sayingOf(item)}</span>
      {state.is === "failed" ? <RetryOne item={item} batch={batch} /> : <span class="num soft">{format().bytes(bytes)}</span>}
    </div>
  );
}

/** Items in the order of `ORDER`. Each redraw does this, so 10,000 items are not sorted by comparisons. */
function inOrder(items: readonly Item[]): readonly Item[] {
  const found = new Map<string, Item[]>(ORDER.map((is) => [is, []]));
  for (const item of items) found.get(item.state.is)!.push(item);
  return [...found.values()].flat();
}

async function copyNames(items: readonly Item[]): Promise<void> {
  await navigator.clipboard?.writeText(items.map(({ source }) => source.path.join("/")).join("\n"));
  say(t().copied);
}

const ORDER = ["failed", "asking", "moving", "waiting", "done", "equal", "left", "cancelled"];
