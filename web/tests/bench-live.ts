/** `BENCH=live npx vitest run`: the time from a save on one device to the change on another, and a checkout of many files. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { METERS } from "./devtools";
import { launch, setUp, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

const RUNS = Number(process.env["BENCH_RUNS"] ?? 15);
const FILES = Number(process.env["BENCH_FILES"] ?? 10_000);

describe.skipIf(why)("bench live", { timeout: 900_000, retry: 0 }, () => {
  let browser: Browser;
  let s: Setup;
  const contexts: BrowserContext[] = [];

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { pickers: true });
  });
  afterAll(async () => {
    for (const context of contexts) await context.close();
    await s?.stop();
    await browser?.close();
  });

  /** Opens the page as another device, and syncs an own folder with `folder` of the volume. */
  async function device(folder: string, meanwhile: (page: Page) => Promise<unknown> = () => Promise.resolve()): Promise<Page> {
    const context = await browser.newContext({ locale: "en-GB" });
    contexts.push(context);
    await context.addInitScript(() => {
      Object.assign(window, { showDirectoryPicker: async () => (await navigator.storage.getDirectory()).getDirectoryHandle("synced", { create: true }) });
    });
    await context.addInitScript({ content: METERS });
    const page = await context.newPage();
    page.setDefaultTimeout(200_000);
    await page.goto(`${s.origin.url}#t=${s.server.token}`);
    await page.locator(".shell").waitFor();
    await page.goto(`${s.origin.url}files/${folder}/#synced`);
    await meanwhile(page);
    await page.getByRole("button", { name: /^Sync .* with a folder$/ }).click();
    await page.getByRole("status").filter({ hasText: "In sync" }).waitFor();
    return page;
  }

  for (const [what, length] of [["10 kB", 10_000], ["10 MB", 10_000_000]] as const)
    test(`a save of ${what} seen by another device`, async () => {
      const folder = `edit-${length}`;
      mkdirSync(s.server.disk("files", folder));
      const [one, other] = [await device(folder), await device(folder)];
      const save = (nth: number) =>
        one.evaluate(
          async ([length, nth]) => {
            const bytes = new Uint32Array(length! / 4);
            let x = 9;
            for (let i = 0; i < bytes.length; i++) {
              x ^= x << 13;
              x ^= x >>> 17;
              x ^= x << 5;
              bytes[i] = x;
            }
            bytes[bytes.length >> 1] = nth!;
            const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle("synced");
            const out = await (await dir.getFileHandle("file.bin", { create: true })).createWritable();
            await out.write(bytes);
            await out.close();
            return Date.now();
          },
          [length, nth] as const,
        );
      const seen = (nth: number) =>
        other.evaluate(
          async ([length, nth]) => {
            const at = (length! >> 3) * 4;
            const end = Date.now() + 30_000;
            for (;;) {
              if (Date.now() > end) throw new Error("never seen");
              await new Promise((resolve) => setTimeout(resolve, 4));
              try {
                const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle("synced");
                const file = await (await dir.getFileHandle("file.bin")).getFile();
                if (new Uint32Array(await file.slice(at, at + 4).arrayBuffer())[0] === nth) return Date.now();
              } catch {
                // The file is not there yet, or is being replaced.
              }
            }
          },
          [length, nth] as const,
        );
      const times: number[] = [];
      for (let run = 0; run <= RUNS; run++) {
        const looking = seen(run + 1);
        const began = await save(run + 1);
        const time = (await looking) - began;
        if (run > 0) times.push(time); // the first transfer loads the engine
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
      times.sort((a, b) => a - b);
      const late = await Promise.all([one, other].map((page) => page.evaluate("meters.stagnation")));
      console.log(`| live: save of ${what} seen by another device | p50 ${times[times.length >> 1]} ms | p90 ${times[Math.floor(times.length * 0.9)]} ms | stagnation ${late.map((ms) => Math.round(ms as number))} ms |`);
      for (const page of [one, other]) console.log(await page.locator(".evs .soft").allTextContents());
      for (const context of contexts.splice(0)) await context.close();
    });

  test("a checkout between two branches", async () => {
    const folder = "checkout";
    mkdirSync(s.server.disk("files", folder));
    /** Writes the branch: a tenth of the files differ, a twentieth is in one branch alone. */
    const checkout = (page: Page, branch: number) =>
      page.evaluate(
        async ([files, branch]) => {
          const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("synced", { create: true });
          const text = "a line of a source file, of a usual length\n".repeat(90);
          let written = 0;
          for (let no = 0; no < files!; no++) {
            const isOnly = no % 20 === 7;
            const differs = no % 10 === 3 || isOnly;
            if (branch! > 0 && !differs) continue;
            const dir = await root.getDirectoryHandle(`d${no % 200}`, { create: true });
            if (isOnly && no % 40 === (branch! % 2 ? 7 : 27)) {
              await dir.removeEntry(`${no}.txt`).catch(() => undefined);
              continue;
            }
            const out = await (await dir.getFileHandle(`${no}.txt`, { create: true })).createWritable();
            await out.write(`${no} ${differs ? branch : 0}\n${text}`);
            await out.close();
            written++;
          }
          return written;
        },
        [FILES, branch] as const,
      );
    const here = async (page: Page) =>
      page.evaluate(async () => {
        const found: [string, string][] = [];
        const walk = async (dir: FileSystemDirectoryHandle, prefix: string): Promise<void> => {
          for await (const [name, handle] of dir.entries()) {
            if (handle.kind === "directory") await walk(handle as FileSystemDirectoryHandle, `${prefix}${name}/`);
            else if (!name.endsWith(".crswap")) found.push([prefix + name, (await (await (handle as FileSystemFileHandle).getFile()).text()).split("\n")[0]!]);
          }
        };
        await walk(await (await navigator.storage.getDirectory()).getDirectoryHandle("synced"), "");
        return found.sort();
      });
    const there = () => {
      const root = s.server.disk("files", folder);
      const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      const one = (path: string): [string, string] => [relative(root, path), readFileSync(path, "utf8").split("\n")[0]!];
      return files.map((entry) => one(join(entry.parentPath, entry.name))).sort();
    };
    /** True if the server has the branch, judged by the files that differ: a look at all files would cost the server time. */
    const isThere = (branch: number) => {
      for (let no = 3; no < FILES; no += no % 10 === 3 ? 4 : 6) {
        const isOnly = no % 20 === 7;
        if (!isOnly && no % 10 === 7) continue;
        const path = s.server.disk("files", folder, `d${no % 200}`, `${no}.txt`);
        const isGone = isOnly && no % 40 === (branch % 2 ? 7 : 27);
        if (existsSync(path) === isGone) return false;
        if (!isGone && !readFileSync(path, "utf8").startsWith(`${no} ${branch}\n`)) return false;
      }
      return true;
    };
    let began = 0;
    const page = await device(folder, async (page) => {
      await checkout(page, 0);
      began = Date.now();
    });
    const equal = async (branch: number) => {
      for (const end = Date.now() + 600_000; !isThere(branch); await new Promise((resolve) => setTimeout(resolve, 50)))
        if (Date.now() > end) throw new Error("never equal");
    };
    await equal(0);
    console.log(`| live: first sync of ${FILES} files of 4 kB | ${((Date.now() - began) / 1000).toFixed(1)} s |`);
    await page.getByRole("status").filter({ hasText: "In sync" }).waitFor();
    expect(await here(page)).toEqual(there());
    began = Date.now();
    const other = await device(folder);
    console.log(`| live: first sync of these files to another device | ${((Date.now() - began) / 1000).toFixed(1)} s |`);
    await page.evaluate("Object.assign(meters, { stagnation: 0, gap: 0 })");
    const begunWrites = Date.now();
    const written = await checkout(page, 1);
    const writing = Date.now() - begunWrites;
    began = Date.now();
    await equal(1);
    const atServer = Date.now() - began;
    await other.waitForFunction(
      async ([files, branch]) => {
        const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("synced");
        for (let no = 3; no < files!; no += no % 10 === 3 ? 4 : 6) {
          const isOnly = no % 20 === 7;
          if (!isOnly && no % 10 === 7) continue;
          const isGone = isOnly && no % 40 === (branch! % 2 ? 7 : 27);
          const file = await root.getDirectoryHandle(`d${no % 200}`).then((dir) => dir.getFileHandle(`${no}.txt`)).then((handle) => handle.getFile(), () => undefined);
          if ((file === undefined) !== isGone) return false;
          if (file && !(await file.slice(0, 20).text()).startsWith(`${no} ${branch}\n`)) return false;
        }
        return true;
      },
      [FILES, 1] as const,
      { polling: 100, timeout: 300_000 },
    );
    const atOther = Date.now() - began;
    expect(await here(page)).toEqual(there());
    await other.getByRole("status").filter({ hasText: "In sync" }).waitFor();
    expect(await here(other)).toEqual(there());
    const { stagnation, gap } = await page.evaluate<{ stagnation: number; gap: number }>("meters");
    console.log(`| live: checkout, ${written} of ${FILES} files written in ${(writing / 1000).toFixed(1)} s | the server is equal ${(atServer / 1000).toFixed(1)} s later, another device ${(atOther / 1000).toFixed(1)} s | stagnation ${stagnation.toFixed(0)} ms, longest wait ${gap.toFixed(0)} ms |`);
  });
});
