/**
 * `bench web` of the lab: has the page run its lab, runs the same edits by the command, and writes the table as CSV, the
 * figures as SVG, and a document with both. The page is driven from outside, and measures itself.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { placeOf, strategyOf, trials, versions, type Choice, type Trial } from "../src/lab/experiment";
import { figures, kindsOf, systemsOf, type DrawnFigure, type Shown, type Table } from "../src/lab/figures";
import { distinct, fromCsv, resultsOf, spread, toCsv, type Result } from "../src/lab/results";
import { svgFile } from "../src/lab/svg";
import { formats, labEnglish } from "../src/text/lab";
import { numbers } from "../src/text/numbers";
import { binary, type Server } from "./server";

/** A tab of a browser, driven by any library. */
export interface Driver {
  open: (url: string) => Promise<void>;
  /** Runs an expression in the page, and waits for the promise that the expression returns. */
  run: <T>(expression: string) => Promise<T>;
  /** Processor time of the browser so far, in seconds. */
  cpuSeconds?: () => number;
}

export interface LabBench {
  server: Server;
  /** Address of the page's origin. */
  url: string;
  driver: Driver;
  choice: Choice;
  /** Folder for the files. */
  out: string;
  /** The browser and its version. */
  browser: string;
  tell: (line: string) => void;
}

/** Runs all, and returns the results. Native systems are run by the command. */
export async function labBench(bench: LabBench): Promise<Result[]> {
  const { choice, out, tell } = bench;
  mkdirSync(out, { recursive: true });
  const inPage = choice.systems.filter((system) => placeOf(system) !== "native");
  const native = choice.systems.filter((system) => placeOf(system) === "native");
  const meter = sampler(bench);
  let results: Result[];
  try {
    results = await runPage(bench, { ...choice, systems: inPage });
  } finally {
    await meter.stop();
  }
  results = results.map((one) => ({ ...one, ...meter.of(one) }));
  for (const trial of trials({ ...choice, systems: native })) {
    results.push(await runCommand(bench, trial, meter.serverCpu));
    tell(`${trial.system}: ${results.at(-1)!.ms.toFixed(0)} ms`);
  }
  write(results, bench);
  return results;
}

/** Chooses, starts and awaits a run of the page's lab. */
async function runPage({ driver, url, server, tell }: LabBench, choice: Choice): Promise<Result[]> {
  await driver.open(`${url}files/#t=${server.token}`);
  await until(driver, 'document.querySelector(".shell")');
  await driver.run('location.hash = "#lab"');
  await until(driver, 'document.querySelector(".lab form")');
  const wanted = { kinds: choice.kinds, lengths: choice.lengths.map(String), edits: choice.edits.map(String), systems: choice.systems };
  for (const [name, values] of Object.entries(wanted))
    await driver.run(`for (const box of document.querySelectorAll("input[name=${name}]")) if (box.checked !== ${JSON.stringify(values)}.includes(box.value)) box.click();`);
  await driver.run(`(() => { const menu = document.querySelector(".runs select"); menu.value = "${choice.repeats}"; menu.dispatchEvent(new Event("change", { bubbles: true })); })()`);
  await sleep(100);
  await driver.run('document.querySelector(".go .btn").click()');
  const state = '(document.querySelector(".lab .running")?.textContent ?? "")';
  let last = "";
  for (;;) {
    await sleep(1_000);
    const now = await driver.run<string>(state);
    if (now === "" && (await driver.run<boolean>('!!document.querySelector("[data-table=results], .troubles")'))) break;
    if (now !== last) tell((last = now));
  }
  const troubles = await driver.run<string>('document.querySelector(".troubles")?.textContent ?? ""');
  if (troubles) tell(`the lab reports: ${troubles}`);
  // The page hands the table to the browser as a download. Keep the table instead.
  await driver.run("(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved = blob.text(); return make.call(URL, blob); }; })()");
  await driver.run('[...document.querySelectorAll(".lab .head .btn")].find((button) => button.textContent.includes("CSV")).click()');
  return fromCsv(await driver.run<string>("window.saved"));
}

