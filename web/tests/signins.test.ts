/** Which token the page uses after a change of users, and which transfers continue under that token. */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addFiles, idle, launch, setUp, signIn, type Setup } from "./page";
import { missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

describe.skipIf(why)("sign-ins", () => {
  let browser: Browser;
  let s: Setup;

  beforeAll(async () => {
    browser = await launch();
    s = await setUp(browser, { prefix: "/a/" });
  });
  afterAll(async () => {
    await s?.stop();
    await browser?.close();
  });
  beforeEach(async () => {
    for (const name of readdirSync(disk())) if (name !== ".deltic") rmSync(disk(name));
    Object.assign(s.origin, { cut: false, slow: undefined, seen: [] });
    await s.page.goto("about:blank");
    await s.page.goto(`${s.origin.url}files/`);
    await s.page.evaluate(() => localStorage.clear());
    await s.page.goto("about:blank");
    await signIn(s);
    await expect.poll(kept).not.toBe(s.server.token);
  });
  afterEach(() => expect(s.wrongs.splice(0)).toEqual([]));

  const disk = (...path: string[]) => s.server.disk("files", ...path);
  const kept = () => s.page.evaluate(() => localStorage.getItem("deltic.token/a/"));
  const file = (name: string, length: number) => ({ name, mimeType: "", buffer: Buffer.alloc(length, name) });
  const status = async (token: string) => (await fetch(`http://${s.server.address}/v1/volumes`, { headers: { Authorization: `Bearer ${token}` } })).status;

  /** Starts an upload that takes several seconds. */
  async function begin(name: string): Promise<void> {
    s.origin.slow = 200_000;
    await addFiles(s.page, [file(name, 4_000_000)]);
    await s.page.locator(".line", { hasText: "1 move" }).waitFor();
  }

  test("servers below paths of one origin share neither tokens nor transfers", async () => {
    const names = await s.page.evaluate(async () => [Object.keys(localStorage), (await indexedDB.databases()).map(({ name }) => name)]);
    expect(names[0]).not.toContain("deltic.token");
    expect(names[1]).toEqual(["deltic/a/"]);
    await s.page.evaluate(() => {
      localStorage.setItem("deltic.token/b/", localStorage.getItem("deltic.token/a/")!);
      localStorage.removeItem("deltic.token/a/");
    });
    await s.page.reload();
    await s.page.getByText("Open the address that the server printed").waitFor();
  });

  test("transfers of an earlier sign-in wait for a press, and are not named before", async () => {
    await begin("secret.bin");
    await s.page.evaluate(() => localStorage.clear());
    await s.page.close();
    s.page = await s.context.newPage();
    s.origin.slow = undefined;
    const other = await s.server.add("other");
    await s.page.goto(`${s.origin.url}files/#t=${other}`);
    await s.page.locator(".shell").waitFor();
    await s.page.goto(`${s.origin.url}files/#transfers`);
    const card = s.page.getByRole("region", { name: "1 transfer of an earlier sign-in" });
    await card.waitFor();
    expect(await s.page.locator("body").innerText()).not.toContain("secret");
    expect(existsSync(disk("secret.bin"))).toBe(false);
    await s.page.reload();
    await card.getByRole("button", { name: "Go on as the present sign-in" }).click();
    await s.page.getByText("The page was closed meanwhile. Choose the file again").first().waitFor();
    await card.waitFor({ state: "detached" });
    await s.page.reload();
    await s.page.getByText("The page was closed meanwhile. Choose the file again").first().waitFor();
    await s.page.getByRole("button", { name: /^Take .* off the list$/ }).first().click();
  });

  test("a link that any site may open signs nobody in, and sends nothing that another sign-in began", async () => {
    const other = await s.server.add("another");
    await begin("mine.bin");
    await s.page.evaluate((token) => (location.hash = `t=${token}`), other);
    await expect.poll(() => s.page.url()).not.toContain(other);
    await s.server.revoke("page");
    await s.page.getByText("Your sign-in ended").waitFor();
    expect(await kept()).toBeNull();
    s.origin.slow = undefined;
    await s.page.getByRole("button", { name: "Sign in" }).click();
    await s.page.locator(".shell").waitFor();
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByText("Your sign-in ended before this was sent.").first().waitFor();
    expect(existsSync(disk("mine.bin"))).toBe(false);
    await s.page.getByRole("button", { name: "Try again" }).first().click();
    await expect.poll(() => existsSync(disk("mine.bin"))).toBe(true);
    await idle(s.page);
    expect(readFileSync(disk("mine.bin")).length).toBe(4_000_000);
  });

  test("a file that is being sent stops at a sign-out in another tab, and does not go on under the next sign-in", async () => {
    const [one, two] = [await s.server.add("one"), await s.server.add("two")];
    await s.page.evaluate(() => localStorage.clear());
    await s.page.goto("about:blank");
    await s.page.goto(`${s.origin.url}files/#t=${one}`);
    await s.page.locator(".shell").waitFor();
    const tab = await s.context.newPage();
    await tab.goto(`${s.origin.url}files/#settings`);
    await begin("mine.bin");
    await expect.poll(() => s.origin.seen.some((line) => line.startsWith("PATCH"))).toBe(true);
    // The next user signs in while the request is under way.
    await tab.getByRole("button", { name: "Sign out" }).click();
    await tab.getByText("You are signed out").waitFor();
    s.origin.seen.length = 0;
    await tab.evaluate((token) => (location.hash = `t=${token}`), two);
    await tab.locator(".shell").waitFor();
    await tab.close();
    s.origin.slow = undefined;
    await s.page.getByRole("link", { name: /^Transfers/ }).click();
    await s.page.getByText("Your sign-in ended before this was sent.").first().waitFor();
    // Long enough for the request in progress, at the rate of `begin`.
    await s.page.waitForTimeout(6_000);
    expect(s.origin.seen.filter((line) => /^(PUT|PATCH)|uploads/.test(line))).toEqual([]);
    expect(existsSync(disk("mine.bin"))).toBe(false);
    expect(await kept()).toBe(two);
    await s.page.getByRole("button", { name: "Try again" }).first().click();
    await expect.poll(() => existsSync(disk("mine.bin"))).toBe(true);
    await idle(s.page);
    expect(readFileSync(disk("mine.bin")).length).toBe(4_000_000);
  });

  test("a sign-out without a network reaches the server later", async () => {
    const lasting = (await kept())!;
    s.origin.cut = true;
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByRole("button", { name: "Sign out" }).click();
    await s.page.getByText("the server ends your sign-in as soon as it answers").waitFor();
    await s.page.reload();
    await s.page.getByText("the server ends your sign-in as soon as it answers").waitFor();
    expect(await status(lasting)).toBe(200);
    s.origin.cut = false;
    await expect.poll(() => status(lasting)).toBe(401);
    await s.page.getByText("This device has forgotten the token.").or(s.page.getByText("It has the key in it")).waitFor();
    expect(await s.page.evaluate(() => Object.values(localStorage).filter((value) => value.startsWith("dlt_")))).toEqual([]);
  });

  test("a sign-out that the server fails to carry out is tried again, also after a reload", async () => {
    const lasting = (await kept())!;
    const session = "**/v1/session";
    await s.page.route(session, (route) => (route.request().method() === "DELETE" ? route.fulfill({ status: 500 }) : route.continue()));
    await s.page.goto(`${s.origin.url}files/#settings`);
    await s.page.getByRole("button", { name: "Sign out" }).click();
    await s.page.getByText("The server cannot end your sign-in yet").waitFor();
    await s.page.reload();
    await s.page.getByText("The server cannot end your sign-in yet").waitFor();
    expect(await status(lasting)).toBe(200);
    await s.page.unroute(session);
    await expect.poll(() => status(lasting)).toBe(401);
    await expect.poll(() => s.page.evaluate(() => Object.values(localStorage).filter((value) => value.startsWith("dlt_")))).toEqual([]);
  });
});
