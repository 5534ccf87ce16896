/**
 * Charts as trees of SVG elements, without a document: the page draws them as elements, and `svg.ts` writes them as a
 * file. A chart is drawn for its width in px, so its text never shrinks. Classes name colours and strokes.
 */

export interface Shape {
  tag: "g" | "path" | "rect" | "circle" | "text" | "title";
  at: Readonly<Record<string, string | number>>;
  /** The text of a `text` or a `title`. */
  text?: string;
  of?: readonly Shape[];
}

export interface Drawing {
  width: number;
  height: number;
  /** A description of the drawing for screen readers. */
  label: string;
  shapes: readonly Shape[];
}

/** A line through values. A missing value ends the line. */
export interface Series {
  name: string;
  /** True for the system of this page, which is drawn in green. */
  isOurs: boolean;
  /** Number of the dashes and marks, equal in all charts. */
  style: number;
  values: readonly ({ mid: number; low: number; high: number } | undefined)[];
}

/** A range of values that the paper reports. */
export interface Band {
  name: string;
  values: readonly (readonly [low: number, high: number] | undefined)[];
}

export interface Panel {
  title: string;
  series: readonly Series[];
  bands: readonly Band[];
}

export interface LineChart {
  label: string;
  /** Words below the x axis, one for each value. */
  xs: readonly string[];
  /** Writes a value of the y axis. */
  unit: (value: number) => string;
  panels: readonly Panel[];
}

/** Draws panels side by side where there is room, with one scale for all, and a legend below. */
export function lineChart(chart: LineChart, width: number): Drawing {
  const { label, panels } = chart;
  const columns = Math.max(1, Math.min(panels.length, Math.floor((width + GAP) / (LEAST_PANEL + GAP))));
  const each = (width - GAP * (columns - 1)) / columns;
  const scale = logScale(panels, PANEL_HEIGHT - TOP - FOOT);
  const shapes = panels.map((panel, i) => {
    const [x, y] = [(i % columns) * (each + GAP), Math.floor(i / columns) * PANEL_HEIGHT];
    return moved(x, y, linePanel(chart, panel, each, scale));
  });
  const below = Math.ceil(panels.length / columns) * PANEL_HEIGHT;
  const key = legend(panels, width);
  return { width, height: below + key.height, label, shapes: [...shapes, moved(0, below, key.shapes)] };
}

interface Scale {
  /** The ticks, from the least to the greatest value. */
  ticks: readonly number[];
  y: (value: number) => number;
}

/** A logarithmic scale. The ticks are powers of ten, with 2 and 5 between them if there are few. */
function logScale(panels: readonly Panel[], height: number): Scale {
  const values = panels
    .flatMap(({ series, bands }) => [...series.flatMap(({ values }) => values.flatMap((one) => (one ? [one.low, one.high] : []))), ...bands.flatMap(({ values }) => values.flatMap((one) => one ?? []))])
    .filter((value) => value > 0);
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [1, 10];
  const steps = most / least > 100 ? [1] : most / least > 10 ? [1, 3] : [1, 2, 5];
  const all: number[] = [];
  for (let power = Math.floor(Math.log10(least)) - 1; power <= Math.ceil(Math.log10(most)) + 1; power++)
    for (const step of steps) all.push(Number(`${step}e${power}`));
  const first = all.findLastIndex((tick) => tick <= least);
  const last = all.findIndex((tick) => tick >= most && tick > all[first]!);
  const ticks = all.slice(first, last + 1);
  const [low, high] = [Math.log(ticks[0]!), Math.log(ticks.at(-1)!)];
  return { ticks, y: (value) => TOP + height * (1 - (Math.log(Math.max(value, ticks[0]!)) - low) / (high - low)) };
}

function linePanel({ xs, unit }: LineChart, { title, series, bands }: Panel, width: number, { ticks, y }: Scale): Shape[] {
  const x = (i: number) => LEFT + INSET + (xs.length === 1 ? 0.5 : i / (xs.length - 1)) * (width - LEFT - 2 * INSET);
  const bottom = y(ticks[0]!);
  const shapes: Shape[] = [text(0, 14, title, "h")];
  bands.forEach((band, i) => shapes.push(...area(band, i, x, y)));
  for (const tick of ticks) {
    shapes.push(path("tick", `M${LEFT} ${fixed(y(tick))}H${fixed(width)}`), text(LEFT - 8, y(tick) + 4, unit(tick), "", "end"));
  }
  shapes.push(path("axis", `M${LEFT} ${fixed(bottom)}H${fixed(width)}`));
  xs.forEach((word, i) => shapes.push(text(x(i), bottom + 20, word, "", "middle")));
  // Ours is drawn last, above the others.
  for (const one of [...series].sort((a, b) => Number(a.isOurs) - Number(b.isOurs))) shapes.push(...line(one, x, y));
  return shapes;
}

