// The package as npm packs it, in a program of its own.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { missing, noise, serve } from "./server.js";

const MB = 1_000_000;
const options = { skip: missing };
const here = fileURLToPath(new URL("..", import.meta.url));
const deno = ["deno", process.env.DENO].find((program) => runs(program));
let server, dir;

before(async () => {
  if (missing) return;
  server = await serve();
  dir = mkdtempSync(join(tmpdir(), "deltic-package-"));
  const [{ filename }] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", dir], here));
  writeFileSync(join(dir, "package.json"), '{ "type": "module" }');
  run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(dir, filename)], dir);
  copyFileSync(join(here, "test/example.js"), join(dir, "example.js"));
});

after(async () => {
  await server?.stop();
  if (dir) rmSync(dir, { recursive: true });
});

function run(program, args, cwd) {
  return execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

function runs(program) {
  try {
    return program !== undefined && run(program, ["--version"]) !== "";
  } catch {
    return false;
  }
}

/** Runs the example, and compares the copy with the file on the server's disk. */
function example(program, ...args) {
  const file = join(dir, "data");
  writeFileSync(file, noise(4 * MB, 11));
  rmSync(`${file}.copy`, { force: true });
  rmSync(join(server.volume, "example"), { force: true, recursive: true });
  const url = server.url.replace(/^ws(.*)v1\/ws$/, "http$1");
  const counts = JSON.parse(run(program, [...args, "example.js", url, server.token, "files", file], dir));
  const there = readFileSync(join(server.volume, "example/data"));
  assert.ok(there.equals(readFileSync(file)));
  assert.ok(there.equals(readFileSync(`${file}.copy`)));
  assert.equal(Math.floor(statSync(`${file}.copy`).mtimeMs), Math.floor(statSync(file).mtimeMs));
  assert.deepEqual(readdirSync(dir).filter((name) => name.endsWith(".part")), []);
  console.log(`${program} ${args.join(" ")}: ${JSON.stringify(counts)}`);
  assert.ok(counts.first > 4 * MB && counts.copy > 4 * MB, "whole at first");
  assert.ok(counts.edit < 4_000 && counts.update < 4_000, "then what is new");
}

test("the version is that of the workspace, and everything that a program needs is in the package", options, () => {
  const [, version] = /^version = "(.*)"$/m.exec(readFileSync(join(here, "../../Cargo.toml"), "utf8"));
  const packed = join(dir, "node_modules/deltic");
  assert.equal(JSON.parse(readFileSync(join(packed, "package.json"), "utf8")).version, version);
  const found = readdirSync(packed, { recursive: true }).map(String);
  for (const name of ["README.md", "LICENSE-MIT", "dist/push.wasm", "dist/pull.wasm", "src/node.d.ts", "src/browser.d.ts"]) {
    assert.ok(found.includes(name), name);
  }
  const typescript = createRequire(join(here, "../package.json")).resolve("typescript/package.json");
  const use = 'import { open } from "deltic/NAME";\nconst server = open({ url: "http://a/", token: "t" });\nserver.close();\n';
  for (const name of ["node", "browser"]) writeFileSync(join(dir, `${name}.ts`), use.replace("NAME", name));
  const types = ["--noEmit", "--strict", "--ignoreConfig", "--module", "nodenext", "--lib", "es2023,dom", "--types", "", "node.ts", "browser.ts"];
  run(process.execPath, [join(typescript, "../bin/tsc"), ...types], dir);
});

test("a program of Node syncs by plain HTTP and by WebSocket", options, () => {
  example(process.execPath);
  example(process.execPath, "--experimental-websocket");
});

const isMissing = missing || (deno ? false : "needs deno");
test("a program of Deno syncs", { skip: isMissing }, () => example(deno, "run", "--allow-all", "--no-config", "--node-modules-dir=manual"));
