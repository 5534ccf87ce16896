/** The flows of a user, in a real browser, against a real server, with bytes compared on the server's disk. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { addFiles, drop, idle, launch, names, row, setUp, signIn, withoutPickers, type Setup } from "./page";
import { missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

let browser: Browser;
beforeAll(async () => {
  if (!why) browser = await launch();
});
afterAll(() => browser?.close());

/** Returns pseudo-random bytes, the same in each run. */
function bytes(length: number, seed = 1): Buffer {
  const made = Buffer.alloc(length);
  let state = seed;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    made[i] = state >>> 24;
  }
  return made;
}

describe.skipIf(why)("the page", () => {
  let s: Setup;
  let local: string;
  let folder = "";
  let count = 0;

  beforeAll(async () => {
    s = await setUp(browser, { volumes: ["files", "music"] });
    local = mkdtempSync(join(tmpdir(), "deltic-local-"));
  });
  afterAll(async () => {
    await s?.stop();
    rmSync(local, { recursive: true, force: true });
  });
  beforeEach(() => {
    folder = `t${++count}`;
    mkdirSync(disk());
  });
  afterEach(() => {
    s.origin.cut = false;
    s.origin.slow = undefined;
    expect(s.wrongs.splice(0)).toEqual([]);
  });

  /** A path in the folder of this test, on the server's disk. */
  const disk = (...path: string[]) => s.server.disk("files", folder, ...path);
  const open = () => signIn(s, `files/${folder}/`);
  function make(name: string, content: Buffer | string): string {
    const path = join(local, folder, name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, content);
    return path;
  }

  test("the printed address signs in, and the token stays nowhere in sight", async () => {
    writeFileSync(disk("a.txt"), "hello");
    await open();
    await row(s.page, "a.txt").waitFor();
    expect(s.page.url()).toBe(`${s.origin.url}files/${folder}/`);
    expect(await s.page.title()).toBe(`${folder} · Deltic`);
    expect(s.origin.seen.join("\n")).not.toContain("dlt_");
    await s.page.goBack().catch(() => undefined);
    expect(s.page.url()).not.toContain("dlt_");
    await s.page.goto(`${s.origin.url}files/${folder}/`);
    await row(s.page, "a.txt").waitFor();
  });

  test("a pasted address or token signs in, a wrong one is told", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${s.origin.url}files/`);
    const field = page.getByLabel("Or paste the address or the token");
    await field.fill("hello");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("There is no token in this.").waitFor();
    await field.fill("dlt_AAAA");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("The server does not know this token.").waitFor();
    await field.fill(`http://elsewhere/files/#t=${s.server.token}&pin=x`);
    await page.getByLabel("Stay signed in on this device").uncheck();
    await page.getByRole("button", { name: "Sign in" }).click();
    await row(page, folder).waitFor();
    expect(await page.evaluate(() => [localStorage.getItem("deltic.token"), sessionStorage.getItem("deltic.token")])).toEqual([
      null,
      expect.stringMatching(/^dlt_/),
    ]);
    await context.close();
  });

  test("signing out forgets the token", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${s.origin.url}files/#t=${s.server.token}`);
    await page.getByRole("link", { name: "Settings" }).first().click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out").waitFor();
    await page.reload();
    await page.getByText("Open the address that the server printed").waitFor();
    expect(await page.evaluate(() => localStorage.getItem("deltic.token"))).toBeNull();
    await context.close();
  });

  test("volumes are listed and opened", async () => {
    await signIn(s, "");
    await s.page.getByRole("link", { name: "music" }).click();
    await s.page.getByText("Nothing here yet").waitFor();
    expect(s.page.url()).toBe(`${s.origin.url}music/`);
    await s.page.goBack();
    await s.page.getByRole("heading", { name: "Volumes" }).waitFor();
  });

  test("a folder of 2,500 names comes in pages, and few rows are in the document", async () => {
    for (let i = 0; i < 2500; i++) writeFileSync(disk(`file ${i}.txt`), "x".repeat(i % 7));
    await open();
    await s.page.getByText("2,500 files").waitFor();
    expect(s.origin.seen.filter((seen) => seen.includes(`tree/${folder}?limit=1000`)).length).toBe(3);
    expect(await s.page.locator(".lrow").count()).toBeLessThan(120);
    await s.page.locator("#list").focus();
    await s.page.keyboard.press("End");
    await row(s.page, "file 2499.txt").waitFor();
    await s.page.keyboard.press("Home");
    await row(s.page, "file 0.txt").waitFor();
  });

  test("the slash key searches within the folder", async () => {
    for (const name of ["budget.ods", "Budapest.jpg", "plan.pdf"]) writeFileSync(disk(name), name);
    await open();
    await row(s.page, "plan.pdf").waitFor();
    await s.page.keyboard.press("/");
    await s.page.keyboard.type("bud");
    await expect.poll(() => names(s.page)).toEqual(["Budapest.jpg", "budget.ods"]);
    await s.page.getByText("2 names have “\u2068bud\u2069”").first().waitFor();
    await s.page.keyboard.type("x");
    await s.page.getByText("No name has “\u2068budx\u2069”.").waitFor();
    await s.page.keyboard.press("Escape");
    await expect.poll(() => names(s.page)).toHaveLength(3);
  });

  test("columns sort, folders first and numbers as numbers", async () => {
    mkdirSync(disk("z"));
    writeFileSync(disk("f10.txt"), "xx");
    writeFileSync(disk("f9.txt"), "xxx");
    writeFileSync(disk("f1.txt"), "x");
    await open();
    await expect.poll(() => names(s.page)).toEqual(["z", "f1.txt", "f9.txt", "f10.txt"]);
    await s.page.getByRole("button", { name: "Size" }).click();
    await expect.poll(() => names(s.page)).toEqual(["z", "f9.txt", "f10.txt", "f1.txt"]);
    await s.page.getByRole("button", { name: "Name", exact: true }).click();
    await s.page.getByRole("button", { name: "Name", exact: true }).click();
    await expect.poll(() => names(s.page)).toEqual(["z", "f10.txt", "f9.txt", "f1.txt"]);
    expect(await s.page.getByRole("columnheader", { name: "Name" }).getAttribute("aria-sort")).toBe("descending");
    await s.page.reload();
  });

  test("keys move, select, open and go up", async () => {
    mkdirSync(disk("inner"));
    writeFileSync(disk("inner", "deep.txt"), "deep");
    for (const name of ["a", "b", "c"]) writeFileSync(disk(name), name);
    await open();
    await row(s.page, "c").waitFor();
    await s.page.locator("#list").focus();
    await s.page.keyboard.press("ArrowDown");
    await s.page.keyboard.press("Space");
    await s.page.keyboard.press("Shift+ArrowDown");
    await s.page.getByText("2 selected").waitFor();
    await s.page.keyboard.press("Control+a");
    await s.page.getByText("4 selected").waitFor();
    await s.page.keyboard.press("Escape");
    await s.page.getByText("4 selected").waitFor({ state: "detached" });
    await s.page.keyboard.press("Home");
    await s.page.keyboard.press("Enter");
    await row(s.page, "deep.txt").waitFor();
    await s.page.keyboard.press("Backspace");
    await row(s.page, "inner").waitFor();
    expect(await row(s.page, "inner").getAttribute("class")).toContain("is-active");
    rmSync(disk("inner", "deep.txt"));
    await s.page.keyboard.press("Enter");
    await s.page.getByText("Nothing here yet").waitFor();
    await s.page.keyboard.press("Backspace");
    await row(s.page, "inner").waitFor();
    await s.page.keyboard.press("ArrowDown");
    await s.page.keyboard.press("Space");
    await s.page.getByText("1 selected").waitFor();
  });

  test("a folder is made, and a wrong name is told where it is typed", async () => {
    await open();
    await s.page.getByRole("button", { name: "New folder" }).click();
    const field = s.page.getByLabel("Name of the folder");
    await field.fill("a/b");
    await s.page.keyboard.press("Enter");
    await s.page.getByText("A name has no slash.").waitFor();
    await field.fill("plans ü & 100 %");
    await s.page.keyboard.press("Enter");
    await row(s.page, "plans ü & 100 %").waitFor();
    expect(statSync(disk("plans ü & 100 %")).isDirectory()).toBe(true);
    await s.page.getByRole("button", { name: "New folder" }).click();
    await field.fill("plans ü & 100 %");
    await s.page.keyboard.press("Enter");
    await s.page.getByText("is here already.").waitFor();
    await s.page.keyboard.press("Escape");
    await s.page.locator("dialog").waitFor({ state: "detached" });
  });

  test("picked files arrive byte for byte, whatever their names", async () => {
    const files = [
      ["big one.bin", bytes(3_000_000)],
      ["empty", Buffer.alloc(0)],
      ["100% #1 ?a=b&c.txt", Buffer.from("odd")],
      ["新しい家の図面.pdf", bytes(1000, 7)],
      ["عقد.pdf", bytes(10, 3)],
    ] as const;
    await open();
    await s.page.getByText("Nothing here yet").waitFor();
    await addFiles(s.page, files.map(([name, content]) => make(name, content)));
    await row(s.page, "big one.bin").waitFor();
    await idle(s.page);
    for (const [name, content] of files) expect(readFileSync(disk(name)).equals(content), name).toBe(true);
    await expect.poll(async () => (await names(s.page)).sort()).toEqual(files.map(([name]) => name).sort());
  });

  test("dropped files and folders arrive with all that is in them", async () => {
    const one = make("one.txt", "one");
    make("tree/a/b/deep.bin", bytes(400_000, 5));
    make("tree/top.txt", "top");
    mkdirSync(join(local, folder, "tree/empty"));
    await open();
    await s.page.getByText("Nothing here yet").waitFor();
    await drop(s.page, [one, join(local, folder, "tree")]);
    await row(s.page, "tree").waitFor();
    await idle(s.page);
    expect(readFileSync(disk("one.txt"), "utf8")).toBe("one");
    expect(readFileSync(disk("tree/a/b/deep.bin")).equals(bytes(400_000, 5))).toBe(true);
    expect(readFileSync(disk("tree/top.txt"), "utf8")).toBe("top");
    expect(readdirSync(disk("tree/empty"))).toEqual([]);
  });

  test("a drop on a folder goes into it", async () => {
    mkdirSync(disk("plans"));
    const file = make("x.txt", "x");
    await open();
    const box = (await row(s.page, "plans").boundingBox())!;
    await drop(s.page, [file], { x: box.x + 200, y: box.y + 10 });
    await expect.poll(() => existsSync(disk("plans/x.txt"))).toBe(true);
    expect(existsSync(disk("x.txt"))).toBe(false);
  });

  test("300 small files move in few requests, at most two at a time", async () => {
    for (let i = 0; i < 300; i++) make(`many/${i}.txt`, `content of ${i}`);
    await open();
    Object.assign(s.origin, { most: 0, seen: [] });
    await drop(s.page, [join(local, folder, "many")]);
    await row(s.page, "many").waitFor();
    await idle(s.page);
    expect(readdirSync(disk("many"))).toHaveLength(300);
    expect(readFileSync(disk("many/299.txt"), "utf8")).toBe("content of 299");
    expect(s.origin.most).toBeLessThanOrEqual(2);
    expect(requests().length).toBeLessThan(20);
    expect(s.origin.seen.filter((seen) => seen.startsWith("PUT"))).toEqual([]);
  });

  /** Requests that created many files. */
  const requests = () => s.origin.seen.filter((seen) => /^POST .*\/files$/.test(seen));

  test("a folder that is dropped again is compared in the same requests, and asks nothing", async () => {
    for (let i = 0; i < 200; i++) make(`again/${i % 3}/${i}.txt`, `content of ${i}`);
    await open();
    await drop(s.page, [join(local, folder, "again")]);
    await row(s.page, "again").waitFor();
    await idle(s.page);
    make("again/0/new.txt", "new");
    writeFileSync(disk("again/1/1.txt"), "another on the server");
    s.origin.seen = [];
    await drop(s.page, [join(local, folder, "again")]);
    await s.page.getByRole("dialog").getByRole("radio", { name: "Theirs" }).check();
    await s.page.getByRole("dialog").getByRole("button", { name: "Keep theirs" }).click();
    await idle(s.page);
    expect(readFileSync(disk("again/0/new.txt"), "utf8")).toBe("new");
    expect(readFileSync(disk("again/1/1.txt"), "utf8")).toBe("another on the server");
    expect(s.origin.seen.filter((seen) => seen.startsWith("HEAD")).every((seen) => seen.endsWith("/1.txt"))).toBe(true);
    await s.page.getByRole("link", { name: "Transfers", exact: true }).click();
    await s.page.getByText("199 equal on both sides").waitFor();
  });

  test("a file that cannot be read, and names that the server refuses, hold up no other file", async () => {
    for (let i = 0; i < 100; i++) make(`mixed/${i}.txt`, `content of ${i}`);
    make("mixed/.deltic", "own");
    make("mixed/taken", "a file");
    mkdirSync(disk("mixed/taken"), { recursive: true });
    // A file that another program replaces after the page has opened the file.
    const gone = make("mixed/gone.txt", "gone");
    await open();
    await s.page.evaluate(() => {
      const { getFile } = FileSystemFileHandle.prototype;
      FileSystemFileHandle.prototype.getFile = async function (this: FileSystemFileHandle) {
        const file = await getFile.call(this);
        if (file.name !== "gone.txt") return file;
        await fetch("/remove");
        return file;
      };
    });
    await s.page.route("**/remove", (route) => (rmSync(gone, { force: true }), route.fulfill({ body: "" })));
    await drop(s.page, [join(local, folder, "mixed")]);
    await expect.poll(() => readdirSync(disk("mixed")).length).toBe(101);
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByRole("button", { name: "Retry all 3" }).waitFor();
    for (const name of ["mixed/.deltic", "mixed/taken", "mixed/gone.txt"]) await s.page.locator(".srow", { hasText: name }).waitFor();
    for (let i = 0; i < 100; i++) expect(readFileSync(disk(`mixed/${i}.txt`), "utf8")).toBe(`content of ${i}`);
    await s.page.unroute("**/remove");
    await s.page.getByRole("button", { name: "Take “\u2068mixed\u2069” off the list" }).click();
    await s.page.reload();
  });

  test("small files pass a proxy that refuses long bodies, each alone if need be", async () => {
    for (let i = 0; i < 40; i++) make(`short/${i}.bin`, bytes(20_000, i + 1));
    await open();
    s.origin.longest = 30_000;
    onTestFinished(() => void (s.origin.longest = undefined));
    await drop(s.page, [join(local, folder, "short")]);
    await row(s.page, "short").waitFor();
    await idle(s.page);
    for (let i = 0; i < 40; i++) expect(readFileSync(disk(`short/${i}.bin`)).equals(bytes(20_000, i + 1))).toBe(true);
  });

  test("a batch of thousands of files keeps few rows in the document, and scrolls to each", async () => {
    for (let i = 0; i < 3000; i++) make(`long/${String(i).padStart(4, "0")}.bin`, "x");
    await open();
    await s.page.getByRole("link", { name: "Transfers", exact: true }).click();
    await drop(s.page, [join(local, folder, "long")]);
    await s.page.getByRole("button", { name: "Show the files of “\u2068long\u2069”" }).click();
    await expect.poll(() => existsSync(disk("long")) && readdirSync(disk("long")).length).toBe(3000);
    await idle(s.page);
    const rows = s.page.locator(".srow");
    for (const [part, no] of [[0, 1], [0.5, 1500], [1, 3000]] as const) {
      await s.page.evaluate((part) => scrollTo(0, part * (document.body.scrollHeight - innerHeight)), part);
      await s.page.locator(`.srow[aria-posinset="${no}"]`).waitFor();
      expect(await rows.count()).toBeLessThan(120);
    }
  });

  test("a folder of small files is cancelled in the middle, and its other files stay away", async () => {
    for (let i = 0; i < 400; i++) make(`stop/${i}.bin`, bytes(10_000, i + 1));
    await open();
    s.origin.slow = 400_000;
    await drop(s.page, [join(local, folder, "stop")]);
    await expect.poll(() => existsSync(disk("stop")) && readdirSync(disk("stop")).length).toBeGreaterThan(50);
    await s.page.getByRole("link", { name: "Transfers", exact: true }).click();
    await s.page.getByRole("button", { name: "Cancel “\u2068stop\u2069”" }).click();
    await idle(s.page);
    s.origin.slow = undefined;
    // Requests that the server has already received are answered.
    await s.page.waitForTimeout(2000);
    const some = readdirSync(disk("stop")).length;
    expect(some).toBeLessThan(400);
    await s.page.waitForTimeout(500);
    expect(readdirSync(disk("stop")).length).toBe(some);
    for (const name of readdirSync(disk("stop"))) expect(statSync(disk("stop", name)).size).toBe(10_000);
  });

  test("a download has the file's bytes and name, and its address no token", async () => {
    const content = bytes(700_000, 9);
    writeFileSync(disk("größe 100%.bin"), content);
    await open();
    await row(s.page, "größe 100%.bin").click();
    const [download] = await Promise.all([s.page.waitForEvent("download"), s.page.keyboard.press("Enter")]);
    expect(download.suggestedFilename()).toBe("größe 100%.bin");
    expect(readFileSync(await download.path()).equals(content)).toBe(true);
    expect(download.url()).not.toContain(s.server.token);
  });

  test("a file is renamed, and never over another", async () => {
    writeFileSync(disk("old.txt"), "old");
    writeFileSync(disk("taken.txt"), "taken");
    await open();
    await row(s.page, "old.txt").click();
    await s.page.keyboard.press("F2");
    const field = s.page.getByLabel("Name of the file");
    await field.fill("taken.txt");
    await s.page.keyboard.press("Enter");
    await s.page.getByText("“\u2068taken.txt\u2069” is here already.").waitFor();
    await field.fill("new.txt");
    await s.page.keyboard.press("Enter");
    await row(s.page, "new.txt").waitFor();
    expect(readFileSync(disk("new.txt"), "utf8")).toBe("old");
    expect(readFileSync(disk("taken.txt"), "utf8")).toBe("taken");
    expect(existsSync(disk("old.txt"))).toBe(false);
  });

  test("selected files move into another folder", async () => {
    mkdirSync(disk("to"));
    writeFileSync(disk("a.txt"), "a");
    writeFileSync(disk("b.txt"), "b");
    await open();
    await row(s.page, "a.txt").getByRole("checkbox").click();
    await row(s.page, "b.txt").getByRole("checkbox").click();
    await s.page.getByRole("button", { name: "Move" }).click();
    await s.page.getByRole("dialog").getByRole("button", { name: "to", exact: true }).click();
    await s.page.getByRole("button", { name: "Move to “\u2068to\u2069”" }).click();
    await row(s.page, "a.txt").waitFor({ state: "detached" });
    expect(readdirSync(disk("to")).sort()).toEqual(["a.txt", "b.txt"]);
    await s.page.getByRole("button", { name: "Undo" }).click();
    await row(s.page, "a.txt").waitFor();
    await row(s.page, "b.txt").waitFor();
    expect(readdirSync(disk("to"))).toEqual([]);
  });

  test("files that moved are moved back by Undo, though another file stayed", async () => {
    mkdirSync(disk("to"));
    writeFileSync(disk("to", "a.txt"), "taken");
    writeFileSync(disk("a.txt"), "a");
    writeFileSync(disk("b.txt"), "b");
    await open();
    await row(s.page, "a.txt").getByRole("checkbox").click();
    await row(s.page, "b.txt").getByRole("checkbox").click();
    await s.page.getByRole("button", { name: "Move" }).click();
    await s.page.getByRole("dialog").getByRole("button", { name: "to", exact: true }).click();
    await s.page.getByRole("button", { name: "Move to “\u2068to\u2069”" }).click();
    await row(s.page, "b.txt").waitFor({ state: "detached" });
    await s.page.getByText("“\u2068a.txt\u2069” is here already").first().waitFor();
    await s.page.getByRole("button", { name: "Undo" }).click();
    await row(s.page, "b.txt").waitFor();
    expect(readFileSync(disk("a.txt"), "utf8") + readFileSync(disk("b.txt"), "utf8")).toBe("ab");
    expect(readFileSync(disk("to", "a.txt"), "utf8")).toBe("taken");
  });

  test("deleting asks first, and spares a file that changed since", async () => {
    writeFileSync(disk("a.txt"), "a");
    writeFileSync(disk("b.txt"), "b");
    await open();
    await row(s.page, "a.txt").click();
    await s.page.keyboard.press("Delete");
    await s.page.getByText("The volume keeps no versions").waitFor();
    await s.page.keyboard.press("Escape");
    await s.page.getByRole("dialog").waitFor({ state: "detached" });
    expect(existsSync(disk("a.txt"))).toBe(true);
    await s.page.keyboard.press("Delete");
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await row(s.page, "a.txt").waitFor({ state: "detached" });
    expect(existsSync(disk("a.txt"))).toBe(false);
    await row(s.page, "b.txt").click();
    writeFileSync(disk("b.txt"), "changed by another program");
    await s.page.keyboard.press("Delete");
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await s.page.getByText("changed since you saw it").waitFor();
    expect(readFileSync(disk("b.txt"), "utf8")).toBe("changed by another program");
  });

  test("a file whose name is not text stays, and so does the file that has the printed name", async () => {
    writeFileSync(disk("a\\x80"), "text");
    writeFileSync(Buffer.concat([Buffer.from(disk("a")), Buffer.from([0x80])]), "not text");
    await open();
    await row(s.page, "a\\x80\ufffd").click();
    await s.page.keyboard.press("Delete");
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await s.page.getByText("the name is not text").first().waitFor();
    expect(readdirSync(disk()).length).toBe(2);
    await row(s.page, "a\\x80").click();
    await s.page.keyboard.press("Delete");
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await row(s.page, "a\\x80").waitFor({ state: "detached" });
    expect(existsSync(disk("a\\x80"))).toBe(false);
    expect(readdirSync(disk()).length).toBe(1);
  });

  test("a folder is deleted with what is in it, and nothing beside it", async () => {
    mkdirSync(disk("gone/inner"), { recursive: true });
    writeFileSync(disk("gone/inner/x"), "x");
    writeFileSync(disk("gone/y"), "y");
    writeFileSync(disk("stays"), "s");
    await open();
    await row(s.page, "gone").getByRole("checkbox").click();
    await s.page.getByRole("button", { name: "Delete" }).first().click();
    await s.page.getByText("Folders are deleted with everything in them.").waitFor();
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await row(s.page, "gone").waitFor({ state: "detached" });
    await expect.poll(() => readdirSync(disk())).toEqual(["stays"]);
  });

  test("a conflict replaces nothing before the choice: mine, theirs, both", async () => {
    for (const name of ["mine.txt", "theirs.txt", "both.txt"]) writeFileSync(disk(name), `server ${name}`);
    await open();
    for (const [name, choice, button] of [
      ["mine.txt", "Mine", "Keep mine"],
      ["theirs.txt", "Theirs", "Keep theirs"],
      ["both.txt", "Keep both", "Keep both"],
    ] as const) {
      await addFiles(s.page, [make(name, `local ${name}`)]);
      const dialog = s.page.getByRole("dialog");
      await dialog.getByText("Nothing is replaced before you choose.").waitFor();
      expect(readFileSync(disk(name), "utf8")).toBe(`server ${name}`);
      expect(await dialog.getByRole("radio", { checked: true }).count()).toBe(0);
      await dialog.getByRole("radio", { name: choice }).check();
      await dialog.getByRole("button", { name: button }).click();
      await idle(s.page);
    }
    expect(readFileSync(disk("mine.txt"), "utf8")).toBe("local mine.txt");
    expect(readFileSync(disk("theirs.txt"), "utf8")).toBe("server theirs.txt");
    expect(readFileSync(disk("both.txt"), "utf8")).toBe("server both.txt");
    const beside = readdirSync(disk()).filter((name) => /^both \(.*\)\.txt$/.test(name));
    expect(beside).toHaveLength(1);
    expect(readFileSync(disk(beside[0]!), "utf8")).toBe("local both.txt");
  });

  test("one choice serves all conflicts, and equal files pass without a question", async () => {
    const files: string[] = [];
    for (let i = 0; i < 12; i++) {
      writeFileSync(disk(`${i}.txt`), i < 4 ? `same ${i}` : `server ${i}`);
      files.push(make(`${i}.txt`, i < 4 ? `same ${i}` : `local ${i}`));
    }
    await open();
    await addFiles(s.page, files);
    const dialog = s.page.getByRole("dialog");
    await dialog.getByText("The same for").waitFor();
    await dialog.getByRole("checkbox").check();
    await dialog.getByRole("radio", { name: "Mine" }).check();
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await idle(s.page);
    for (let i = 0; i < 12; i++) expect(readFileSync(disk(`${i}.txt`), "utf8")).toBe(i < 4 ? `same ${i}` : `local ${i}`);
    await s.page.getByRole("link", { name: "Transfers", exact: true }).click();
    await s.page.getByText("4 equal on both sides").waitFor();
  });

  test("a version that appears during the question is not replaced either", async () => {
    writeFileSync(disk("a.txt"), "first");
    await open();
    await addFiles(s.page, [make("a.txt", "mine")]);
    const dialog = s.page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "Mine" }).check();
    writeFileSync(disk("a.txt"), "second, by another");
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await dialog.getByRole("button", { name: "Choose a version" }).waitFor();
    expect(readFileSync(disk("a.txt"), "utf8")).toBe("second, by another");
    await dialog.getByRole("button", { name: "Decide later" }).last().click();
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByText("You decide later. Nothing was replaced.").waitFor();
    // The transfer still waits for the user's choice after a reload.
    await s.page.reload();
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByRole("button", { name: "Take “\u2068a.txt\u2069” off the list" }).click();
    await s.page.getByText("a.txt").waitFor({ state: "detached" });
  });

  test("an upload is paused, goes on, and is cancelled without a trace", async () => {
    s.origin.slow = 1_000_000;
    await open();
    await addFiles(s.page, [make("slow.bin", bytes(4_000_000))]);
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByRole("button", { name: "Pause “\u2068slow.bin\u2069”" }).click();
    await s.page.getByText("Paused by you").waitFor();
    expect(existsSync(disk("slow.bin"))).toBe(false);
    await s.page.getByRole("button", { name: "Resume “\u2068slow.bin\u2069”" }).click();
    await s.page.getByText(/^Sending/).waitFor();
    await s.page.getByRole("button", { name: "Cancel “\u2068slow.bin\u2069”" }).click();
    await idle(s.page);
    expect(readdirSync(disk())).toEqual([]);
    s.origin.slow = undefined;
    await s.page.getByRole("link", { name: "Files" }).click();
    await addFiles(s.page, [make("slow.bin", bytes(4_000_000))]);
    await row(s.page, "slow.bin").waitFor();
    expect(readFileSync(disk("slow.bin")).equals(bytes(4_000_000))).toBe(true);
  });

  test("failed files are named with the reason, and go when they are retried", async () => {
    mkdirSync(disk("a.txt"));
    await open();
    await addFiles(s.page, [make("a.txt", "a"), make("b.txt", "b"), make(".deltic", "own")]);
    await row(s.page, "b.txt").waitFor();
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByText("Something else has this name on the server").waitFor();
    await s.page.getByText("The server refuses this name").waitFor();
    rmSync(disk("a.txt"), { recursive: true });
    await s.page.getByRole("button", { name: "Retry all 2" }).click();
    await expect.poll(() => existsSync(disk("a.txt"))).toBe(true);
    expect(readFileSync(disk("a.txt"), "utf8")).toBe("a");
    await s.page.reload();
  });

  test("a lost connection is waited for, and the upload goes on", async () => {
    s.origin.slow = 2_000_000;
    await open();
    await addFiles(s.page, [make("through.bin", bytes(4_000_000, 4))]);
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
    s.origin.cut = true;
    s.origin.drop();
    await s.page.locator(".line", { hasText: "The server does not answer." }).waitFor();
    expect(existsSync(disk("through.bin"))).toBe(false);
    s.origin.cut = false;
    s.origin.slow = undefined;
    await row(s.page, "through.bin").waitFor();
    await idle(s.page);
    expect(readFileSync(disk("through.bin")).equals(bytes(4_000_000, 4))).toBe(true);
  });

  test("a token may read alone: nothing is offered that would be refused", async () => {
    writeFileSync(disk("a.txt"), "a");
    const token = await s.server.add("reader", "--ro", "--volume", "files");
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${s.origin.url}files/${folder}/#t=${token}`);
    await row(page, "a.txt").waitFor();
    for (const name of ["Add files", "New folder", "Delete", "Rename"])
      expect(await page.getByRole("button", { name }).count(), name).toBe(0);
    await drop(page, [make("x.txt", "x")]);
    await page.waitForTimeout(300);
    expect(readdirSync(disk())).toEqual(["a.txt"]);
    await context.close();
  });

  test("a token may write alone: files are added, and none is replaced", async () => {
    const token = await s.server.add("writer", "--wo", "--volume", "files");
    const context = await browser.newContext();
    await context.addInitScript(withoutPickers);
    const page = await context.newPage();
    writeFileSync(disk("taken.bin"), "theirs");
    await page.goto(`${s.origin.url}files/${folder}/#t=${token}`);
    await addFiles(page, [make("fresh.bin", bytes(500_000)), make("taken.bin", bytes(600_000)), make("small.txt", "s")]);
    await expect.poll(() => readdirSync(disk()).sort()).toEqual(["fresh.bin", "small.txt", "taken.bin"]);
    await page.getByRole("link", { name: /^Transfers/ }).click();
    await page.getByText("Something else has this name on the server").waitFor();
    expect(readFileSync(disk("taken.bin"), "utf8")).toBe("theirs");
    expect(readFileSync(disk("fresh.bin")).equals(bytes(500_000))).toBe(true);
    await context.close();
  });

  test("names are shown as text, and cannot pose as other kinds of file", async () => {
    writeFileSync(disk("<img src=x onerror=alert(1)>.txt"), "x");
    writeFileSync(disk("photo\u202egnp.exe"), "x");
    symlinkSync("/etc/passwd", disk("link"));
    await open();
    await row(s.page, "<img src=x onerror=alert(1)>.txt").waitFor();
    // The server's lists have such letters as escapes, so the page cannot fetch that file yet.
    expect((await names(s.page)).join("")).not.toContain("\u202e");
    expect(await s.page.locator("#list img").count()).toBe(0);
    await row(s.page, "<img src=x onerror=alert(1)>.txt").click();
    await s.page.keyboard.press("F2");
    await s.page.getByRole("heading", { name: "Rename “\u2068<img src=x" }).waitFor();
    await s.page.keyboard.press("Escape");
  });

  test("changes of other clients appear by themselves", async () => {
    await open();
    await s.page.getByText("Nothing here yet").waitFor();
    await fetch(`http://${s.server.address}/v1/volumes/files/files/${folder}/other.txt`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${s.server.token}` },
      body: "by another client",
    });
    await row(s.page, "other.txt").waitFor();
  });

  test("a folder that is not there is told", async () => {
    await signIn(s, `files/${folder}/no/such/`);
    await s.page.getByText("There is no such folder").waitFor();
    for (const name of ["Share", "New folder", "Add files"]) expect(await s.page.getByRole("button", { name }).count()).toBe(0);
  });

  test("German and dark are kept", async () => {
    const context = await browser.newContext({ locale: "de-DE" });
    const page = await context.newPage();
    writeFileSync(disk("a.bin"), Buffer.alloc(1900));
    await page.goto(`${s.origin.url}files/${folder}/#t=${s.server.token}`);
    await page.getByText("1 Datei, 1,9\u00a0kB.").waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe("de");
    await page.getByRole("link", { name: "Einstellungen" }).first().click();
    await page.getByText("Dunkel", { exact: true }).click();
    await page.getByText("English").click();
    await page.reload();
    await page.getByRole("heading", { name: "Settings" }).waitFor();
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe("rgb(13, 16, 15)");
    await context.close();
  });
});

