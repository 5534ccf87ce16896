/**
 * `npm run shots`: takes pictures of every screen and state for inspection, wide and 360 px, light and dark. The
 * pictures are in `shots/`, and show the times and lengths of this run.
 */
import { mkdirSync, rmSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { addFiles, launch, setUp, signIn, type Setup } from "./page";
import { missing } from "./server";

const folder = fileURLToPath(new URL("../shots/", import.meta.url));
const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

const sizes = [
  { name: "", viewport: { width: 1280, height: 800 } },
  { name: "-768", viewport: { width: 768, height: 900 } },
  { name: "-360", viewport: { width: 360, height: 780 } },
];

const FILES: [string, number, number][] = [
  ["budget 2026.ods", 412_000, 0.1],
  ["budget 2026 (Jonas’ laptop, 14:01).ods", 411_000, 0.2],
  ["site-survey.qcow2", 4_290_000, 0.4],
  ["catalogue-of-tiles-and-floors-final-version-with-corrections-by-the-architect-and-the-builder.pdf", 1_840_000, 2],
  ["kitchen, evening light.jpg", 620_000, 5],
  ["walkthrough ground floor.mp4", 1_340_000, 26],
  ["🏡 ideas 🌿 for the garden.txt", 14_000, 30],
  ["עלויות ואישורים 2026.xlsx", 96_000, 60],
  ["تقرير المهندس عن الأساسات.pdf", 310_000, 70],
  ["ground floor.dwg", 380_000, 90],
  ["insulation-quotes-2026.tar.gz", 280_000, 300],
  ["新しい家の図面.pdf", 770_000, 310],
  ["loan agreement, signed.pdf", 66_000, 6000],
];

test.skipIf(why)("shots", { timeout: 600_000 }, async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const browser = await launch();
  for (const theme of ["light", "dark"] as const)
    for (const { name, viewport } of sizes) {
      if (theme === "dark" && name === "-768") continue;
      const s = await setUp(browser, {
        volumes: ["home", "photos", "empty"],
        context: { viewport, colorScheme: theme, hasTouch: name === "-360", locale: theme === "dark" ? "de-DE" : "en-GB" },
      });
      const shot = (what: string) => s.page.screenshot({ path: `${folder}${what}${name}-${theme}.png` });
      // A server that is not stopped would keep its port and its directory.
      await take(s, shot).finally(s.stop);
    }
  await browser.close();
});

