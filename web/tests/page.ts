/** Actions of tests in the page: as a user acts, by the elements that the page shows. */
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { beforeEach, expect } from "vitest";
import { METERS } from "./devtools";
import { startOrigin, type Origin } from "./origin";
import { browserPath, startServer, type Server } from "./server";

export interface Setup {
  server: Server;
  origin: Origin;
  page: Page;
  context: BrowserContext;
  /** Errors in the page, and refusals by the content security policy. */
  wrongs: string[];
  stop: () => Promise<void>;
}

export function launch(): Promise<Browser> {
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath: browserPath()!, args });
}

/** Pages of tests that run. */
const open = new Set<Page>();

/** Prints what each open page shows after a test has failed. */
beforeEach(({ onTestFailed }) =>
  onTestFailed(async () => {
    for (const page of open) {
      const text = await page.locator("body").innerText({ timeout: 5000 }).catch(String);
      console.log(`The test failed while ${page.url()} showed:\n${text.slice(0, 4000)}`);
    }
  }),
);

export interface SetupOptions {
  volumes?: readonly string[];
  options?: readonly string[];
  prefix?: string;
  context?: Parameters<Browser["newContext"]>[0];
  /** True for the browser's own pickers, which need a window. Otherwise the page uses `<input type=file>`. */
  pickers?: boolean;
}

/** Runs in the page, and removes the browser's own pickers: the page then uses `<input type=file>`. */
export function withoutPickers(): void {
  Object.assign(window, { showOpenFilePicker: undefined, showDirectoryPicker: undefined });
}

export async function setUp(browser: Browser, options: SetupOptions = {}): Promise<Setup> {
  const server = await startServer(options.volumes, options.options);
  const origin = await startOrigin(() => server.address, options.prefix);
  const context = await browser.newContext({ locale: "en-GB", acceptDownloads: true, ...options.context });
  if (!options.pickers) await context.addInitScript(withoutPickers);
  const page = await context.newPage();
  open.add(page);
  page.setDefaultTimeout(Number(process.env["PATIENCE"] ?? 45_000)); // a loaded machine is slow, not wrong
  const wrongs: string[] = [];
  page.on("pageerror", (error) => wrongs.push(String(error.stack)));
  page.on("console", (message) => {
    // A failed request is an answer, and no error of the page. Refusals by the policy are errors.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrongs.push(message.text());
  });
  const stop = async () => {
    open.delete(page);
    await context.close();
    await origin.stop();
    await server.stop();
  };
  return { server, origin, page, context, wrongs, stop };
}

/** A page that does nothing. Its StagMeter tells whether the machine itself was too busy for timers. */
export interface Control {
  /** Stagnation since the last `reset`, in ms. */
  late: () => Promise<number>;
  reset: () => Promise<void>;
  stop: () => Promise<void>;
}

export async function startControl(browser: Browser, { origin }: Pick<Setup, "origin">): Promise<Control> {
  const context = await browser.newContext();
  await context.addInitScript({ content: METERS });
  const page = await context.newPage();
  await page.goto(`${origin.url}mark.svg`);
  return {
    late: () => page.evaluate<number>("meters.stagnation"),
    reset: () => page.evaluate("void (meters.stagnation = 0)"),
    stop: () => context.close(),
  };
}

/** Opens the settings, and returns what StagMeter says there. */
export async function stagnation({ page }: Setup): Promise<string> {
  await page.getByRole("link", { name: "Settings" }).first().click();
  const said = await page.locator(".setr", { hasText: "Stagnation" }).locator(".num").textContent();
  return said!.replaceAll("\u00a0", " ");
}

/** Expects that StagMeter of the page has counted nothing, unless the machine was too busy since the start of the control. */
export async function expectStill(s: Setup, control: Control): Promise<void> {
  const said = await stagnation(s);
  const late = await control.late();
  await control.stop();
  if (late > 0 && !said.startsWith("0 ms in ")) return console.log(`SKIPPED: ${said}, and a page that does nothing was late by ${late.toFixed(0)} ms`);
  expect(said).toMatch(/^0 ms in \d+ (s|min)$/);
}

/** Opens the printed address. */
export async function signIn({ page, origin, server }: Setup, folder = "files/"): Promise<void> {
  await page.goto(`${origin.url}${folder}#t=${server.token}`);
  await page.locator(".shell").waitFor();
}

/** The row of a file or folder. */
export const row = (page: Page, name: string) =>
  page.locator(".lrow:not(.lhead)").filter({ has: page.getByRole("checkbox", { name: `Select “\u2068${name}\u2069”`, exact: true, includeHidden: true }) });

/** All names in the order in which they are shown. */
export const names = (page: Page): Promise<string[]> => page.locator(".lrow:not(.lhead) .w0").allTextContents();

/** Adds files by the picker. */
export async function addFiles(page: Page, files: Parameters<Awaited<ReturnType<typeof picker>>["setFiles"]>[0]): Promise<void> {
  await (await picker(page)).setFiles(files);
}

async function picker(page: Page) {
  const [chooser] = await Promise.all([
    page.waitForEvent("filechooser"),
    page.getByRole("button", { name: /^(Add files|Dateien hinzufügen)$/ }).first().click(),
  ]);
  return chooser;
}

/** Drops files and folders of this machine on the window, as the user's file manager does. */
export async function drop(page: Page, paths: string[], at = { x: 400, y: 500 }): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  const data = { items: [], files: paths, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "dragOver"] as const)
    await devtools.send("Input.dispatchDragEvent", { type, ...at, data });
  await devtools.send("Input.dispatchDragEvent", { type: "drop", ...at, data });
  await devtools.detach();
}

/** Waits until no transfer is running. */
export async function idle(page: Page): Promise<void> {
  await page.locator(".line", { hasText: "Nothing moves" }).waitFor({ timeout: 90_000 });
}
