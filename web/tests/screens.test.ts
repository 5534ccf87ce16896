/** Screens as a whole: accessibility by axe, and the narrow screen. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addFiles, launch, row, setUp, signIn, type Setup } from "./page";
import { missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Found {
  passes: object[];
  violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
}

async function wrongs(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run: (options: object) => Promise<Found> } }).axe.run({
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  expect(found.passes.length).toBeGreaterThan(10);
  return found.violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

describe.skipIf(why).each(["light", "dark"] as const)("in %s", (colorScheme) => {
  let browser: Browser;
  let s: Setup;
  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { volumes: ["files", "empty"], options: ["--versions", "10"], context: { colorScheme } });
    mkdirSync(s.server.disk("files", "plans"));
    for (const name of ["a.txt", "b.jpg", "c.bin"]) writeFileSync(s.server.disk("files", name), name);
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });

  test("axe finds nothing wrong on any screen", async () => {
    const { page } = s;
    const found: Record<string, string[]> = {};
    const look = async (screen: string) => {
      const some = await wrongs(page);
      if (some.length) found[screen] = some;
    };
    await page.goto(s.origin.url);
    await page.locator(".gate").waitFor();
    await look("sign in");
    await signIn(s, "");
    await page.locator(".vols").waitFor();
    await look("volumes");
    await signIn(s, "empty/");
    await page.getByText("Nothing here yet").waitFor();
    await look("empty folder");
    await signIn(s);
    await row(page, "a.txt").click();
    await look("files");
    await row(page, "b.jpg").getByRole("checkbox").click();
    await look("selection");
    await row(page, "b.jpg").locator(".more button").click();
    await look("menu");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "New folder" }).click();
    await look("new folder");
    await page.keyboard.press("Escape");
    await addFiles(page, [{ name: "a.txt", mimeType: "", buffer: Buffer.from("other") }]);
    await page.getByRole("dialog").waitFor();
    await look("conflict");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: /^Transfers/ }).click();
    await look("transfers");
    await page.getByRole("link", { name: "Settings" }).click();
    await look("settings");
    await page.goto(`${s.origin.url}files/#preview/a.txt`);
    await page.locator("pre").waitFor();
    await look("preview");
    await page.goto(`${s.origin.url}files/#versions/a.txt`);
    await page.getByRole("group", { name: "Now" }).waitFor();
    await look("versions");
    await page.goto(`${s.origin.url}files/#past/${Math.floor(Date.now() / 1000)}`);
    await page.getByRole("group", { name: "a.txt" }).waitFor();
    await look("as of a moment");
    await page.goto(`${s.origin.url}files/plans/`);
    await page.getByRole("button", { name: "Share" }).click();
    await look("share");
    await page.getByRole("dialog").getByLabel("Who is the link for?").fill("Anna");
    await page.getByRole("button", { name: "Make the link" }).click();
    await page.getByLabel("Link", { exact: true }).waitFor();
    await look("link");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Shared" }).click();
    await page.getByRole("group", { name: "Anna" }).waitFor();
    await look("shared");
    await page.getByRole("link", { name: "Server" }).click();
    await page.getByRole("group", { name: "Anna" }).waitFor();
    await look("server");
    await page.goto(`${s.origin.url}files/#lab`);
    await runLab(page);
    await look("lab");
    expect(found).toEqual({});
    expect(s.wrongs).toEqual([]);
  });
});

/** Runs the lab for a short time, and opens a table. */
async function runLab(page: Page): Promise<void> {
  await page.locator(".lab form").waitFor();
  const wanted = ["insert", "append", "1000", "1000000", "deltic@worker", "deltic@main", "whole@main"];
  await page.locator(".lab .box").evaluateAll((boxes, wanted) => {
    for (const box of boxes as HTMLInputElement[]) if (box.checked !== wanted.includes(box.value)) box.click();
  }, wanted);
  await page.getByLabel("Repeats").selectOption("1");
  await page.locator(".lab .go .btn").click();
  await page.getByRole("heading", { name: "Results" }).waitFor({ timeout: 60_000 });
  await page.locator(".lab summary").first().click();
}

