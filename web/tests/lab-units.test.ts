/** Tests of the lab's pure modules: edits, tables, charts. */
import { describe, expect, test } from "vitest";
import type { Edit, System } from "../src/lab/experiment";
import type { Result } from "../src/lab/results";
import type { Shape } from "../src/lab/chart";

import { EDITS, KINDS, noise, noiseParts, pieces, trials, versions } from "../src/lab/experiment";
import { fromCsv, spread, toCsv, typical } from "../src/lab/results";
import { barChart, laneChart, lineChart, ticks } from "../src/lab/chart";
import { figures, systemsOf } from "../src/lab/figures";
import { svgFile } from "../src/lab/svg";
import { formats, labEnglish, labGerman } from "../src/text/lab";
import { numbers } from "../src/text/numbers";

const words = labEnglish(numbers("en-GB", { today: "Today", yesterday: "Yesterday" }), formats("en-GB"));

describe("edits", () => {
  const each = KINDS.flatMap((kind) => [1, 2, 999, 1_000, 10_000, 100_000].flatMap((bytes) => [0, 1, 2].map((repeat): Edit => ({ kind, bytes, repeat, length: 300_000 }))));

  test("have the bytes that are asked for, in 1 to 20 pieces inside the file that do not overlap", () => {
    for (const edit of each) {
      const found = pieces(edit);
      expect(found.reduce((sum, { length }) => sum + length, 0)).toBe(edit.bytes);
      expect(found.length).toBeGreaterThanOrEqual(1);
      expect(found.length).toBeLessThanOrEqual(edit.bytes < 1_000 || edit.kind === "append" ? 1 : 20);
      const takes = edit.kind === "cut" || edit.kind === "inverse" ? 1 : 0;
      for (const [i, { at, length }] of found.entries()) {
        expect(length).toBeGreaterThan(0);
        expect(at).toBeGreaterThanOrEqual(i === 0 ? 0 : found[i - 1]!.at + takes * found[i - 1]!.length);
        expect(at + takes * length).toBeLessThanOrEqual(edit.length);
      }
    }
  });

  test("are dispersed in most cases from 1 kB on", () => {
    const counts = Array.from({ length: 40 }, (_, repeat) => pieces({ kind: "insert", bytes: 10_000, length: 1_000_000, repeat }).length);
    expect(new Set(counts).size).toBeGreaterThan(8);
    expect(Math.max(...counts)).toBeGreaterThan(15);
  });

  test("make the file that the pieces describe", async () => {
    for (const edit of each) {
      const versionsOf = await versions(edit);
      const [old, made] = [Buffer.from(await versionsOf.old.arrayBuffer()), Buffer.from(await versionsOf.edited.arrayBuffer())];
      const kept: number[][] = [];
      // The slow version: parts between pieces stand in the new version in their order.
      let from = 0;
      let to = 0;
      for (const { at, length } of [...pieces(edit), { at: old.length, length: 0 }]) {
        expect(made.subarray(to, to + at - from).equals(old.subarray(from, at))).toBe(true);
        to += at - from;
        from = at;
        if (edit.kind === "cut") from += length;
        else if (edit.kind === "inverse") {
          expect(made.subarray(to, to + length).every((byte, i) => byte === 255 - old[at + i]!)).toBe(true);
          [from, to] = [from + length, to + length];
        } else to += length;
        kept.push([from, to]);
      }
      expect(to).toBe(made.length);
    }
  });

  test("are equal for equal seeds, and differ between repeats", async () => {
    const edit: Edit = { kind: "insert", bytes: 10_000, length: 50_000, repeat: 1 };
    const bytesOf = async (edit: Edit) => Buffer.from(await (await versions(edit)).edited.arrayBuffer());
    expect(await bytesOf(edit)).toEqual(await bytesOf(edit));
    expect(await bytesOf(edit)).not.toEqual(await bytesOf({ ...edit, repeat: 2 }));
    const counts = new Uint32Array(256);
    for (const byte of noise(1 << 20, 5)) counts[byte]!++;
    expect(Math.min(...counts) / Math.max(...counts)).toBeGreaterThan(0.85);
  });

  test("are made in parts that are equal to one part", () => {
    for (const most of [4, 1_000, 9_996, 10_000, 10_004]) expect(Buffer.concat([...noiseParts(10_001, 3, most)])).toEqual(Buffer.from(noise(10_001, 3)));
  });

  test("the systems of a choice take turns", () => {
    const systems: System[] = ["deltic@worker", "webrsync@main"];
    const all = trials({ kinds: ["append", "cut"], lengths: [1_000_000], edits: EDITS, systems, repeats: 2 });
    expect(all).toHaveLength(2 * 4 * 2 * 2);
    expect(all.slice(0, 4).map(({ system }) => system)).toEqual([...systems, ...systems.toReversed()]);
    expect(trials({ kinds: ["cut"], lengths: [1], edits: [1], systems: [], repeats: 1 })).toEqual([]);
  });
});