function area({ name, values }: Band, nth: number, x: (i: number) => number, y: (value: number) => number): Shape[] {
  const known = values.flatMap((value, i) => (value ? [{ x: x(i), low: y(value[0]), high: y(value[1]) }] : []));
  if (known.length === 0) return [];
  // A band at one place has some width.
  const points = known.length > 1 ? known : [-12, 12].map((by) => ({ ...known[0]!, x: known[0]!.x + by }));
  const there = points.map((point) => `${fixed(point.x)} ${fixed(point.high)}`);
  const back = points.map((point) => `${fixed(point.x)} ${fixed(point.low)}`).reverse();
  return [{ ...path(bandClass(nth), `M${[...there, ...back].join("L")}z`), of: [{ tag: "title", at: {}, text: name }] }];
}

function line({ name, isOurs, style, values }: Series, x: (i: number) => number, y: (value: number) => number): Shape[] {
  let d = "";
  let isOn = false;
  const marks: Shape[] = [];
  values.forEach((value, i) => {
    if (!value) return void (isOn = false);
    const [at, mid] = [fixed(x(i)), fixed(y(value.mid))];
    d += `${isOn ? "L" : "M"}${at} ${mid}`;
    isOn = true;
    // The least and the greatest value, where they differ visibly.
    if (y(value.low) - y(value.high) > 4) marks.push(path(isOurs ? "us-bar" : "them-bar", `M${at} ${fixed(y(value.low))}V${fixed(y(value.high))}`));
    marks.push(mark(x(i), y(value.mid), isOurs ? undefined : style));
  });
  const stroke = path(isOurs ? "us" : `them d${style % DASHES}`, d);
  return d === "" ? [] : [{ ...stroke, of: [{ tag: "title", at: {}, text: name }] }, ...marks];
}

/** The mark of a value. Systems with equal dashes differ in their marks. */
function mark(x: number, y: number, style: number | undefined): Shape {
  if (style === undefined) return { tag: "circle", at: { class: "us-d", cx: fixed(x), cy: fixed(y), r: 4.5 } };
  const at = (d: string) => path("them-d", d);
  const [l, r, t, b] = [fixed(x - 3.5), fixed(x + 3.5), fixed(y - 3.5), fixed(y + 3.5)];
  switch (Math.floor(style / DASHES) % 4) {
    case 0:
      return { tag: "circle", at: { class: "them-d", cx: fixed(x), cy: fixed(y), r: 3 } };
    case 1:
      return at(`M${l} ${t}H${r}V${b}H${l}z`);
    case 2:
      return at(`M${fixed(x)} ${t}L${r} ${b}H${l}z`);
    default:
      return at(`M${fixed(x)} ${t}L${r} ${fixed(y)}L${fixed(x)} ${b}L${l} ${fixed(y)}z`);
  }
}

/** The names of all series and bands, with their strokes, in as many rows as the width needs. */
function legend(panels: readonly Panel[], width: number): { shapes: Shape[]; height: number } {
  const series = [...new Map(panels.flatMap(({ series }) => series.filter(({ values }) => values.some(Boolean)).map((one) => [one.name, one] as const))).values()];
  const bands = [...new Set(panels.flatMap(({ bands }) => bands.filter(({ values }) => values.some(Boolean)).map(({ name }) => name)))];
  const shapes: Shape[] = [];
  let [x, y] = [0, 18];
  const place = (name: string, kind: string, key: Shape[]) => {
    const needs = KEY_WIDTH + 8 + name.length * LETTER;
    if (x > 0 && x + needs > width) [x, y] = [0, y + 22];
    shapes.push(moved(x, y - 4, key), text(x + KEY_WIDTH + 8, y, name, kind));
    x += needs + 20;
  };
  for (const { name, isOurs, style } of series) {
    const stroke = path(isOurs ? "us" : `them d${style % DASHES}`, `M0 0H${KEY_WIDTH}`);
    place(name, isOurs ? "us-t" : "", [stroke, mark(KEY_WIDTH / 2, 0, isOurs ? undefined : style)]);
  }
  for (const [nth, name] of bands.entries()) place(name, "", [{ tag: "rect", at: { class: bandClass(nth), x: 6, y: -7, width: 16, height: 14 } }]);
  return { shapes, height: shapes.length ? y + 10 : 0 };
}

/** A bar of parts, one after the other. */
export interface Bar {
  name: string;
  parts: readonly number[];
  /** The text at the end of the bar. */
  says: string;
}

export interface BarChart {
  label: string;
  /** Names of the parts, equal for all bars. At most three. */
  parts: readonly string[];
  panels: readonly { title: string; bars: readonly Bar[] }[];
}

