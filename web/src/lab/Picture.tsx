/** Draws a chart for the width that the page has for it. */
import { signal, useSignal } from "@preact/signals";
import { h, type ComponentChild, type JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { lab } from "./words";
import { Icon } from "../ui/Icon";
import type { Drawing, Shape } from "./chart";
import type { DrawnFigure, Table } from "./figures";
import { machine } from "./machine";
import { saveFile, toPng } from "./save";
import { svgFile } from "./svg";

export function Picture({ draw }: { draw: (width: number) => Drawing }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  useEffect(() => {
    const look = () => (width.value = Math.floor(box.current?.clientWidth ?? 0));
    const watch = new ResizeObserver(look);
    watch.observe(box.current!);
    look();
    return () => watch.disconnect();
  }, []);
  const drawing = width.value > 0 ? draw(width.value) : undefined;
  return (
    <div class="chart-box" ref={box}>
      {drawing && (
        <svg class="chart" role="img" aria-label={drawing.label} width={drawing.width} height={drawing.height} viewBox={`0 0 ${drawing.width} ${drawing.height}`}>
          {drawing.shapes.map(element)}
        </svg>
      )}
    </div>
  );
}

function element({ tag, at, text, of }: Shape, i: number): ComponentChild {
  return h(tag, { ...at, key: i }, text, ...(of ?? []).map(element));
}

/** A drawn figure, with its table and a button that saves the picture. */
export function FigureCard({ figure, at }: { figure: DrawnFigure; at: number }): JSX.Element {
  const words = lab();
  const { id, title, says, draw, table, runs } = figure;
  const number = words.figure(id);
  const foot = words.foot(machine(words.processors), at, runs);
  return (
    <figure class="fig-card">
      <figcaption>
        <div class="head">
          <h3>{[number, title].filter(Boolean).join(": ")}</h3>
          <span class="push" />
          <button class="btn ghost" aria-label={words.pictureOf(number || title)} onClick={() => void save(draw(SAVED_WIDTH), title, [says, foot].filter(Boolean), `lab-${id}.png`)}>
            <Icon is="picture" />
            {words.picture}
          </button>
        </div>
        {says && <p class="help">{says}</p>}
      </figcaption>
      <Picture draw={draw} />
      <p class="faint small">{foot}</p>
      <details open={opened.value.has(id)} onToggle={(event) => open(id, event.currentTarget.open)}>
        <summary>{words.table}</summary>
        <Rows table={table} label={title} />
      </details>
    </figure>
  );
}

/** Figures whose tables are open. They stay open when a figure is drawn again. */
const opened = signal<ReadonlySet<string>>(new Set());
function open(id: string, isOpen: boolean): void {
  const next = new Set(opened.peek());
  if (isOpen) next.add(id);
  else next.delete(id);
  if (next.size !== opened.peek().size) opened.value = next;
}

async function save(drawing: Drawing, title: string, foot: readonly string[], name: string): Promise<void> {
  saveFile(await toPng(svgFile(drawing, title, foot)), name);
}

export function Rows({ table: { head, rows }, label }: { table: Table; label: string }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="tbl">
        <thead>
          <tr>
            {head.map((cell, i) => (
              <th key={i} scope="col" class={i > 0 && isFigure(rows[0]?.[i]) ? "num" : ""}>
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} class={j > 0 && isFigure(cell) ? "num" : ""}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const isFigure = (cell: string | undefined): boolean => /^[\d–]/.test(cell ?? "");

/** Width of a saved picture, in px. */
const SAVED_WIDTH = 1000;
