/** The page as the real server sends it, without the origin of the other tests (`origin.ts`). */
import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { POLICY } from "./origin";
import { addFiles, launch, row, withoutPickers } from "./page";
import { hasPage, missing, startServer } from "./server";

const why = missing() ?? ((await hasPage()) ? undefined : "the program has no page, or another build of it: make page, or cargo build after npm run build");
if (why) console.log(`SKIPPED: ${why}`);

let browser: Browser;
beforeAll(async () => {
  if (!why) browser = await launch();
});
afterAll(() => browser?.close());

test.skipIf(why)("the printed address opens the page, and a restart of the server ends nothing", async () => {
  const server = await startServer();
  onTestFinished(server.stop);
  const context = await browser.newContext({ locale: "en-GB" });
  onTestFinished(() => context.close());
  await context.addInitScript(withoutPickers);
  const page = await context.newPage();
  page.setDefaultTimeout(45_000);
  const wrongs: string[] = [];
  page.on("pageerror", (error) => wrongs.push(String(error.stack)));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrongs.push(message.text());
  });
  const answer = await page.goto(server.printed);
  expect(answer!.headers()["content-security-policy"]).toBe(POLICY);
  await page.locator(".shell").waitFor();
  expect(page.url()).toBe(`http://${server.address}/files/`);
  await addFiles(page, [{ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("hello") }]);
  await row(page, "a.txt").waitFor();
  expect(readFileSync(server.disk("files", "a.txt"), "utf8")).toBe("hello");
  const kept = () => page.evaluate(() => localStorage.getItem("deltic.token"));
  await expect.poll(kept).not.toBe(server.token);
  await server.end();
  await server.start();
  await page.goto(`http://${server.address}/`);
  await page.locator(".vols").getByRole("link", { name: "files" }).click();
  await row(page, "a.txt").waitFor();
  expect(wrongs).toEqual([]);
});
