/** `tools/web.sh bench`: the cost of transfers in a browser. One row for each transfer; medians of several runs. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChromium, type Chromium } from "./devtools";
import { binary, hasPage, missing, startServer, type Server } from "./server";

const why = missing() ?? (typeof WebSocket === "undefined" ? "Node has no WebSocket: set NODE_OPTIONS=--experimental-websocket" : undefined);
if (why) console.log(`SKIPPED: ${why}`);

const MB = 1_000_000;
const KB = 1000;
/** Number of runs of each transfer; BENCH_RUNS sets another number. */
const RUNS = Number(process.env["BENCH_RUNS"] ?? 3);
/** Length of the new file in MiB. */
const NEW_MIB = Number(process.env["BENCH_NEW_MIB"] ?? 1024);
const FILES = Number(process.env["BENCH_FILES"] ?? 10_000);

/** A proxy that counts bytes. */
interface Wire {
  url: string;
  up: number;
  down: number;
  stop: () => void;
}

async function startWire(address: string): Promise<Wire> {
  const [host, port] = address.split(":");
  const open = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(Number(port), host);
    near.on("data", (bytes) => (wire.up += bytes.length)).pipe(far);
    far.on("data", (bytes) => (wire.down += bytes.length)).pipe(near);
    for (const end of [near, far]) {
      open.add(end);
      end.on("error", () => undefined).on("close", () => (near.destroy(), far.destroy(), open.delete(end)));
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    proxy.close();
    for (const end of open) end.destroy();
  };
  const wire = { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/`, up: 0, down: 0, stop };
  return wire;
}

/** The cost of one transfer. */
interface Cost {
  seconds: number;
  cpu: number;
  serverCpu: number;
  /** Longest task of the page's own thread in ms. `gap` is the longest delay of a timer of that thread, in ms. */
  longest: number;
  /** Longest frame in ms, 0 below 50. */
  frame: number;
  gap: number;
  /** Stagnation as StagMeter counts it, in ms. */
  stagnation: number;
  up: number;
  down: number;
}

function median(costs: Cost[]): Cost {
  const middle = (of: (cost: Cost) => number) => costs.map(of).sort((a, b) => a - b)[costs.length >> 1]!;
  const keys = Object.keys(costs[0]!) as (keyof Cost)[];
  return Object.fromEntries(keys.map((key) => [key, middle((cost) => cost[key])])) as unknown as Cost;
}

const rows: string[] = [];
const row = (...cells: string[]) => (rows.push(`| ${cells.join(" | ")} |`), console.log(rows.at(-1)));
function tell(what: string, { seconds, cpu, serverCpu, longest, frame, gap, stagnation, up, down }: Cost): void {
  const bytes = (count: number) => (Number.isNaN(count) ? "" : count.toLocaleString("en"));
  const times = [seconds.toFixed(2), cpu.toFixed(2), serverCpu.toFixed(3), longest.toFixed(0), frame.toFixed(0), gap.toFixed(0), stagnation.toFixed(0)];
  row(what, ...times, bytes(up), bytes(down));
}

function noise(length: number, seed: number): Buffer {
  const words = new Uint32Array(Math.ceil(length / 4));
  let x = seed;
  for (let i = 0; i < words.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[i] = x;
  }
  return Buffer.from(words.buffer, 0, length);
}

describe.skipIf(why)("bench", { timeout: 1_800_000, retry: 0 }, () => {
  let server: Server;
  let wire: Wire;
  let chromium: Chromium;
  let local: string;
  let edited = 0;

  beforeAll(async () => {
    server = await startServer();
    if (!(await hasPage())) console.log("the program has another page than dist: build deltic after the page");
    wire = await startWire(server.address);
    chromium = await startChromium();
    local = mkdtempSync(join(tmpdir(), "deltic-bench-"));
    row("transfer", "s", "browser cpu s", "server cpu s", "longest task ms", "longest frame ms", "longest wait ms", "stagnation ms", "bytes up", "bytes down");
    row(..."----------".split(""));
    await signIn(wire.url);
  });
  afterAll(async () => {
    await chromium?.stop();
    wire?.stop();
    await server?.stop();
    if (local) rmSync(local, { recursive: true, force: true });
    console.log(["", ...rows].join("\n"));
  });

  const disk = (...path: string[]) => server.disk("files", ...path);
  const serverCpu = () => {
    const pids = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && isServer(pid));
    return pids.reduce((sum, pid) => sum + runtimeOf(pid), 0);
  };
  const isServer = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(server.disk("state"));
    } catch {
      return false;
    }
  };
  /** Returns the processor time of all threads of a process, in seconds. */
  const runtimeOf = (pid: string) =>
    readdirSync(`/proc/${pid}/task`)
      .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]))
      .reduce((sum, time) => sum + time, 0) / 1e9;

  async function signIn(url: string): Promise<void> {
    await chromium.tab.open(`${url}files/#t=${server.token}`);
    await chromium.tab.until('document.querySelector(".shell")');
    await sleep(500);
  }

  /** Runs `begin`, waits until `isOver` returns true, and returns the cost. */
  async function measure(begin: () => Promise<unknown>, isOver: () => boolean | Promise<boolean>): Promise<Cost> {
    const { tab } = chromium;
    await tab.run("Object.assign(meters, { longest: 0, tasks: 0, frame: 0, frames: [], gap: 0, stagnation: 0 })");
    Object.assign(wire, { up: 0, down: 0 });
    const [cpu, ofServer, begun] = [chromium.cpuSeconds(), serverCpu(), performance.now()];
    await begin();
    while (!(await isOver())) await sleep(1);
    const seconds = (performance.now() - begun) / 1000;
    // Count the bytes now: afterwards the page lists the folder again.
    const { up, down } = wire;
    await tab.until('document.querySelector(".line")?.textContent.includes("Nothing moves")');
    const { longest, frame, gap, stagnation } = await tab.run<Pick<Cost, "longest" | "frame" | "gap" | "stagnation">>("meters");
    return { seconds, cpu: chromium.cpuSeconds() - cpu, serverCpu: serverCpu() - ofServer, longest, frame, gap, stagnation, up, down };
  }

  /** Replaces a file at the server by an edited one: from the press of the button to the new version on the disk. */
  async function edit(name: string, old: Buffer, next: Buffer): Promise<Cost> {
    writeFileSync(disk(name), old);
    writeFileSync(join(local, name), next);
    const before = statSync(disk(name)).ino;
    const { tab } = chromium;
    await tab.drop([join(local, name)]);
    await tab.until('document.querySelector("dialog input[value=mine]")');
    await tab.run('document.querySelector("dialog input[value=mine]").click()');
    await tab.until('!document.querySelector("dialog .main-b").disabled');
    const cost = await measure(
      () => tab.run('document.querySelector("dialog .main-b").click()'),
      () => statSync(disk(name)).ino !== before,
    );
    expect(readFileSync(disk(name)).equals(next)).toBe(true);
    return cost;
  }

  async function edits(what: string, length: number, change: (old: Buffer) => Buffer, runs = RUNS): Promise<Cost> {
    const costs: Cost[] = [];
    for (let run = 0; run < runs; run++) {
      const old = noise(length, 100 + run);
      costs.push(await edit(`edit-${++edited}.bin`, old, change(old)));
    }
    const cost = median(costs);
    tell(what, cost);
    return cost;
  }

  const inserted = (bytes: number) => (old: Buffer) =>
    Buffer.concat([old.subarray(0, old.length >> 1), noise(bytes, 7), old.subarray(old.length >> 1)]);
  const appended = (bytes: number) => (old: Buffer) => Buffer.concat([old, noise(bytes, 8)]);
  const cut = (bytes: number) => (old: Buffer) => Buffer.concat([old.subarray(0, old.length >> 1), old.subarray((old.length >> 1) + bytes)]);

  test("100 MB", async () => {
    // The first transfer loads the engine.
    await edit("warm.bin", noise(MB, 1), noise(2 * MB, 2));
    await edits("100 MB, 1 byte inserted", 100 * MB, inserted(1));
  });

  test("1 MB", async () => {
    for (const [word, change] of [["inserted", inserted], ["appended", appended], ["cut", cut]] as const)
      for (const bytes of [1, KB, 100 * KB]) await edits(`1 MB, ${bytes.toLocaleString("en")} bytes ${word}`, MB, change(bytes), 2 * RUNS + 1);
  });

  test("1 MB by the native client", async () => {
    const costs: number[] = [];
    for (let run = 0; run < 2 * RUNS + 1; run++) {
      const old = noise(MB, 200 + run);
      writeFileSync(disk("native.bin"), old);
      writeFileSync(join(local, "native.bin"), inserted(KB)(old));
      const before = serverCpu();
      const env = { ...process.env, DELTIC_TOKEN: server.token };
      execFileSync(binary()!, ["sync", join(local, "native.bin"), `http://${server.address}/files/native.bin`], { env, stdio: "ignore" });
      costs.push(serverCpu() - before);
    }
    row("1 MB, 1,000 bytes inserted, native client", "", "", costs.sort((a, b) => a - b)[costs.length >> 1]!.toFixed(3), "", "", "", "", "", "");
  });

  test("a new file", async () => {
    const path = join(local, "new.bin");
    const part = noise(64 << 20, 5);
    writeFileSync(path, "");
    for (let at = 0; at < NEW_MIB; at += 64) writeFileSync(path, part.subarray(0, Math.min(64, NEW_MIB - at) << 20), { flag: "a" });
    // The counting proxy would take processor time from the browser.
    await signIn(`http://${server.address}/`);
    const isThere = () => statSync(disk("new.bin"), { throwIfNoEntry: false })?.size === NEW_MIB << 20;
    const cost = await measure(() => chromium.tab.drop([path]), isThere);
    tell(`new file of ${NEW_MIB} MiB; ${chromium.peakMib().toFixed(0)} MiB of memory in the tab`, { ...cost, up: NaN, down: NaN });
    rmSync(path);
    rmSync(disk("new.bin"));
  });

  test("many files", async () => {
    await signIn(wire.url);
    const folder = join(local, "many");
    for (let no = 0; no < FILES; no++) {
      const dir = join(folder, `${Math.floor(no / 1000)}`);
      if (no % 1000 === 0) mkdirSync(dir, { recursive: true });
      writeFileSync(join(dir, `${no}.bin`), noise(4096, no + 1));
    }
    const length = (dir: string) => (existsSync(dir) ? readdirSync(dir).length : 0);
    const dirs = readdirSync(folder).map((name) => disk("many", name));
    const count = () => dirs.reduce((sum, dir) => sum + length(dir), 0);
    const times: [number, number][] = [];
    const begun = performance.now();
    const cost = await measure(
      () => chromium.tab.drop([folder]),
      async () => {
        await sleep(100);
        const now = count();
        times.push([now, performance.now() - begun]);
        return now === FILES;
      },
    );
    const at = (part: number) => times.find(([now]) => now >= FILES * part)![1];
    const first = at(0.2) - at(0.1);
    const last = at(1) - at(0.9);
    tell(`${FILES.toLocaleString("en")} files of 4 KiB dropped; the last tenth at ${(first / last).toFixed(2)} of the rate of the second`, cost);
  });

  test("many files into an open folder with as many rows", async () => {
    const [folder, there] = [join(local, "flat"), disk("flat")];
    for (const dir of [folder, there]) mkdirSync(dir);
    for (let no = 0; no < FILES; no++) {
      writeFileSync(join(folder, `${no}.bin`), noise(4096, no + 1));
      writeFileSync(join(there, `old-${no}.bin`), "");
    }
    const { tab } = chromium;
    // A page that knows no row of this folder yet.
    await tab.open("about:blank");
    await signIn(wire.url);
    const link = '[...document.querySelectorAll("#list a")].find((link) => new URL(link.href).pathname.endsWith("/flat/"))';
    await tab.until(link);
    const cost = await measure(
      async () => {
        await tab.drop([folder]);
        await tab.run(`${link}.click()`);
        await tab.until(`document.querySelector("#list")?.ariaRowCount > ${FILES}`);
      },
      async () => (await sleep(100), readdirSync(there).length === 2 * FILES),
    );
    console.log(["long frames, each with its scripts, in ms:", ...(await tab.run<string[]>("meters.frames"))].join("\n"));
    tell(`${FILES.toLocaleString("en")} files of 4 KiB into an open folder of ${FILES.toLocaleString("en")} rows`, cost);
  });

  test("first load", async () => {
    const fresh = await startChromium();
    try {
      const { tab } = fresh;
      await tab.send("Network.enable");
      await tab.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: 1.25e6, uploadThroughput: 1.25e6 });
      Object.assign(wire, { up: 0, down: 0 });
      const begun = performance.now();
      await tab.open(`${wire.url}files/#t=${server.token}`);
      await tab.until('document.querySelector(".shell")');
      const seconds = (performance.now() - begun) / 1000;
      await sleep(2000);
      row("first load, cold, at 10 Mbit/s", seconds.toFixed(2), "", "", "", "", "", "", wire.up.toLocaleString("en"), wire.down.toLocaleString("en"));
    } finally {
      await fresh.stop();
    }
  });
});
