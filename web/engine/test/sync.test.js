// Whole transfers between the engine and a real server.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Engine, TransferError } from "../src/engine.js";
import { NodeFiles } from "../src/node.js";
import { missing, modules, noise, serve } from "./server.js";

const MB = 1_000_000;
const options = { skip: missing };
let server, files, engine, pusher, puller, local;

before(async () => {
  if (missing) return;
  server = await serve();
  files = new NodeFiles();
  engine = await Engine.load(readFileSync(modules.push), files);
  pusher = await engine.connect(server.url, server.token);
  puller = await (await Engine.load(readFileSync(modules.pull), files)).connect(server.url, server.token);
  local = join(server.dir, "local");
  mkdirSync(local);
  assert.equal(pusher.isPlain, typeof WebSocket === "undefined");
});

after(async () => {
  pusher?.close();
  puller?.close();
  await server?.stop();
});

/** Inserts, overwrites and removes a few bytes. */
function edited(bytes) {
  const copy = Buffer.concat([
    bytes.subarray(0, 5 * MB), Buffer.from("inserted"), bytes.subarray(5 * MB, 15 * MB), bytes.subarray(15 * MB + 3),
  ]);
  copy.write("overwritten", 10 * MB);
  return copy;
}

async function push(path, name, more) {
  const opened = files.open(path);
  try {
    return await pusher.push({ volume: "files", path: name, ...opened }, more);
  } finally {
    files.close(opened.file);
  }
}

/** Pulls `name` over the file at `path`, as a page does: into a staged file, then in place. */
async function pull(name, path, staged) {
  const old = path ? files.open(path) : null;
  writeFileSync(staged, "");
  const { file } = files.open(staged, "r+");
  try {
    const result = await puller.pull({ volume: "files", path: name, staged: file, old });
    if (result.put) truncateSync(staged, result.put.len);
    return result;
  } finally {
    files.close(file);
    if (old) files.close(old.file);
  }
}

test("a new file of 20 MB goes up whole, an edit costs less than 20 kB", options, async () => {
  const path = join(local, "up.bin");
  const bytes = noise(20 * MB, 1);
  writeFileSync(path, bytes);
  utimesSync(path, 1_700_000_000, 1_700_000_000.5);
  const seen = [];
  const first = await push(path, "a/b/up.bin", { onprogress: (report) => seen.push(report) });
  const there = join(server.volume, "a/b/up.bin");
  assert.ok(readFileSync(there).equals(bytes));
  assert.equal(Math.floor(statSync(there).mtimeMs), 1_700_000_000_500);
  assert.ok(first.sent > 20 * MB && first.sent < 20.1 * MB, `${first.sent} bytes up`);
  assert.equal(seen.at(-1).of, 20 * MB);
  assert.ok(seen.length > 10 && seen.every(({ settled }, i) => i === 0 || settled >= seen[i - 1].settled));

  const next = edited(bytes);
  writeFileSync(path, next);
  const second = await push(path, "a/b/up.bin");
  assert.ok(readFileSync(there).equals(next));
  console.log(`edit of 20 MB: ${second.sent} bytes up, ${second.received} down; first ${first.sent} up`);
  assert.ok(second.sent < 20_000, `${second.sent} bytes up`);
  assert.equal(second.literal + second.matched, next.length);

  const third = await push(path, "a/b/up.bin");
  assert.equal(third.changed, 0);
  assert.ok(third.sent < 2000, `${third.sent} bytes up for no change`);
});

test("an edited file comes down as a delta into the user's old version", options, async () => {
  const bytes = noise(20 * MB, 2);
  const [old, staged] = [join(local, "down.bin"), join(local, "down.staged")];
  const there = join(server.volume, "down.bin");
  writeFileSync(there, bytes);
  const first = await pull("down.bin", null, staged);
  assert.equal(first.put.len, bytes.length);
  assert.ok(readFileSync(staged).equals(bytes));
  assert.ok(first.received > 20 * MB);

  writeFileSync(old, bytes);
  const next = edited(bytes);
  writeFileSync(there, next);
  const second = await pull("down.bin", old, staged);
  assert.ok(readFileSync(staged).equals(next));
  assert.ok(readFileSync(old).equals(bytes), "the old version stays until the page puts the new one in place");
  console.log(`edit of 20 MB: ${second.received} bytes down, ${second.sent} up; first ${first.received} down`);
  assert.ok(second.received < 20_000, `${second.received} bytes down`);
  assert.equal(second.put.modified_ms, Math.floor(statSync(there).mtimeMs));
});

test("a large file takes little memory", options, async () => {
  const path = join(local, "large.bin");
  writeFileSync(path, noise(200 * MB, 12));
  await push(path, "large.bin");
  const there = readFileSync(join(server.volume, "large.bin"));
  assert.ok(there.equals(readFileSync(path)));
  console.log(`${engine.memoryBytes} bytes of memory`);
  assert.ok(engine.memoryBytes < 40 * MB, `${engine.memoryBytes} bytes of memory`);
});

test("small, empty and appended files go both ways", options, async () => {
  for (const len of [0, 1, 5000, 300_000]) {
    const path = join(local, `small-${len}`);
    writeFileSync(path, noise(Math.ceil(len / 4) * 4, 3 + len).subarray(0, len));
    await push(path, `small/${len}.bin`);
    const there = join(server.volume, `small/${len}.bin`);
    assert.ok(readFileSync(there).equals(readFileSync(path)), `${len} bytes up`);
    appendFileSync(there, "more");
    const { put } = await pull(`small/${len}.bin`, path, join(local, "small.staged"));
    assert.equal(put.len, len + 4);
    assert.ok(readFileSync(join(local, "small.staged")).equals(readFileSync(there)), `${len} bytes down`);
  }
});

