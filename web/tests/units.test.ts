/** Tests of small parts that need no browser. */
import { describe, expect, test, vi } from "vitest";
import type { Entry } from "../src/api/volumes";

/** A storage like `localStorage` of a browser. */
function storage() {
  const all = new Map<string, string>();
  return {
    getItem: (key: string) => all.get(key) ?? null,
    setItem: (key: string, value: string) => void all.set(key, value),
    removeItem: (key: string) => void all.delete(key),
  };
}

vi.stubGlobal("localStorage", storage());
vi.stubGlobal("sessionStorage", storage());
vi.stubGlobal("document", { baseURI: "http://127.0.0.1/files/" });
vi.stubGlobal("navigator", { languages: ["fr", "de-AT", "en"] });

const { otherName, parts, shown } = await import("../src/transfer/names");
const { name, numbers } = await import("../src/text/numbers");
const { endSession, ended, signIn, token, tokenIn } = await import("../src/session");
const { call, sendBody } = await import("../src/api/http");
const { list, look, remove } = await import("../src/api/volumes");
const { previewOf } = await import("../src/files/kinds");
const { NameOrder, sortedBy } = await import("../src/files/sorting");
const { StagMeter } = await import("../src/stagnation");
const { GentleRate } = await import("../src/transfer/gentle");
const { english } = await import("../src/text/en");
const { german } = await import("../src/text/de");

test("a name has a stem and an ending", () => {
  expect(parts("a.tar.gz")).toEqual({ stem: "a.tar", ending: ".gz" });
  expect(parts(".profile")).toEqual({ stem: ".profile", ending: "" });
  expect(parts("St. Gallen")).toEqual({ stem: "St. Gallen", ending: "" });
  expect(parts("no ending.")).toEqual({ stem: "no ending.", ending: "" });
});

test("letters that print nothing or turn the text are shown as a mark, and joiners of emoji stay", () => {
  expect(shown("photo\u202egnp.exe")).toBe("photo\ufffdgnp.exe");
  expect(shown("a\u2069b\nc\0")).toBe("a\ufffdb\ufffdc\ufffd");
  expect(shown("👩\u200d🌾 تصاميم")).toBe("👩\u200d🌾 تصاميم");
  expect(name("a\u2069b")).toBe("“\u2068a\ufffdb\u2069”");
});

