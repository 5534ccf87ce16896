// A real server on loopback, with one volume, for tests.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../../target");

export const program = process.env.DELTIC ?? join(target, "debug/deltic");
/** The modules, each with one end of the protocol. */
export const modules = { push: join(here, "../dist/push.wasm"), pull: join(here, "../dist/pull.wasm") };

/** The reason why the tests cannot run, or false. */
export const missing = [program, ...Object.values(modules)].find((path) => !existsSync(path))
  ? "needs the server (cargo build -p deltic-cli) and the modules (npm run build)"
  : false;

/** Bytes without any pattern, the same for the same seed. */
export function noise(len, seed) {
  const words = new Uint32Array(len / 4);
  let x = seed;
  for (let i = 0; i < words.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[i] = x;
  }
  return Buffer.from(words.buffer);
}

/** Starts a server with the volume `files`. */
export async function serve() {
  const dir = mkdtempSync(join(tmpdir(), "deltic-engine-"));
  const volume = join(dir, "files");
  mkdirSync(volume);
  const args = ["serve", volume, "--listen", "127.0.0.1:0", "--state", join(dir, "state")];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const { host, token } = await address(child);
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
    rmSync(dir, { recursive: true });
  };
  return { dir, volume, url: `ws://${host}/v1/ws`, token, stop };
}

/** Waits for the printed address. */
function address(child) {
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (text) => {
      said += text;
      const [, host, token] = said.match(/http:\/\/([^/\s]+)\/files\/#t=(\S+)/) ?? [];
      if (token) resolve({ host, token });
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
  });
}