/** Results of systems whose time is a multiple of the edit's logarithm. */
function made(systems: readonly System[], { lengths = [1_000_000], native = false } = {}): Result[] {
  const choice = { kinds: ["append", "insert", "cut"] as const, lengths, edits: EDITS, systems, repeats: 3 };
  return trials(choice).map(
    (trial): Result => ({
      ...trial,
      at: Date.UTC(2026, 10, 30) + trial.repeat,
      ms: (systems.indexOf(trial.system) + 1) * 100 + trial.repeat * 10 + trial.bytes / 1_000,
      clientMs: 40,
      serverMs: native ? 20 : undefined,
      cpuMs: native ? 30 : undefined,
      up: trial.bytes + 1_500,
      down: 900,
      stagnation: trial.system.endsWith("@main") ? 250 : trial.system.endsWith("@native") ? undefined : 0,
      late: trial.system.endsWith("@main") ? [[100, 250]] : [],
      isEqual: true,
    }),
  );
}

const OF_PAPER: System[] = ["deltic@worker", "webrsync@main", "webrsync@worker", "webrsync+@main", "webr2sync@main", "webr2sync-siphash@main", "webr2sync+@main"];
const NATIVE: System[] = ["rsync@native", "webrsync@native"];

describe("results", () => {
  test("come back from their table", () => {
    const all = [...made(OF_PAPER), ...made(NATIVE, { native: true })];
    expect(fromCsv(toCsv(all))).toEqual(all);
    expect(() => fromCsv("a,b\n1,2\n")).toThrow("not a table of the lab");
  });

  test("medians have the least and the greatest value, and the median run is shown", () => {
    const all = made(["deltic@worker"]).filter(({ kind, bytes }) => kind === "cut" && bytes === 1_000);
    expect(spread(all, "ms")).toEqual({ mid: 111, low: 101, high: 121 });
    expect(spread(all.slice(0, 2), "ms")?.mid).toBe(106);
    expect(spread(all, "serverMs")).toBeUndefined();
    expect(typical(all)?.repeat).toBe(1);
  });
});

describe("charts", () => {
  /** All shapes of a drawing, with the places of groups added. */
  function flat(shapes: readonly Shape[], x = 0, y = 0): { shape: Shape; x: number; y: number }[] {
    return shapes.flatMap((shape) => {
      const [, dx, dy] = /translate\(([\d.-]+) ([\d.-]+)\)/.exec(String(shape.at["transform"] ?? "")) ?? [0, 0, 0];
      const [ax, ay] = [x + Number(dx), y + Number(dy)];
      return [{ shape, x: ax, y: ay }, ...flat(shape.of ?? [], ax, ay)];
    });
  }
  const value = (mid: number) => ({ mid, low: mid * 0.9, high: mid * 1.1 });
  const panel = {
    title: "Insert",
    series: [
      { name: "Deltic", isOurs: true, style: 0, values: [value(50), undefined, value(70)] },
      { name: "WebRsync", isOurs: false, style: 1, values: [value(900), value(950), value(4_000)] },
    ],
    bands: [{ name: "the paper", values: [[500, 1_000], [600, 1_100], undefined] as const }],
  };
  const chart = { label: "Time", xs: ["1 B", "1 kB", "10 kB"], unit: (ms: number) => `${ms}`, panels: [panel, panel, panel] };

  test("stay inside their width, at every width", () => {
    for (const width of [296, 600, 900, 1_200]) {
      const { height, shapes } = lineChart(chart, width);
      for (const { shape, x, y } of flat(shapes)) {
        const numbersOf = String(shape.at["d"] ?? "").match(/[\d.-]+/g)?.map(Number) ?? [];
        for (const number of numbersOf) expect(number).toBeGreaterThanOrEqual(-8);
        if (shape.tag !== "text" && shape.tag !== "circle") continue;
        expect(x + Number(shape.at["x"] ?? shape.at["cx"])).toBeLessThanOrEqual(width);
        expect(y + Number(shape.at["y"] ?? shape.at["cy"])).toBeLessThanOrEqual(height);
      }
    }
    // Three panels in a row where there is room, else one below the other.
    expect(lineChart(chart, 296).height).toBeGreaterThan(3 * lineChart(chart, 1_200).height * 0.8);
  });

  test("a greater value stands higher, and a missing value ends the line", () => {
    const { shapes } = lineChart({ ...chart, panels: [panel] }, 600);
    const all = flat(shapes).map(({ shape }) => shape);
    const ours = all.find(({ at }) => at["class"] === "us")!;
    expect(String(ours.at["d"]).match(/M/g)).toHaveLength(2);
    const theirs = String(all.find(({ at }) => at["class"] === "them d1")!.at["d"]).match(/[\d.]+ [\d.]+/g)!.map((pair) => Number(pair.split(" ")[1]));
    expect(theirs[2]).toBeLessThan(theirs[0]!);
    expect(all.filter(({ at }) => String(at["class"]).startsWith("band") && String(at["d"]).startsWith("M"))).toHaveLength(1);
  });

  test("equal values, a single place and no values at all are drawn", () => {
    const one = { ...panel, series: [{ ...panel.series[0]!, values: [{ mid: 5, low: 5, high: 5 }] }], bands: [] };
    for (const drawn of [lineChart({ ...chart, xs: ["1 B"], panels: [one] }, 600), lineChart({ ...chart, panels: [{ title: "", series: [], bands: [] }] }, 600)])
      expect(JSON.stringify(drawn)).not.toMatch(/null|NaN|Infinity/);
    const bars = barChart({ label: "", parts: ["a"], panels: [{ title: "", bars: [{ name: "x", parts: [0], says: "0" }] }] }, 300);
    expect(JSON.stringify(bars)).not.toMatch(/null|NaN|Infinity/);
  });

  test("StagMeter has a tick each 100 ms, and none while the page stands still", () => {
    expect(ticks({ late: [] }, 450)).toEqual([0, 100, 200, 300, 400]);
    expect(ticks({ late: [[200, 350]] }, 700)).toEqual([0, 100, 550, 650]);
    const lane = { name: "a", under: "b", isOurs: false, ms: 700, late: [[200, 350]] as const, still: "350 ms", isStill: true, says: "" };
    const { shapes } = laneChart({ label: "", lanes: [lane], words: { from: "0", to: "1" } }, 1_000, 1_000);
    const gaps = flat(shapes).filter(({ shape }) => shape.at["class"] === "gap");
    expect(gaps).toHaveLength(1);
    expect(Number(gaps[0]!.shape.at["width"]) / (1_000 - 2 * 168)).toBeCloseTo(0.35, 2);
  });
});

