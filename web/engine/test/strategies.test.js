// An edited file by each strategy, between the engine and a real server.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Engine, TransferError } from "../src/engine.js";
import { MemoryFiles } from "../src/memory.js";
import { missing, modules, noise, serve } from "./server.js";

const LEN = 2_000_000;
const options = { skip: missing };
const old = noise(LEN, 21);
/** A byte is inserted, then 100 bytes are cut. */
const edited = Buffer.concat([old.subarray(0, 600_001), Buffer.from("+"), old.subarray(600_001, 1_500_000), old.subarray(1_500_100)]);
let server, files, pusher, puller;

before(async () => {
  if (missing) return;
  server = await serve();
  files = new MemoryFiles();
  const load = async (module) => Engine.load(readFileSync(module), files);
  pusher = await (await load(modules.push)).connect(server.url, server.token);
  puller = await (await load(modules.pull)).connect(server.url, server.token);
});

after(async () => {
  pusher?.close();
  puller?.close();
  await server?.stop();
});

/** Returns the names of all strategies, which the refusal of a wrong name lists. */
async function names() {
  const wrong = { volume: "files", path: "a", ...files.open(old, 0), strategy: "sync" };
  const refusal = await pusher.push(wrong).catch((error) => error);
  assert.ok(refusal instanceof TransferError, String(refusal));
  const [, list] = /"sync" is not a strategy; there are (.+)$/.exec(refusal.message);
  return list.split(", ");
}

/** The strategies that the page compares. */
const FAMILY = ["deltic", "rsync", "webrsync", "webrsync+", "webr2sync", "webr2sync-siphash", "webr2sync+"];

test("every strategy pushes an edited file as a delta", options, async () => {
  const all = await names();
  for (const name of FAMILY) assert.ok(all.includes(name), name);
  for (const strategy of all) {
    const path = `${strategy}.bin`;
    writeFileSync(join(server.volume, path), old);
    const opened = files.open(edited, 1_700_000_000_000);
    const result = await pusher.push({ volume: "files", path, ...opened, strategy });
    files.close(opened.file);
    assert.ok(readFileSync(join(server.volume, path)).equals(edited), strategy);
    assert.equal(result.literal + result.matched, edited.length, strategy);
    assert.ok(result.literal < 60_000, `${strategy}: ${result.literal} bytes of literals`);
    console.log(`${strategy}: ${result.sent} bytes up, ${result.received} down, ${result.weak} weak and ${result.strong} strong sums compared`);
  }
});

test("every strategy pulls an edited file as a delta", options, async () => {
  writeFileSync(join(server.volume, "down.bin"), edited);
  for (const strategy of await names()) {
    const staged = files.stage();
    const opened = files.open(old, 0);
    const result = await puller.pull({ volume: "files", path: "down.bin", staged, old: opened, strategy });
    assert.ok(Buffer.from(files.bytes(staged).subarray(0, result.put.len)).equals(edited), strategy);
    assert.ok(result.literal < 60_000, `${strategy}: ${result.literal} bytes of literals`);
    files.close(staged);
    files.close(opened.file);
  }
});

test("an engine without pauses sends the same", options, async () => {
  const engine = await Engine.load(readFileSync(modules.push), files);
  const connection = await engine.connect(server.url, server.token, { turnsMs: Infinity });
  writeFileSync(join(server.volume, "busy.bin"), old);
  const opened = files.open(edited, 1_700_000_000_000);
  await connection.push({ volume: "files", path: "busy.bin", ...opened, strategy: "rsync" });
  assert.ok(readFileSync(join(server.volume, "busy.bin")).equals(edited));
  assert.ok(connection.busyMs > 0);
  connection.close();
});
