// A real `deltic serve` on loopback, with volumes in a directory of its own.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const built = ["debug", "release"].map((kind) => fileURLToPath(new URL(`../../target/${kind}/deltic`, import.meta.url)));

/** The program to test against: DELTIC_BIN, or the one that was built in this repository. */
export const binary = () => process.env.DELTIC_BIN ?? built.find(existsSync);

/** The browser: CHROMIUM, or the one of the system. */
export const browserPath = () =>
  process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

/** Why the tests of the page cannot run here, if they cannot. */
export function missing() {
  if (!binary()) return "no deltic binary: set DELTIC_BIN, or cargo build";
  if (!browserPath()) return "no Chromium: set CHROMIUM, or apt-get install chromium";
  if (!existsSync(fileURLToPath(new URL("../dist/index.html", import.meta.url)))) return "no dist: npm run build";
  return undefined;
}

/** Starts a server with a volume of each name; options are those of `deltic serve`. */
export async function startServer(names = ["files"], options = []) {
  const home = mkdtempSync(join(tmpdir(), "deltic-page-"));
  for (const name of names) mkdirSync(join(home, name));
  const server = { home, disk: (...path) => join(home, ...path) };

  server.start = async (port = 0) => {
    const args = ["serve", ...names.map((name) => join(home, name)), "--state", join(home, "state")];
    const child = spawn(binary(), [...args, "--listen", `127.0.0.1:${port}`, ...options], { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    await new Promise((resolve, reject) => {
      const hear = (bytes) => {
        said += bytes;
        const found = /http:\/\/(127\.0\.0\.1:\d+)\/\S*#t=(dlt_[A-Za-z0-9_-]+)/.exec(said);
        if (!found) return;
        [, server.address, server.token] = found;
        resolve();
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.on("exit", (code) => reject(new Error(`deltic serve ended with ${code}: ${said}`)));
    });
    server.end = () =>
      new Promise((resolve) => {
        child.removeAllListeners("exit");
        child.on("exit", resolve);
        child.kill("SIGTERM");
        setTimeout(() => child.kill("SIGTERM"), 300).unref();
      });
  };
  server.stop = async () => {
    await server.end();
    rmSync(home, { recursive: true, force: true });
  };
  await server.start();
  return server;
}
