/** Transfers outlive the page, the server and the network: bytes on the server's disk, and bytes on the wire. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addFiles, drop, idle, launch, row, setUp, signIn, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

const LENGTH = 64 << 20;
/** Bytes a second to the server: slow enough to interrupt a transfer in the middle. */
const SLOW = 25_000_000;
const MOST = 1.2 * LENGTH;

describe.skipIf(why)("a transfer that is interrupted", () => {
  let browser: Browser;
  let s: Setup;
  let local: string;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { pickers: true });
    local = mkdtempSync(join(tmpdir(), "deltic-local-"));
    // The browser's picker shows no window here. Instead, the picker returns a file of the origin's storage: the handle
    // of such a file works like the handle of a user's file.
    await s.context.addInitScript(() => {
      const pick = async () => [await (await navigator.storage.getDirectory()).getFileHandle("big.bin")];
      Object.assign(window, { showOpenFilePicker: pick });
    });
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
    rmSync(local, { recursive: true, force: true });
  });
  beforeEach(async () => {
    for (const name of readdirSync(disk())) if (name !== ".deltic") rmSync(disk(name), { recursive: true });
    Object.assign(s.origin, { cut: false, slow: undefined, seen: [], wire: { up: 0, down: 0 } });
    await s.page.goto("about:blank");
    // A transfer that a failed test left would go on in the next test.
    const browserSession = await s.context.newCDPSession(s.page);
    await browserSession.send("Storage.clearDataForOrigin", { origin: new URL(s.origin.url).origin, storageTypes: "indexeddb" });
    await signIn(s);
  });
  afterEach(() => expect(s.wrongs.splice(0)).toEqual([]));

  const disk = (...path: string[]) => s.server.disk("files", ...path);
  const add = () => s.page.getByRole("button", { name: "Add files" }).first().click();

  /** Writes pseudo-random bytes to the file that the picker returns. Returns the content. */
  async function fill(seed: number): Promise<Buffer> {
    await s.page.evaluate(
      async ([length, seed]) => {
        const words = new Uint32Array(length / 4);
        let x = seed;
        for (let i = 0; i < words.length; i++) {
          x ^= x << 13;
          x ^= x >>> 17;
          x ^= x << 5;
          words[i] = x;
        }
        const file = await (await navigator.storage.getDirectory()).getFileHandle("big.bin", { create: true });
        const out = await file.createWritable();
        await out.write(words);
        await out.close();
      },
      [LENGTH, seed] as const,
    );
    const words = new Uint32Array(LENGTH / 4);
    let x = seed;
    for (let i = 0; i < words.length; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      words[i] = x;
    }
    return Buffer.from(words.buffer);
  }

  /** Starts a slow upload, and waits until a third of the file was sent: the server has then noted some bytes. */
  async function middle(): Promise<void> {
    s.origin.slow = SLOW;
    await add();
    await expect.poll(() => s.origin.wire.up, { timeout: 60_000 }).toBeGreaterThan(LENGTH / 3);
  }

  async function arrives(content: Buffer, what: string): Promise<void> {
    s.origin.slow = undefined;
    await expect.poll(() => existsSync(disk("big.bin")), { timeout: 90_000 }).toBe(true);
    await idle(s.page);
    expect(readFileSync(disk("big.bin")).equals(content)).toBe(true);
    console.log(`${what}: ${(s.origin.wire.up / LENGTH).toFixed(3)} of the file's bytes were sent in all`);
    expect(s.origin.wire.up).toBeLessThan(MOST);
    expect(s.origin.seen.filter((seen) => seen.startsWith("PUT"))).toEqual([]);
    // Bytes that were sent before the interruption are no saving.
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.locator(".tr").waitFor();
    expect(await s.page.locator(".tr .nums").allTextContents()).toEqual([expect.stringMatching(/sent$/)]);
  }

  test("a reload goes on by itself, where the file can be read again", async () => {
    const content = await fill(1);
    await middle();
    await s.page.reload();
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
    await arrives(content, "reload");
    // A transfer that has ended is not shown again.
    await s.page.reload();
    await s.page.goto(`${s.origin.url}files/#transfers`);
    await s.page.getByText("Nothing moves").first().waitFor();
    expect(await s.page.locator(".tr").count()).toBe(0);
  });

  test("another tab takes over from a tab that is closed", async () => {
    const content = await fill(2);
    await middle();
    const first = s.page;
    s.page = await s.context.newPage();
    await signIn(s);
    await row(s.page, "big.bin").waitFor({ state: "detached" });
    await first.close();
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
    await arrives(content, "another tab");
  });

  test("a server that is killed and started goes on where it was", async () => {
    const content = await fill(3);
    await middle();
    await s.server.kill();
    await s.page.locator(".line", { hasText: "The server does not answer." }).waitFor();
    await s.server.start();
    await arrives(content, "restart of the server");
  });

  test("a network that goes and comes is waited for", async () => {
    const content = await fill(4);
    await middle();
    await s.context.setOffline(true);
    await s.page.locator(".line", { hasText: "The server does not answer." }).waitFor();
    await s.context.setOffline(false);
    await arrives(content, "change of the network");
  });

  test("an upload shows its progress from the start", async () => {
    const content = await fill(8);
    await middle();
    s.origin.slow = 2_000_000;
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.locator(".tr .nums", { hasText: /^[1-9]\d(\.\d)?\sMB of 67\.1\sMB sent$/ }).waitFor({ timeout: 10_000 });
    await arrives(content, "an upload without an interruption");
  });

  test("what was paused stays paused after a reload", async () => {
    const content = await fill(5);
    await middle();
    await s.page.goto(`${s.origin.url}files/#transfers`);
    await s.page.getByRole("button", { name: /^Pause/ }).click();
    await s.page.getByText("Paused by you").waitFor();
    await s.page.reload();
    await s.page.getByText("Paused by you").waitFor();
    expect(existsSync(disk("big.bin"))).toBe(false);
    await s.page.getByRole("button", { name: /^Resume/ }).click();
    await arrives(content, "pause and reload");
  });

  /** Staged bytes at the server. */
  const arrivedBytes = () => {
    const staged = existsSync(disk(".deltic")) ? readdirSync(disk(".deltic"), { withFileTypes: true, recursive: true }) : [];
    return staged.filter((one) => one.isFile()).reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  };

  test("what arrived of a cancelled upload is removed at the server", async () => {
    await fill(9);
    await middle();
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    expect(arrivedBytes()).toBeGreaterThan(0);
    await s.page.getByRole("button", { name: /^Cancel/ }).click();
    s.origin.slow = undefined;
    await idle(s.page);
    await expect.poll(arrivedBytes).toBe(0);
    expect(existsSync(disk("big.bin"))).toBe(false);
  });

  test("what arrived of an upload that is paused, and cancelled after a reload, is removed too", async () => {
    const old = Buffer.alloc(LENGTH, "old");
    writeFileSync(disk("big.bin"), old);
    await fill(10);
    s.origin.slow = SLOW;
    await add();
    await s.page.getByRole("radio", { name: "Mine" }).check();
    await s.page.getByRole("button", { name: "Keep mine" }).click();
    await expect.poll(() => s.origin.wire.up, { timeout: 60_000 }).toBeGreaterThan(LENGTH / 3);
    await s.page.goto(`${s.origin.url}files/#transfers`);
    await s.page.getByRole("button", { name: /^Pause/ }).click();
    await s.page.getByText("Paused by you").waitFor();
    await s.page.reload();
    await s.page.getByText("Paused by you").waitFor();
    s.origin.slow = undefined;
    expect(arrivedBytes()).toBeGreaterThan(0);
    await s.page.getByRole("button", { name: /^Cancel/ }).click();
    await expect.poll(arrivedBytes).toBe(0);
    expect(readFileSync(disk("big.bin")).equals(old)).toBe(true);
  });

  test("uploads keep to the rate that is set, and speed up when it is lifted", async () => {
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByText("2.00\u00a0MB/s").click();
    // The setting outlives the page.
    await s.page.reload();
    expect(await s.page.getByRole("radio", { name: "2.00\u00a0MB/s" }).isChecked()).toBe(true);
    await s.page.getByRole("link", { name: "Files" }).click();
    const content = await fill(6);
    await add();
    await expect.poll(() => s.origin.wire.up, { timeout: 60_000 }).toBeGreaterThan(1 << 20);
    const [began, first] = [Date.now(), s.origin.wire.up];
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    // Up to 2 MiB may be sent ahead of the limit.
    expect(s.origin.wire.up - first).toBeLessThan(((Date.now() - began) / 1000) * 2_000_000 + (2 << 20));
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByText("no limit").click();
    await arrives(content, "a rate that is lifted");
  });

  test("gentle uploads pass, and leave requests their time", async () => {
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByText("what others leave free").click();
    await s.page.getByRole("link", { name: "Files" }).click();
    const content = await fill(7);
    await add();
    await expect.poll(() => s.origin.seen.filter((seen) => seen.endsWith("/healthz")).length).toBeGreaterThan(5);
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByText("no limit").click();
    await arrives(content, "a gentle rate that is lifted");
  });

  test("a file without a handle is chosen again, and no other file is taken for it", async () => {
    await s.page.evaluate(() => Object.assign(window, { showOpenFilePicker: undefined }));
    const path = join(local, "scan.bin");
    const content = Buffer.alloc(4_000_000, "scan");
    writeFileSync(path, content);
    const then = 1_700_000_000;
    utimesSync(path, then, then);
    s.origin.slow = 500_000;
    await addFiles(s.page, [path]);
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
    await s.page.reload();
    s.origin.slow = undefined;
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByText("The page was closed meanwhile. Choose the file again").first().waitFor();
    writeFileSync(path, Buffer.alloc(4_000_001, "scan"));
    await choose(path);
    await s.page.getByText("1 file has another name, length or time").waitFor();
    writeFileSync(path, content);
    utimesSync(path, then, then);
    await choose(path);
    await idle(s.page);
    await expect.poll(() => existsSync(disk("scan.bin"))).toBe(true);
    expect(readFileSync(disk("scan.bin")).equals(content)).toBe(true);
  });

  async function choose(path: string): Promise<void> {
    const [chooser] = await Promise.all([
      s.page.waitForEvent("filechooser"),
      s.page.getByRole("button", { name: "Choose the file again" }).first().click(),
    ]);
    await chooser.setFiles([path]);
  }

  test("a folder of small files goes on after a reload, where it was", async () => {
    await s.page.evaluate(async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("many", { create: true });
      for (let i = 0; i < 600; i++) {
        const inner = await folder.getDirectoryHandle(`${i % 3}`, { create: true });
        const out = await (await inner.getFileHandle(`${i}.txt`, { create: true })).createWritable();
        await out.write(`content of ${i} `.repeat(300));
        await out.close();
      }
      Object.assign(window, { showDirectoryPicker: async () => folder });
    });
    s.origin.slow = 1_000_000;
    await s.page.getByRole("button", { name: "Add a folder" }).first().click();
    const count = () => (existsSync(disk("many")) ? readdirSync(disk("many"), { recursive: true }).filter((name) => String(name).endsWith(".txt")).length : 0);
    await expect.poll(count).toBeGreaterThan(100);
    await s.page.waitForTimeout(600);
    const before = count();
    await s.page.reload();
    s.origin.seen = [];
    s.origin.slow = undefined;
    await expect.poll(count, { timeout: 60_000 }).toBe(600);
    await idle(s.page);
    for (let i = 0; i < 600; i++) expect(readFileSync(disk("many", `${i % 3}`, `${i}.txt`), "utf8")).toBe(`content of ${i} `.repeat(300));
    console.log(`reload after ${before} of 600 files: ${s.origin.seen.filter((seen) => /^POST .*\/files$/.test(seen)).length} requests more`);
    rmSync(disk("many"), { recursive: true });
  });

  test("where the browser asks again for a dropped file, one press goes on", async () => {
    // Without a window, no user can be asked. So the test gives the answers of the browser.
    await s.page.evaluate(() => sessionStorage.setItem("asks", "prompt"));
    await s.context.addInitScript(() => {
      if (!sessionStorage.getItem("asks")) return;
      let answer = "prompt";
      const rights = { queryPermission: async () => answer, requestPermission: async () => (answer = "granted") };
      Object.assign(FileSystemHandle.prototype, rights);
    });
    const path = join(local, "dropped.bin");
    // Random bytes: a text of repeated words would be compressed, and arrive before the reload.
    writeFileSync(path, randomBytes(4_000_000));
    s.origin.slow = 500_000;
    await drop(s.page, [path]);
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
    await s.page.reload();
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByText("The browser asks again before this page may read the file.").waitFor();
    expect(existsSync(disk("dropped.bin"))).toBe(false);
    s.origin.slow = undefined;
    await s.page.getByRole("button", { name: "Go on" }).first().click();
    await expect.poll(() => existsSync(disk("dropped.bin"))).toBe(true);
    await idle(s.page);
    expect(readFileSync(disk("dropped.bin")).equals(readFileSync(path))).toBe(true);
  });
});