async function until(driver: Driver, expression: string): Promise<void> {
  for (const end = Date.now() + 60_000; !(await driver.run<boolean>(`!!(${expression})`)); await sleep(20)) if (Date.now() > end) throw new Error(`never true: ${expression}`);
}

/** Samples the processor times of the browser and of the server, for the syncs that the page times itself. */
function sampler({ driver, server }: LabBench) {
  const serverCpu = threadTimes(server);
  const cpu = driver.cpuSeconds;
  const samples: (readonly [at: number, client: number, server: number])[] = [];
  const timer = setInterval(() => samples.push([Date.now(), (cpu?.() ?? NaN) * 1000, serverCpu()]), SAMPLE_MS);
  /** Returns a sampled value at a time, between the samples before and after. */
  const at = (time: number, which: 1 | 2): number => {
    const after = samples.findIndex(([when]) => when >= time);
    if (after <= 0) return NaN;
    const [from, to] = [samples[after - 1]!, samples[after]!];
    return from[which] + ((to[which] - from[which]) * (time - from[0])) / Math.max(1, to[0] - from[0]);
  };
  const during = (one: Result, which: 1 | 2): number | undefined => {
    const used = at(one.at + one.ms + SAMPLE_MS, which) - at(one.at - SAMPLE_MS / 2, which);
    return Number.isNaN(used) ? undefined : Math.max(0, used);
  };
  return {
    serverCpu,
    stop: async () => {
      await sleep(2 * SAMPLE_MS);
      clearInterval(timer);
    },
    of: (one: Result) => ({ cpuMs: during(one, 1), serverMs: during(one, 2) }),
  };
}

/** Returns a function for the processor time of all threads that the server has had, in ms. */
function threadTimes(server: Server): () => number {
  const state = server.disk("state");
  // A thread that has ended is no longer listed, and keeps its last value.
  const times = new Map<string, number>();
  return () => {
    const pids = names("/proc").filter((pid) => /^\d+$/.test(pid) && read(`/proc/${pid}/cmdline`).includes(state));
    for (const pid of pids)
      for (const task of names(`/proc/${pid}/task`)) {
        const [time] = read(`/proc/${pid}/task/${task}/schedstat`).split(" ");
        if (time) times.set(`${pid}/${task}`, Number(time) / 1e6);
      }
    return [...times.values()].reduce((sum, time) => sum + time, 0);
  };
}

/** Syncs by the command, with the files of the page's trial of the same edit. */
async function runCommand({ server }: LabBench, trial: Trial, serverCpu: () => number): Promise<Result> {
  const local = mkdtempSync(join(tmpdir(), "deltic-lab-"));
  try {
    const made = await versions(trial);
    const [old, edited] = [Buffer.from(await made.old.arrayBuffer()), Buffer.from(await made.edited.arrayBuffer())];
    const there = server.disk("files", "native.bin");
    writeFileSync(there, old);
    writeFileSync(join(local, "native.bin"), edited);
    const env = { ...process.env, DELTIC_TOKEN: server.token, TIMEFORMAT: "%U %S" };
    const args = ["sync", "--json", "-I", "--strategy", strategyOf(trial.system), join(local, "native.bin"), `http://${server.address}/files/native.bin`];
    const before = serverCpu();
    const [at, begun] = [Date.now(), performance.now()];
    const { stdout, stderr, status } = spawnSync("bash", ["-c", 'time "$0" "$@"', binary()!, ...args], { env, encoding: "utf8" });
    const ms = performance.now() - begun;
    if (status !== 0) throw new Error(`deltic ${args.join(" ")}: ${stderr}`);
    const cpuMs = stderr.trim().split("\n").at(-1)!.split(" ").reduce((sum, secs) => sum + Number(secs) * 1000, 0);
    const summary = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line) as { event: string; sent_bytes: number; received_bytes: number }).find(({ event }) => event === "summary")!;
    const isEqual = readFileSync(there).equals(edited);
    rmSync(there);
    return { ...trial, at, ms, clientMs: Math.min(cpuMs, ms), serverMs: serverCpu() - before, cpuMs, up: summary.sent_bytes, down: summary.received_bytes, late: [], isEqual };
  } finally {
    rmSync(local, { recursive: true, force: true });
  }
}

