/** The lab: real syncs of every chosen system in Chromium, their proof, the table, and what is left at the server. */
import { readdirSync, readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fromCsv } from "../src/lab/results";
import { launch, setUp, signIn, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

/** Checks these boxes of a group, and no others. */
async function choose(page: Page, group: string, wanted: readonly string[]): Promise<void> {
  for (const box of await page.getByRole("group", { name: group, exact: true }).getByRole("checkbox").all()) {
    const name = await box.evaluate((element: HTMLInputElement) => element.getAttribute("aria-label") ?? element.parentElement!.textContent!);
    await box.setChecked(wanted.includes(name.replaceAll("\u00a0", " ")));
  }
}

async function openLab(s: Setup, context: { volume?: string } = {}): Promise<void> {
  await signIn(s, `${context.volume ?? "files"}/`);
  await s.page.goto(`${s.origin.url}files/#lab`);
  await s.page.getByRole("heading", { name: "Lab", exact: true }).waitFor();
}

async function csvOf(page: Page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  return fromCsv(readFileSync(await download.path(), "utf8"));
}

describe.skipIf(why)("the lab", () => {
  let browser: Browser;
  let s: Setup;
  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser);
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });

  test("syncs edits by each chosen system, proves them, and leaves nothing behind", async () => {
    const { page } = s;
    await openLab(s);
    await choose(page, "Edit", ["Append", "Insert"]);
    await choose(page, "Bytes of the edit", ["1.0 kB"]);
    await choose(page, "Systems", ["Deltic, worker", "WebR2sync+, main thread", "whole file, main thread"]);
    await page.getByLabel("Repeats").selectOption("1");
    await page.getByText("6 syncs.").waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("heading", { name: "Results" }).waitFor();
    expect(s.wrongs).toEqual([]);

    const results = await csvOf(page);
    expect(results.map(({ system, kind }) => `${system} ${kind}`).sort()).toEqual(
      ["deltic@worker", "webr2sync+@main", "whole@main"].flatMap((system) => [`${system} append`, `${system} insert`]),
    );
    for (const one of results) {
      expect(one).toMatchObject({ length: 1_000_000, bytes: 1_000, repeat: 0, isEqual: true });
      expect(one.ms).toBeGreaterThan(0);
    }
    const ours = results.filter(({ system }) => system === "deltic@worker");
    for (const one of ours) {
      expect(one.stagnation).toBe(0);
      expect(one.late).toEqual([]);
      expect(one.up).toBeGreaterThan(1_000);
      expect(one.up).toBeLessThan(20_000);
      expect(one.clientMs).toBeGreaterThan(0);
      expect(one.clientMs).toBeLessThanOrEqual(one.ms);
    }
    for (const one of results.filter(({ system }) => system === "whole@main")) expect(one.up).toBe(1_001_000);
    // The figures are there, and the folder with the test files is gone.
    await page.getByRole("img", { name: /^Bytes of a sync by each system/ }).waitFor();
    await page.getByRole("table").filter({ hasText: "Stood still" }).first().waitFor();
    expect(readdirSync(s.server.disk("files"))).toEqual([]);
    expect(await page.evaluate(() => localStorage.getItem("deltic.lab"))).toBe(null);
  });

  test("a figure is saved as a picture", async () => {
    const { page } = s;
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save the picture of Figure 16" }).click()]);
    expect(download.suggestedFilename()).toBe("lab-16.png");
    const png = readFileSync(await download.path());
    expect(png.subarray(1, 4).toString()).toBe("PNG");
    expect(png.readUInt32BE(16)).toBe(2 * 1048);
    expect(s.wrongs).toEqual([]);
  });

  test("a run that is stopped removes its files, and keeps its results", async () => {
    const { page } = s;
    await openLab(s);
    await choose(page, "Edit", ["Insert"]);
    await choose(page, "Length of the file", ["100 MB"]);
    await choose(page, "Systems", ["Deltic, worker"]);
    await page.getByRole("button", { name: "Start" }).click();
    await expect.poll(() => readdirSync(s.server.disk("files"), { recursive: true }).some((name) => String(name).endsWith(".bin"))).toBe(true);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Start" }).waitFor();
    await expect.poll(() => readdirSync(s.server.disk("files"))).toEqual([]);
    expect(s.wrongs).toEqual([]);
  });

  test("a page that is closed in mid-run leaves files that the next visit removes", async () => {
    const { page } = s;
    await openLab(s);
    await choose(page, "Length of the file", ["10.0 MB"]);
    await page.getByRole("button", { name: "Start" }).click();
    await expect.poll(() => readdirSync(s.server.disk("files")).length).toBe(1);
    await page.goto("about:blank");
    expect(readdirSync(s.server.disk("files"))).toHaveLength(1);
    await openLab(s);
    await expect.poll(() => readdirSync(s.server.disk("files"))).toEqual([]);
  });

  test("a token that may not delete cannot start", async () => {
    const token = await s.server.add("reader", "--ro");
    const context = await browser.newContext({ locale: "de-DE" });
    const page = await context.newPage();
    await page.goto(`${s.origin.url}files/#t=${token}`);
    await page.locator(".shell").waitFor();
    await page.goto(`${s.origin.url}files/#lab`);
    await page.getByText("Das Labor braucht ein Volume").waitFor();
    expect(await page.getByRole("button", { name: "Starten" }).isDisabled()).toBe(true);
    await context.close();
  });
});
