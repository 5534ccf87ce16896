/** Writes a drawing as an SVG file. Colours are attributes, since the page's policy forbids styles, and files have no style sheet. */
import type { Drawing, Shape } from "./chart";

/** Returns the file, with a title above the drawing and a foot of lines below: machine, date and number of runs. */
export function svgFile({ width, height, label, shapes }: Drawing, title: string, foot: readonly string[]): string {
  const [full, top] = [width + 2 * EDGE, EDGE + 32];
  const all = top + height + foot.length * 18 + EDGE;
  const lines = foot.map((line, i) => `<text x="${EDGE}" y="${top + height + 12 + i * 18}" ${attributes({ class: "soft" }, "text")}>${escape(line)}</text>`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${full}" height="${all}" viewBox="0 0 ${full} ${all}" role="img" ${FONT}>`,
    `<title>${escape(label)}</title>`,
    `<rect width="${full}" height="${all}" fill="#ffffff"/>`,
    `<text x="${EDGE}" y="${EDGE + 12}" font-size="16" font-weight="600" fill="#121a16">${escape(title)}</text>`,
    `<g transform="translate(${EDGE} ${top})">`,
    ...shapes.map(element),
    "</g>",
    ...lines,
    "</svg>",
    "",
  ].join("\n");
}

function element({ tag, at, text, of }: Shape): string {
  const inner = (text === undefined ? "" : escape(text)) + (of ?? []).map(element).join("");
  return `<${tag}${tag === "title" ? "" : ` ${attributes(at, tag)}`}>${inner}</${tag}>`;
}

function attributes(at: Shape["at"], tag: Shape["tag"]): string {
  const { class: kind = "", ...rest } = at;
  const looks = Object.assign({}, tag === "text" ? LOOKS["text"] : undefined, ...String(kind).split(" ").map((word) => LOOKS[word]));
  return Object.entries({ ...rest, ...looks })
    .map(([name, value]) => `${name}="${escape(String(value))}"`)
    .join(" ");
}

/** Colours and strokes by class, as `style/lab.css` has them in the light theme. */
const LOOKS: Record<string, Record<string, string | number>> = {
  text: { fill: "#47534d" },
  h: { fill: "#121a16", "font-weight": 600 },
  soft: { fill: "#47534d" },
  "us-t": { fill: "#07693f", "font-weight": 600 },
  "bad-t": { fill: "#b3261e", "font-weight": 600 },
  tick: { stroke: "#dfe5e2", fill: "none" },
  axis: { stroke: "#7f8c86", fill: "none" },
  band: { fill: "#c9d3ce", "fill-opacity": 0.45 },
  b1: { "fill-opacity": 0.9 },
  us: { stroke: "#0a8550", "stroke-width": 2.5, fill: "none" },
  "us-d": { fill: "#0a8550", stroke: "#ffffff", "stroke-width": 1.5 },
  "us-bar": { stroke: "#0a8550", "stroke-width": 1.5, fill: "none" },
  them: { stroke: "#5f6b65", "stroke-width": 1.5, fill: "none" },
  "them-d": { fill: "#ffffff", stroke: "#5f6b65", "stroke-width": 1.5 },
  "them-bar": { stroke: "#5f6b65", fill: "none" },
  d0: {},
  d1: { "stroke-dasharray": "6 3" },
  d2: { "stroke-dasharray": "2 3" },
  d3: { "stroke-dasharray": "8 3 2 3" },
  p0: { fill: "#4f5e57" },
  p1: { fill: "#c9d3ce" },
  p2: { fill: "#ffffff", stroke: "#7f8c86" },
  t: { stroke: "#5f6b65", fill: "none" },
  gap: { fill: "#fdebea", stroke: "#b3261e" },
  done: { stroke: "#c9d3ce", "stroke-width": 4, fill: "none" },
};

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

const EDGE = 24;
const FONT = 'font-family="Atkinson Hyperlegible Next, system-ui, Segoe UI, Roboto, Noto Sans, sans-serif" font-size="12"';
