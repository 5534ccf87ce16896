/** The search below a folder, the use of links, and the list of unfinished uploads, in a real browser. */
import { mkdirSync, writeFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { launch, row, setUp, signIn, type Setup } from "./page";
import { missing } from "./server";

const why = missing();
if (why) console.log(`SKIPPED: ${why}`);

let browser: Browser;
beforeAll(async () => {
  if (!why) browser = await launch();
});
afterAll(() => browser?.close());

describe.skipIf(why)("the page", () => {
  let s: Setup;
  beforeAll(async () => {
    s = await setUp(browser);
    mkdirSync(s.server.disk("files", "house", "plans"), { recursive: true });
    for (const name of ["budget.txt", "house/plans/Budget 2026.ods", "house/club budget.xlsx", "house/other.txt"])
      writeFileSync(s.server.disk("files", ...name.split("/")), name);
  });
  afterAll(async () => {
    expect(s.wrongs).toEqual([]);
    await s.stop();
  });

  test("a search finds names in subfolders, and opens the folder of a found file", async () => {
    await signIn(s);
    await s.page.fill("#search", "budget");
    await row(s.page, "budget.txt").waitFor();
    const below = s.page.getByRole("region", { name: "In subfolders" });
    await below.getByText("2 names in subfolders.").waitFor();
    expect(await below.getByRole("link").allTextContents()).toEqual([
      expect.stringContaining("club budget.xlsx"),
      expect.stringContaining("Budget 2026.ods"),
    ]);
    await below.getByRole("link", { name: "Budget 2026" }).click();
    await row(s.page, "Budget 2026.ods").waitFor();
    expect(new URL(s.page.url()).pathname).toBe("/files/house/plans/");
    // The pane tells about the found file.
    await s.page.getByRole("heading", { name: "Budget 2026.ods" }).waitFor();
  });

  test("names that only subfolders have are found, and other texts are told as unknown", async () => {
    await signIn(s);
    await s.page.fill("#search", "other");
    await s.page.getByRole("region", { name: "In subfolders" }).getByRole("link", { name: /other/ }).waitFor();
    await s.page.fill("#search", "nowhere");
    await s.page.getByText(/No name has/).waitFor();
  });

  test("the list of links tells when a link was used, and the server's screen cancels an unfinished upload", async () => {
    const ask = (path: string, init: RequestInit, token = s.server.token) =>
      fetch(`http://${s.server.address}/v1/${path}`, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });
    await signIn(s);
    await s.page.goto(`${s.origin.url}files/#shared`);
    await s.page.getByRole("heading", { name: "Shared", exact: true }).waitFor();
    // Links belong to the token of the page's session.
    const session = await s.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }).match(/dlt_[\w-]+/)![0]);
    const name = `builder ${Date.now()}`;
    const made = await ask("tokens", { method: "POST", body: JSON.stringify({ name }) }, session);
    const { token } = (await made.json()) as { token: string };
    const share = s.page.getByRole("group", { name });
    await s.page.reload();
    await share.getByText("never used").waitFor();
    await ask("volumes", {}, token);
    await s.page.reload();
    await share.getByText(/last used .*, 1 visit/).waitFor();

    const headers = { "Upload-Complete": "?0", "Upload-Length": "1000" };
    await ask("volumes/files/files/house/scan.tiff", { method: "PUT", headers, body: "x".repeat(400) });
    await s.page.goto(`${s.origin.url}files/#server`);
    const upload = s.page.getByRole("region", { name: "Unfinished uploads" });
    await upload.getByText("files/house/scan.tiff").waitFor();
    await upload.getByText(/400.B of 1.*kB arrived/).waitFor();
    await upload.getByRole("button", { name: /Cancel the upload/ }).click();
    await upload.waitFor({ state: "detached" });
    const left = await (await ask("volumes/files/uploads", {})).json();
    expect(left).toEqual({ uploads: [] });
  });
});