describe("figures", () => {
  const shown = { kind: "insert", length: 1_000_000, bytes: 1_000 } as const;
  const drawnIds = (results: Result[]) => figures(results, shown, words).filter((one) => "draw" in one).map(({ id }) => id);

  test("a page draws those that need neither the command nor the processor", () => {
    const some = figures(made(OF_PAPER), shown, words);
    expect(drawnIds(made(OF_PAPER))).toEqual(["2", "3", "4", "6", "7", "8", "9", "16", "17", "20", "stages"]);
    expect(some.find(({ id }) => id === "length")).toMatchObject({ missing: "needs two lengths of files" });
    expect(some.find(({ id }) => id === "5")).toMatchObject({ missing: expect.stringContaining("a page cannot run programs") });
    expect(some.find(({ id }) => id === "18")).toMatchObject({ missing: expect.stringContaining("a page cannot see the processor") });
  });

  test("the bench draws all of them", () => {
    const lengths = [1_000_000, 10_000_000];
    expect(drawnIds([...made(OF_PAPER, { native: true, lengths }), ...made(NATIVE, { native: true, lengths })])).toEqual(["2", "3", "4", "5", "6", "7", "8", "9", "16", "17", "18", "20", "stages", "length", "still"]);
  });

  test("name what they lack", () => {
    const some = figures(made(["deltic@worker"]), shown, words);
    expect(some.find(({ id }) => id === "9")).toMatchObject({ missing: "needs WebRsync+" });
    expect(figures([], shown, words).every((one) => "missing" in one)).toBe(true);
  });

  test("the bands of figure 16 are the paper's multiples of the measured WebR2sync+", () => {
    const figure = figures(made(OF_PAPER), shown, words).find(({ id }) => id === "16")!;
    if (!("draw" in figure)) throw new Error("not drawn");
    const text = JSON.stringify(figure.draw(1_000));
    expect(text).toContain("15–20 × WebR2sync+");
    // Each kind and edit is a row of the table; each system of the paper a column.
    expect(figure.table.rows).toHaveLength(3 * 4);
    expect(figure.table.head).toEqual(["Edit", "Bytes", "Deltic", "WebR2sync+", "WebR2sync with SipHash", "WebR2sync", "WebRsync+", "WebRsync", "WebRsync-parallel"]);
  });

  test("ours is first among the systems", () => {
    expect(systemsOf(made(["webrsync@main", "deltic@main", "deltic@worker"]))[0]).toBe("deltic@worker");
  });

  test("a file of a figure has attributes in place of classes, and escapes names", () => {
    const figure = figures(made(OF_PAPER), shown, words).find(({ id }) => id === "20")!;
    if (!("draw" in figure)) throw new Error("not drawn");
    const svg = svgFile(figure.draw(1_000), "A <b> & c", ["foot"]);
    expect(svg).toContain("A &#60;b&#62; &#38; c");
    expect(svg).not.toMatch(/class=|style=|NaN|undefined/);
    expect(svg).toMatch(/stroke="#0a8550"/);
  });

  test("German has the same figures", () => {
    const german = labGerman(numbers("de", { today: "", yesterday: "" }), formats("de"));
    const lengths = [1_000_000, 100_000_000];
    const all = [...made(OF_PAPER, { native: true, lengths }), ...made(NATIVE, { native: true, lengths })];
    const some = figures(all, shown, german);
    expect(some.every((one) => "draw" in one && !/undefined/.test(JSON.stringify(one.draw(600))))).toBe(true);
    expect(german.systemName("webr2sync-siphash@main")).toBe("WebR2sync mit SipHash");
    expect(german.time(1_234)).toBe("1,23\u00a0s");
  });
});
