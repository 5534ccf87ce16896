/** The main actions of a user in Firefox, by WebDriver BiDi. */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startOrigin, type Origin } from "./origin";
import { engineMissing, missing, startServer, type Server } from "./server";

const firefox = [process.env["FIREFOX"], "/usr/bin/firefox-esr", "/usr/bin/firefox"].find((path) => path && existsSync(path));
const why = missing() ?? engineMissing() ?? (firefox ? undefined : "no Firefox: set FIREFOX, or run apt-get install firefox-esr");
if (why) console.log(`SKIPPED: ${why}`);

const MB = 1_000_000;

describe.skipIf(why)("in Firefox", () => {
  let browser: Browser;
  let page: Page;
  let server: Server;
  let origin: Origin;
  let local: string;
  const wrongs: string[] = [];

  beforeAll(async () => {
    local = mkdtempSync(join(tmpdir(), "deltic-firefox-"));
    server = await startServer(["files"], ["--versions", "10"]);
    origin = await startOrigin(() => server.address);
    const extraPrefsFirefox = { "browser.download.folderList": 2, "browser.download.dir": local, "intl.accept_languages": "en-GB" };
    browser = await puppeteer.launch({ browser: "firefox", executablePath: firefox!, headless: true, extraPrefsFirefox });
    page = await browser.newPage();
    page.setDefaultTimeout(45_000);
    page.on("pageerror", (error) => wrongs.push(String(error)));
    await page.goto(`${origin.url}files/#t=${server.token}`);
    await page.waitForSelector(".shell");
  });
  afterAll(async () => {
    await browser?.close();
    await origin?.stop();
    await server?.stop();
    if (local) rmSync(local, { recursive: true, force: true });
  });

  const disk = (...path: string[]) => server.disk("files", ...path);
  /** Presses a button by a script: selectors by role take seconds here. */
  const press = (name: string) =>
    page.waitForFunction(
      (name) => {
        const isIt = (button: HTMLButtonElement) => (button.ariaLabel ?? button.textContent).trim() === name && !button.disabled;
        const button = [...document.querySelectorAll("button")].find(isIt);
        button?.click();
        return button !== undefined;
      },
      { polling: 50 },
      name,
    );
  const row = (name: string) => page.waitForSelector(`[aria-label="Select “\u2068${name}\u2069”"]`);
  /** Clicks the row of a file or folder. */
  const choose = async (name: string) => (await row(name))!.evaluate((box) => box.closest<HTMLElement>(".lrow")!.click());
  const idle = () => page.waitForFunction(() => document.querySelector(".line")?.textContent?.includes("Nothing moves"));

  async function add(path: string): Promise<void> {
    const [chooser] = await Promise.all([page.waitForFileChooser(), page.locator("button::-p-text(Add files)").click()]);
    await chooser.accept([path]);
  }

  /** Returns pseudo-random bytes. */
  function noise(length: number): Buffer {
    const words = new Uint32Array(length / 4);
    for (let i = 0, x = 7; i < words.length; i++) words[i] = x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return Buffer.from(words.buffer);
  }

  test("the printed address signs in, and the token leaves the address", async () => {
    expect(page.url()).toBe(`${origin.url}files/`);
    await page.reload();
    await page.waitForSelector(".shell");
  });

  test("a new file arrives byte for byte, and an edit travels as a delta", async () => {
    const old = noise(12 * MB);
    const path = join(local, "a.bin");
    writeFileSync(path, old);
    await add(path);
    await expect.poll(() => existsSync(disk("a.bin")), { timeout: 60_000 }).toBe(true);
    await idle();
    expect(readFileSync(disk("a.bin")).equals(old)).toBe(true);
    expect(origin.seen.some((seen) => seen.startsWith("UPGRADE"))).toBe(true);

    const next = Buffer.concat([old.subarray(0, MB), Buffer.from("inserted"), old.subarray(MB)]);
    writeFileSync(path, next);
    origin.wire = { up: 0, down: 0 };
    await add(path);
    await page.locator('dialog input[value="mine"]').click();
    await press("Keep mine");
    await expect.poll(() => readFileSync(disk("a.bin")).equals(next)).toBe(true);
    await idle();
    expect(origin.wire.up).toBeLessThan(20_000);
  });

  test("a folder is made, and opened by the keyboard", async () => {
    await press("New folder");
    await page.locator("dialog input").fill("plans");
    await page.keyboard.press("Enter");
    await choose("plans");
    expect(existsSync(disk("plans"))).toBe(true);
    await page.keyboard.press("Enter");
    await page.waitForSelector("::-p-text(Nothing here yet)");
    await page.keyboard.press("Backspace");
    await row("plans");
  });

  test("a deleted file comes back by Undo", async () => {
    writeFileSync(disk("gone.txt"), "precious");
    await page.reload();
    await choose("gone.txt");
    await page.keyboard.press("Delete");
    await expect.poll(() => existsSync(disk("gone.txt"))).toBe(false);
    await press("Undo");
    await expect.poll(() => existsSync(disk("gone.txt"))).toBe(true);
    expect(readFileSync(disk("gone.txt"), "utf8")).toBe("precious");
  });

  test("the lab measures a worker, the page's thread and whole files", async () => {
    await page.goto(`${origin.url}files/#lab`);
    await page.waitForSelector(".lab form");
    await page.evaluate(() => {
      const wanted = ["insert", "1000", "1000000", "deltic@worker", "webr2sync+@main", "whole@main"];
      for (const box of document.querySelectorAll<HTMLInputElement>(".lab .box")) if (box.checked !== wanted.includes(box.value)) box.click();
    });
    await press("Start");
    await page.waitForSelector("[data-table=results]");
    const proofs = await page.$$eval("[data-table=results] td:last-child", (cells) => cells.map((cell) => cell.textContent));
    expect(proofs).toEqual(["yes", "yes", "yes"]);
    await expect.poll(() => readdirSync(disk()).filter((name) => name.startsWith(".lab"))).toEqual([]);
    await page.evaluate(() => void (location.hash = ""));
  });

  test("a file comes down, and signing out forgets the token", async () => {
    writeFileSync(disk("down.bin"), "from the server");
    await page.reload();
    await choose("down.bin");
    await page.keyboard.press("Enter");
    await expect.poll(() => existsSync(join(local, "down.bin")) && readFileSync(join(local, "down.bin"), "utf8")).toBe("from the server");
    await page.goto(`${origin.url}files/#settings`);
    await press("Sign out");
    await page.waitForSelector("::-p-text(You are signed out)");
    expect(await page.evaluate(() => localStorage.getItem("deltic.token"))).toBeNull();
    expect(wrongs).toEqual([]);
  });
});