describe.skipIf(why)("a server with versions", () => {
  let s: Setup;
  beforeAll(async () => void (s = await setUp(browser, { options: ["--versions", "10"] })));
  afterAll(() => s?.stop());

  test("deleted files come back by the line's Undo", async () => {
    writeFileSync(s.server.disk("files", "a.txt"), "precious");
    await signIn(s);
    await row(s.page, "a.txt").click();
    await s.page.keyboard.press("Delete");
    await s.page.getByText("“\u2068a.txt\u2069” deleted").first().waitFor();
    expect(existsSync(s.server.disk("files", "a.txt"))).toBe(false);
    await s.page.getByRole("button", { name: "Undo" }).click();
    await row(s.page, "a.txt").waitFor();
    expect(readFileSync(s.server.disk("files", "a.txt"), "utf8")).toBe("precious");
    expect(s.wrongs).toEqual([]);
  });

  test("Undo brings back what can come back, and tells which file cannot", async () => {
    const disk = (name: string) => s.server.disk("files", name);
    for (const name of ["b.txt", "c.txt", "d.txt"]) writeFileSync(disk(name), name);
    await signIn(s);
    for (const name of ["b.txt", "c.txt", "d.txt"]) await row(s.page, name).getByRole("checkbox").click();
    writeFileSync(disk("b.txt"), "changed by another program");
    await s.page.locator("#list").focus();
    await s.page.keyboard.press("Delete");
    // One file stays, and the deletion of the other files can be undone.
    await s.page.getByText("“\u2068b.txt\u2069” changed since you saw it, and was not deleted").first().waitFor();
    expect([existsSync(disk("c.txt")), existsSync(disk("d.txt"))]).toEqual([false, false]);
    writeFileSync(disk("c.txt"), "made again");
    await s.page.getByRole("button", { name: "Undo" }).click();
    await s.page.getByText("“\u2068c.txt\u2069” is here already").first().waitFor();
    await expect.poll(() => existsSync(disk("d.txt"))).toBe(true);
    const contents = ["b.txt", "c.txt", "d.txt"].map((name) => readFileSync(disk(name), "utf8"));
    expect(contents).toEqual(["changed by another program", "made again", "d.txt"]);
  });

  const kept = () => s.page.evaluate(() => localStorage.getItem("deltic.token"));

  test("after a restart of the server the page goes on without asking, also after a reload", async () => {
    const printed = s.server.token;
    await signIn(s);
    await expect.poll(kept).not.toBe(printed);
    const lasting = await kept();
    await s.server.end();
    await s.server.start();
    expect(s.server.token).not.toBe(printed);
    await addFiles(s.page, [{ name: "later.txt", mimeType: "text/plain", buffer: Buffer.from("later") }]);
    await row(s.page, "later.txt").waitFor({ timeout: 60_000 });
    expect(readFileSync(s.server.disk("files", "later.txt"), "utf8")).toBe("later");
    await s.page.reload();
    await row(s.page, "later.txt").waitFor();
    expect(await kept()).toBe(lasting);
  });

  test("signing out revokes the token, and a token that was revoked ends the page's session", async () => {
    await signIn(s);
    await expect.poll(kept).not.toBe(s.server.token);
    const lasting = (await kept())!;
    const asked = () => fetch(`http://${s.server.address}/v1/volumes`, { headers: { Authorization: `Bearer ${lasting}` } });
    expect((await asked()).status).toBe(200);
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByRole("button", { name: "Sign out" }).click();
    await s.page.getByText("You are signed out").waitFor();
    await expect.poll(async () => (await asked()).status).toBe(401);
    await signIn(s);
    await expect.poll(kept).not.toBe(s.server.token);
    await s.server.revoke("page");
    await s.page.reload();
    // The page may learn of the revocation before the reload. Then the reloaded page has no earlier sign-in to mention.
    await s.page.getByText(/Your sign-in ended|Open the address/).first().waitFor({ timeout: 60_000 });
  });

  test("with a token that stays, a restart of the server is survived in the middle of an upload", async () => {
    const token = await s.server.add("laptop");
    s.origin.slow = 400_000;
    await s.page.goto(`${s.origin.url}files/#t=${token}`);
    await row(s.page, "a.txt").waitFor();
    await addFiles(s.page, [{ name: "long.bin", mimeType: "", buffer: bytes(4_000_000, 8) }]);
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
    await s.server.end();
    await s.page.locator(".line", { hasText: "The server does not answer." }).waitFor();
    s.origin.slow = undefined;
    await s.server.start();
    await row(s.page, "long.bin").waitFor({ timeout: 60_000 });
    await idle(s.page);
    expect(readFileSync(s.server.disk("files", "long.bin")).equals(bytes(4_000_000, 8))).toBe(true);
  });
});

test.skipIf(why)("the page works below a path of a proxy", async () => {
  const s = await setUp(browser, { prefix: "/sync/" });
  onTestFinished(s.stop);
  mkdirSync(s.server.disk("files", "in"));
  await signIn(s, "-/files/");
  await row(s.page, "in").getByRole("link").click();
  await s.page.getByText("Nothing here yet").waitFor();
  expect(s.page.url()).toBe(`${s.origin.url}-/files/in/`);
  await addFiles(s.page, [{ name: "x.txt", mimeType: "text/plain", buffer: Buffer.from("x") }]);
  await row(s.page, "x.txt").waitFor();
  expect(readFileSync(s.server.disk("files", "in", "x.txt"), "utf8")).toBe("x");
  expect(s.wrongs).toEqual([]);
});
