/** The line at the bottom: running transfers, bytes left to send, and messages. Messages appear only here. */
import { useSignal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { askAgain, reach } from "../api/http";
import { follow, screenAddress } from "../route";
import { format, t } from "../text";
import { batches, beat, needsYou, openBatches, rate, toSend, totals, type Batch } from "../transfer/queue";
import { hush, message } from "./message";
import { Strip } from "./Strip";

export function Line(): JSX.Element {
  const words = t();
  const server = reach.value;
  const said = message.value;
  const kind = !server.on ? "ask" : said?.kind === "bad" ? "bad" : "";
  return (
    <footer class={`line ${kind}`} aria-label={words.lineLabel}>
      <span>
        <i class={`led ${server.on ? "on" : "off"}`} />
        <span class="wide">{location.host}</span>
      </span>
      {!server.on ? <Away nextTry={server.nextTry} /> : said ? <Said /> : <Moving />}
      <Spoken />
    </footer>
  );
}

function Away({ nextTry }: { nextTry: number }): JSX.Element {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => (now.value = Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  const waiting = openBatches.value.length;
  return (
    <>
      <span>
        <span>
          {t().noAnswer(Math.max(1, Math.ceil((nextTry - now.value) / 1000)))}
          <span class="wide"> {t().waitAndLose(waiting)}</span>
        </span>
      </span>
      <button class="btn push" onClick={() => void askAgain()}>
        {t().tryNow}
      </button>
    </>
  );
}

function Said(): JSX.Element {
  const { text, action } = message.value!;
  return (
    <>
      <span class="said">
        <span>{text}</span>
      </span>
      {action && (
        <button
          class="btn push"
          onClick={() => {
            hush();
            action.run();
          }}
        >
          {action.label}
        </button>
      )}
    </>
  );
}

function Moving(): JSX.Element {
  const words = t();
  const sum = (beat.value, totals(openBatches.value));
  if (!openBatches.value.length) {
    const done = last(batches.value);
    return (
      <a href={screenAddress("transfers")} onClick={follow}>
        <span>
          {words.nothingMoves}
          {done && <span class="wide">. {done}</span>}
        </span>
      </a>
    );
  }
  const left = toSend(sum);
  const perSecond = rate.value;
  return (
    <a href={screenAddress("transfers")} onClick={follow}>
      <Strip shares={{ kept: sum.kept, sent: sum.sent, toSend: left, of: sum.bytes }} />
      <span>
        {sum.asking && !sum.moving && !sum.waiting ? words.needYou(sum.asking) : words.moves(sum)} · <b>{words.left(left)}</b>
        <span class="wide">
          {" "}
          {words.leftOf(sum)}
          {perSecond && left > 0 ? ` · ${words.perSecond(perSecond)} · ${format().duration(left / perSecond)}` : ""}
        </span>
      </span>
    </a>
  );
}

function last(of: readonly Batch[]): string {
  for (const batch of of) {
    const sum = totals([batch]);
    const at = batch.items.reduce((last, { state }) => ("at" in state ? Math.max(last, state.at) : last), 0);
    if (at) return t().lastTime(at, sum.done, sum);
  }
  return "";
}

/** The text of the line for screen readers: polite, and at most once a second. */
function Spoken(): JSX.Element {
  const text = useSignal("");
  useSignalEffect(() => {
    const next = !reach.value.on
      ? t().noAnswer(1)
      : (message.value?.text ??
        (needsYou.value ? t().needYou(needsYou.value) : openBatches.value.length ? "" : batches.value.length ? t().nothingMoves : ""));
    const timer = setTimeout(() => (text.value = next), 1000);
    return () => clearTimeout(timer);
  });
  return (
    <span class="sr" role="status">
      {text}
    </span>
  );
}
