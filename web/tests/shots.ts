/**
 * `npm run shots`: takes pictures of every screen and state for inspection, wide and 360 px, light and dark. The
 * pictures are in `shots/`, and show the times and lengths of this run. SHOTS=more takes only the screens beside the
 * list of files.
 */
import { randomBytes } from "node:crypto";
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
      await (process.env["SHOTS"] === "more" ? Promise.resolve() : take(s, shot)).finally(s.stop);
      const t = await setUp(browser, {
        volumes: ["home", "music"],
        options: ["--versions", "10"],
        pickers: true,
        context: { viewport, colorScheme: theme, hasTouch: name === "-360", locale: theme === "dark" ? "de-DE" : "en-GB" },
      });
      await takeMore(t, (what) => t.page.screenshot({ path: `${folder}${what}${name}-${theme}.png` })).finally(t.stop);
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
  await page.locator("[data-table=results]").scrollIntoViewIfNeeded();
  await settle(page);
  await shot("lab-results");
  await page.locator(".fig-card").first().scrollIntoViewIfNeeded();
  await settle(page);
  await shot("lab-figures");
}

/** The screens beside the list: versions, deleted files, previews, links, the server, synced folders. */
async function takeMore(s: Setup, shot: (what: string) => Promise<unknown>): Promise<void> {
  const { page, server, origin, context } = s;
  // The browser's picker shows no window here. It answers with a folder of the origin's storage.
  await context.addInitScript(() => {
    const pick = async () => (await navigator.storage.getDirectory()).getDirectoryHandle("plans on this laptop", { create: true });
    Object.assign(window, { showDirectoryPicker: pick, showOpenFilePicker: undefined });
    const permission = async () => "granted";
    if (typeof FileSystemHandle !== "undefined") Object.assign(FileSystemHandle.prototype, { queryPermission: permission, requestPermission: permission });
  });
  fillSome(server.disk("home"));
  const old = randomBytes(1_000_000);
  writeFileSync(server.disk("home", "site-survey.qcow2"), old);
  writeFileSync(server.disk("home", "notes.md"), "# Notes\n\nthe first line\n".repeat(40));
  writeFileSync(server.disk("home", "point.png"), Buffer.from(PNG, "base64"));
  mkdirSync(server.disk("home", "plans", "old"), { recursive: true });
  for (const name of ["plans/budget of the roof.ods", "plans/old/budget 2025.ods"]) writeFileSync(server.disk("home", ...name.split("/")), name);

  await signIn(s, "home/");
  await rowAt(page, 3);
  // Each edit becomes a version with its changes.
  for (const [at, text] of [[300_000, "a few new bytes"], [700_000, "x".repeat(60_000)]] as const) {
    const edited = Buffer.concat([old.subarray(0, at), Buffer.from(text), old.subarray(at)]);
    await replace(page, "site-survey.qcow2", edited);
  }
  await page.locator(".lrow .strip").first().waitFor();
  await page.getByText("site-survey").first().click();
  await settle(page);
  await shot("files-strip");
  await page.keyboard.press("v");
  await page.locator(".page .card").first().waitFor();
  await page.waitForTimeout(600);
  await shot("versions");

  await page.goto(`${origin.url}home/`);
  await rowAt(page, 3);
  for (const name of ["ground floor", "loan agreement, signed"]) {
    await page.getByText(name).first().click();
    await page.keyboard.press("Delete");
    // The volume keeps versions, so no question is asked.
    await page.waitForTimeout(800);
  }
  await shot("files-deleted");
  await page.goto(`${origin.url}home/#deleted`);
  await page.locator(".setr").first().waitFor();
  await shot("deleted");

  await page.goto(`${origin.url}home/`);
  await rowAt(page, 3);
  if (await page.locator("#search").isHidden()) await page.keyboard.press("/");
  await page.locator("#search").fill("budget");
  await page.waitForTimeout(800);
  await shot("search-below");
  await page.locator("#search").fill("2025");
  await page.waitForTimeout(800);
  await shot("search-below-only");
  await page.keyboard.press("Escape");

  for (const name of ["notes", "point", "insulation-quotes-2026"]) {
    await page.goto(`${origin.url}home/`);
    await rowAt(page, 3);
    await page.getByText(name, { exact: false }).first().click();
    await page.keyboard.press("Enter");
    await page.waitForTimeout(600);
    await shot(`preview-${name}`);
  }

  await page.goto(`${origin.url}home/`);
  await rowAt(page, 3);
  await page.getByText("plans").first().click();
  await page.keyboard.press("s");
  await page.locator("dialog").waitFor();
  await settle(page);
  await shot("share-new");
  await page.locator("dialog .main-b").click();
  await settle(page);
  await shot("share-unnamed");
  await page.locator("dialog input").first().fill("Architect");
  await page.locator("dialog .main-b").click();
  await page.waitForTimeout(600);
  await shot("share-made");
  await page.goto(`${origin.url}home/#shared`);
  await page.waitForTimeout(600);
  await shot("shared");

  const ask = { method: "PUT", headers: { Authorization: `Bearer ${server.token}`, "Upload-Complete": "?0", "Upload-Length": "90000000" }, body: "x".repeat(400_000) };
  await fetch(`http://${server.address}/v1/volumes/home/files/plans/scan%20of%20the%20whole%20house.tiff`, ask);
  await server.add("laptop");
  await server.add("television in the living room", "--ro", "--volume", "music");
  await page.goto(`${origin.url}home/#server`);
  await page.waitForTimeout(800);
  await page.screenshot({ fullPage: true });
  await shot("server");
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await settle(page);
  await shot("server-end");

  await page.goto(`${origin.url}home/plans/#synced`);
  await page.waitForTimeout(400);
  await shot("synced-none");
  await page.locator(".head .main-b").click();
  await page.locator("article.sync").waitFor();
  await page.waitForTimeout(1500);
  await page.evaluate(async () => {
    const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle("plans on this laptop");
    const out = await (await dir.getFileHandle("façade, second version with a long name.txt", { create: true })).createWritable();
    await out.write("new walls");
    await out.close();
  });
  await page.waitForTimeout(3000);
  await shot("synced");
}

/** Replaces a file by the page, as a user does. */
async function replace(page: Page, name: string, buffer: Buffer): Promise<void> {
  await addFiles(page, [{ name, mimeType: "", buffer }]);
  await page.locator("dialog input[type=radio]").first().check();
  await page.locator("dialog .main-b").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.waitForTimeout(2000);
}

function fillSome(home: string): void {
  for (const name of ["invoices", "plans"]) mkdirSync(`${home}/${name}`, { recursive: true });
  for (const [name, length] of FILES) writeFileSync(`${home}/${name}`, Buffer.alloc(length));
}

/** A picture of one point. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

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

