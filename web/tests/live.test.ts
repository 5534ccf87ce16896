/** Synced folders: edits here reach the server's disk, edits there reach this device, and nothing is lost. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { launch, setUp, signIn, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

const MB = 1_000_000;

describe.skipIf(why)("a synced folder", () => {
  let browser: Browser;
  let s: Setup;
  let counter = 0;
  /** The folder of the origin's storage that the picker gives. */
  let local = "";
  /** The folder of the volume. */
  let folder = "";

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { pickers: true });
    // The browser's picker shows no window here. It answers with a folder of the origin's storage.
    await s.context.addInitScript(() => {
      const pick = async () => (await navigator.storage.getDirectory()).getDirectoryHandle(localStorage.getItem("picked")!, { create: true });
      Object.assign(window, { showDirectoryPicker: pick });
      const permission = async () => (localStorage.getItem("denied") ? "prompt" : "granted");
      const ask = async () => (localStorage.removeItem("denied"), "granted");
      // An empty page has no file system.
      if (typeof FileSystemHandle !== "undefined") Object.assign(FileSystemHandle.prototype, { queryPermission: permission, requestPermission: ask });
    });
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });
  beforeEach(async () => {
    [local, folder] = [`local-${++counter}`, `folder-${counter}`];
    mkdirSync(disk());
    Object.assign(s.origin, { cut: false, slow: undefined, seen: [], wire: { up: 0, down: 0 } });
    await s.page.goto("about:blank");
    await signIn(s, `files/${folder}/`);
    await pick(s.page);
  });
  afterEach(async () => {
    for (const page of s.context.pages()) if (page !== s.page) await page.close();
    await s.context.setOffline(false);
    await s.page.goto(`${s.origin.url}files/#synced`);
    const stop = s.page.getByRole("button", { name: "Stop syncing" });
    while ((await stop.count()) > 0) await stop.first().click();
    expect(s.wrongs.splice(0)).toEqual([]);
  });

  const disk = (...path: string[]) => s.server.disk("files", folder, ...path);
  const card = (page = s.page) => page.locator("article.sync");
  const pick = (page: Page) =>
    page.evaluate(async (name) => {
      localStorage.setItem("picked", name);
      await (await navigator.storage.getDirectory()).getDirectoryHandle(name, { create: true });
    }, local);

  async function begin(page = s.page): Promise<void> {
    await page.goto(`${s.origin.url}files/${folder}/#synced`);
    await page.getByRole("button", { name: /^Sync .* with a folder$/ }).click();
    await inSync(page);
  }

  async function inSync(page = s.page): Promise<void> {
    await card(page).getByRole("status").filter({ hasText: /In sync|need(s)? you/ }).waitFor();
  }

  /** Writes a file of this device, as another program would. */
  const write = (path: string, content: string | number, page = s.page) =>
    page.evaluate(
      async ([local, path, content]) => {
        let dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(local as string);
        const names = (path as string).split("/");
        for (const name of names.slice(0, -1)) dir = await dir.getDirectoryHandle(name, { create: true });
        const out = await (await dir.getFileHandle(names.at(-1)!, { create: true })).createWritable();
        if (typeof content === "string") await out.write(content);
        else {
          const words = new Uint32Array(content / 4);
          let x = 7;
          for (let i = 0; i < words.length; i++) {
            x ^= x << 13;
            x ^= x >>> 17;
            x ^= x << 5;
            words[i] = x;
          }
          await out.write(words);
        }
        await out.close();
      },
      [local, path, content] as const,
    );

  const removeHere = (path: string) =>
    s.page.evaluate(
      async ([local, path]) => {
        let dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(local!);
        const names = path!.split("/");
        for (const name of names.slice(0, -1)) dir = await dir.getDirectoryHandle(name);
        await dir.removeEntry(names.at(-1)!, { recursive: true });
      },
      [local, path],
    );

  const renameHere = (from: string, to: string) =>
    s.page.evaluate(
      async ([local, from, to]) => {
        const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(local!);
        await ((await dir.getFileHandle(from!)) as FileSystemFileHandle & { move(name: string): Promise<void> }).move(to!);
      },
      [local, from, to],
    );

  /** All files of this device, by path. */
  const filesHere = (page = s.page, name = local): Promise<Record<string, string>> =>
    page.evaluate(async (local) => {
      const found: Record<string, string> = {};
      const walk = async (dir: FileSystemDirectoryHandle, prefix: string): Promise<void> => {
        for await (const [name, handle] of dir.entries()) {
          if (handle.kind === "directory") await walk(handle as FileSystemDirectoryHandle, `${prefix}${name}/`);
          else found[prefix + name] = await (await (handle as FileSystemFileHandle).getFile()).text();
        }
      };
      await walk(await (await navigator.storage.getDirectory()).getDirectoryHandle(local, { create: true }), "");
      return found;
    }, name);

  function filesThere(root = disk()): Record<string, string> {
    const found: Record<string, string> = {};
    for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) found[relative(root, path)] = readFileSync(path, "utf8");
    }
    return found;
  }

  function put(path: string, content: string): void {
    mkdirSync(dirname(disk(path)), { recursive: true });
    // As editors do: beside, and then in place.
    writeFileSync(disk(path) + ".new", content);
    renameSync(disk(path) + ".new", disk(path));
  }

  const equal = async (expected: Record<string, string>): Promise<void> => {
    await expect.poll(filesThere).toEqual(expected);
    await expect.poll(() => filesHere()).toEqual(expected);
  };

  test("edits here reach the server's disk, and edits there reach this device", async () => {
    put("a.txt", "from the server");
    put("deep/er/b.txt", "below");
    await write("c.txt", "from here");
    await begin();
    await equal({ "a.txt": "from the server", "deep/er/b.txt": "below", "c.txt": "from here" });
    await write("c.txt", "edited here");
    await write("new/d.txt", "new here");
    await equal({ "a.txt": "from the server", "deep/er/b.txt": "below", "c.txt": "edited here", "new/d.txt": "new here" });
    put("a.txt", "edited there");
    put("e.txt", "new there");
    await equal({ "a.txt": "edited there", "deep/er/b.txt": "below", "c.txt": "edited here", "new/d.txt": "new here", "e.txt": "new there" });
    await inSync();
  });

  test("both changed: both contents are at both ends", async () => {
    await write("a.txt", "common");
    await begin();
    await s.page.getByRole("button", { name: "Pause" }).click();
    await card().getByText("Paused by you").waitFor();
    await write("a.txt", "edited here");
    put("a.txt", "edited on the server");
    await s.page.getByRole("button", { name: "Resume" }).click();
    await expect.poll(() => Object.values(filesThere()).sort()).toEqual(["edited here", "edited on the server"]);
    const there = filesThere();
    expect(there["a.txt"]).toBe("edited on the server");
    expect(Object.keys(there).find((name) => /^a \(conflict \d{4}-\d\d-\d\d from this device\)\.txt$/.test(name))).toBeDefined();
    await equal(there);
    await inSync();
  });

  test("equal contents at both ends are no conflict", async () => {
    await write("a.txt", "the same");
    put("a.txt", "the same");
    await begin();
    await equal({ "a.txt": "the same" });
  });

  test("deletions pass, and a deletion of everything is asked about first", async () => {
    for (const name of ["a", "b", "c", "d"]) await write(`${name}.txt`, name);
    await begin();
    await removeHere("a.txt");
    await equal({ "b.txt": "b", "c.txt": "c", "d.txt": "d" });
    rmSync(disk("b.txt"));
    await equal({ "c.txt": "c", "d.txt": "d" });
    put("e.txt", "e");
    await equal({ "c.txt": "c", "d.txt": "d", "e.txt": "e" });
    for (const name of ["c", "d", "e"]) rmSync(disk(`${name}.txt`));
    await card().getByText("3 of 3 files are gone on the server").waitFor();
    expect(Object.keys(await filesHere())).toHaveLength(3);
    await s.page.getByRole("button", { name: "Bring them back" }).click();
    await equal({ "c.txt": "c", "d.txt": "d", "e.txt": "e" });
    for (const name of ["c", "d", "e"]) rmSync(disk(`${name}.txt`));
    await s.page.getByRole("button", { name: "Delete 3 files" }).click();
    await equal({});
  });

  test("a renamed file is renamed at the other end, and does not travel", async () => {
    await write("big.bin", 2 * MB);
    await begin();
    await expect.poll(() => existsSync(disk("big.bin")) && statSync(disk("big.bin")).size).toBe(2 * MB);
    await inSync();
    s.origin.wire = { up: 0, down: 0 };
    s.origin.bodies = [];
    const { ino } = statSync(disk("big.bin"));
    await renameHere("big.bin", "other.bin");
    await expect.poll(() => readdirSync(disk())).toEqual(["other.bin"]);
    expect(statSync(disk("other.bin")).ino).toBe(ino);
    await inSync();
    renameSync(disk("other.bin"), disk("third.bin"));
    await expect.poll(async () => Object.keys(await filesHere())).toEqual(["third.bin"]);
    expect(s.origin.bodies.reduce((sum, bytes) => sum + bytes, 0)).toBe(0);
    expect(s.origin.seen.filter((seen) => seen.startsWith("GET /v1/volumes/files/files/"))).toEqual([]);
  });

  test("a large file that changes at the server in many ways has the same content here", async () => {
    await write("big.bin", MB);
    await begin();
    await expect.poll(() => existsSync(disk("big.bin")) && statSync(disk("big.bin")).size).toBe(MB);
    const digest = () =>
      s.page.evaluate(async (local) => {
        const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(local);
        const content = await (await (await dir.getFileHandle("big.bin")).getFile()).arrayBuffer();
        return Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", content)), (byte) => byte.toString(16).padStart(2, "0")).join("");
      }, local);
    let bytes: Buffer = readFileSync(disk("big.bin"));
    const overwritten = (old: Buffer, at: number) => Buffer.concat([old.subarray(0, at), Buffer.from([old[at]! ^ 1]), old.subarray(at + 1)]);
    const changes: Record<string, (old: Buffer) => Buffer> = {
      "the first byte": (old) => overwritten(old, 0),
      "the last byte": (old) => overwritten(old, old.length - 1),
      "two bytes far apart": (old) => overwritten(overwritten(old, 200_003), 700_001),
      "an append": (old) => Buffer.concat([old, Buffer.from("appended")]),
      "a cut at the end": (old) => old.subarray(0, 900_001),
      "an insert at the start": (old) => Buffer.concat([Buffer.from("inserted"), old]),
      "a hundred thousand bytes more": (old) => Buffer.concat([old, old.subarray(0, 100_000)]),
      "a tenth of the length": (old) => old.subarray(0, 100_000),
    };
    for (const [what, change] of Object.entries(changes)) {
      bytes = change(bytes);
      writeFileSync(disk("big.bin") + ".new", bytes);
      renameSync(disk("big.bin") + ".new", disk("big.bin"));
      await expect.poll(digest, { message: what }).toBe(createHash("sha256").update(bytes).digest("hex"));
    }
    await inSync();
  });

  test("an edit of a large file travels as a delta, both ways", async () => {
    await write("big.bin", 4 * MB);
    await begin();
    await expect.poll(() => existsSync(disk("big.bin")) && statSync(disk("big.bin")).size).toBe(4 * MB);
    await inSync();
    s.origin.wire = { up: 0, down: 0 };
    const bytes = readFileSync(disk("big.bin"));
    bytes.write("edited there", 2 * MB);
    writeFileSync(disk("big.bin") + ".new", bytes);
    renameSync(disk("big.bin") + ".new", disk("big.bin"));
    // The bytes are no text that passes from the page to the test.
    const isHere = () =>
      s.page.evaluate(async (local) => {
        const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(local);
        return (await (await (await dir.getFileHandle("big.bin")).getFile()).text()).includes("edited there");
      }, local);
    await expect.poll(isHere).toBe(true);
    await inSync();
    expect(s.origin.wire.down).toBeGreaterThan(0);
    expect(s.origin.wire.down + s.origin.wire.up).toBeLessThan(100_000);
    await s.page.evaluate(async (local) => {
      const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(local);
      const file = await dir.getFileHandle("big.bin");
      const old = await (await file.getFile()).arrayBuffer();
      // With `keepExistingData`, a file in memory keeps its time.
      const out = await file.createWritable();
      await out.write(new Blob([old.slice(0, 1_000_000), "edited here", old.slice(1_000_011)]));
      await out.close();
    }, local);
    await expect.poll(() => readFileSync(disk("big.bin")).includes("edited here")).toBe(true);
    expect(s.origin.wire.down + s.origin.wire.up).toBeLessThan(200_000);
    await inSync();
  });

  test("a reload in the middle goes on, and changes made meanwhile move", async () => {
    for (let i = 0; i < 30; i++) await write(`f${i}.txt`, `content ${i}`);
    await s.page.goto(`${s.origin.url}files/${folder}/#synced`);
    await s.page.getByRole("button", { name: /^Sync .* with a folder$/ }).click();
    await expect.poll(() => readdirSync(disk()).length).toBeGreaterThan(3);
    await s.page.reload();
    await expect.poll(() => readdirSync(disk()).length).toBe(30);
    await inSync();
    await s.page.goto("about:blank");
    put("f0.txt", "changed while the page was closed");
    await s.page.goto(`${s.origin.url}files/${folder}/#synced`);
    await expect.poll(async () => (await filesHere())["f0.txt"]).toBe("changed while the page was closed");
    expect(Object.keys(filesThere())).toHaveLength(30);
  });

  test("without the server edits wait, and move when it answers again", async () => {
    await write("a.txt", "first");
    await begin();
    await s.server.kill();
    await write("a.txt", "written offline");
    await card().getByText("Edits wait here").waitFor();
    await s.server.start();
    await expect.poll(() => filesThere()["a.txt"], { timeout: 40_000 }).toBe("written offline");
    await inSync();
  });

  test("of two tabs one works, and the other takes over", async () => {
    await write("a.txt", "one");
    await begin();
    const second = await s.context.newPage();
    await second.goto(`${s.origin.url}files/${folder}/#synced`);
    await card(second).getByText("Followed in another tab").waitFor();
    await write("a.txt", "two");
    await equal({ "a.txt": "two" });
    await s.page.goto("about:blank");
    await inSync(second);
    await write("b.txt", "three", second);
    await expect.poll(filesThere).toEqual({ "a.txt": "two", "b.txt": "three" });
  });

  test("a pause in one tab is a pause in all", async () => {
    await write("a.txt", "one");
    await begin();
    const second = await s.context.newPage();
    await second.goto(`${s.origin.url}files/${folder}/#synced`);
    await card(second).getByText("Followed in another tab").waitFor();
    await s.page.getByRole("button", { name: "Pause" }).click();
    await card(second).getByText("Paused by you").waitFor();
    put("a.txt", "two");
    await second.getByRole("button", { name: "Resume" }).click();
    await equal({ "a.txt": "two" });
    await s.page.getByRole("button", { name: "Stop syncing" }).click();
    await card(second).waitFor({ state: "detached" });
  });

  /** Random edits at both ends, reloads and ends of the server. LIVE_SCHEDULES sets their number. */
  test("random schedules lose nothing and end equal", async () => {
    const schedules = Number(process.env["LIVE_SCHEDULES"] ?? 10);
    let x = 12345;
    const below = (most: number) => ((x = (Math.imul(x, 1103515245) + 12345) >>> 0), (x >>> 8) % most);
    const names = ["a.txt", "b.txt", "d/c.txt", "d/e.txt", "f/g/h.txt"];
    await begin();
    let count = 0;
    for (let schedule = 0; schedule < schedules; schedule++) {
      const told: string[] = [];
      /** Contents that were written in this schedule, by path and end: the last of each may not be lost. */
      const last = new Map<string, string>();
      const isDown = below(4) === 0;
      if (isDown) await s.server.kill();
      for (let edit = 0; edit < 4; edit++) {
        const path = names[below(names.length)]!;
        const content = `content ${++count}`;
        const kind = below(6);
        told.push(`${kind} ${path} ${content}`);
        if (kind < 2) {
          await write(path, content);
          last.set(`here ${path}`, content);
        } else if (kind < 4) {
          put(path, content);
          last.set(`there ${path}`, content);
        } else if (kind === 4) await s.page.reload();
        else {
          rmSync(disk(path), { force: true });
          last.delete(`there ${path}`);
        }
      }
      if (isDown) await s.server.start();
      if (below(3) === 0) await s.page.reload();
      await expect.poll(async () => JSON.stringify(sorted(await filesHere())) === JSON.stringify(sorted(filesThere())), { timeout: 60_000 }).toBe(true);
      await inSync();
      const contents = Object.values(filesThere());
      // A write that reached the other end before the next write there is an older version, and no loss.
      const newest = new Map<string, string>();
      for (const [key, content] of last) newest.set(key.slice(key.indexOf(" ") + 1), content);
      const isDeleted = (path: string) => told.some((one) => one.startsWith(`5 ${path} `));
      for (const [path, content] of newest) if (!isDeleted(path)) expect(contents, told.join("; ")).toContain(content);
    }
  });

  const sorted = (files: Record<string, string>) => Object.entries(files).sort();

  test("axe finds nothing wrong, and the screen fits 360 px", async () => {
    put("README", "one");
    put("readme", "two");
    await begin();
    await card().getByText("is the same name as").waitFor();
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    await s.page.evaluate(axe);
    interface Found {
      violations: { id: string; nodes: { html: string }[] }[];
    }
    const { violations } = await s.page.evaluate(() => (globalThis as unknown as { axe: { run: () => Promise<Found> } }).axe.run());
    expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
    if (process.env["LIVE_SHOT"]) await s.page.screenshot({ path: process.env["LIVE_SHOT"] });
    await s.page.setViewportSize({ width: 360, height: 740 });
    expect(await s.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await s.page.setViewportSize({ width: 1280, height: 720 });
  });

  test("without permission nothing moves, and one press goes on", async () => {
    await write("a.txt", "one");
    await begin();
    await s.page.evaluate(() => localStorage.setItem("denied", "yes"));
    await s.page.reload();
    await card().getByText("Paused: permission").waitFor();
    put("a.txt", "two");
    await s.page.getByRole("button", { name: "Allow again" }).click();
    await equal({ "a.txt": "two" });
  });

  test("a folder of this device that is gone is no deletion", async () => {
    for (const name of ["a", "b", "c"]) await write(`${name}.txt`, name);
    await begin();
    await s.page.evaluate(async (local) => (await navigator.storage.getDirectory()).removeEntry(local, { recursive: true }), local);
    await s.page.getByText(/the folder is gone|files are gone/).first().waitFor();
    expect(Object.keys(filesThere())).toHaveLength(3);
  });

  test("names that fold together and links of the server stay as they are", async () => {
    put("README", "one");
    put("readme", "two");
    put("plain.txt", "three");
    symlinkSync("/etc/passwd", disk("link"));
    await begin();
    await expect.poll(async () => Object.values(await filesHere()).sort()).toEqual(["one", "three"]);
    await card().getByText("is the same name as").waitFor();
    expect(Object.values(filesThere()).sort()).toEqual(["one", "three", "two"]);
  });

  test("hostile names of a server touch nothing outside the folder", async () => {
    await s.page.evaluate(async () => {
      const root = await navigator.storage.getDirectory();
      const out = await (await root.getFileHandle("outside.txt", { create: true })).createWritable();
      await out.write("outside");
      await out.close();
    });
    const names = ["..", ".", "", "../outside.txt", "a/b", "nul\0", "..\\outside.txt", "CON", "con.txt", "x".repeat(300)];
    await s.page.route(/\/v1\/volumes\/files\/tree\//, (route) => {
      const entries = [...names, "good.txt"].map((name) => ({ name, type: "file", bytes: 4, modified: 1, etag: '"1"' }));
      entries.push({ name: "../..", type: "dir", bytes: 0, modified: 1, etag: "" });
      return route.fulfill({ json: { entries, more: false } });
    });
    await s.page.route(/\/v1\/volumes\/files\/files\//, (route) => route.fulfill({ body: "evil", headers: { ETag: '"1"' } }));
    await s.page.goto(`${s.origin.url}files/${folder}/#synced`);
    await s.page.getByRole("button", { name: /^Sync .* with a folder$/ }).click();
    await expect.poll(async () => (await filesHere())["good.txt"]).toBe("evil");
    const here = Object.keys(await filesHere()).sort();
    for (const name of here) expect(["CON", "con.txt", "good.txt"]).toContain(name);
    const outside = await s.page.evaluate(async () => {
      const root = await navigator.storage.getDirectory();
      return (await (await root.getFileHandle("outside.txt")).getFile()).text();
    });
    expect(outside).toBe("outside");
    await s.page.unrouteAll();
  });
});
