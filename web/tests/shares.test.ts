/** Versions, previews, shared links and the server's own screen, against a real server that keeps versions. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addFiles, idle, launch, row, setUp, signIn, withoutPickers, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

/** A picture of one point. */
const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

/** Half a second of silence. */
function wav(): Buffer {
  const data = Buffer.alloc(8_000);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + data.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8_000, 24);
  head.writeUInt32LE(16_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}

describe.skipIf(why)("beside the list of files", () => {
  let browser: Browser;
  let s: Setup;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { volumes: ["files", "music"], options: ["--versions", "10"] });
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });
  beforeEach(async () => {
    for (const name of readdirSync(disk())) if (name !== ".deltic") rmSync(disk(name), { recursive: true });
    s.origin.seen = [];
    await s.page.goto("about:blank");
  });
  afterEach(() => expect(s.wrongs.splice(0)).toEqual([]));

  const disk = (...path: string[]) => s.server.disk("files", ...path);
  const menu = async (name: string, item: string) => {
    await row(s.page, name).hover();
    await row(s.page, name).getByRole("button", { name: /^More for/ }).click();
    await s.page.getByRole("menuitem", { name: item }).click();
  };
  const overwrite = async (name: string, text: string) => {
    await addFiles(s.page, [{ name, mimeType: "", buffer: Buffer.from(text) }]);
    const dialog = s.page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "Mine" }).check();
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await expect.poll(() => readFileSync(disk(name), "utf8")).toBe(text);
  };

  test("old versions are listed, downloaded and restored, and nothing is lost", async () => {
    writeFileSync(disk("a.txt"), "first");
    utimesSync(disk("a.txt"), 1_700_000_000, 1_700_000_000);
    await signIn(s);
    await row(s.page, "a.txt").waitFor();
    await overwrite("a.txt", "the second");
    await idle(s.page);
    await menu("a.txt", "Versions");
    const first = s.page.getByRole("group", { name: /Nov 2023/ });
    await first.waitFor();
    const [saved] = await Promise.all([s.page.waitForEvent("download"), first.getByRole("button", { name: "Download" }).click()]);
    expect(readFileSync(await saved.path(), "utf8")).toBe("first");
    expect(saved.url()).not.toContain("dlt_".concat(s.server.token.slice(4)));
    await first.getByRole("button", { name: "Restore" }).click();
    await s.page.getByText(/is the version of .* again/).first().waitFor();
    expect(readFileSync(disk("a.txt"), "utf8")).toBe("first");
    // The content before the restore is an old version now, and can be restored too.
    const second = s.page.getByRole("group").filter({ hasText: "10 B" }).filter({ hasText: "replaced" });
    await second.getByRole("button", { name: "Restore" }).click();
    await expect.poll(() => readFileSync(disk("a.txt"), "utf8")).toBe("the second");
    await s.page.getByRole("link", { name: "files" }).first().click();
    await row(s.page, "a.txt").waitFor();
  });

  test.skipIf(engineMissing())("an old version comes into a copy on this device by what differs", async () => {
    const first = noise(2_000_000, 5);
    const second = Buffer.concat([first.subarray(0, 1_000_000), Buffer.from("inserted"), first.subarray(1_000_000)]);
    for (const [body, condition] of [[first, "If-None-Match"], [second, "If-Match"]] as const) {
      const headers = { Authorization: `Bearer ${s.server.token}`, [condition]: "*" };
      const { ok } = await fetch(`http://${s.server.address}/v1/volumes/files/files/v.bin`, { method: "PUT", headers, body });
      expect(ok).toBe(true);
    }
    await signIn(s);
    await row(s.page, "v.bin").waitFor();
    // A picker needs a window, which is missing here. So the user's file is a file in the origin's own storage.
    await s.page.evaluate(async (text) => {
      const mine = await (await navigator.storage.getDirectory()).getFileHandle("mine.bin", { create: true });
      const out = await mine.createWritable();
      await out.write(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
      await out.close();
      Object.assign(window, { showOpenFilePicker: () => Promise.resolve([mine]) });
    }, second.toString("base64"));
    s.origin.wire = { up: 0, down: 0 };
    await menu("v.bin", "Versions");
    await s.page.getByRole("button", { name: "Into my copy" }).click();
    await s.page.getByText(/is the version of .* now: .* came instead of 2\.00.MB/).first().waitFor();
    console.log(`old version of 2 MB: ${s.origin.wire.down} bytes down, ${s.origin.wire.up} up`);
    expect(s.origin.wire.down).toBeLessThan(10_000);
    const mine = await s.page.evaluate(async () => {
      const mine = await (await navigator.storage.getDirectory()).getFileHandle("mine.bin");
      const sum = await crypto.subtle.digest("SHA-256", await (await mine.getFile()).arrayBuffer());
      return Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, "0")).join("");
    });
    expect(mine).toBe(createHash("sha256").update(first).digest("hex"));
  });

  /** Bytes that no chunk of another seed has. */
  const noise = (length: number, seed: number) => {
    const bytes = Buffer.alloc(length);
    let state = seed;
    for (let at = 0; at < length; at++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[at] = state >>> 24;
    }
    return bytes;
  };
  /** Places of the new bytes in a strip, in percent. */
  const fresh = (strip: ReturnType<Page["locator"]>) =>
    strip.locator(".n").evaluateAll((bars) => bars.map((bar) => Number.parseFloat(bar.getAttribute("x")!)));

  test("an edited file shows its last change in the row, in the details and among the versions", async () => {
    const old = noise(1_000_000, 1);
    const edited = Buffer.concat([old.subarray(0, 750_000), Buffer.from("a few new bytes"), old.subarray(750_000)]);
    writeFileSync(disk("plan.bin"), old);
    await signIn(s);
    await row(s.page, "plan.bin").waitFor();
    expect(await row(s.page, "plan.bin").locator(".strip").count()).toBe(0);
    await addFiles(s.page, [{ name: "plan.bin", mimeType: "", buffer: edited }]);
    const dialog = s.page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "Mine" }).check();
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await expect.poll(() => readFileSync(disk("plan.bin")).equals(edited)).toBe(true);
    const strip = row(s.page, "plan.bin").locator(".strip");
    await strip.waitFor();
    const [place, ...more] = await fresh(strip);
    expect(more).toEqual([]);
    expect(place).toBeGreaterThan(70);
    expect(place).toBeLessThan(80);
    await row(s.page, "plan.bin").locator(".chg").getByText(/kB new$/).waitFor();
    await row(s.page, "plan.bin").click();
    const details = s.page.getByRole("complementary", { name: "Details" });
    await details.getByRole("region", { name: "What the last change moved" }).waitFor();
    await details.getByText(/by “/).waitFor();
    await menu("plan.bin", "Versions");
    const present = s.page.getByRole("group", { name: "Now" });
    await present.getByText(/^new/).waitFor();
    expect((await fresh(present.locator(".strip"))).length).toBe(1);
  });

  test("a change that was not noted is found by comparing, and a first version has none", async () => {
    writeFileSync(disk("whole.bin"), noise(200_000, 3));
    await signIn(s);
    const token = { Authorization: `Bearer ${s.server.token}` };
    const body = Buffer.concat([Buffer.from("new"), noise(200_000, 3)]);
    const put = await fetch(`http://${s.server.address}/v1/volumes/files/files/whole.bin`, { method: "PUT", headers: token, body });
    expect(put.status).toBe(204);
    await row(s.page, "whole.bin").waitFor();
    expect(await row(s.page, "whole.bin").locator(".strip").count()).toBe(0);
    await menu("whole.bin", "Versions");
    const present = s.page.getByRole("group", { name: "Now" });
    await present.getByText(/^new/).waitFor();
    expect((await fresh(present.locator(".strip")))[0]).toBeLessThan(4);
    const first = s.page.getByRole("group").filter({ hasText: "replaced" });
    expect(await first.locator(".strip").count()).toBe(0);
  });

  test("deleted files of a folder are listed and come back", async () => {
    mkdirSync(disk("dir", "deep"), { recursive: true });
    writeFileSync(disk("dir", "deep", "old.txt"), "precious");
    writeFileSync(disk("dir", "other.txt"), "other");
    await signIn(s);
    const remove = async (path: string) => {
      const headers = { Authorization: `Bearer ${s.server.token}`, "If-Match": "*" };
      expect((await fetch(`http://${s.server.address}/v1/volumes/files/files/${path}`, { method: "DELETE", headers })).status).toBe(204);
    };
    await remove("dir/deep/old.txt");
    await remove("dir/other.txt");
    await s.page.goto(`${s.origin.url}files/dir/`);
    await s.page.getByRole("link", { name: "Deleted files" }).click();
    const gone = s.page.getByRole("group", { name: "dir/deep/old.txt" });
    await gone.getByText("deleted").waitFor();
    const [saved] = await Promise.all([s.page.waitForEvent("download"), gone.getByRole("button", { name: "Download" }).click()]);
    expect(readFileSync(await saved.path(), "utf8")).toBe("precious");
    await gone.getByRole("button", { name: "Restore" }).click();
    await gone.waitFor({ state: "detached" });
    expect(readFileSync(disk("dir", "deep", "old.txt"), "utf8")).toBe("precious");
    // A file that stands in the place by now is not replaced.
    writeFileSync(disk("dir", "other.txt"), "made again");
    await s.page.getByRole("group", { name: "dir/other.txt" }).getByRole("button", { name: "Restore" }).click();
    await s.page.getByText("is here already").first().waitFor();
    expect(readFileSync(disk("dir", "other.txt"), "utf8")).toBe("made again");
  });

  test("a restore replaces no version that was not shown", async () => {
    writeFileSync(disk("b.txt"), "first");
    await signIn(s);
    await row(s.page, "b.txt").waitFor();
    await overwrite("b.txt", "the second");
    await idle(s.page);
    await s.page.goto(`${s.origin.url}files/#versions/b.txt`);
    await s.page.getByRole("button", { name: "Restore" }).waitFor();
    writeFileSync(disk("b.txt"), "by another program");
    await s.page.getByRole("button", { name: "Restore" }).click();
    await s.page.getByText("changed meanwhile. Nothing was replaced").first().waitFor();
    expect(readFileSync(disk("b.txt"), "utf8")).toBe("by another program");
  });

  test("folders are renamed and moved with all that is in them", async () => {
    mkdirSync(disk("trip/day 1"), { recursive: true });
    mkdirSync(disk("archive"));
    writeFileSync(disk("trip/day 1/a.txt"), "a");
    await signIn(s);
    await row(s.page, "trip").click();
    await s.page.keyboard.press("F2");
    await s.page.getByRole("dialog").getByRole("textbox").fill("travel");
    await s.page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
    await row(s.page, "travel").waitFor();
    expect(readFileSync(disk("travel/day 1/a.txt"), "utf8")).toBe("a");
    await menu("travel", "Move");
    const dialog = s.page.getByRole("dialog");
    await dialog.getByText("archive").click();
    await dialog.getByRole("button", { name: /^Move to/ }).click();
    await row(s.page, "travel").waitFor({ state: "detached" });
    expect(readFileSync(disk("archive/travel/day 1/a.txt"), "utf8")).toBe("a");
    await s.page.getByRole("button", { name: "Undo" }).click();
    await row(s.page, "travel").waitFor();
    expect(readFileSync(disk("travel/day 1/a.txt"), "utf8")).toBe("a");
    await menu("travel", "Move");
    await dialog.getByText("archive").click();
    await dialog.getByRole("button", { name: /^Move to/ }).click();
    await row(s.page, "travel").waitFor({ state: "detached" });
    // A folder that has this name already stays as it is.
    mkdirSync(disk("travel"));
    await s.page.reload();
    await row(s.page, "travel").waitFor();
    await menu("travel", "Move");
    await dialog.getByText("archive").click();
    await dialog.getByRole("button", { name: /^Move to/ }).click();
    await s.page.getByText(/“\u2068travel\u2069” is here already/).first().waitFor();
    expect(existsSync(disk("travel"))).toBe(true);
  });

  test("a folder is downloaded as an archive that other programs read", async () => {
    mkdirSync(disk("pack/deep"), { recursive: true });
    writeFileSync(disk("pack/a \u00e4.txt"), "a");
    writeFileSync(disk("pack/deep/b.bin"), Buffer.alloc(3_000_000, "zip"));
    await signIn(s);
    await row(s.page, "pack").waitFor();
    const [saved] = await Promise.all([s.page.waitForEvent("download"), menu("pack", "Download as ZIP")]);
    expect(saved.suggestedFilename()).toBe("pack.zip");
    const read = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print(*sorted(z.namelist()), sep='|')";
    const listed = execFileSync("python3", ["-c", read, await saved.path()], { encoding: "utf8", env: { ...process.env, PYTHONIOENCODING: "utf8" } });
    expect(listed.trim()).toBe("pack/|pack/a \u00e4.txt|pack/deep/|pack/deep/b.bin");
  });

  test("a deleted folder comes back by Undo with all that was in it", async () => {
    mkdirSync(disk("gone/deep"), { recursive: true });
    mkdirSync(disk("gone/empty"));
    writeFileSync(disk("gone/a.txt"), "a");
    writeFileSync(disk("gone/deep/b.txt"), "b");
    await signIn(s);
    await row(s.page, "gone").click();
    await s.page.keyboard.press("Delete");
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await expect.poll(() => existsSync(disk("gone"))).toBe(false);
    await s.page.getByRole("button", { name: "Undo" }).click();
    await expect.poll(() => existsSync(disk("gone/deep/b.txt"))).toBe(true);
    await expect.poll(() => existsSync(disk("gone/empty"))).toBe(true);
    expect(readFileSync(disk("gone/a.txt"), "utf8") + readFileSync(disk("gone/deep/b.txt"), "utf8")).toBe("ab");
  });

  test("text, pictures and sound are shown, and no script of a file runs", async () => {
    writeFileSync(disk("1.txt"), "<script>alert(1)</script> und \u00e4");
    writeFileSync(disk("2.png"), PNG);
    writeFileSync(disk("3.wav"), wav());
    writeFileSync(disk("4.html"), "<script>document.title = 'ran'</script>");
    writeFileSync(disk("5.jpg"), "no picture at all");
    await signIn(s);
    await row(s.page, "1.txt").dblclick();
    await s.page.locator("pre", { hasText: "<script>alert(1)</script> und \u00e4" }).waitFor();
    await s.page.keyboard.press("ArrowRight");
    await expect.poll(() => s.page.locator("img").evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBe(1);
    expect(await s.page.locator("img").getAttribute("src")).not.toContain((await kept())!.slice(4));
    await s.page.keyboard.press("ArrowRight");
    await expect.poll(() => s.page.locator("audio").evaluate((sound) => (sound as HTMLAudioElement).duration)).toBeGreaterThan(0.4);
    await s.page.keyboard.press("ArrowRight");
    await s.page.locator("pre", { hasText: "document.title" }).waitFor();
    expect(await s.page.title()).toBe("4.html · Deltic");
    await s.page.keyboard.press("ArrowRight");
    await s.page.getByText("This file cannot be shown here.").waitFor();
    await s.page.keyboard.press("Escape");
    await row(s.page, "5.jpg").waitFor();
  });

  const kept = () => s.page.evaluate(() => localStorage.getItem("deltic.token"));

  async function makeLink(name: string, may: string): Promise<string> {
    await menu("plans", "Share");
    const dialog = s.page.getByRole("dialog");
    await dialog.getByLabel("Who is the link for?").fill(name);
    await dialog.getByLabel("May").selectOption({ label: may });
    await dialog.getByRole("button", { name: "Make the link" }).click();
    const link = await dialog.getByLabel("Link", { exact: true }).inputValue();
    await dialog.getByRole("button", { name: "Close" }).last().click();
    return link;
  }

  async function visit(link: string, then: (page: Page) => Promise<void>): Promise<void> {
    const context = await browser.newContext({ locale: "en-GB" });
    await context.addInitScript(withoutPickers);
    const page = await context.newPage();
    await page.goto(link);
    await then(page);
    await context.close();
  }

  test("a link opens one folder with its rights, and ends when it is revoked", async () => {
    mkdirSync(disk("plans"));
    mkdirSync(disk("secret"));
    writeFileSync(disk("plans/a.txt"), "a");
    await signIn(s);
    await row(s.page, "plans").waitFor();
    const reading = await makeLink("Anna", "read");
    const adding = await makeLink("Post", "add and replace files, and see none");
    expect(reading).toMatch(/\/files\/plans\/#t=dlt_/);
    await visit(reading, async (page) => {
      await row(page, "a.txt").waitFor();
      expect(await page.getByRole("button", { name: "Add files" }).count()).toBe(0);
      expect(await page.getByRole("button", { name: "Share" }).count()).toBe(0);
      await page.goto(`${s.origin.url}files/`);
      await page.getByText("There is no such folder").waitFor();
    });
    await visit(adding, async (page) => {
      await addFiles(page, [{ name: "post.txt", mimeType: "", buffer: Buffer.from("post") }]);
      await expect.poll(() => existsSync(disk("plans/post.txt"))).toBe(true);
      await page.getByText("a.txt").waitFor({ state: "detached" });
    });
    const token = reading.split("#t=")[1]!;
    const ask = async () => (await fetch(`http://${s.server.address}/v1/volumes`, { headers: { Authorization: `Bearer ${token}` } })).status;
    const admin = await fetch(`http://${s.server.address}/v1/server`, { headers: { Authorization: `Bearer ${token}` } });
    const mint = await fetch(`http://${s.server.address}/v1/tokens`, { method: "POST", body: '{"name":"x"}', headers: { Authorization: `Bearer ${token}` } });
    expect([await ask(), admin.status, mint.status]).toEqual([200, 403, 403]);
    await s.page.getByRole("link", { name: "Shared" }).click();
    await s.page.getByRole("group", { name: "Anna" }).getByText("files/plans · read · ends").waitFor();
    await s.page.getByRole("group", { name: "Anna" }).getByRole("button", { name: "Revoke" }).click();
    await s.page.getByRole("group", { name: "Anna" }).waitFor({ state: "detached" });
    expect(await ask()).toBe(401);
    await s.page.getByRole("group", { name: "Post" }).waitFor();
  });

  test("an administrator sees volumes, tokens and who is connected, and revokes any token", async () => {
    const laptop = await s.server.add("laptop");
    const own = { headers: { Authorization: `Bearer ${laptop}` } };
    await signIn(s);
    const stop = new AbortController();
    const events = await fetch(`http://${s.server.address}/v1/volumes/files/events`, { ...own, signal: stop.signal });
    expect(events.status).toBe(200);
    await s.page.getByRole("link", { name: "Server" }).click();
    await s.page.getByRole("group", { name: "music" }).getByText("keeps versions").waitFor();
    const token = s.page.getByRole("group", { name: "laptop" });
    await token.getByText("connected", { exact: true }).waitFor();
    expect(await s.page.getByText("this page").count()).toBe(1);
    await token.getByRole("button", { name: "Revoke" }).click();
    await token.waitFor({ state: "detached" });
    await expect.poll(async () => (await fetch(`http://${s.server.address}/v1/volumes`, own)).status).toBe(401);
    stop.abort();
    // The page has no such screen for a token without the rights of an administrator.
    await visit(`${s.origin.url}files/#t=${await s.server.add("reader", "--ro")}`, async (page) => {
      await page.locator("#list, .empty").first().waitFor();
      expect(await page.getByRole("link", { name: "Server" }).count()).toBe(0);
    });
  });
});

