/** A folder as it was at a moment, against a real server that keeps versions. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { launch, setUp, signIn, type Setup } from "./page";
import { missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

describe.skipIf(why)("a folder as of a moment", () => {
  let browser: Browser;
  let s: Setup;
  /** The moment at which the first files were there, in seconds. */
  let then = 0;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { options: ["--versions", "10"], pickers: true });
    await s.context.addInitScript(() => {
      Object.assign(window, { showDirectoryPicker: async () => (await navigator.storage.getDirectory()).getDirectoryHandle("saved", { create: true }) });
    });
    for (const path of ["house/same.txt", "house/other.txt", "house/gone.txt", "house/plans/roof.txt", "house/old/deep/away.txt"]) await put(path, `first ${path}`);
    await sleep(1_100);
    then = Math.floor(Date.now() / 1000);
    await sleep(1_100);
    await put("house/other.txt", "the second");
    await put("house/young.txt", "came later");
    await put("house/plans/roof.txt", "the second roof");
    for (const path of ["house/gone.txt", "house/old/deep/away.txt"]) await ask("DELETE", path, { "If-Match": "*" });
    rmSync(s.server.disk("files", "house", "old"), { recursive: true });
    await signIn(s);
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });
  afterEach(() => expect(s.wrongs.splice(0)).toEqual([]));

  const ask = async (method: string, path: string, headers: Record<string, string> = {}, body?: string) => {
    const answer = await fetch(`http://${s.server.address}/v1/volumes/files/files/${path}`, {
      method,
      headers: { Authorization: `Bearer ${s.server.token}`, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    expect(answer.status, `${method} ${path}`).toBeLessThan(300);
  };
  const put = (path: string, text: string) => ask("PUT", path, {}, text);
  const group = (name: string) => s.page.getByRole("group", { name, exact: true });
  const text = (path: string) => readFileSync(s.server.disk("files", path), "utf8");
  const open = (path = "files/house/") => s.page.goto(`${s.origin.url}${path}#past/${then}`);

  test("is listed with entries that are gone, and without those that came later", async () => {
    await s.page.goto(`${s.origin.url}files/house/`);
    await s.page.getByRole("link", { name: "As of…" }).click();
    await s.page.getByLabel("Moment").waitFor();
    await open();
    await group("gone.txt").getByText("gone now").waitFor();
    await group("other.txt").getByText("another version now").waitFor();
    await group("same.txt").getByText("as now").waitFor();
    await group("old").getByText("gone now").waitFor();
    await s.page.getByText("1 entry came later, or its version is no longer kept.").waitFor();
    expect(await group("young.txt").count()).toBe(0);
    await group("old").getByRole("link").click();
    await group("deep").getByRole("link").click();
    await group("away.txt").getByText("gone now").waitFor();
    expect(s.page.url()).toBe(`${s.origin.url}files/house/old/deep/#past/${then}`);
  });

  test("another moment shows other entries", async () => {
    await open();
    await group("gone.txt").waitFor();
    // The field has the time of this device.
    const zone = await s.page.evaluate(() => new Date().getTimezoneOffset());
    const now = new Date(Date.now() - zone * 60_000).toISOString().slice(0, 19);
    await s.page.getByLabel("Moment").fill(now);
    await s.page.getByLabel("Moment").blur();
    await group("young.txt").waitFor();
    expect(await group("gone.txt").count()).toBe(0);
    await s.page.getByRole("link", { name: "A week ago" }).click();
    await s.page.getByText("The folder had no entries then").waitFor();
  });

  test("files are downloaded as they were, one or all", async () => {
    await open();
    for (const name of ["other.txt", "gone.txt", "same.txt"]) {
      const [download] = await Promise.all([s.page.waitForEvent("download"), group(name).getByRole("button", { name: /^Download/ }).click()]);
      expect(readFileSync(await download.path(), "utf8")).toBe(`first house/${name}`);
    }
    const paths = ["gone.txt", "old/deep/away.txt", "other.txt", "plans/roof.txt", "same.txt"];
    const [archive] = await Promise.all([s.page.waitForEvent("download"), s.page.getByRole("button", { name: "Download all" }).click()]);
    expect(archive.suggestedFilename()).toMatch(/^house .*Z\.zip$/);
    const read = "import json, sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(json.dumps({n: z.read(n).decode() for n in z.namelist() if n[-1] != '/'}))";
    const files = JSON.parse(execFileSync("python3", ["-c", read, await archive.path()], { encoding: "utf8" })) as Record<string, string>;
    expect(files).toEqual(Object.fromEntries(paths.map((path) => [`house/${path}`, `first house/${path}`])));
  });

  test("a whole volume is downloaded into a folder of this device", async () => {
    await open("files/");
    await group("house").waitFor();
    await s.page.getByRole("button", { name: "Download all" }).click();
    await s.page.getByText("5 files downloaded").waitFor();
    const saved = await s.page.evaluate(async () => {
      const found: Record<string, string> = {};
      const walk = async (dir: FileSystemDirectoryHandle, prefix: string): Promise<void> => {
        for await (const [name, handle] of dir.entries()) {
          if (handle.kind === "directory") await walk(handle as FileSystemDirectoryHandle, `${prefix}${name}/`);
          else found[prefix + name] = await (await (handle as FileSystemFileHandle).getFile()).text();
        }
      };
      await walk(await (await navigator.storage.getDirectory()).getDirectoryHandle("saved"), "");
      return Object.entries(found).map(([path, text]) => [path.replace(/^files [^/]*\/house\//, ""), text]).sort();
    });
    const paths = ["gone.txt", "old/deep/away.txt", "other.txt", "plans/roof.txt", "same.txt"];
    expect(saved).toEqual(paths.map((path) => [path, `first house/${path}`]));
  });

  test("one file is restored, and then the whole folder; later files stay", async () => {
    await open();
    await group("gone.txt").getByRole("button", { name: /^Restore/ }).click();
    await group("gone.txt").getByText(/as now|another version now/).waitFor();
    expect(text("house/gone.txt")).toBe("first house/gone.txt");
    await s.page.getByRole("button", { name: "Restore all" }).click();
    await s.page.getByRole("dialog").getByRole("button", { name: "Restore", exact: true }).click();
    await s.page.getByText(/files restored/).waitFor();
    for (const path of ["same.txt", "other.txt", "gone.txt", "plans/roof.txt", "old/deep/away.txt"]) expect(text(`house/${path}`)).toBe(`first house/${path}`);
    expect(text("house/young.txt")).toBe("came later");
    expect(existsSync(s.server.disk("files", "house", "young.txt"))).toBe(true);
  });

  test("axe finds nothing wrong, and the screen fits 360 px", async () => {
    await open();
    await group("same.txt").waitFor();
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    await s.page.evaluate(axe);
    interface Found {
      violations: { id: string; nodes: { html: string }[] }[];
    }
    const { violations } = await s.page.evaluate(() => (globalThis as unknown as { axe: { run: () => Promise<Found> } }).axe.run());
    expect(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))).toEqual([]);
    if (process.env["PAST_SHOT"]) await s.page.screenshot({ path: process.env["PAST_SHOT"] });
    await s.page.setViewportSize({ width: 360, height: 740 });
    expect(await s.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await s.page.setViewportSize({ width: 1280, height: 720 });
  });
});