test("a second version has a name that every file system takes", () => {
  const other = otherName("budget 2026.ods", new Date(2026, 10, 8, 9, 5, 7));
  expect(other).toBe("budget 2026 (2026-11-08 09.05.07).ods");
  expect(other).not.toMatch(/[<>:"/\\|?*]/);
});

test("a token is found in a fragment, in an address, and alone", () => {
  expect(tokenIn("#t=dlt_Ab-_9&pin=x")).toBe("dlt_Ab-_9");
  expect(tokenIn("http://127.0.0.1:8420/a/#t=dlt_x")).toBe("dlt_x");
  expect(tokenIn("dlt_x")).toBe("dlt_x");
  expect(tokenIn("#transfers")).toBeUndefined();
  expect(tokenIn("xdlt_y")).toBeUndefined();
});

test("a refusal of the token of an earlier sign-in does not end the present sign-in", async () => {
  const asked: { bearer: string | null; answer: (status: number) => void }[] = [];
  vi.stubGlobal("fetch", (_: URL, { headers }: { headers: Headers }) =>
    new Promise((resolve) => asked.push({ bearer: headers.get("Authorization"), answer: (status) => resolve(new Response(null, { status })) })),
  );
  try {
    signIn("dlt_a", true);
    const body = { method: "PATCH", headers: {}, body: new Blob(["some"]), sent: () => undefined } as const;
    const late = [call("v1/volumes"), sendBody("v1/x", body, new AbortController().signal)].map((of) => of.catch((error: unknown) => error));
    endSession("left");
    signIn("dlt_b", true);
    await vi.waitFor(() => expect(asked.length).toBe(2));
    expect(asked.map(({ bearer }) => bearer)).toEqual(["Bearer dlt_a", "Bearer dlt_a"]);
    for (const { answer } of asked) answer(401);
    expect(await Promise.all(late)).toMatchObject([{ status: 401 }, { status: 401 }]);
    expect(token.value).toBe("dlt_b");
    expect(localStorage.getItem("deltic.token/files/")).toBe("dlt_b");

    const present = call("v1/volumes").catch((error: unknown) => error);
    asked[2]!.answer(401);
    expect(await present).toMatchObject({ status: 401 });
    expect([token.value, ended.value]).toEqual([undefined, "unknown"]);
  } finally {
    endSession("left");
    vi.stubGlobal("fetch", undefined);
  }
});

test("an entry whose name is not text is not taken for the entry that has the printed name", async () => {
  const asked: string[] = [];
  const file = { type: "file", bytes: 1, modified: 1 };
  const entries = [{ ...file, name: "a\\x80" }, { ...file, name: "a\\x80", exact: false }];
  vi.stubGlobal("fetch", async (address: URL) => (asked.push(address.href), Response.json({ entries, more: false })));
  try {
    const place = { volume: "v", path: [] };
    const listed: Entry[] = [];
    for await (const page of list(place, new AbortController().signal)) listed.push(...page);
    expect(listed.map(({ name }) => shown(name))).toEqual(["a\\x80", "a\\x80\ufffd"]);
    const inexact = { ...place, path: [listed[1]!.name] };
    await look({ ...place, path: [listed[0]!.name] });
    expect(asked.length).toBe(2);
    await expect(look(inexact)).rejects.toMatchObject({ status: 400 });
    await expect(remove(inexact, "*")).rejects.toMatchObject({ status: 400 });
    expect(asked.length).toBe(2);
  } finally {
    vi.stubGlobal("fetch", undefined);
  }
});

describe("two tabs", () => {
  type Session = typeof import("../src/session");
  const key = "deltic.token/files/";
  /** A tab, with the events of its storage that have not arrived yet. */
  interface Tab {
    session: Session;
    arrive: () => void;
    act: (then: (session: Session) => void) => void;
  }

  /** Opens tabs that share a storage which holds `kept`. A change of one tab is an event in all other tabs. */
  async function open(kept: string): Promise<[Tab, Tab]> {
    const shared = storage();
    shared.setItem(key, kept);
    const queues: { key: string; newValue: string | null }[][] = [];
    let acting = 0;
    const set = (key: string, newValue: string | null) => {
      if (shared.getItem(key) === newValue) return;
      if (newValue === null) shared.removeItem(key);
      else shared.setItem(key, newValue);
      for (const [no, queue] of queues.entries()) if (no !== acting) queue.push({ key, newValue });
    };
    vi.stubGlobal("localStorage", { getItem: shared.getItem, setItem: set, removeItem: (key: string) => set(key, null) });
    vi.stubGlobal("location", { hash: "" });
    const tab = async (no: number): Promise<Tab> => {
      const own = storage();
      const queue: (typeof queues)[number] = [];
      queues.push(queue);
      let hear: (event: (typeof queue)[number]) => void = () => undefined;
      vi.stubGlobal("addEventListener", (kind: string, then: typeof hear) => kind === "storage" && (hear = then));
      vi.resetModules();
      const session = await import("../src/session");
      session.openSession();
      const act: Tab["act"] = (then) => ((acting = no), vi.stubGlobal("sessionStorage", own), then(session));
      return { session, act, arrive: () => act(() => queue.splice(0).forEach((event) => hear(event))) };
    };
    return [await tab(0), await tab(1)];
  }

  /** Lets all events arrive, in turn, until no tab changes the storage any more. */
  function settle(...tabs: Tab[]): void {
    for (let i = 0; i < 4; i++) for (const { arrive } of tabs) arrive();
  }

  test("a token that one tab replaces is taken by the other tab, and signs nobody out", async () => {
    const [one, two] = await open("dlt_printed");
    one.act(({ exchange }) => expect(exchange("dlt_printed", "dlt_lasting")).toBe(true));
    settle(two, one);
    for (const { session } of [one, two]) expect([session.token.value, session.ended.value]).toEqual(["dlt_lasting", undefined]);
    expect(localStorage.getItem(key)).toBe("dlt_lasting");
    expect(one.session.signer()).toBe(two.session.signer());
  });

  test("both tabs replace the token at once, and use the token that is stored", async () => {
    const [one, two] = await open("dlt_printed");
    one.act(({ exchange }) => exchange("dlt_printed", "dlt_1"));
    two.act(({ exchange }) => exchange("dlt_printed", "dlt_2"));
    settle(one, two);
    for (const { session } of [one, two]) expect([session.token.value, session.ended.value]).toEqual(["dlt_2", undefined]);
    expect(localStorage.getItem(key)).toBe("dlt_2");
  });

  test("a sign-out reaches the other tab, and a late event of a sign-out leaves the next sign-in", async () => {
    const [one, two] = await open("dlt_a");
    one.act(({ endSession }) => endSession("left"));
    settle(one, two);
    expect([two.session.token.value, two.session.ended.value]).toEqual([undefined, "left"]);
    one.act(({ signIn }) => signIn("dlt_a", true));
    settle(one, two);
    expect([two.session.token.value, two.session.ended.value]).toEqual(["dlt_a", undefined]);
    one.act(({ endSession, signIn }) => (endSession("left"), signIn("dlt_b", true)));
    settle(two, one);
    for (const { session } of [one, two]) expect([session.token.value, session.ended.value]).toEqual(["dlt_b", undefined]);
    expect(localStorage.getItem(key)).toBe("dlt_b");
  });

  test("a sign-in for one tab alone leaves no token to the other tab", async () => {
    const [one, two] = await open("dlt_a");
    one.act(({ signIn }) => signIn("dlt_b", false));
    expect([sessionStorage.getItem(key), localStorage.getItem(key)]).toEqual(["dlt_b", null]);
    settle(two);
    expect([two.session.token.value, two.session.ended.value]).toEqual([undefined, "left"]);
    one.act(({ signIn }) => signIn("dlt_c", true));
    expect([sessionStorage.getItem(key), localStorage.getItem(key)]).toEqual([null, "dlt_c"]);
  });
});

describe("numbers", () => {
  const en = numbers("en-GB", { today: "Today", yesterday: "Yesterday" });
  const de = numbers("de", { today: "heute", yesterday: "gestern" });

  test("lengths have three digits at most, in decimal units", () => {
    const plain = (n: number) => en.bytes(n).replace("\u00a0", " ");
    expect([0, 999, 1000, 1900, 9960, 42_600, 999_499, 999_500, 1_340_000, 42_900_000_000].map(plain)).toEqual([
      "0 B",
      "999 B",
      "1.0 kB",
      "1.9 kB",
      "10 kB",
      "43 kB",
      "999 kB",
      "1.00 MB",
      "1.34 MB",
      "42.9 GB",
    ]);
    expect(de.bytes(1900)).toBe("1,9\u00a0kB");
  });

  test("times are said as people say them", () => {
    const now = new Date();
    expect(en.when(now.getTime())).toMatch(/^Today \d\d:\d\d$/);
    expect(en.when(new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1, 12).getTime())).toBe("Yesterday 12:00");
    expect(en.when(new Date(2001, 2, 4).getTime())).toBe("4 Mar 2001");
    // Times of one day, long ago, would look equal.
    const [one, other, third] = [4, 4, 5].map((day, i) => new Date(2001, 2, day, 12, 0, i).getTime());
    expect(en.whens([one!, other!, third!])).toEqual(["4 Mar 2001, 12:00:00", "4 Mar 2001, 12:00:01", "5 Mar 2001"]);
    expect(de.whens([third!])).toEqual(["5. März 2001"]);
  });

  test("names compare as people count", () => {
    expect(["f10", "F9", "f1", "é"].sort(en.compare)).toEqual(["é", "f1", "F9", "f10"]);
  });

  test("both languages have words for every sentence", () => {
    const words = [english(en), german(de)] as const;
    for (const [key, value] of Object.entries(words[0])) {
      const other = (words[1] as Record<string, unknown>)[key];
      expect(typeof other, key).toBe(typeof value);
      if (typeof value === "string" && value.length > 12) expect(other, key).not.toBe(value);
    }
  });
});

test("stagnation is the sum of delays over 50 ms of a timer of 100 ms", () => {
  const meter = new StagMeter();
  let now = 1000;
  // The first tick is not late. Times since the tick before:
  for (const after of [0, 100, 130, 150, 151, 1100, 90, 100]) meter.tick((now += after));
  expect(meter).toMatchObject({ stagnation: 51 + 1000, longest: 1000, measured: 700 + 30 + 50 + 51 + 1000 });
  // A pause is no stagnation.
  meter.rest();
  meter.tick((now += 60_000));
  meter.tick(now + 100);
  expect(meter.stagnation).toBe(1051);
});

test("an ending is no property of an object", () => {
  expect(previewOf("x.TXT")).toBe("text");
  for (const ending of ["constructor", "__proto__", "toString", ""]) expect(previewOf(`x.${ending}`)).toBeUndefined();
});

test.each([
  ["2 Mbit/s, 60 ms", 250_000, 60],
  ["20 Mbit/s, 30 ms", 2_500_000, 30],
  ["100 Mbit/s, 5 ms", 12_500_000, 5],
  ["40 Mbit/s, 200 ms", 5_000_000, 200],
])("gentle uploads fill a network of %s, and requests take at most twice as long", (_, capacity, idle) => {
  const found = new GentleRate(idle);
  let [queue, sent, time] = [0, 0, 0];
  const times: number[] = [];
  // A minute of a network with a long queue: bytes that do not pass at once delay the next request.
  while (time < 60_000) {
    const took = idle + (queue / capacity) * 1000;
    const rate = found.rate;
    const passed = 250 + took;
    queue = Math.min(4_000_000, Math.max(0, queue + ((rate - capacity) * passed) / 1000));
    time += passed;
    if (time > 10_000) {
      times.push(took);
      sent += (Math.min(rate, capacity) * passed) / 1000;
    }
    found.heard(took);
  }
  times.sort((a, b) => a - b);
  const used = sent / capacity / 50;
  console.log(`gentle: median ${times[times.length >> 1]!.toFixed(0)} ms, p90 ${times[Math.floor(times.length * 0.9)]!.toFixed(0)} ms, ${(used * 100).toFixed(0)} % of the network`);
  expect(times[times.length >> 1]).toBeLessThanOrEqual(2 * idle);
  expect(times[Math.floor(times.length * 0.9)]).toBeLessThanOrEqual(3 * idle + 40);
  expect(used).toBeGreaterThan(0.75);
});

test("bars of a change are wide enough to be seen, meet their neighbours and stay within the strip", async () => {
  const { barsOf } = await import("../src/ui/ChangeStrip");
  const map = (...fresh: number[]) => ({
    kept: 0,
    moved: 0,
    new: 0,
    buckets: Array.from({ length: 32 }, (_, at): [number, number, number] => [1000 - (fresh[at] ?? 0), 0, fresh[at] ?? 0]),
  });
  const part = 100 / 32;
  expect(barsOf(map(), 2, 1)).toEqual([]);
  // One byte in the first and in the last part.
  expect(barsOf(map(1), 2, 3.6)).toEqual([{ x: 0, width: 3.6 }]);
  const [last] = barsOf({ ...map(), buckets: map().buckets.map((bucket, at) => (at === 31 ? [999, 0, 1] : bucket)) }, 2, 3.6);
  expect(last!.x + last!.width).toBeCloseTo(100);
  // The end of one part, a whole part, and the start of the next one are one bar.
  const [bar, ...more] = barsOf(map(500, 1000, 500), 2, 1);
  expect(more).toEqual([]);
  expect([bar!.x, bar!.width]).toEqual([part / 2, part * 2]);
  // Parts of an empty file have no bytes.
  expect(barsOf({ ...map(), buckets: Array.from({ length: 32 }, () => [0, 0, 0] as const) }, 2, 1)).toEqual([]);
});

describe("the order of rows", () => {
  const entry = (no: number, type: Entry["type"] = no % 7 ? "file" : "dir"): Entry => ({ name: `${type}-${no % 311}-${no}`, type, bytes: no % 13, modified: no % 17 });
  const { compare } = numbers("en", { today: "Today", yesterday: "Yesterday" });
  /** The same order, sorted anew. */
  const slowly = (entries: readonly Entry[], by: "name" | "bytes" | "modified", down: boolean) =>
    [...entries].sort((a, b) => {
      const folders = Number(b.type === "dir") - Number(a.type === "dir");
      const difference = by === "name" ? 0 : a[by] - b[by];
      return folders || (down ? -1 : 1) * (difference || compare(a.name, b.name));
    });
  const shuffled = (count: number) => Array.from({ length: count }, (_, i) => entry((i * 7919) % count));

  test("lists that grow, shrink and change are sorted as if anew", () => {
    const all = shuffled(1009);
    const names = new NameOrder(compare);
    const lists = [[], all.slice(0, 100), all.slice(0, 600), all, all.slice(300, 900), all.map((old) => (old.bytes ? old : { ...old, type: "file" as const })), all];
    for (const list of lists) {
      const sorted = names.sort(list);
      for (const by of ["name", "bytes", "modified"] as const)
        for (const down of [false, true]) expect(sortedBy({ by, down }, sorted)).toEqual(slowly(list, by, down));
    }
  });

  test("a list that was learnt in turns is sorted without a comparison", async () => {
    let count = 0;
    const names = new NameOrder((a, b) => (count++, compare(a, b)));
    const all = shuffled(2_003);
    let rests = 0;
    await names.learn(all, () => (rests++, Promise.resolve()));
    expect(rests).toBeGreaterThan(5);
    count = 0;
    expect(names.sort(all)).toEqual(slowly(all, "name", false));
    expect(count).toBe(0);
    // A list that is given up leaves the order of the last list.
    await expect(names.learn(Array.from({ length: 1_009 }, (_, no) => entry(no + 5_000)), () => Promise.reject(new Error("given up")))).rejects.toThrow("given up");
    count = 0;
    expect(names.sort(all)).toEqual(slowly(all, "name", false));
    expect(count).toBe(0);
  });

  test("an entry stays the same object until its row changes", () => {
    const names = new NameOrder(compare);
    const file: Entry = { name: "a", type: "file", bytes: 1, modified: 1, etag: '"1"' };
    const [first] = names.sort([file]);
    expect(names.sort([{ ...file }])[0]).toBe(first);
    for (const change of [{ etag: '"2"' }, { bytes: 2 }, { modified: 2 }, { type: "symlink" as const }, { change: { kept: 1, moved: 0, new: 0, buckets: [] } as unknown as NonNullable<Entry["change"]> }]) {
      const changed = { ...file, ...change };
      expect(names.sort([changed])[0]).toBe(changed);
      names.sort([file]);
    }
  });

  test("the pages of a long list cost about as many comparisons as one sort", () => {
    let count = 0;
    const names = new NameOrder((a, b) => (count++, compare(a, b)));
    const all = shuffled(20_011);
    for (let end = 1000; end < all.length + 1000; end += 1000) names.sort(all.slice(0, end));
    expect(count).toBeLessThan(all.length * 25);
    count = 0;
    names.sort(all);
    expect(count).toBe(0);
  });
});
