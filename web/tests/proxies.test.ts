/** Uploads through proxies that cut WebSockets, refuse long bodies and lose connections. */
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { addFiles, idle, launch, row, setUp, signIn, type Setup } from "./page";
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
    // The server that was killed above left a part of the file.
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

/** Returns the reason why nginx cannot be tested here; undefined if nginx can be tested. */
function nginxMissing(): string | undefined {
  try {
    execFileSync("nginx", ["-v"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "no nginx: run apt-get install nginx";
  }
}

/** Starts nginx in front of an address. nginx gets no other setting, so all settings are the defaults. */
async function startNginx(address: string, folder: string): Promise<{ url: string; stop: () => Promise<void> }> {
  const port = await new Promise<number>((resolve) => {
    const free = createServer().listen(0, "127.0.0.1", () => {
      const { port } = free.address() as AddressInfo;
      free.close(() => resolve(port));
    });
  });
  mkdirSync(folder);
  // Workers of nginx run as another user, so the folder for long bodies is open to all users.
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${folder}/${kind};`);
  const server = `server { listen 127.0.0.1:${port}; location / { proxy_pass ${address.replace(/\/$/, "")}; } }`;
  const settings = `pid ${folder}/pid; error_log ${folder}/error.log; events {} http { access_log off; ${temporary.join(" ")} ${server} }`;
  writeFileSync(join(folder, "nginx.conf"), settings);
  const child = spawn("nginx", ["-p", folder, "-c", join(folder, "nginx.conf"), "-g", "daemon off;"], { stdio: "ignore" });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const url = `http://127.0.0.1:${port}/`;
  await vi.waitUntil(() => fetch(`${url}healthz`).then((answer) => answer.ok, () => false), { timeout: 10_000 });
  return { url, stop: async () => void (child.kill("SIGTERM"), await ended) };
}

const whyNot = why ?? nginxMissing();
if (whyNot && !why) console.log(`SKIPPED: ${whyNot}`);

describe.skipIf(whyNot)("behind nginx in its default settings", () => {
  let browser: Browser;
  let s: Setup;
  let nginx: Awaited<ReturnType<typeof startNginx>>;
  let local: string;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser);
    local = mkdtempSync(join(tmpdir(), "deltic-local-"));
    execFileSync("chmod", ["711", local]);
    nginx = await startNginx(s.origin.url, join(local, "nginx"));
    await s.page.goto(`${nginx.url}files/#t=${s.server.token}`);
    await s.page.locator(".shell").waitFor();
  });
  afterAll(async () => {
    await nginx?.stop();
    await s?.stop();
    await browser?.close();
    rmSync(local, { recursive: true, force: true });
  });

  const disk = (...path: string[]) => s.server.disk("files", ...path);

  test("a new file goes up in pieces, an edit as a delta, and both come down", async () => {
    const content = randomBytes(12 * MIB);
    const path = join(local, "a.bin");
    writeFileSync(path, content);
    await addFiles(s.page, [path]);
    await expect.poll(() => existsSync(disk("a.bin")), { timeout: 60_000 }).toBe(true);
    await idle(s.page);
    expect(readFileSync(disk("a.bin")).equals(content)).toBe(true);
    console.log(`bodies through nginx: ${s.origin.bodies.join(" ")}`);
    expect(Math.max(...s.origin.bodies)).toBeLessThanOrEqual(MIB);

    s.origin.bodies = [];
    const next = Buffer.concat([content.subarray(0, MIB), Buffer.from("inserted"), content.subarray(MIB)]);
    writeFileSync(path, next);
    await addFiles(s.page, [path]);
    const dialog = s.page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "Mine" }).check();
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await idle(s.page);
    expect(readFileSync(disk("a.bin")).equals(next)).toBe(true);
    expect(s.origin.bodies.reduce((sum, length) => sum + length, 0)).toBeLessThan(20_000);

    await row(s.page, "a.bin").click();
    const [download] = await Promise.all([s.page.waitForEvent("download"), s.page.keyboard.press("Enter")]);
    expect(readFileSync(await download.path()).equals(next)).toBe(true);
  });

  test("a folder is made", async () => {
    await s.page.getByRole("button", { name: "New folder" }).click();
    await s.page.getByRole("dialog").getByRole("textbox").fill("inside");
    await s.page.getByRole("dialog").getByRole("textbox").press("Enter");
    await expect.poll(() => existsSync(disk("inside"))).toBe(true);
    await row(s.page, "inside").waitFor();
    expect(s.wrongs).toEqual([]);
  });
});
