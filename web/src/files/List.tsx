/** The rows of a folder, as a grid with one tab stop. Only rows near the window are in the document. */
import { computed, useSignal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Entry } from "../api/volumes";
import { folderAddress, follow, go, route, screenAddress } from "../route";
import { format, t } from "../text";
import { canUpdateCopies } from "../transfer/delta/copy";
import { shown } from "../transfer/names";
import { ChangeStrip } from "../ui/ChangeStrip";
import { Icon, iconOf, type IconName } from "../ui/Icon";
import { Name } from "../ui/Name";
import { Spacer, useNearRows } from "../ui/nearRows";
import { parts } from "../transfer/names";
import { askDelete, dialog, download, open, share, updateMine } from "./actions";
import { Below } from "./Below";
import { dropTarget } from "./Drop";
import { active, entries, order, query, rights, rows, selection, status, volume, type Column } from "./folder";
import { gridKeys } from "./keys";
import { previewOf } from "./kinds";
import { extend, press, toggle } from "./selection";

export function List(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const { range, height } = useNearRows(box, ".lrow:not(.lhead)", 36);
  const all = rows.value;

  useSignalEffect(() => {
    const at = rows.value.findIndex(({ name }) => name === active.value);
    if (at >= 0 && box.current?.contains(document.activeElement)) reveal(box.current, at, height.peek());
  });

  const from = Math.min(range.value.from, all.length);
  const part = all.slice(from, range.value.to);
  const activeAt = all.findIndex(({ name }) => name === active.value);
  const folder = route.value.path.at(-1) ?? route.value.volume ?? "";
  return (
    <div class="list-box">
      <div
        ref={box}
        id="list"
        class={`list ${selection.value.size ? "has-picked" : ""}`}
        role="grid"
        tabIndex={0}
        aria-label={shown(folder)}
        aria-multiselectable="true"
        aria-rowcount={all.length + 1}
        aria-busy={status.value !== "ready"}
        aria-activedescendant={activeAt >= from && activeAt < from + part.length ? `row-${activeAt}` : undefined}
        onKeyDown={gridKeys}
        onFocus={(event) => {
          if (event.target === event.currentTarget && activeAt < 0) active.value = all[0]?.name;
        }}
      >
        <Head />
        <Spacer rows={from} height={height.value} />
        {part.map((entry, i) => (
          <Row entry={entry} index={from + i} key={entry.name} />
        ))}
        <Spacer rows={all.length - from - part.length} height={height.value} />
      </div>
      <Foot />
      <Below />
    </div>
  );
}

function Head(): JSX.Element {
  const words = t();
  const all = selection.value.size > 0 && selection.value.size >= rows.value.length;
  return (
    <div class="lrow lhead" role="row" aria-rowindex={1}>
      <span class="pickc" role="columnheader">
        <input
          class="box"
          type="checkbox"
          tabIndex={-1}
          aria-label={words.selectAll}
          checked={all}
          onChange={() => (selection.value = all ? new Set() : new Set(rows.value.map(({ name }) => name)))}
        />
      </span>
      <Sorter column="name" label={words.nameColumn} />
      <span class="chg" role="columnheader">
        {words.lastChange}
      </span>
      <Sorter column="bytes" label={words.size} kind="num" />
      <Sorter column="modified" label={words.changed} kind="num" />
      <span role="columnheader" class="sr">
        {words.more}
      </span>
    </div>
  );
}

function Sorter({ column, label, kind = "" }: { column: Column; label: string; kind?: string }): JSX.Element {
  const { by, down } = order.value;
  const mine = by === column;
  return (
    <span class={kind} role="columnheader" aria-sort={mine ? (down ? "descending" : "ascending") : "none"}>
      <button
        tabIndex={-1}
        title={t().sortBy(label)}
        // Sizes and times begin with the largest and the latest.
        onClick={() => (order.value = { by: column, down: mine ? !down : column !== "name" })}
      >
        {label}
        {mine && <Icon is={down ? "open" : "shut"} />}
      </button>
    </span>
  );
}

