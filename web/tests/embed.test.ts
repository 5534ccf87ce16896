/** The npm package in another page: delta sync in a worker of twenty lines. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { launch, setUp, type Setup } from "./page";
import { engineMissing, missing } from "./server";

const why = missing() ?? engineMissing();
if (why) console.log(`SKIPPED: ${why}`);

const engine = fileURLToPath(new URL("../engine", import.meta.url));
/** The program of a page that embeds the package. */
const worker = `
  import { open } from "/deltic/src/browser.js";
  onmessage = async ({ data: { token, old, edited } }) => {
    const server = open({ url: location.origin, token });
    const place = { volume: "files", path: "embedded/a.bin" };
    const first = await server.upload(old, place);
    const edit = await server.upload(edited, place);
    const down = await server.download(place, old);
    const same = await server.download(place, edited);
    const bytes = await down.file.bytes?.() ?? new Uint8Array(await down.file.arrayBuffer());
    await down.discard();
    server.close();
    postMessage({ first: first.sent, edit: edit.sent, down: down.received, isSame: same.file === edited, bytes });
  };`;

describe.skipIf(why)("the package in another page", () => {
  let browser: Browser;
  let s: Setup;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser);
    s.origin.more.set("/other.html", "<title>Another page</title>");
    s.origin.more.set("/other.js", worker);
    for (const folder of ["src", "dist"])
      for (const name of readdirSync(`${engine}/${folder}`)) s.origin.more.set(`/deltic/${folder}/${name}`, readFileSync(`${engine}/${folder}/${name}`));
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });

  test.each([true, false])("sends and fetches what is new; WebSockets: %s", async (sockets) => {
    s.origin.sockets = sockets;
    await s.page.goto(`${s.origin.url}other.html`);
    const { edited, ...counts } = await s.page.evaluate(async (token) => {
      const noise = new Uint8Array(4_000_000);
      for (let at = 0; at < noise.length; at += 50_000) crypto.getRandomValues(noise.subarray(at, at + 50_000));
      const old = new File([noise], "a.bin");
      const edited = new File([noise.subarray(0, 1_000_000), "inserted", noise.subarray(1_000_000)], "a.bin");
      const worker = new Worker("/other.js", { type: "module" });
      const ended = new Promise<MessageEvent>((resolve, reject) => Object.assign(worker, { onmessage: resolve, onerror: reject }));
      worker.postMessage({ token, old, edited });
      const { bytes, ...counts } = (await ended).data;
      const sum = async (bytes: BufferSource) => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))).join();
      return { ...counts, isEqual: (await sum(bytes)) === (await sum(await edited.arrayBuffer())), edited: edited.size };
    }, s.server.token);
    console.log(`package in a page: ${JSON.stringify(counts)}`);
    expect(counts).toMatchObject({ isEqual: true, isSame: true });
    expect(counts.first).toBeGreaterThan(4_000_000);
    expect(Math.max(counts.edit, counts.down)).toBeLessThan(4_000);
    expect(readFileSync(s.server.disk("files", "embedded/a.bin")).length).toBe(edited);
  });
});