async function take(s: Setup, shot: (what: string) => Promise<unknown>): Promise<void> {
  const { page, server, origin } = s;
  fill(server.disk("home"));
  await page.goto(`${origin.url}home/`);
  await page.locator(".gate").waitFor();
  await settle(page);
  await shot("signin");
  await page.locator("input").first().fill("dlt_AAAAAAAA");
  await page.locator(".btn.main-b").click();
  await page.locator(".err").waitFor();
  await shot("signin-bad");

  await signIn(s, "");
  await page.locator(".vols").waitFor();
  await settle(page);
  await shot("volumes");

  await signIn(s, "empty/");
  await page.locator(".empty").waitFor();
  await shot("files-empty");
  await signIn(s, "empty/none/");
  await page.locator(".empty").waitFor();
  await shot("files-missing");

  // For README (docs/page.png): names that the fonts of every machine have.
  await signIn(s, "home/");
  for (const [name] of FILES.filter(([name]) => /\p{Extended_Pictographic}|\p{Script=Han}/u.test(name))) unlinkSync(server.disk("home", name));
  await page.reload();
  await rowAt(page, 3);
  await page.locator(".lrow").nth(6).click();
  await settle(page);
  await shot("readme");
  fill(server.disk("home"));

  await signIn(s, "home/");
  await rowAt(page, 3);
  await page.locator(".lrow").nth(6).click();
  await settle(page);
  await shot("files");
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  await shot("files-selected");
  await page.keyboard.press("Escape");
  await page.locator(".lrow").nth(6).locator(".act button").click();
  await shot("files-menu");
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.locator("#search").fill("bud");
  await settle(page);
  await shot("files-search");
  await page.locator("#search").fill("budgte");
  await settle(page);
  await shot("files-none");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /^(New folder|Neuer Ordner)$/ }).click();
  await page.locator("#name").fill("plans/new");
  await page.keyboard.press("Enter");
  await settle(page);
  await shot("dialog-folder");
  await page.keyboard.press("Escape");
  await page.locator(".lrow").nth(6).click();
  await page.keyboard.press("Delete");
  await page.locator("dialog").waitFor();
  await shot("dialog-delete");
  await page.keyboard.press("Escape");
  await dragOver(page);
  await settle(page);
  await shot("files-drop");
  await page.evaluate(() => dispatchEvent(new DragEvent("dragleave", { dataTransfer: new DataTransfer() })));

  await signIn(s, "photos/");
  await rowAt(page, 10);
  await settle(page);
  await page.evaluate(() => scrollTo(0, 90_000));
  await settle(page);
  await shot("files-10000");

  await signIn(s, "home/");
  await rowAt(page, 3);
  await addFiles(page, [
    { name: "budget 2026.ods", mimeType: "", buffer: Buffer.alloc(411_000, 1) },
    { name: "ground floor.dwg", mimeType: "", buffer: Buffer.alloc(300_000, 1) },
  ]);
  await page.locator("dialog").waitFor();
  await page.waitForTimeout(300);
  await shot("conflict");
  await page.locator("dialog input[type=radio]").first().check();
  await shot("conflict-chosen");
  await page.keyboard.press("Escape");
  await page.waitForTimeout(300);
  await page.keyboard.press("Escape");
  origin.slow = 600_000;
  await page.locator(".nav a").nth(0).click();
  const files = [
    { name: "walkthrough upper floor.mp4", mimeType: "", buffer: Buffer.alloc(9_000_000, 1) },
    { name: "upper floor.dwg", mimeType: "", buffer: Buffer.alloc(3_000_000, 1) },
  ];
  await addFiles(page, [{ name: "notes.md", mimeType: "", buffer: Buffer.from("notes") }]);
  await page.waitForTimeout(500);
  await addFiles(page, [files[0]!]);
  await addFiles(page, files.slice(1).concat({ name: ".deltic", mimeType: "", buffer: Buffer.from("x") }));
  await page.waitForTimeout(4000);
  await shot("files-moving");
  await page.locator(".nav a").nth(1).click();
  await settle(page);
  await shot("transfers");
  origin.cut = true;
  origin.drop();
  await page.locator(".line.ask").waitFor();
  await shot("offline");
  origin.cut = false;
  origin.slow = undefined;
  await page.waitForTimeout(5000);
  await shot("transfers-done");
  await page.goto(`${origin.url}home/#settings`);
  await settle(page);
  await shot("settings");
  await page.goto(`${origin.url}home/#lab`);
  await page.locator(".lab form").waitFor();
  await shot("lab");
  const wanted = ["insert", "append", "1", "1000", "100000", "1000000", "deltic@worker", "webr2sync+@main", "webr2sync@main", "whole@main"];
  await page.locator(".lab .box").evaluateAll((boxes, wanted) => {
    for (const box of boxes as HTMLInputElement[]) if (box.checked !== wanted.includes(box.value)) box.click();
  }, wanted);
  await page.locator(".lab .go .btn").click();
  await page.locator("[data-table=results]").waitFor({ timeout: 120_000 });
  await settle(page);
  await shot("lab-results");
  await page.locator(".fig-card").first().scrollIntoViewIfNeeded();
  await settle(page);
  await shot("lab-figures");
}

function fill(home: string): void {
  const now = Date.now() / 1000;
  for (const name of ["invoices", "photos from the site", "plans", "تصاميم المطبخ"]) mkdirSync(`${home}/${name}`, { recursive: true });
  for (const [name, length, hours] of FILES) {
    writeFileSync(`${home}/${name}`, Buffer.alloc(length));
    utimesSync(`${home}/${name}`, now, now - hours * 3600);
  }
  const photos = `${home}/../photos`;
  for (let i = 0; i < 10_000; i++) writeFileSync(`${photos}/IMG_${String(i).padStart(5, "0")}.jpg`, "");
}

const rowAt = (page: Page, count: number) => page.locator(".lrow:not(.lhead)").nth(count).waitFor();
const settle = (page: Page) => page.waitForTimeout(250);

/** Drags a file of this machine over the window, without dropping it. */
async function dragOver(page: Page): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  const box = (await page.locator("[data-dir]").nth(2).boundingBox())!;
  const data = { items: [], files: [fileURLToPath(import.meta.url)], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "dragOver"] as const)
    await devtools.send("Input.dispatchDragEvent", { type, x: box.x + 40, y: box.y + 10, data });
  await devtools.detach();
}

