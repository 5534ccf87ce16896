/**
 * `tools/web.sh bench lab`: the experiments of the WebR2sync paper, in a headless browser and by the command. Writes
 * lab.csv, lab.md and the figures into LAB_OUT. LAB_KINDS, LAB_LENGTHS, LAB_EDITS and LAB_SYSTEMS are lists with commas;
 * BENCH_RUNS is the number of repeats (1, 3, 5 or 9); LAB_SMOKE=1 is short.
 */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { EDITS, KINDS, LENGTHS, type Choice, type Kind, type System } from "../src/lab/experiment";
import { startChromium } from "./devtools";
import { labBench } from "./lab-bench";
import { startOrigin } from "./origin";
import { browserPath, engineMissing, hasPage, missing, startServer } from "./server";

const why = missing() ?? engineMissing() ?? (typeof WebSocket === "undefined" ? "Node has no WebSocket: set NODE_OPTIONS=--experimental-websocket" : undefined);
if (why) console.log(`SKIPPED: ${why}`);

const env = (name: string): string[] | undefined => process.env[name]?.split(",").filter(Boolean);
const isSmoke = process.env["LAB_SMOKE"] === "1";
const SYSTEMS: readonly System[] = [
  "deltic@worker",
  "webr2sync+@main",
  "webr2sync-siphash@main",
  "webr2sync@main",
  "webrsync+@main",
  "webrsync@main",
  "webrsync@worker",
  "whole@main",
  "rsync@native",
  "webrsync@native",
  "deltic@native",
];

const choice: Choice = {
  kinds: (env("LAB_KINDS") as Kind[] | undefined) ?? (isSmoke ? ["append", "insert"] : KINDS),
  lengths: env("LAB_LENGTHS")?.map(Number) ?? (isSmoke ? [LENGTHS[0]] : LENGTHS),
  edits: env("LAB_EDITS")?.map(Number) ?? (isSmoke ? [EDITS[1]] : EDITS),
  systems: (env("LAB_SYSTEMS") as System[] | undefined) ?? (isSmoke ? ["deltic@worker", "webr2sync+@main", "deltic@native"] : SYSTEMS),
  repeats: Number(process.env["BENCH_RUNS"] ?? (isSmoke ? 1 : 5)),
};
const out = process.env["LAB_OUT"] ?? fileURLToPath(new URL("../../target/lab/", import.meta.url));

test.skipIf(why)("the lab", { timeout: 7_200_000, retry: 0 }, async () => {
  const server = await startServer();
  const origin = (await hasPage()) ? undefined : await startOrigin(() => server.address);
  if (origin) console.log("the program has another page than dist: a proxy of this test sends the page, and costs time. Build deltic after the page");
  const chromium = await startChromium();
  try {
    const { tab, cpuSeconds } = chromium;
    const browser = execFileSync(browserPath()!, ["--version"], { encoding: "utf8" }).trim().replace(/ (built|snap|Arch).*$/, "");
    const results = await labBench({ server, url: origin?.url ?? `http://${server.address}/`, driver: { ...tab, cpuSeconds }, choice, out, browser, tell: console.log });
    expect(results.filter(({ isEqual }) => !isEqual)).toEqual([]);
    console.log(`${results.length} syncs are in ${out}`);
  } finally {
    await chromium.stop();
    await origin?.stop();
    await server.stop();
  }
});