function Row({ entry, index }: { entry: Entry; index: number }): JSX.Element {
  const words = t();
  const { name, type } = entry;
  const picked = selection.value.has(name);
  const { volume: volumeName, path } = route.value;
  const icon = <Icon is={iconOf(type, parts(name).ending)} kind={type === "dir" ? "dir" : ""} />;
  const label = <Name of={name} find={query.value.trim()} />;
  const classes = ["lrow", active.value === name ? "is-active" : "", dropTarget.value === name ? "is-target" : ""];
  return (
    <div
      id={`row-${index}`}
      class={classes.join(" ")}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={picked}
      data-dir={type === "dir" ? index : undefined}
      onClickCapture={(event) => {
        if (!press.took(name, event)) return;
        event.preventDefault();
        event.stopPropagation();
      }}
      onClick={(event) => {
        if ((event.target as Element).closest("button, input, .menu")) return;
        if ((event.target as Element).closest("a") && !event.defaultPrevented) return;
        document.getElementById("list")?.focus({ preventScroll: true });
        if (event.shiftKey) extend(name);
        else if (event.ctrlKey || event.metaKey) toggle(name);
        else active.value = name;
      }}
      onPointerDown={(event) => press.begin(event, name)}
      onPointerMove={(event) => press.move(event)}
      onPointerUp={() => press.end()}
      onPointerCancel={() => press.end()}
      onContextMenu={(event) => {
        if (press.isTouch) event.preventDefault();
      }}
      onDblClick={(event) => {
        if (!(event.target as Element).closest("button, input, a")) open(entry);
      }}
    >
      <span class="pickc" role="gridcell">
        <input
          class="box"
          type="checkbox"
          tabIndex={-1}
          aria-label={words.select(name)}
          checked={picked}
          onClick={(event) => {
            if (event.shiftKey) extend(name);
            else toggle(name);
          }}
        />
      </span>
      <span class="nm" role="gridcell">
        {icon}
        {type === "dir" ? (
          <a href={folderAddress(volumeName, [...path, name])} tabIndex={-1} onClick={follow}>
            {label}
          </a>
        ) : (
          label
        )}
      </span>
      <span class="chg" role="gridcell">
        {entry.change && (
          <>
            <ChangeStrip change={entry.change} isTold />
            <span>{words.changeShort(entry.change)}</span>
          </>
        )}
      </span>
      <span class="size num soft" role="gridcell">
        {type === "file" ? format().bytes(entry.bytes) : ""}
      </span>
      <span class="when num soft" role="gridcell">
        {format().when(entry.modified * 1000)}
      </span>
      <span class="act" role="gridcell">
        <More entry={entry} />
      </span>
    </div>
  );
}

