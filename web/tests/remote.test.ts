/** The end of a synced folder at a server, against servers that do not tell the truth. No browser is needed. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Local } from "../src/live/local";
import { Outdated, type FileState, type Tree } from "../src/live/types";

vi.stubGlobal("localStorage", { getItem: () => null });
vi.stubGlobal("sessionStorage", { getItem: () => null });
vi.stubGlobal("document", { baseURI: "http://127.0.0.1/" });
vi.stubGlobal("addEventListener", () => undefined);

const { Remote } = await import("../src/live/remote");

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** Starts a server that answers by `answer`. Returns the end there, and the requests. */
async function remote(answer: (request: IncomingMessage, to: ServerResponse) => void): Promise<{ end: InstanceType<typeof Remote>; asked: string[] }> {
  const asked: string[] = [];
  server = createServer((request, to) => {
    asked.push(`${request.method} ${request.url}`);
    answer(request, to);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  vi.stubGlobal("document", { baseURI: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` });
  return { end: new Remote({ volume: "files", path: [] }, new AbortController().signal), asked };
}

const entries = (names: readonly string[]) => names.map((name) => ({ name, type: "file", bytes: 1, modified: 1, etag: '"1"' }));

describe("lists of a server", () => {
  test("a list that repeats itself is refused", async () => {
    const { end, asked } = await remote((_, to) => to.end(JSON.stringify({ entries: entries(["a", "b"]), more: true })));
    await expect(end.list()).rejects.toThrow("the server lists a twice");
    expect(asked.length).toBe(2);
  });

  test.each(["file", "."])("a list without an end is refused (%s)", async (kind) => {
    let last = 0;
    const { end, asked } = await remote((_, to) => {
      const names = Array.from({ length: 50_000 }, () => `${kind === "." ? "../" : ""}${++last}`);
      to.end(JSON.stringify({ entries: entries(names), more: true }));
    });
    await expect(end.list()).rejects.toThrow("more than 1000000 entries");
    expect(asked.length).toBeLessThan(25);
  });
});

describe("looks at many paths", () => {
  /** Answers as a server that has no entries. */
  const empty = (request: IncomingMessage, to: ServerResponse) =>
    request.method === "HEAD" ? to.writeHead(404).end() : to.end(JSON.stringify({ entries: [], more: false }));
  const tree = (dir: string, count: number): Tree => new Map(Array.from({ length: count }, (_, nth) => [`${dir}/${nth}`, { tag: "", bytes: 1, modified: 1 }]));

  test.each([
    { entries: 100_000, looks: 9, lists: 0 },
    { entries: 1_800, looks: 9, lists: 0 },
    { entries: 1_799, looks: 9, lists: 1 },
    { entries: 1_000, looks: 8, lists: 0 },
    { entries: 0, looks: 9, lists: 1 },
  ])("of $looks paths in a folder of $entries entries $lists folders are listed", async ({ entries, looks, lists }) => {
    const { end, asked } = await remote(empty);
    const paths = Array.from({ length: looks }, (_, nth) => `d/${nth}`);
    const found = await end.lookAll(paths, new Map([...tree("d", entries), ...tree("e", 5_000)]));
    expect(found).toEqual(new Map(paths.map((path) => [path, undefined])));
    expect(asked.filter((one) => one.includes("/tree/")).length).toBe(lists);
    expect(asked.filter((one) => one.startsWith("HEAD ")).length).toBe(lists ? 0 : looks);
  });

  test("in one folder paths are looked at, and another folder is listed", async () => {
    const { end, asked } = await remote(empty);
    await end.lookAll([...Array.from({ length: 9 }, (_, nth) => `d/${nth}`), "e/1"], new Map([...tree("d", 2_000), ...tree("e", 199)]));
    expect(asked.filter((one) => !one.startsWith("HEAD "))).toEqual(["GET /v1/volumes/files/tree/e?limit=1000"]);
    expect(asked.length).toBe(10);
  });
});

describe("contents of a server", () => {
  const of: FileState = { tag: '"1"', bytes: 1000, modified: 1 };
  let written: BlobPart | undefined;
  const local = { write: (_: string, content: BlobPart) => ((written = content), Promise.resolve(of)) } as unknown as Local;
  const get = (end: InstanceType<typeof Remote>) => end.get("a", of, local, undefined);
  const answers = {
    chunked: (bytes: Buffer, to: ServerResponse) => {
      to.writeHead(200, { ETag: of.tag });
      for (let at = 0; at < bytes.length; at += 100) to.write(bytes.subarray(at, at + 100));
      to.end();
    },
    coded: (bytes: Buffer, to: ServerResponse) => {
      const coded = gzipSync(bytes);
      to.writeHead(200, { ETag: of.tag, "Content-Encoding": "gzip", "Content-Length": coded.length }).end(coded);
    },
    plain: (bytes: Buffer, to: ServerResponse) => to.writeHead(200, { ETag: of.tag, "Content-Length": bytes.length }).end(bytes),
  };

  test.each(Object.keys(answers) as (keyof typeof answers)[])("of an answer that is %s no more than the length of the version is read", async (how) => {
    for (const length of [0, 1, 1000]) {
      const { end } = await remote((_, to) => answers[how](Buffer.alloc(length, 7), to));
      await get(end);
      expect(Buffer.from(await new Blob([written!]).arrayBuffer())).toEqual(Buffer.alloc(length, 7));
      server!.close();
    }
    written = undefined;
    const { end } = await remote((_, to) => answers[how](Buffer.alloc(1001, 7), to));
    await expect(get(end)).rejects.toThrow(Outdated);
    expect(written).toBeUndefined();
  });

  test("an answer without an end is not read to the end", async () => {
    let sent = 0;
    const { end } = await remote((_, to) => {
      to.writeHead(200, { ETag: of.tag });
      const more = () => {
        while (!to.destroyed && to.write(Buffer.alloc(65_536))) sent += 65_536;
      };
      to.on("drain", more);
      more();
    });
    await expect(get(end)).rejects.toThrow(Outdated);
    expect(sent).toBeLessThan(64 << 20);
  });
});

describe("contents of many files in one answer", () => {
  const of: FileState = { tag: '"1"', bytes: 3, modified: 1 };
  const line = (fields: object) => JSON.stringify({ status: 200, bytes: 3, etag: of.tag, ...fields }) + "\n";
  const good = `${line({})}one${line({})}two`;

  /** Gets the files `a` and `b` from a server with this answer. Returns the contents that were written, and the requests. */
  async function got(answer: string | ((to: ServerResponse) => void), names = ["a", "b"]): Promise<{ written: Record<string, string>; asked: string[] }> {
    const { end, asked } = await remote((request, to) => {
      if (request.method === "GET") to.writeHead(200, { ETag: of.tag, "Content-Length": 3 }).end("get");
      else if (typeof answer === "string") to.end(answer);
      else answer(to);
    });
    const written: Record<string, string> = {};
    const write = async (path: string, content: BlobPart) => ((written[path] = await new Blob([content]).text()), of);
    const fetched = end.fetchSmall(new Map(names.map((name) => [name, of])));
    for (const name of names) await end.get(name, of, { write } as unknown as Local, undefined, fetched.get(name)).catch(() => undefined);
    return { written, asked };
  }

  test("bring files by one request, and a file that is left out by its own request", async () => {
    expect(await got(good)).toEqual({ written: { a: "one", b: "two" }, asked: ["POST /v1/volumes/files/contents"] });
    for (const left of [{ status: 404, bytes: 0, detail: "no such file" }, { etag: null, bytes: 0 }, { etag: '"2"', bytes: 0 }, { bytes: 0 }]) {
      const { written, asked } = await got(`${line(left)}${line({})}two`);
      expect(written).toEqual({ a: "get", b: "two" });
      expect(asked.length).toBe(2);
    }
  });

  test.each(
    Object.entries({
      "a content longer than the plan knows": `${line({ bytes: 4 })}four${line({})}two`,
      "a negative length": `${line({ bytes: -1 })}${line({})}two`,
      "a length that is no number": `${line({ bytes: "3" })}one${line({})}two`,
      "no length": `{"status":200}\n${line({})}two`,
      "a huge length": `${line({ bytes: 2 ** 60 })}one`,
      "too few files": `${line({})}one`,
      "too many files": `${good}${line({})}and`,
      "an end in a content": good.slice(0, -1),
      "an end in a line": good.slice(0, -5),
      "no lines": "x".repeat(1000),
      "another form": "null\n[]\n",
      "nothing": "",
    }),
  )("with %s are refused as a whole", async (_, answer) => {
    const { written, asked } = await got(answer);
    expect(written).toEqual({ a: "get", b: "get" });
    expect(asked.length).toBe(3);
  });

  test("that have no end are not read to the end", async () => {
    let sent = 0;
    const { written } = await got((to) => {
      to.write(good);
      const more = () => {
        while (!to.destroyed && to.write(Buffer.alloc(65_536))) sent += 65_536;
      };
      to.on("drain", more);
      more();
    });
    expect(written).toEqual({ a: "get", b: "get" });
    expect(sent).toBeLessThan(64 << 20);
  });

  test("that an older server refuses, or that break off, are read one by one", async () => {
    for (const answer of [(to: ServerResponse) => to.writeHead(404).end(), (to: ServerResponse) => (to.write(line({})), setTimeout(() => to.destroy(), 20))])
      expect((await got(answer)).written).toEqual({ a: "get", b: "get" });
  });

  test("name no path outside the folder", async () => {
    const asked = ["POST /v1/volumes/files/contents", "GET /v1/volumes/files/files/b"];
    for (const name of ["../x", "a/../../x", "."]) expect(await got(good, [name, "b"])).toEqual({ written: { b: "get" }, asked });
  });
});