describe.skipIf(why)("at 360 px", () => {
  let browser: Browser;
  let s: Setup;
  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { context: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true } });
    mkdirSync(s.server.disk("files", "plans"));
    writeFileSync(s.server.disk("files", `${"a very long name ".repeat(8)}.pdf`), "x");
    writeFileSync(s.server.disk("files", "a.txt"), "a");
    writeFileSync(s.server.disk("files", "b.txt"), "b");
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });

  /** Returns faults: controls beyond the edge of the screen, and controls lower than 40 px or narrower than 32 px. */
  async function fits(page: Page): Promise<string[]> {
    return page.evaluate(() => {
      const found: string[] = [];
      if (document.documentElement.scrollWidth > innerWidth) {
        const wide = [...document.querySelectorAll(".main *")].filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest(".scroll")).slice(0, 3);
        found.push(`the page is ${document.documentElement.scrollWidth} px wide: ${wide.map((one) => one.outerHTML.slice(0, 90)).join(" ")}`);
      }
      for (const element of document.querySelectorAll<HTMLElement>("a, button, label:has(input), input.in")) {
        const { width, height, right } = element.getBoundingClientRect();
        // A phone makes the window as wide as the page.
        if (right > screen.width) found.push(`${element.outerHTML.slice(0, 90)}: ends at ${right}`);
        if (!width || element.closest(".skip, .lhead, .lrow .nm, .seg, .brand") || element.matches(".sr, .search, .pick")) continue;
        if (height < 40 || width < 32) found.push(`${element.outerHTML.slice(0, 90)}: ${width} × ${height}`);
      }
      return found;
    });
  }

  test("every screen fits, and targets are large", async () => {
    const { page } = s;
    const found: Record<string, string[]> = {};
    const look = async (screen: string) => {
      const some = await fits(page);
      if (some.length) found[screen] = some;
    };
    await page.goto(s.origin.url);
    await page.locator(".gate").waitFor();
    await look("sign in");
    await signIn(s);
    await row(page, "a.txt").waitFor();
    await look("files");
    await page.getByRole("button", { name: "Search" }).tap();
    await page.keyboard.type("a");
    await look("search");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: /^Transfers/ }).tap();
    await look("transfers");
    await page.getByRole("link", { name: "Settings" }).tap();
    await look("settings");
    await page.getByRole("link", { name: "Shared" }).tap();
    await page.getByText("Nothing is shared.").waitFor();
    await look("shared");
    await page.getByRole("link", { name: "Settings" }).tap();
    await page.getByRole("link", { name: "Server" }).tap();
    await page.getByRole("group", { name: "page" }).waitFor();
    await look("server");
    await page.goto(`${s.origin.url}files/#preview/a.txt`);
    await page.locator("pre").waitFor();
    await look("preview");
    await page.goto(`${s.origin.url}files/#lab`);
    await runLab(page);
    await look("lab");
    expect(found).toEqual({});
  });

  test("a long press selects, and then a tap does", async () => {
    const { page } = s;
    await signIn(s);
    const first = row(page, "a.txt");
    const box = (await first.boundingBox())!;
    const devtools = await page.context().newCDPSession(page);
    const at = { x: box.x + 120, y: box.y + 20 };
    await devtools.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [at] });
    await page.waitForTimeout(700);
    await devtools.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    await page.getByText("1 selected").waitFor();
    await row(page, "plans").tap();
    await page.getByText("2 selected").waitFor();
    expect(page.url()).toBe(`${s.origin.url}files/`);
    await page.getByRole("button", { name: "Clear the selection" }).tap();
    await row(page, "plans").getByRole("link").tap();
    await page.getByText("Nothing here yet").waitFor();
  });
});
