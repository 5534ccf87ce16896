/** Uploads of edited files through the delta engine: bytes on the server's disk, and bytes on the wire. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addFiles, expectStill, idle, launch, row, setUp, signIn, startControl, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

const MB = 1_000_000;

/** Returns pseudo-random bytes; equal seeds give equal bytes. */
function noise(length: number, seed: number): Buffer {
  const words = new Uint32Array(length / 4);
  let x = seed;
  for (let i = 0; i < words.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[i] = x;
  }
  return Buffer.from(words.buffer);
}

/** Returns a copy with a few bytes inserted, overwritten and removed. */
function edited(bytes: Buffer): Buffer {
  const at = (part: number) => Math.floor(bytes.length * part);
  const parts = [bytes.subarray(0, at(0.25)), Buffer.from("inserted"), bytes.subarray(at(0.25), at(0.75)), bytes.subarray(at(0.75) + 3)];
  const copy = Buffer.concat(parts);
  copy.write("overwritten", at(0.5));
  return copy;
}

describe.skipIf(why)("the delta engine of the page", () => {
  let browser: Browser;
  let s: Setup;
  let local: string;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser);
    local = mkdtempSync(join(tmpdir(), "deltic-local-"));
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
    rmSync(local, { recursive: true, force: true });
  });
  beforeEach(async () => {
    for (const name of readdirSync(disk())) if (name !== ".deltic") rmSync(disk(name));
    await s.page.goto("about:blank");
    Object.assign(s.origin, { cut: false, sockets: true, slow: undefined, bodies: [], seen: [], onUpgrade: undefined });
    s.origin.wire = { up: 0, down: 0 };
    await signIn(s);
  });
  afterEach(() => expect(s.wrongs.splice(0)).toEqual([]));

  const disk = (...path: string[]) => s.server.disk("files", ...path);
  const puts = () => s.origin.seen.filter((seen) => seen.startsWith("PUT"));

  /** Adds a file by the picker. Answers the question about the conflict: the new file replaces the server's file. */
  async function replace(name: string, content: Buffer, modified?: number): Promise<void> {
    const path = join(local, name);
    writeFileSync(path, content);
    if (modified !== undefined) utimesSync(path, modified, modified);
    await addFiles(s.page, [path]);
    await keepMine();
  }

  async function keepMine(): Promise<void> {
    const dialog = s.page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "Mine" }).check();
    await dialog.getByRole("button", { name: "Keep mine" }).click();
  }

  test("an edit of 20 MB costs less than 20 kB, and the row says what is saved", async () => {
    const old = noise(20 * MB, 1);
    const next = edited(old);
    writeFileSync(disk("a.bin"), old);
    await replace("a.bin", next);
    await idle(s.page);
    expect(readFileSync(disk("a.bin")).equals(next)).toBe(true);
    console.log(`edit of 20 MB: ${s.origin.wire.up} bytes up, ${s.origin.wire.down} down`);
    expect(s.origin.wire.up).toBeLessThan(20_000);
    expect(puts()).toEqual([]);
    await s.page.getByRole("link", { name: "Transfers", exact: true }).click();
    await s.page.getByText(/20\.0.MB saved, 99 %/).waitFor();
    expect(await s.page.locator(".tr .strip rect.k").count()).toBe(1);
  });

  test("an append costs less than 400 bytes more than the new bytes, without a request before it", async () => {
    writeFileSync(disk("warm.bin"), noise(MB, 40));
    await replace("warm.bin", noise(MB, 41));
    await idle(s.page);
    for (const bytes of [4, 1_000, 100_000]) {
      const [name, old] = [`append-${bytes}.bin`, noise(MB, bytes)];
      writeFileSync(disk(name), old);
      const next = Buffer.concat([old, noise(bytes, 42)]);
      writeFileSync(join(local, name), next);
      await addFiles(s.page, [join(local, name)]);
      await s.page.getByRole("dialog").waitFor();
      Object.assign(s.origin, { wire: { up: 0, down: 0 }, seen: [] });
      await keepMine();
      await expect.poll(() => readFileSync(disk(name)).equals(next)).toBe(true);
      await idle(s.page);
      console.log(`${bytes} bytes appended to 1 MB: ${s.origin.wire.up} bytes up, ${s.origin.wire.down} down`);
      expect(s.origin.wire.up + s.origin.wire.down).toBeLessThan(bytes + 400);
      expect(s.origin.seen.filter((seen) => seen.includes(name))).toEqual([]);
    }
  });

  test("content of the same length and time is not taken for equal", async () => {
    const old = noise(2 * MB, 2);
    const next = Buffer.from(old);
    next.write("overwritten", MB);
    writeFileSync(disk("b.bin"), old);
    utimesSync(disk("b.bin"), 1_700_000_000, 1_700_000_000);
    await replace("b.bin", next, 1_700_000_000);
    await idle(s.page);
    expect(readFileSync(disk("b.bin")).equals(next)).toBe(true);
    expect(puts()).toEqual([]);
  });

  test("a version that appears after the choice is not replaced, however late", async () => {
    const old = noise(2 * MB, 3);
    const other = edited(edited(old));
    writeFileSync(disk("c.bin"), old);
    // The server's file changes after the user's choice and before the session: when the page opens the WebSocket.
    s.origin.onUpgrade = () => writeFileSync(disk("c.bin"), other);
    await replace("c.bin", edited(old));
    await s.page.getByRole("dialog").getByRole("button", { name: "Choose a version" }).waitFor();
    expect(readFileSync(disk("c.bin")).equals(other)).toBe(true);
    expect(puts()).toEqual([]);
    await keepMine();
    await idle(s.page);
    expect(readFileSync(disk("c.bin")).equals(edited(old))).toBe(true);
  });

  test("without WebSockets an edit travels as a delta, by plain HTTP", async () => {
    const old = noise(20 * MB, 4);
    writeFileSync(disk("d.bin"), old);
    s.origin.sockets = false;
    await replace("d.bin", edited(old));
    await idle(s.page);
    expect(readFileSync(disk("d.bin")).equals(edited(old))).toBe(true);
    expect(puts()).toEqual([]);
    const bodies = s.origin.bodies.reduce((sum, length) => sum + length, 0);
    console.log(`edit of 20 MB without WebSockets: bodies of ${bodies} bytes`);
    expect(bodies).toBeGreaterThan(1_000);
    expect(bodies).toBeLessThan(20_000);
  });

  test("without WebSockets, a delta outlives lost connections and a restart of the server", async () => {
    const old = noise(8 * MB, 9);
    writeFileSync(disk("f.bin"), old);
    Object.assign(s.origin, { sockets: false, slow: 4_000_000 });
    const next = Buffer.concat([old, noise(8 * MB, 10)]);
    await replace("f.bin", next);
    await expect.poll(() => s.origin.bodies.length).toBeGreaterThan(4);
    s.origin.drop();
    await expect.poll(() => s.origin.bodies.length).toBeGreaterThan(8);
    await s.server.kill();
    s.origin.slow = undefined;
    await s.server.start();
    await idle(s.page);
    expect(readFileSync(disk("f.bin")).equals(next)).toBe(true);
    expect(puts()).toEqual([]);
  });

  test("a connection that ends in the middle is dialled again", async () => {
    const old = noise(20 * MB, 5);
    writeFileSync(disk("e.bin"), old);
    let ends = 1;
    s.origin.onUpgrade = (client) => void (ends-- > 0 && client.once("data", () => setTimeout(() => client.destroy(), 50)));
    await replace("e.bin", noise(20 * MB, 6));
    await idle(s.page);
    expect(readFileSync(disk("e.bin")).equals(noise(20 * MB, 6))).toBe(true);
    expect(s.origin.seen.filter((seen) => seen.startsWith("UPGRADE")).length).toBeGreaterThan(1);
  });

  test("an older copy on this device is brought up to date by what is new", async () => {
    const old = noise(20 * MB, 8);
    const next = edited(old);
    writeFileSync(disk("copy.bin"), next);
    await s.page.reload();
    await row(s.page, "copy.bin").waitFor();
    // A picker needs a window, which is missing here. So the user's file is a file in the origin's own storage.
    await s.page.evaluate(async () => {
      const root = await navigator.storage.getDirectory();
      const mine = await root.getFileHandle("mine.bin", { create: true });
      Object.assign(window, { showOpenFilePicker: () => Promise.resolve([mine]) });
    });
    await fill(old);
    await row(s.page, "copy.bin").hover();
    await row(s.page, "copy.bin").getByRole("button", { name: /^More for/ }).click();
    await s.page.getByRole("menuitem", { name: "Update my older copy" }).click();
    await s.page.getByText(/is up to date: .* came instead of 20\.0.MB/).waitFor();
    console.log(`update of 20 MB: ${s.origin.wire.down} bytes down, ${s.origin.wire.up} up`);
    expect(s.origin.wire.down).toBeLessThan(20_000);
    expect(await sum()).toBe(createHash("sha256").update(next).digest("hex"));
    expect(await staged()).toEqual([]);
  });

  /** Writes the user's file of the test above to the origin's storage, in pieces: all bytes do not fit one message. */
  async function fill(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; at += 2 * MB)
      await s.page.evaluate(
        async ([text, at]) => {
          const mine = await (await navigator.storage.getDirectory()).getFileHandle("mine.bin");
          const out = await mine.createWritable({ keepExistingData: true });
          await out.write({ type: "write", position: at, data: Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)) });
          await out.close();
        },
        [bytes.subarray(at, at + 2 * MB).toString("base64"), at] as const,
      );
  }

  const staged = () =>
    s.page.evaluate(async () => {
      const found: string[] = [];
      for await (const name of (await navigator.storage.getDirectory()).keys()) if (name !== "mine.bin") found.push(name);
      return found;
    });

  const sum = () =>
    s.page.evaluate(async () => {
      const mine = await (await navigator.storage.getDirectory()).getFileHandle("mine.bin");
      const bytes = await crypto.subtle.digest("SHA-256", await (await mine.getFile()).arrayBuffer());
      return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
    });

  test("the page's own thread stays free while 100 MB are compared", async () => {
    const control = await startControl(browser, s);
    const old = noise(100 * MB, 7);
    writeFileSync(disk("f.bin"), old);
    await s.page.evaluate(() => {
      const tasks: number[] = [];
      Object.assign(globalThis, { tasks });
      new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask" });
    });
    await replace("f.bin", edited(old));
    const before = await s.page.evaluate(() => (globalThis as unknown as { tasks: number[] }).tasks.length);
    await idle(s.page);
    const tasks = await s.page.evaluate(() => (globalThis as unknown as { tasks: number[] }).tasks);
    console.log(`edit of 100 MB: ${s.origin.wire.up} bytes up, long tasks ${tasks.slice(before).map(Math.round).join(", ") || "none"} ms`);
    expect(readFileSync(disk("f.bin")).equals(edited(old))).toBe(true);
    expect(s.origin.wire.up).toBeLessThan(40_000);
    await expectStill(s, control);
  });

  test("the page's own thread stays free while a new file of 128 MiB is sent", async () => {
    const control = await startControl(browser, s);
    const next = noise(128 << 20, 12);
    const path = join(local, "g.bin");
    writeFileSync(path, next);
    await addFiles(s.page, [path]);
    await row(s.page, "g.bin").waitFor({ timeout: 120_000 });
    await idle(s.page);
    expect(readFileSync(disk("g.bin")).equals(next)).toBe(true);
    await expectStill(s, control);
  });
});