test("several transfers share a connection", options, async () => {
  const names = Array.from({ length: 6 }, (_, no) => `many-${no}.bin`);
  for (const [no, name] of names.entries()) writeFileSync(join(local, name), noise(2 * MB, 100 + no));
  await Promise.all(names.map((name) => push(join(local, name), name)));
  for (const name of names) {
    assert.ok(readFileSync(join(server.volume, name)).equals(readFileSync(join(local, name))), name);
  }
});

test("what cannot be done is said, and leaves the old version", options, async () => {
  const fails = (transfer, words) =>
    assert.rejects(transfer, (error) => {
      assert.ok(error instanceof TransferError, String(error));
      assert.match(error.message, words);
      return true;
    });
  const path = join(local, "small-1");
  const opened = files.open(path);
  await fails(pusher.push({ volume: "nowhere", path: "a", ...opened }), /no such volume/);
  await fails(pusher.push({ volume: "files", path: "../a", ...opened }), /\.\./);
  await fails(pull("not/there", null, join(local, "none.staged")), /not.there/);

  writeFileSync(path, "changed meanwhile");
  await fails(pusher.push({ volume: "files", path: "small/1.bin", ...opened }), /./);
  files.close(opened.file);
  await fails(engine.connect(server.url, "dlt_wrong"), /./);
});

test("a push with a condition replaces that version only", options, async () => {
  const [name, path] = ["condition.bin", join(local, "condition.bin")];
  const there = join(server.volume, name);
  const tag = async () => {
    const address = `${server.url.replace(/^ws/, "http").replace(/ws$/, "")}volumes/files/files/${name}`;
    const { headers } = await fetch(address, { method: "HEAD", headers: { Authorization: `Bearer ${server.token}` } });
    return headers.get("ETag").replaceAll('"', "");
  };
  const pushAs = async (replaces, bytes) => {
    writeFileSync(path, bytes);
    const opened = files.open(path);
    return pusher.push({ volume: "files", path: name, ...opened, replaces }).finally(() => files.close(opened.file));
  };
  const [one, two] = [noise(MB, 20), noise(MB, 21)];
  await pushAs("", one);
  assert.ok(readFileSync(there).equals(one));
  const first = await tag();
  // A file is there by now, and later another version.
  await assert.rejects(pushAs("", two), TransferError);
  await pushAs(first, two);
  assert.ok(readFileSync(there).equals(two));
  await assert.rejects(pushAs(first, one), TransferError);
  assert.ok(readFileSync(there).equals(two));
  // Equal length and time do not count as equal content.
  writeFileSync(there, one);
  utimesSync(there, 1_700_000_000, 1_700_000_000);
  writeFileSync(path, two);
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  const opened = files.open(path);
  const { sent } = await pusher.push({ volume: "files", path: name, ...opened, replaces: await tag() });
  files.close(opened.file);
  assert.ok(sent > MB && readFileSync(there).equals(two));
});

test("an append costs the new bytes and little more", { skip: missing || (typeof WebSocket === "undefined" && "needs a WebSocket") }, async () => {
  const [name, path] = ["append.bin", join(local, "append.bin")];
  const there = join(server.volume, name);
  const [old, tail] = [noise(MB, 30), noise(1_000, 31)];
  writeFileSync(there, old);
  writeFileSync(path, Buffer.concat([old, tail]));
  utimesSync(path, 1_700_000_000, 1_700_000_000.5);
  const append = async (begins) => {
    const opened = files.open(path);
    return pusher.append({ volume: "files", path: name, ...opened, begins }).finally(() => files.close(opened.file));
  };
  // The server's version is not the beginning of the file.
  for (const begins of [MB - 1, MB + 1, 0]) await assert.rejects(append(begins), TransferError, `${begins}`);
  for (const begins of [2 * MB, -1]) await assert.rejects(append(begins), TransferError, `${begins}`);
  assert.ok(readFileSync(there).equals(old));
  const { sent, literal, matched } = await append(MB);
  assert.ok(readFileSync(there).equals(readFileSync(path)));
  assert.equal(Math.floor(statSync(there).mtimeMs), 1_700_000_000_500);
  assert.deepEqual([literal, matched], [1_000, MB]);
  assert.ok(sent < 1_100, `${sent} bytes up`);
  // The file has grown meanwhile.
  await assert.rejects(append(MB), TransferError);
});

test("an abandoned transfer leaves the connection and the old version", options, async () => {
  const path = join(local, "cancel.bin");
  writeFileSync(path, noise(20 * MB, 9));
  const cancel = new AbortController();
  const onprogress = ({ sent }) => sent > 2 * MB && cancel.abort(new Error("enough"));
  await assert.rejects(push(path, "a/b/up.bin", { onprogress, signal: cancel.signal }), /enough/);
  const there = readFileSync(join(server.volume, "a/b/up.bin"));
  assert.ok(there.equals(readFileSync(join(local, "up.bin"))));
  await push(join(local, "small-5000"), "after.bin");
  assert.equal(statSync(join(server.volume, "after.bin")).size, 5000);
});
