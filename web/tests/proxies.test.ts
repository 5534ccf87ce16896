/** Uploads through proxies that cut WebSockets, refuse long bodies and lose connections. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addFiles, idle, launch, setUp, signIn, type Setup } from "./page";
import { missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

const MIB = 1 << 20;

describe.skipIf(why)("behind a proxy without WebSockets", () => {
  let browser: Browser;
  let s: Setup;
  let local: string;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser);
    local = mkdtempSync(join(tmpdir(), "deltic-local-"));
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
    rmSync(local, { recursive: true, force: true });
  });
  beforeEach(async () => {
    for (const name of readdirSync(disk())) if (name !== ".deltic") rmSync(disk(name));
    Object.assign(s.origin, { sockets: false, cut: false, slow: undefined, longest: undefined, bodies: [], seen: [] });
    await s.page.goto("about:blank");
    await signIn(s);
  });
  afterEach(() => expect(s.wrongs.splice(0)).toEqual([]));

  const disk = (...path: string[]) => s.server.disk("files", ...path);

  function make(name: string, length: number): { path: string; content: Buffer } {
    const content = Buffer.alloc(length);
    for (let i = 0, x = 7; i < length; i += 4) content.writeUInt32LE((x = (Math.imul(x, 1664525) + 1013904223) >>> 0), i);
    const path = join(local, name);
    writeFileSync(path, content);
    return { path, content };
  }

  async function arrives(name: string, content: Buffer): Promise<void> {
    await expect.poll(() => existsSync(disk(name)), { timeout: 60_000 }).toBe(true);
    await idle(s.page);
    expect(readFileSync(disk(name)).equals(content)).toBe(true);
  }

  test("a body is 1 MiB long until it has passed, and 8 MiB at most", async () => {
    const { path, content } = make("long.bin", 40 * MIB);
    await addFiles(s.page, [path]);
    await arrives("long.bin", content);
    const bodies = s.origin.bodies.filter((length) => length > 0);
    console.log(`bodies of 40 MiB: ${bodies.join(" ")}`);
    expect(bodies[0]).toBe(MIB);
    expect(Math.max(...bodies)).toBeLessThanOrEqual(8 * MIB);
    expect(bodies.reduce((sum, length) => sum + length, 0)).toBe(40 * MIB);
  });

  test("a proxy that refuses bodies over 1 MiB is no obstacle, also once longer ones had passed", async () => {
    const first = make("first.bin", 12 * MIB);
    await addFiles(s.page, [first.path]);
    await arrives("first.bin", first.content);
    s.origin.longest = MIB;
    const second = make("second.bin", 12 * MIB);
    await addFiles(s.page, [second.path]);
    await arrives("second.bin", second.content);
  });

  test("a connection that is lost goes on with the byte at which it broke off", async () => {
    const { path, content } = make("lost.bin", 12 * MIB);
    s.origin.slow = 4_000_000;
    await addFiles(s.page, [path]);
    await expect.poll(() => s.origin.bodies.length).toBeGreaterThan(3);
    s.origin.cut = true;
    s.origin.drop();
    await s.page.locator(".line", { hasText: "The server does not answer." }).waitFor();
    Object.assign(s.origin, { cut: false, slow: undefined });
    await arrives("lost.bin", content);
    expect(s.origin.seen.filter((seen) => seen.startsWith("PUT"))).toHaveLength(1);
  });

  test("after a restart of the server, which forgets parts, the file is sent again", async () => {
    const { path, content } = make("again.bin", 12 * MIB);
    s.origin.slow = 4_000_000;
    await addFiles(s.page, [path]);
    await expect.poll(() => s.origin.bodies.length).toBeGreaterThan(3);
    await s.server.kill();
    await s.page.locator(".line", { hasText: "The server does not answer." }).waitFor();
    s.origin.slow = undefined;
    await s.server.start();
    await arrives("again.bin", content);
  });

  test("an upload that is cancelled leaves nothing at the server", async () => {
    const { path } = make("gone.bin", 12 * MIB);
    // The server that was killed above left its part.
    const parts = () => readdirSync(disk(), { recursive: true }).filter((name) => String(name).endsWith(".tmp"));
    const before = parts();
    s.origin.slow = 2_000_000;
    await addFiles(s.page, [path]);
    await expect.poll(() => s.origin.bodies.length).toBeGreaterThan(2);
    await s.page.getByRole("link", { name: "Transfers", exact: true }).click();
    await s.page.getByRole("button", { name: /^Cancel/ }).click();
    await expect.poll(() => s.origin.seen.some((seen) => seen.startsWith("DELETE"))).toBe(true);
    s.origin.slow = undefined;
    await expect.poll(parts).toEqual(before);
    expect(existsSync(disk("gone.bin"))).toBe(false);
  });
});
