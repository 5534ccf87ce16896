/** A real `deltic serve` on loopback, with volumes in a directory of its own. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const built = ["debug", "release"].map((kind) => fileURLToPath(new URL(`../../target/${kind}/deltic`, import.meta.url)));
const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The path of the tested program: DELTIC_BIN, or else the program that was built in this repository. */
export const binary = (): string | undefined => process.env["DELTIC_BIN"] ?? built.find(existsSync);
/** The path of the browser: CHROMIUM, or else the browser of the system. */
export const browserPath = (): string | undefined => process.env["CHROMIUM"] ?? browsers.find(existsSync);

/** Returns the reason why the tests of the page cannot run here; undefined if the tests can run. */
export function missing(): string | undefined {
  if (!binary()) return "no deltic binary: set DELTIC_BIN, or run cargo build";
  if (!browserPath()) return "no Chromium: set CHROMIUM, or run apt-get install chromium";
  if (!existsSync(index)) return "no dist: run npm run build";
  return undefined;
}

/** Returns the reason why the delta engine cannot be tested here; undefined if the engine can be tested. */
export function engineMissing(): string | undefined {
  const module = (end: string) => fileURLToPath(new URL(`../engine/dist/${end}.wasm`, import.meta.url));
  return ["push", "pull"].every((end) => existsSync(module(end))) ? undefined : "no modules of the engine: run npm run build in web/engine";
}

/** True if the program contains the page of the present `dist`. */
export async function hasPage(): Promise<boolean> {
  const server = await startServer();
  try {
    const script = /assets\/index-[^"]+\.js/.exec(readFileSync(index, "utf8"))![0];
    return (await (await fetch(`http://${server.address}/`)).text()).includes(script);
  } finally {
    await server.stop();
  }
}

const index = fileURLToPath(new URL("../dist/index.html", import.meta.url));

export interface Server {
  address: string;
  /** The address that the server printed, with the token. */
  printed: string;
  token: string;
  /** Returns a path on the server's disk. The first name is that of a volume. */
  disk: (...path: string[]) => string;
  /** Starts the server again, at the same address. */
  start: () => Promise<void>;
  end: () => Promise<void>;
  /** Kills the server, as a crash does. */
  kill: () => Promise<void>;
  /** Makes a token that survives restarts, by `deltic token add`. */
  add: (name: string, ...options: string[]) => Promise<string>;
  /** Revokes all tokens of this name, by `deltic token revoke`. */
  revoke: (name: string) => Promise<unknown>;
  /** Ends the server and removes its directory. */
  stop: () => Promise<void>;
}

/** Starts a server with a volume of each name; `options` are those of `deltic serve`. */
export async function startServer(names: readonly string[] = ["files"], options: readonly string[] = []): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "deltic-page-"));
  for (const name of names) mkdirSync(join(home, name));
  let end = (): Promise<void> => Promise.resolve();
  let kill = end;
  const server: Server = {
    address: "127.0.0.1:0",
    printed: "",
    token: "",
    disk: (...path) => join(home, ...path),
    start: () => start(),
    end: () => end(),
    kill: () => kill(),
    add: async (name, ...more) => {
      const rights = more.includes("--ro") || more.includes("--wo") ? [] : ["--rw"];
      const part = more.includes("--volume") ? [] : ["--all-volumes"];
      const said = await output(["token", "add", ...rights, ...part, ...more, "--state", join(home, "state"), name]);
      return /dlt_[A-Za-z0-9_-]+/.exec(said)![0];
    },
    revoke: (name) => output(["token", "revoke", "--state", join(home, "state"), name]),
    stop: async () => {
      await end();
      rmSync(home, { recursive: true, force: true });
    },
  };

  async function start(): Promise<void> {
    const volumes = names.map((name) => join(home, name));
    const args = ["serve", ...volumes, "--state", join(home, "state"), "--listen", server.address, ...options];
    const child = spawn(binary()!, args, { stdio: ["ignore", "pipe", "pipe"] });
    const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()));
    end = () => {
      child.kill("SIGTERM");
      // The second signal ends the server at once, without waiting for clients.
      setTimeout(() => child.kill("SIGTERM"), 300).unref();
      return ended;
    };
    kill = () => (child.kill("SIGKILL"), ended);
    let said = "";
    await new Promise<void>((resolve, reject) => {
      const hear = (bytes: Buffer) => {
        said += bytes.toString();
        const found = /http:\/\/(127\.0\.0\.1:\d+)\/\S*#t=(dlt_[A-Za-z0-9_-]+)/.exec(said);
        if (!found) return;
        server.printed = found[0];
        server.address = found[1]!;
        server.token = found[2]!;
        resolve();
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      void ended.then(() => reject(new Error(`deltic serve ended: ${said}`)));
    });
  }

  await start();
  return server;
}

function output(args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(binary()!, args, { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (bytes: Buffer) => (said += bytes.toString()));
    child.on("exit", (code) => (code === 0 ? resolve(said) : reject(new Error(`deltic ${args.join(" ")}: ${code}`))));
  });
}
