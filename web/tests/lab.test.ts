/** The lab: real syncs of every chosen system in Chromium, their proof, the table, and what is left at the server. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Choice, System } from "../src/lab/experiment";
import { fromCsv } from "../src/lab/results";
import { labBench } from "./lab-bench";
import { launch, setUp, signIn, startControl, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

/** Deltic, the systems of the paper that run in a page, and whole files. */
const SYSTEMS: readonly System[] = ["deltic@worker", "webrsync@main", "webrsync@worker", "webrsync+@main", "webr2sync@main", "webr2sync-siphash@main", "webr2sync+@main", "whole@main"];

/** Checks these boxes, and no others of their groups. */
async function choose(page: Page, choice: Partial<Record<keyof Choice, readonly string[]>>): Promise<void> {
  for (const [name, wanted] of Object.entries(choice))
    for (const box of await page.locator(`input[name=${name}]`).all()) await box.setChecked(wanted.includes((await box.getAttribute("value"))!));
}

async function openLab(s: Setup): Promise<void> {
  await signIn(s);
  await s.page.goto(`${s.origin.url}files/#settings`);
  await s.page.getByRole("link", { name: "Open the lab" }).click();
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
    s = await setUp(browser, { volumes: ["files", "other"] });
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });

  test("syncs edits by each chosen system, proves them, and leaves nothing behind", async () => {
    const { page } = s;
    const control = await startControl(browser, s);
    await openLab(s);
    await choose(page, { kinds: ["append", "insert"], edits: ["1000"], systems: SYSTEMS });
    await page.getByLabel("Repeats").selectOption("1");
    await page.getByText(`${2 * SYSTEMS.length} syncs.`).waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("heading", { name: "Results" }).waitFor({ timeout: 120_000 });
    expect(s.wrongs).toEqual([]);

    const results = await csvOf(page);
    expect(results.map(({ system, kind }) => `${system} ${kind}`).sort()).toEqual(
      SYSTEMS.toSorted().flatMap((system) => [`${system} append`, `${system} insert`]),
    );
    expect(await page.locator(".troubles").count()).toBe(0);
    for (const one of results) {
      expect(one).toMatchObject({ length: 1_000_000, bytes: 1_000, repeat: 0, isEqual: true });
      expect(one.ms).toBeGreaterThan(0);
    }
    // Each system sends other bytes: the request names the strategy.
    const bytesOf = (wanted: string) => results.filter(({ system, kind }) => system === wanted && kind === "insert").map(({ up, down }) => up + down)[0]!;
    expect(bytesOf("webr2sync+@main")).toBeGreaterThan(2 * bytesOf("deltic@worker"));
    expect(new Set(SYSTEMS.filter((system) => system !== "webrsync@worker").map(bytesOf)).size).toBeGreaterThan(5);
    const ours = results.filter(({ system }) => system === "deltic@worker");
    const late = await control.late();
    await control.stop();
    for (const one of ours) {
      // On a machine that is too busy for timers, a page that does nothing is late too.
      if (late === 0) expect(one).toMatchObject({ stagnation: 0, late: [] });
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
    await choose(page, { kinds: ["insert"], lengths: ["100000000"], systems: ["deltic@worker"] });
    await page.getByRole("button", { name: "Start" }).click();
    await expect.poll(() => readdirSync(s.server.disk("files"), { recursive: true }).some((name) => String(name).endsWith(".bin"))).toBe(true);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Start" }).waitFor();
    await expect.poll(() => readdirSync(s.server.disk("files"))).toEqual([]);
    expect(s.wrongs).toEqual([]);
  });

  /** Folders of the lab at the server. Beside them the server has a folder of its own while files are being written. */
  const folders = () => readdirSync(s.server.disk("files")).filter((name) => name.startsWith(".lab-"));

  test("a page that is closed in mid-run leaves files that the next visit removes", async () => {
    const { page } = s;
    await openLab(s);
    await choose(page, { lengths: ["10000000"] });
    await page.getByRole("button", { name: "Start" }).click();
    await expect.poll(() => folders().length).toBe(1);
    await page.goto("about:blank");
    expect(folders()).toHaveLength(1);
    await openLab(s);
    await expect.poll(() => folders()).toEqual([]);
  });

  test("the folder of a closed page stays noted while a sign-in without the volume uses the page", async () => {
    const { page } = s;
    const token = await s.server.add("elsewhere", "--volume", "other");
    await openLab(s);
    await choose(page, { lengths: ["10000000"] });
    await page.getByRole("button", { name: "Start" }).click();
    await expect.poll(() => folders().length).toBe(1);
    await page.goto("about:blank");
    const signInAs = async (token: string) => {
      await page.goto(`${s.origin.url}files/`);
      await page.evaluate(() => (localStorage.removeItem("deltic.token"), sessionStorage.removeItem("deltic.token")));
      await page.goto("about:blank");
      await page.goto(`${s.origin.url}other/#t=${token}`);
      await page.locator(".shell").waitFor();
      await page.goto(`${s.origin.url}other/#lab`);
      await page.getByRole("heading", { name: "Lab", exact: true }).waitFor();
    };
    s.origin.seen.length = 0;
    await signInAs(token);
    await expect.poll(() => s.origin.seen.filter((one) => one.includes("/files/tree/.lab-")).length).toBeGreaterThan(0);
    await page.waitForTimeout(1_000);
    expect(folders()).toHaveLength(1);
    await signInAs(s.server.token);
    await expect.poll(() => folders()).toEqual([]);
  });

  test("a run that cannot start its worker leaves nothing behind", async () => {
    const { page } = s;
    await openLab(s);
    await page.evaluate(() => {
      Object.assign(window, {
        Worker: class {
          constructor() {
            throw new Error("no worker");
          }
        },
      });
    });
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("The run ended: no worker").waitFor();
    await expect.poll(() => readdirSync(s.server.disk("files"))).toEqual([]);
    await page.reload();
  });

  test("a machine with little memory offers no files of 100 MB", async () => {
    const context = await browser.newContext({ locale: "en-GB" });
    await context.addInitScript(() => Object.defineProperty(Navigator.prototype, "deviceMemory", { get: () => 2 }));
    const page = await context.newPage();
    await page.goto(`${s.origin.url}files/#t=${s.server.token}`);
    await page.locator(".shell").waitFor();
    await page.goto(`${s.origin.url}files/#lab`);
    await page.getByRole("heading", { name: "Lab", exact: true }).waitFor();
    expect(await page.locator("input[name=lengths]").evaluateAll((boxes) => boxes.map((box) => (box as HTMLInputElement).value))).toEqual(["1000000", "10000000"]);
    await context.close();
  });

  test("the bench writes the table, the figures and a document", async () => {
    const control = await startControl(browser, s);
    const out = mkdtempSync(join(tmpdir(), "deltic-lab-out-"));
    const context = await browser.newContext({ locale: "en-GB" });
    const page = await context.newPage();
    try {
      const driver = { open: async (url: string) => void (await page.goto(url)), run: <T>(expression: string) => page.evaluate<T>(expression) };
      const choice: Choice = { kinds: ["append", "insert"], lengths: [1_000_000], edits: [1_000], systems: ["deltic@worker", "webr2sync+@main", "rsync@native"], repeats: 1 };
      const results = await labBench({ server: s.server, url: s.origin.url, driver, choice, out, browser: "Chromium", tell: () => undefined });
      expect(results).toHaveLength(6);
      for (const one of results) expect(one.isEqual).toBe(true);
      if ((await control.late()) === 0) for (const { stagnation } of results.filter(({ system }) => system === "deltic@worker")) expect(stagnation).toBe(0);
      expect(fromCsv(readFileSync(join(out, "lab.csv"), "utf8")).map(({ system, kind }) => `${system} ${kind}`).sort()).toEqual(
        ["deltic@worker", "rsync@native", "webr2sync+@main"].flatMap((system) => [`${system} append`, `${system} insert`]),
      );
      const document = readFileSync(join(out, "lab.md"), "utf8");
      for (const figure of ["16", "17", "20"]) {
        expect(document).toContain(`lab-${figure}.svg`);
        expect(readFileSync(join(out, `lab-${figure}.svg`), "utf8")).toMatch(/^<svg [^]*<\/svg>\n$/);
      }
      expect(readdirSync(s.server.disk("files"))).toEqual([]);
    } finally {
      await context.close();
      await control.stop();
      rmSync(out, { recursive: true, force: true });
    }
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