const words = labEnglish(numbers("en-GB", { today: "Today", yesterday: "Yesterday" }), formats("en-GB"));

/** Writes the table, the figures and the document. */
function write(results: readonly Result[], { out, browser }: LabBench): void {
  writeFileSync(join(out, "lab.csv"), toCsv(results));
  const shown = firstCell(results);
  const all = figures(results, shown, words);
  const drawn = all.filter((one): one is DrawnFigure => "draw" in one);
  const machine = `${browser}, Linux, ${words.processors(cpus().length)} ${cpus()[0]?.model ?? ""}`.trim();
  const foot = words.foot(machine, results[0]?.at ?? 0, Math.max(0, ...results.map(({ repeat }) => repeat + 1)));
  for (const { id, title, says, draw } of drawn)
    writeFileSync(join(out, `lab-${id}.svg`), svgFile(draw(1_000), [words.figure(id), title].filter(Boolean).join(": "), [says, foot].filter(Boolean)));
  const parts = drawn.map(({ id, title, says, table }) => [`### ${[words.figure(id), title].filter(Boolean).join(": ")}`, says, `![${title}](lab-${id}.svg)`, markdown(table)].filter(Boolean).join("\n\n"));
  const missing = all.flatMap((one) => ("missing" in one ? [`- ${[words.figure(one.id), one.title].filter(Boolean).join(", ")}: ${one.missing}`] : []));
  const never = words.never.map(([figures, why]) => `- ${figures}: ${why}`);
  const document = ["# The lab", foot, "## All results", ...cells(results), "## Figures", ...parts, "## Not drawn", [...missing, ...never].join("\n")];
  writeFileSync(join(out, "lab.md"), document.join("\n\n") + "\n");
}

/** The cell of the figures about one cell: an insert, the second least edit, the least file. */
function firstCell(results: readonly Result[]): Shown {
  const kinds = kindsOf(results);
  const edits = distinct(results, "bytes");
  return { kind: kinds.includes("insert") ? "insert" : (kinds[0] ?? "insert"), length: distinct(results, "length")[0] ?? 0, bytes: edits[1] ?? edits[0] ?? 0 };
}

/** A table of medians for each length. */
function cells(results: readonly Result[]): string[] {
  const unit = (value: number | undefined, format: (value: number) => string) => (value === undefined ? "–" : format(value));
  return distinct(results, "length").map((length) => {
    const rows = kindsOf(results).flatMap((kind) =>
      distinct(results, "bytes").flatMap((bytes) =>
        systemsOf(results).flatMap((system) => {
          const some = resultsOf(results, system, { kind, length, bytes });
          if (some.length === 0) return [];
          const mid = (measure: Parameters<typeof spread>[1]) => spread(some, measure)?.mid;
          const times = [mid("ms"), mid("clientMs"), mid("cpuMs"), mid("serverMs"), mid("stagnation")].map((ms) => unit(ms, words.time));
          return [[words.kinds[kind], words.bytes(bytes), words.systemName(system), ...times, unit(mid("up"), words.bytes), unit(mid("down"), words.bytes), some.every(({ isEqual }) => isEqual) ? words.yes : words.no]];
        }),
      ),
    );
    const head = [words.kindColumn, words.bytesColumn, words.system, words.timeColumn, words.clientColumn, words.processorColumn, words.parts.server, words.stillColumn, words.upColumn, words.downColumn, words.proofColumn];
    return `**${words.bytes(length)}**\n\n${markdown({ head, rows })}`;
  });
}

function markdown({ head, rows }: Table): string {
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ").replaceAll("\u00a0", " ")} |`).join("\n");
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function names(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

const SAMPLE_MS = 25;
