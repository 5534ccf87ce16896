/** Drives Chromium by its own protocol (CDP). A library would copy each message of a transfer, at a cost of its own. */
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StagMeter } from "../src/stagnation";
import { browserPath } from "./server";

export interface Tab {
  send: <T = Record<string, unknown>>(method: string, params?: object) => Promise<T>;
  /** Runs an expression in the page, and waits for the promise that the expression returns. */
  run: <T>(expression: string) => Promise<T>;
  /** Waits until an expression is true. */
  until: (expression: string) => Promise<void>;
  open: (url: string) => Promise<void>;
  /** Drops files and folders on the window. */
  drop: (paths: string[]) => Promise<void>;
}

export interface Chromium {
  tab: Tab;
  /** Seconds of processor time of all processes so far. */
  cpuSeconds: () => number;
  /** Most memory that a tab's process had, in MiB. */
  peakMib: () => number;
  stop: () => Promise<void>;
}

/**
 * Script that measures long tasks, long frames with their scripts, the longest delay of a timer in the page's own
 * thread, and stagnation. The browser reports tasks and frames from 50 ms on.
 */
export const METERS = `
  window.meters = { longest: 0, tasks: 0, frame: 0, frames: [], gap: 0, stagnation: 0 };
  new PerformanceObserver((list) => {
    for (const { duration, startTime, scripts } of list.getEntries()) {
      meters.frame = Math.max(meters.frame, duration);
      const parts = scripts.map((one) => Math.round(one.duration) + " " + one.invoker + " " + one.sourceFunctionName + ":" + one.sourceCharPosition + " layout " + Math.round(one.forcedStyleAndLayoutDuration));
      meters.frames.push(Math.round(startTime) + ": " + Math.round(duration) + " = " + parts.join(", "));
    }
  }).observe({ type: "long-animation-frame" });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) { meters.longest = Math.max(meters.longest, duration); meters.tasks += duration; }
  }).observe({ entryTypes: ["longtask"] });
  // A timer, and no animation frames: frames would cost processor time themselves.
  let last = performance.now();
  setInterval(() => { const now = performance.now(); meters.gap = Math.max(meters.gap, now - last); last = now; }, 10);
  ${StagMeter.toString()}
  const stag = new StagMeter();
  const tick = () => {
    const before = stag.stagnation;
    stag.tick(performance.now());
    meters.stagnation += stag.stagnation - before;
    setTimeout(tick, StagMeter.PERIOD_MS);
  };
  tick();`;

/** Starts Chromium with an empty profile and one tab. */
export async function startChromium(): Promise<Chromium> {
  const home = mkdtempSync(join(tmpdir(), "deltic-chromium-"));
  const args = ["--headless=new", "--no-sandbox", "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking", "--lang=en-GB", "--window-size=1280,800"];
  const child = spawn(browserPath()!, [...args, "--remote-debugging-port=0", `--user-data-dir=${home}`, "about:blank"], { stdio: "ignore" });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const port = join(home, "DevToolsActivePort");
  while (!existsSync(port) || !readFileSync(port, "utf8").includes("/devtools")) await sleep(20);
  const [number, path] = readFileSync(port, "utf8").trim().split("\n");
  const tab = await attach(`ws://127.0.0.1:${number}${path}`);
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
    await sleep(200);
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  };
  return { tab, cpuSeconds: recentCpu(child), peakMib: () => peakOf(family(child)), stop };
}

async function attach(address: string): Promise<Tab> {
  const socket = new WebSocket(address);
  await new Promise((resolve, reject) => Object.assign(socket, { onopen: resolve, onerror: reject }));
  let last = 0;
  const waiting = new Map<number, { resolve: (result: never) => void; reject: (error: Error) => void }>();
  socket.onmessage = ({ data }) => {
    const { id, result, error } = JSON.parse(String(data));
    const call = waiting.get(id);
    waiting.delete(id);
    if (error) call?.reject(new Error(error.message));
    else call?.resolve(result as never);
  };
  const ask = <T>(method: string, params: object, sessionId?: string): Promise<T> =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve: resolve as (result: never) => void, reject });
      socket.send(JSON.stringify({ id: last, method, params, sessionId }));
    });
  const { targetId } = await ask<{ targetId: string }>("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await ask<{ sessionId: string }>("Target.attachToTarget", { targetId, flatten: true });
  const send: Tab["send"] = (method, params = {}) => ask(method, params, sessionId);
  const run = async <T>(expression: string): Promise<T> => {
    const { result, exceptionDetails } = await send<{ result: { value: T }; exceptionDetails?: { text: string } }>("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(`${exceptionDetails.text}: ${expression}`);
    return result.value;
  };
  const until = async (expression: string) => {
    const end = Date.now() + 60_000;
    while (!(await run<boolean>(`!!(${expression})`))) {
      if (Date.now() > end) throw new Error(`never true: ${expression}`);
      await sleep(2);
    }
  };
  await send("Page.enable");
  await send("Page.addScriptToEvaluateOnNewDocument", { source: METERS });
  return {
    send,
    run,
    until,
    open: async (url) => void (await send("Page.navigate", { url })),
    drop: async (files) => {
      const data = { items: [], files, dragOperationsMask: 1 };
      for (const type of ["dragEnter", "dragOver", "dragOver", "drop"]) await send("Input.dispatchDragEvent", { type, x: 400, y: 500, data });
    },
  };
}

/** Returns the ids of a process and of all its descendants. */
function family({ pid }: ChildProcess): number[] {
  const parents = new Map<number, number[]>();
  for (const name of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const parent = Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${name}/status`))?.[1]);
    parents.set(parent, [...(parents.get(parent) ?? []), Number(name)]);
  }
  const all = [pid!];
  for (const one of all) all.push(...(parents.get(one) ?? []));
  return all;
}

/** Returns a function for the processor time of a process and its descendants, which are looked up once a second. */
function recentCpu(child: ChildProcess): () => number {
  let [all, due] = [[child.pid!], 0];
  return () => {
    const now = performance.now();
    if (now >= due) [all, due] = [family(child), now + 1000];
    return cpuOf(all);
  };
}

/** Returns the processor time of running processes, in seconds. */
function cpuOf(pids: number[]): number {
  const ticks = pids.map((pid) => read(`/proc/${pid}/stat`).split(") ")[1]?.split(" ") ?? []);
  return ticks.reduce((sum, fields) => sum + Number(fields[11] ?? 0) + Number(fields[12] ?? 0), 0) / 100;
}

function peakOf(pids: number[]): number {
  const tabs = pids.filter((pid) => read(`/proc/${pid}/cmdline`).includes("--type=renderer"));
  return Math.max(...tabs.map((pid) => Number(/^VmHWM:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0))) / 1024;
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