function More({ entry }: { entry: Entry }): JSX.Element {
  const words = t();
  const shut = useSignal(true);
  const box = useRef<HTMLSpanElement>(null);
  const may = volume.value;
  useEffect(() => {
    if (shut.value) return;
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) shut.value = true;
    };
    addEventListener("pointerdown", outside);
    addEventListener("scroll", outside, { passive: true });
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus({ preventScroll: true });
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("scroll", outside);
    };
  }, [shut.value]);

  const close = (then?: () => void) => {
    shut.value = true;
    document.getElementById("list")?.focus({ preventScroll: true });
    then?.();
  };
  return (
    <span class="more" ref={box}>
      <button
        class="btn ghost icon"
        tabIndex={-1}
        aria-label={words.moreFor(entry.name)}
        aria-haspopup="menu"
        aria-expanded={!shut.value}
        onClick={() => {
          active.value = entry.name;
          shut.value = !shut.value;
        }}
      >
        <Icon is="more" />
      </button>
      {!shut.value && (
        <div
          class={`menu ${(box.current?.getBoundingClientRect().bottom ?? 0) > innerHeight - 240 ? "above" : ""}`}
          role="menu"
          aria-label={shown(entry.name)}
          onKeyDown={(event) => menuKeys(event, close)}
        >
          {entry.type === "dir" && (
            <Do icon="folder" label={words.files} run={() => close(() => open(entry))} hint="Enter" />
          )}
          {(entry.type === "file" || entry.type === "dir") && may?.read && (
            <Do icon="down" label={entry.type === "dir" ? words.downloadZip : words.download} run={() => close(() => void download([entry]))} hint="D" />
          )}
          {entry.type === "file" && may?.read && canUpdateCopies() && (
            <Do icon="again" label={words.updateMine} run={() => close(() => void updateMine(entry))} />
          )}
          {entry.type === "file" && may?.read && previewOf(entry.name) && (
            <Do icon="file" label={words.preview} run={() => close(() => open(entry))} hint="Enter" />
          )}
          {entry.type === "file" && may?.read && may.versions && (
            <Do icon="clock" label={words.versions} run={() => close(() => go(screenAddress("versions", entry.name)))} hint="V" />
          )}
          {entry.type === "dir" && rights.value?.share && <Do icon="link" label={words.share} run={() => close(() => share(entry))} hint="S" />}
          {may?.write && (
            <>
              <Do icon="pen" label={words.rename} run={() => close(() => (dialog.value = { kind: "rename", entry }))} hint="F2" />
              <Do icon="turn" label={words.moveTo} run={() => close(() => (dialog.value = { kind: "move", entries: [entry] }))} />
            </>
          )}
          {may?.delete && <Do icon="bin" label={words.remove} run={() => close(() => void askDelete([entry]))} hint={words.deleteKey} />}
        </div>
      )}
    </span>
  );
}

interface DoProps {
  icon: IconName;
  label: string;
  run: () => void;
  hint?: string;
}

function Do({ icon, label, run, hint }: DoProps): JSX.Element {
  return (
    <button role="menuitem" tabIndex={-1} onClick={run}>
      <Icon is={icon} />
      {label}
      {hint && <kbd aria-hidden="true">{hint}</kbd>}
    </button>
  );
}

function menuKeys(event: KeyboardEvent, close: () => void): void {
  event.stopPropagation();
  const items = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("[role=menuitem]")];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") close();
  else if (step) items[(at + step + items.length) % items.length]?.focus();
  else return;
  event.preventDefault();
}

/** Counted once for each list, since the foot is drawn more often. */
const sums = computed(() => {
  let [files, bytes] = [0, 0];
  for (const entry of entries.value) {
    if (entry.type !== "dir") files++;
    if (entry.type === "file") bytes += entry.bytes;
  }
  return { files, bytes };
});

function Foot(): JSX.Element {
  const words = t();
  const { files, bytes } = sums.value;
  const searched = query.value.trim();
  if (searched) return <p class="lfoot">{words.found(rows.value.length, searched)}</p>;
  return (
    <p class="lfoot">
      {status.value === "listing" || status.value === "loading"
        ? words.listing
        : words.foot(files, entries.value.length - files, bytes)}
      <span class="wide"> {words.footKeys}</span>
    </p>
  );
}

/** Scrolls so that a row is seen, below the bars and above the line. */
function reveal(list: HTMLElement, index: number, height: number): void {
  const head = list.querySelector<HTMLElement>(".lhead");
  const headHeight = head?.offsetHeight ?? 0;
  const first = list.getBoundingClientRect().top + (head && getComputedStyle(head).display !== "none" ? headHeight : 0);
  const top = first + index * height;
  const bars = BARS + headHeight;
  if (top < bars) scrollBy(0, top - bars);
  else if (top + height > innerHeight - LINE) scrollBy(0, top + height - innerHeight + LINE);
}

const BARS = 104;
const LINE = 104;