/** Draws bars of parts, one below the other, with one scale for all panels. */
export function barChart({ label, parts, panels }: BarChart, width: number): Drawing {
  const most = Math.max(...panels.flatMap(({ bars }) => bars.map(({ parts }) => sum(parts))), 1e-9);
  const names = Math.max(...panels.flatMap(({ bars }) => bars.map(({ name }) => name.length)), 0);
  const left = Math.min(names * LETTER + 12, width * 0.42);
  const room = Math.max(40, width - left - BAR_RIGHT);
  const shapes: Shape[] = [];
  let y = 0;
  for (const { title, bars } of panels) {
    shapes.push(text(0, y + 14, title, "h"));
    y += 26;
    for (const bar of bars) {
      shapes.push(text(left - 8, y + 14, bar.name, "", "end"));
      let x = left;
      bar.parts.forEach((part, i) => {
        const wide = (part / most) * room;
        if (wide > 0) shapes.push({ tag: "rect", at: { class: `p${i}`, x: fixed(x), y: y + 1, width: fixed(wide), height: 18 }, of: [{ tag: "title", at: {}, text: parts[i]! }] });
        x += wide;
      });
      shapes.push(text(x + 8, y + 14, bar.says, "soft"));
      y += 26;
    }
    y += 10;
  }
  let [x, row] = [0, y + 14];
  parts.forEach((name, i) => {
    const needs = 24 + name.length * LETTER;
    if (x > 0 && x + needs > width) [x, row] = [0, row + 22];
    shapes.push({ tag: "rect", at: { class: `p${i}`, x, y: row - 11, width: 16, height: 14 } }, text(x + 24, row, name, ""));
    x += needs + 20;
  });
  return { width, height: row + 8, label, shapes };
}

/** A sync as StagMeter saw it. */
export interface Lane {
  name: string;
  under: string;
  isOurs: boolean;
  ms: number;
  late: readonly (readonly [due: number, ms: number])[];
  /** The stagnation in words. */
  still: string;
  isStill: boolean;
  says: string;
}

/**
 * Draws StagMeter as the paper does (figure 4): a tick each 100 ms, and a gap where the page stood still. The scale is
 * the same for all lanes.
 */
export function laneChart({ label, lanes, words }: { label: string; lanes: readonly Lane[]; words: { from: string; to: string } }, width: number, longest: number): Drawing {
  const isNarrow = width < 560;
  const [left, right] = isNarrow ? [0, 0] : [LANE_SIDE, LANE_SIDE];
  const room = width - left - right;
  const x = (ms: number) => left + Math.min(1, ms / longest) * room;
  const height = isNarrow ? 84 : 56;
  const shapes: Shape[] = [];
  lanes.forEach((lane, i) => {
    const y = i * height;
    const top = y + (isNarrow ? 46 : 12);
    if (i > 0) shapes.push(path("tick", `M0 ${y}H${width}`));
    shapes.push(text(0, y + 20, lane.name, lane.isOurs ? "us-t" : "h"), text(0, y + 38, lane.under, "soft"));
    const end = Math.min(lane.ms, longest);
    shapes.push(path("t", ticks(lane, end).map((at) => `M${fixed(x(at))} ${top}V${top + 16}`).join("")));
    for (const [due, ms] of lane.late) {
      if (due > longest) continue;
      const from = x(due);
      shapes.push({ tag: "rect", at: { class: "gap", x: fixed(from), y: top, width: fixed(Math.max(1, x(due + ms) - from)), height: 16 } });
    }
    shapes.push(path("done", `M${fixed(left)} ${top + 24}H${fixed(x(end))}`));
    shapes.push(text(width, y + 20, lane.still, lane.isStill ? "bad-t" : "h", "end"), text(width, y + 38, lane.says, "soft", "end"));
  });
  const y = lanes.length * height + 14;
  shapes.push(text(left, y, words.from, "soft"), text(width - right, y, words.to, "soft", "end"));
  return { width, height: y + 8, label, shapes };
}

/** Times of the ticks of a lane: each 100 ms from the begin, or from the late tick before. */
export function ticks({ late }: Pick<Lane, "late">, end: number): number[] {
  const all: number[] = [];
  let next = 0;
  let gap = 0;
  while (next <= end) {
    all.push(next);
    const [due, ms] = late[gap] ?? [Infinity, 0];
    if (next + PERIOD_MS >= due - PERIOD_MS / 2) {
      next = due + ms;
      gap++;
    } else next += PERIOD_MS;
  }
  return all;
}

/** The second band of a panel is darker. */
const bandClass = (nth: number): string => (nth === 0 ? "band" : "band b1");
const sum = (all: readonly number[]): number => all.reduce((total, one) => total + one, 0);
const fixed = (value: number): number => Math.round(value * 10) / 10;
const path = (kind: string, d: string): Shape => ({ tag: "path", at: { class: kind, d } });
const moved = (x: number, y: number, of: readonly Shape[]): Shape => ({ tag: "g", at: { transform: `translate(${fixed(x)} ${fixed(y)})` }, of });
function text(x: number, y: number, says: string, kind: string, anchor: "start" | "middle" | "end" = "start"): Shape {
  return { tag: "text", at: { x: fixed(x), y: fixed(y), ...(kind ? { class: kind } : {}), ...(anchor === "start" ? {} : { "text-anchor": anchor }) }, text: says };
}

const PERIOD_MS = 100;
const DASHES = 4;
const PANEL_HEIGHT = 270;
const LEAST_PANEL = 260;
const GAP = 28;
const TOP = 30;
const FOOT = 44;
const LEFT = 62;
const INSET = 16;
const KEY_WIDTH = 28;
/** Width of a letter, on average, in px. */
const LETTER = 6.6;
const BAR_RIGHT = 150;
const LANE_SIDE = 168;
