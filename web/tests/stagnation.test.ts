/** StagMeter of the page while a large file is synced as a delta. */
import { closeSync, openSync, rmSync, mkdtempSync, statSync, writeSync } from "node:fs";
import { freemem, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { noise } from "../src/lab/experiment";
import { drop, idle, launch, setUp, signIn, stagnation, startControl, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

/** 1 GiB where the machine has room and time, else 256 MiB. */
const MIB = freemem() > 6 * 2 ** 30 && loadavg()[0]! < 3 ? 1024 : 256;
const TRIES = 3;

/** Writes noise with `inserted` bytes in the middle. */
function write(path: string, inserted: Uint8Array): void {
  const file = openSync(path, "w");
  for (let at = 0; at < MIB; at += 16) {
    if (at === MIB / 2) writeSync(file, inserted);
    writeSync(file, noise(16 << 20, at + 1));
  }
  closeSync(file);
}

describe.skipIf(why)("StagMeter", () => {
  let browser: Browser;
  let s: Setup;
  let local: string;
  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser);
    local = mkdtempSync(join(tmpdir(), "deltic-stagnation-"));
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
    if (local) rmSync(local, { recursive: true, force: true });
  });

  /** Syncs an edit of a large file. Returns what the settings say. */
  async function sync(page: Page, name: string): Promise<string> {
    write(s.server.disk("files", name), new Uint8Array());
    write(join(local, name), noise(1_000, 9));
    await signIn(s);
    await page.reload();
    await page.locator(".shell").waitFor();
    await drop(page, [join(local, name)]);
    await page.getByRole("dialog").getByRole("radio", { name: "Mine" }).check({ timeout: 120_000 });
    await page.getByRole("dialog").getByRole("button", { name: "Keep mine" }).click();
    await expect.poll(() => statSync(s.server.disk("files", name)).size, { timeout: 240_000 }).toBe((MIB << 20) + 1_000);
    await idle(page);
    const said = await stagnation(s);
    for (const path of [s.server.disk("files", name), join(local, name)]) rmSync(path);
    return said;
  }

  test(`reads 0 while ${MIB} MiB sync`, { timeout: 900_000, retry: 0 }, async () => {
    const control = await startControl(browser, s);
    let said = "";
    for (let tries = 0; tries < TRIES; tries++) {
      await control.reset();
      said = await sync(s.page, `large-${tries}.bin`);
      if (said.startsWith("0 ms in ")) break;
      const late = await control.late();
      console.log(`${said}; a page that does nothing stood still for ${late.toFixed(0)} ms`);
      if (tries < TRIES - 1 || late === 0) continue;
      await control.stop();
      return console.log("SKIPPED: the machine is too busy");
    }
    await control.stop();
    expect(said).toMatch(/^0 ms in \d+ (s|min)$/);
    expect(s.wrongs).toEqual([]);
  });
});
