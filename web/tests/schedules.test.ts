/**
 * Random schedules of edits at both ends of a synced folder, of killed tabs and of a killed server, against a model. The
 * follower, the store and the plans are those of the page; both ends are in memory, and time is told by the test. So
 * there are more schedules than in a browser (`live.test.ts`). MODEL_SCHEDULES sets their number, MODEL_SEED the first.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Engine } from "../engine/src/engine.js";
import type { Follower as FollowerClass } from "../src/live/follower";
import type { FolderRecord } from "../src/live/store";
import { parent } from "../src/live/types";
import { Clock, Database, directory, Disk, random, Server, Tab } from "./live-model";

const module = new URL("../engine/dist/pull.wasm", import.meta.url);
const why = existsSync(module) ? undefined : "no modules of the engine: run npm run build in web/engine";
if (why) console.log(`SKIPPED: ${why}`);

let engine: Engine;
vi.mock("../src/transfer/delta/client", () => ({
  plan: (request: string) => Promise.resolve(engine.reconcile(request)),
  transfer: () => Promise.reject(new Error("all files are small")),
  disconnect: () => undefined,
  canDownload: true,
}));
/** Those who follow the server's changes. */
const following = new Set<(path: string) => void>();
vi.mock("../src/files/events", () => ({
  follow: (_: string, changed: (path: string) => void) => (following.add(changed), () => following.delete(changed)),
}));

const clock = new Clock();
const database = new Database();
let lock: Promise<unknown> = Promise.resolve();
// The sums of this engine are made by other threads.
const digest = (_: string, bytes: ArrayBuffer) => Promise.resolve(createHash("sha256").update(new Uint8Array(bytes)).digest());
vi.stubGlobal("crypto", { subtle: { digest } });
vi.stubGlobal("document", { baseURI: "http://127.0.0.1/", visibilityState: "visible" });
vi.stubGlobal("addEventListener", () => undefined);
vi.stubGlobal("localStorage", { getItem: () => null });
vi.stubGlobal("sessionStorage", { getItem: () => null });
vi.stubGlobal("indexedDB", { open: () => database.open() });
vi.stubGlobal("IDBKeyRange", { bound: ([of]: string[]) => ({ of }) });
let isAnswering = () => true;
vi.stubGlobal("fetch", () => (isAnswering() ? Promise.resolve(new Response()) : Promise.reject(new TypeError("no server"))));
vi.stubGlobal("navigator", {
  languages: ["en"],
  locks: { request: (_: string, __: object, work: () => Promise<unknown>) => (lock = lock.then(work)) },
});

/** Tells the changes of a folder of this device, as Chromium does. */
class Observer {
  #disk: Disk | undefined;
  #told = (path: string): void => {
    setTimeout(() => this.changed([{ type: "modified", relativePathComponents: path.split("/") }]), 10);
  };
  constructor(readonly changed: (records: object[]) => void) {}
  observe(handle: unknown): Promise<void> {
    this.#disk = (handle as { disk: Disk }).disk;
    this.#disk.followers.add(this.#told);
    return Promise.resolve();
  }
  disconnect(): void {
    this.#disk?.followers.delete(this.#told);
  }
}

const NAMES = ["a.txt", "b.txt", "d/c.txt", "d/e.txt", "f/g/h.txt", "f/i.txt", "k"];

/** A folder of this device, a server, and what their users did. */
class World {
  readonly below: (most: number) => number;
  readonly here = new Disk();
  readonly server: Server;
  readonly told: string[] = [];
  /** All contents that were ever written. */
  readonly written = new Set<string>();
  /** Contents that no user has replaced or deleted where the content was seen. */
  readonly alive = new Set<string>();
  /** True once a content may stay that a user has replaced or deleted. */
  mayComeBack = false;
  follower!: FollowerClass;
  #tab!: Tab;
  #count = 0;

  constructor(readonly seed: number, readonly Follower: typeof FollowerClass) {
    this.below = random(seed);
    this.server = new Server(this.below);
    isAnswering = () => !this.server.isDown;
    this.server.disk.followers.add((path) => {
      // A server that is down tells nothing, and followers miss changes.
      if (!this.server.isDown) setTimeout(() => following.forEach((tell) => tell(path)), this.below(30));
    });
    vi.stubGlobal("FileSystemObserver", this.below(2) === 0 ? Observer : undefined);
    database.stores.forEach((records) => records.clear());
    this.open();
  }

  open(): void {
    this.#tab = new Tab(this.below);
    const handle = directory(this.here, this.#tab);
    const record: FolderRecord = { id: "folder", signer: "", name: "folder", handle, to: { volume: "files", path: [] }, paused: false };
    database.stores.get("folders")!.set('"folder"', record);
    lock = Promise.resolve();
    this.follower = new this.Follower(record, () => this.server.remote(this.#tab));
    this.follower.run();
  }

  /** Kills the tab, and opens another one after `meanwhile`. What the tab has not written by then is lost. */
  async kill(meanwhile = (): Promise<void> => Promise.resolve()): Promise<void> {
    this.#tab.isDead = true;
    const records = database.copy();
    void this.follower.end();
    following.clear();
    this.here.followers.clear();
    await clock.run(100);
    if (this.below(2) === 0) {
      database.stores = records;
      this.mayComeBack = true;
    }
    await meanwhile();
    this.open();
  }

  run(ms: number): Promise<void> {
    return clock.run(ms);
  }

  restart(): void {
    this.server.isDown = false;
    following.forEach((tell) => tell(""));
  }

  /** A user edits an entry at an end. */
  edit(isHere: boolean): void {
    const disk = isHere ? this.here : this.server.disk;
    const path = NAMES[this.below(NAMES.length)]!;
    const kind = this.below(8);
    const say = (what: string) => this.told.push(`${isHere ? "here" : "there"}: ${what}`);
    if (kind < 4) {
      const content = `${++this.#count} ${path} ${this.#own()}`;
      say(`write ${path}: ${content}`);
      this.#clear(disk, path);
      this.written.add(content);
      this.alive.add(content);
      disk.put(path, content);
    } else if (kind === 4) {
      const gone = this.below(3) === 0 ? parent(path) || path : path;
      say(`delete ${gone}`);
      this.#forget(disk, gone);
      disk.remove(gone);
    } else if (kind === 5) {
      const to = `${path}.${++this.#count}`;
      if (!disk.entries.has(path)) return;
      // A file that the page is making is of no user.
      if (disk.entries.get(path)?.content === "") return;
      say(`rename ${path} to ${to}`);
      // The file of the new name stays, also if the other end's user has replaced or deleted the file of the old name.
      this.mayComeBack = true;
      disk.rename(path, to);
    } else if (kind === 6) {
      if (disk.isDir(path)) return;
      say(`make ${path}`);
      this.#clear(disk, path);
      this.#forget(disk, path, true);
      disk.make(path);
    } else {
      // If one is replaced before both were seen to be equal, the other one is a version of its own.
      this.mayComeBack = true;
      const content = `both ${++this.#count} ${this.#own()}`;
      say(`write ${path} at both ends: ${content}`);
      this.written.add(content);
      this.alive.add(content);
      for (const end of [this.here, this.server.disk]) {
        this.#clear(end, path);
        end.put(path, content);
      }
    }
  }

  /**
   * Returns letters of a length that no other content has. An edit in the few milliseconds in which the page has replaced
   * a file, and does not know the new time yet, is seen by its length alone.
   */
  #own(): string {
    return "x".repeat(20 * this.#count + this.below(9));
  }

  /** Removes what is in the way of a file at `path`. */
  #clear(disk: Disk, path: string): void {
    for (let dir = parent(path); dir; dir = parent(dir)) if (disk.entries.get(dir)) this.#forget(disk, dir, true);
    this.#forget(disk, path, disk.isDir(path));
  }

  #forget(disk: Disk, path: string, removes = false): void {
    for (const one of [path, ...disk.below(path)]) {
      const content = disk.entries.get(one)?.content;
      if (content !== undefined) this.alive.delete(content);
    }
    if (removes) disk.remove(path);
  }

  isEqual(): boolean {
    return JSON.stringify(this.here.shown()) === JSON.stringify(this.server.disk.shown());
  }

  /** Runs until both ends are equal and nothing is left. Answers questions about deletions. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 60; turn++) {
      // Both ends are looked at in this time, so a change that was not noticed is noticed.
      await this.run(6_000);
      const { is } = this.follower.status.peek();
      if (is === "synced" && this.isEqual()) return;
      if (is === "missing" || is === "refused") this.follower.again();
      if (is !== "asking") continue;
      if (this.below(2) === 0) this.follower.confirm();
      else {
        this.mayComeBack = true;
        this.follower.bringBack();
      }
    }
    throw new Error(`not equal: ${JSON.stringify([this.here.shown(), this.server.disk.shown(), this.follower.status.peek(), this.follower.troubles.peek()])}`);
  }

  check(): void {
    const told = `seed ${this.seed}: ${this.told.join("; ")}`;
    expect(this.here.shown(), told).toEqual(this.server.disk.shown());
    const contents = Object.values(this.here.shown()).filter((content) => content !== "/");
    for (const content of this.alive) expect(contents, `lost ${content}: ${told}`).toContain(content);
    for (const content of contents) expect(this.written, `invented ${content}: ${told}`).toContain(content);
    if (!this.mayComeBack) expect(new Set(contents), told).toEqual(this.alive);
  }
}

describe.skipIf(why)("a synced folder in memory", { timeout: 900_000, retry: 0 }, () => {
  let Follower: typeof FollowerClass;

  beforeAll(async () => {
    engine = await Engine.load(readFileSync(module), { read: () => -1, write: () => -1 });
    ({ Follower } = await import("../src/live/follower"));
    vi.stubGlobal("setTimeout", clock.setTimeout);
    vi.stubGlobal("clearTimeout", clock.clearTimeout);
    vi.spyOn(Date, "now").mockImplementation(() => clock.now);
    vi.spyOn(performance, "now").mockImplementation(() => clock.now);
  });
  afterAll(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });

  test("of random schedules none loses or invents a content, and all end equal", async () => {
    const first = Number(process.env["MODEL_SEED"] ?? 1);
    const schedules = Number(process.env["MODEL_SCHEDULES"] ?? 1000);
    let kills = 0;
    for (let seed = first; seed < first + schedules; seed++) {
      const world = new World(seed, Follower);
      try {
        await world.run(world.below(200));
        for (let step = 0; step < 12; step++) {
          const kind = world.below(12);
          if (kind < 4) world.edit(true);
          else if (kind < 8) world.edit(false);
          else if (kind === 8) {
            world.told.push("kill the tab");
            kills++;
            await world.kill();
          } else if (kind === 9) {
            world.told.push("kill the server");
            world.server.isDown = true;
          } else if (kind === 10) {
            world.told.push("start the server");
            world.restart();
          }
          await world.run([0, 5, 40, 300, 2_500][world.below(5)]!);
        }
        world.restart();
        await world.settle();
        world.check();
      } catch (error) {
        throw new Error(`seed ${seed}: ${world.told.join("; ")}`, { cause: error });
      } finally {
        void world.follower.end();
        following.clear();
        await world.run(200);
      }
    }
    if (schedules >= 100) expect(kills).toBeGreaterThan(schedules / 10);
  });

  /** Runs a test with a world of its own. Some seeds have an observer. */
  async function within(work: (world: World) => Promise<void>, seed = 1): Promise<void> {
    const world = new World(seed, Follower);
    try {
      await work(world);
    } finally {
      void world.follower.end();
      following.clear();
      await world.run(200);
    }
  }

  test("of 200 conflicts at once both contents stay, at both ends", () =>
    within(async (world) => {
      for (let nth = 0; nth < 200; nth++) {
        world.here.put(`d${nth % 7}/${nth}.txt`, `here ${nth}`);
        world.server.disk.put(`d${nth % 7}/${nth}.txt`, `there ${nth}`);
      }
      await world.settle();
      const files = Object.entries(world.here.shown()).filter(([, content]) => content !== "/");
      expect(world.server.disk.shown()).toEqual(world.here.shown());
      expect(new Set(files.map(([, content]) => content)).size).toBe(400);
      // The server's versions keep the names.
      for (let nth = 0; nth < 200; nth++) expect(world.here.shown()[`d${nth % 7}/${nth}.txt`]).toBe(`there ${nth}`);
    }));

  test.each(["here", "there"] as const)("an end that is full %s loses nothing, and goes on when there is room", (end) =>
    within(async (world) => {
      const [from, to] = end === "there" ? [world.here, world.server.disk] : [world.server.disk, world.here];
      for (let nth = 0; nth < 40; nth++) from.put(`d/${nth}`, `content ${nth}`.padEnd(20));
      to.room = 10 * 20;
      await world.run(8_000);
      expect(world.follower.troubles.peek().length).toBeGreaterThan(0);
      expect(to.used()).toBe(to.room);
      // No empty file is left where there was no room for a file.
      expect(Object.values(to.shown())).not.toContain("");
      expect(Object.keys(from.shown()).length).toBe(41);
      to.room = Infinity;
      world.follower.again();
      await world.settle();
      expect(Object.keys(to.shown()).length).toBe(41);
    }));

  /** Syncs files of two kinds, and lets the server delete many of one kind. The user is asked then. */
  async function untilAsked(world: World): Promise<void> {
    for (let nth = 0; nth < 25; nth++) for (const kind of ["a", "b"]) world.here.put(`${kind}/${nth}`, `content ${kind} ${nth}`);
    await world.settle();
    for (let nth = 0; nth < 25; nth++) world.server.disk.remove(`a/${nth}`);
    world.server.disk.remove("b/0");
    await world.run(2_000);
    expect(world.follower.status.peek()).toEqual({ is: "asking", guard: { end: "here", files: 26, of: 50 } });
  }

  test("a consent to deletions is for the files of the question, and ends with a round that fails", () =>
    within(async (world) => {
      await untilAsked(world);
      const asked = world.server.disk.shown();
      world.server.isDown = true;
      world.follower.confirm();
      await world.run(1_000);
      expect(world.follower.status.peek().is).toBe("offline");
      // Now the server lacks as many other files.
      for (const path of Object.keys(asked)) if (asked[path] !== "/") world.server.disk.remove(path);
      for (let nth = 0; nth < 25; nth++) world.server.disk.put(`a/${nth}`, `content a ${nth}`);
      world.server.disk.put("b/0", "content b 0");
      world.server.disk.remove("a/0");
      world.server.disk.remove("a/1");
      world.restart();
      await world.run(20_000);
      expect(world.follower.status.peek()).toEqual({ is: "asking", guard: { end: "here", files: 26, of: 50 } });
      expect(Object.values(world.here.shown()).filter((content) => content !== "/").length).toBe(50);
    }));

  test("a file that is deleted between the question and the consent is asked about, and one after it is not", () =>
    within(async (world) => {
      await untilAsked(world);
      // The server does not tell of this deletion.
      world.server.isDown = true;
      world.server.disk.remove("b/1");
      world.server.isDown = false;
      world.follower.confirm();
      await world.run(3_000);
      expect(world.follower.status.peek()).toEqual({ is: "asking", guard: { end: "here", files: 27, of: 50 } });
      expect(world.here.shown()["b/1"]).toBe("content b 1");
      world.follower.confirm();
      await world.run(3_000);
      expect(world.follower.status.peek().is).toBe("synced");
      expect(world.here.shown()).toEqual(world.server.disk.shown());
      world.server.disk.remove("b/2");
      await world.run(3_000);
      expect(world.follower.status.peek().is).toBe("synced");
      expect(world.here.shown()).toEqual(world.server.disk.shown());
    }));

  test("a page that says that all is in sync has noted so", () =>
    within(async (world) => {
      await world.settle();
      for (let nth = 0; nth < 20; nth++) {
        world.server.disk.put(`k${nth}`, `content ${nth}`);
        const noted = () => (database.stores.get("common")!.get(JSON.stringify(["folder", `k${nth}`])) as { common: unknown } | undefined)?.common;
        do await world.run(1);
        while (world.follower.status.peek().is !== "synced" || world.here.shown()[`k${nth}`] !== `content ${nth}`);
        expect(noted()).toMatchObject({ here: { bytes: `content ${nth}`.length } });
      }
    }));

  test("an edit right after a download is no version of the server", () =>
    within(async (world) => {
      await world.settle();
      const edit = () => {
        if (world.here.shown()["k"] !== "theirs") return;
        world.here.followers.delete(edit);
        world.here.put("k", "mine, and longer");
      };
      world.here.followers.add(edit);
      world.server.disk.put("k", "theirs");
      await world.run(100);
      world.server.disk.put("k", "theirs again");
      await world.settle();
      expect(Object.values(world.here.shown()).sort()).toEqual(["mine, and longer", "theirs again"]);
    }));

  test("files that the user wants back while a plan is being made are not deleted", () =>
    within(async (world) => {
      const files = Array.from({ length: 9_000 }, (_, nth) => `${nth}`);
      await world.kill(() => {
        const common = database.stores.get("common")!;
        for (const path of files) {
          world.here.put(path, path);
          world.server.disk.put(path, path);
          const { modified } = world.here.entries.get(path)!;
          const here = { tag: `${modified}.${path.length}`, bytes: path.length, modified };
          common.set(JSON.stringify(["folder", path]), { folder: "folder", path, common: { here, there: world.server.state(path) } });
        }
        return Promise.resolve();
      });
      await world.settle();
      /** Deletes files at once, as seen by followers. */
      const remove = (from: number, to: number) => {
        world.server.isDown = true;
        for (const path of files.slice(from, to)) world.server.disk.remove(path);
        world.restart();
      };
      // These deletions wait. With those that come meanwhile, the user is asked.
      remove(0, 2_000);
      await world.run(500);
      remove(4_000, 7_000);
      await world.run(1_000);
      expect(world.follower.status.peek()).toEqual({ is: "asking", guard: { end: "here", files: 5_000, of: 9_000 } });
      // The first pause without a time is that between two parts of a plan's text.
      let isDone = false;
      vi.stubGlobal("setTimeout", (run: () => void, ms?: number) => {
        if (ms === undefined && !isDone) {
          isDone = true;
          world.follower.bringBack();
        }
        return clock.setTimeout(run, ms);
      });
      try {
        world.follower.again();
        await world.run(500);
      } finally {
        vi.stubGlobal("setTimeout", clock.setTimeout);
      }
      expect(isDone).toBe(true);
      await world.settle();
      expect(Object.keys(world.here.shown()).length).toBe(9_000);
      expect(world.server.disk.shown()).toEqual(world.here.shown());
    }));

  test("an empty file of the user stays where an earlier page could not make a file", () =>
    within(async (world) => {
      await world.settle();
      world.here.room = 0;
      world.server.disk.put("k", "content");
      await world.run(3_000);
      expect(world.follower.troubles.peek().map(({ path }) => path)).toEqual(["k"]);
      await world.kill(async () => {
        world.server.disk.remove("k");
        world.here.room = Infinity;
        world.here.put("k", "");
      });
      await world.settle();
      expect(world.server.disk.shown()).toEqual({ k: "" });
    }));

  test.each([0, 60_000])("of a page that is killed while it makes a file, an empty file goes, and one of %i ms later stays", (ms) =>
    within(async (world) => {
      await world.settle();
      world.server.disk.put("k", "content");
      while (world.here.shown()["k"] !== "") await world.run(1);
      await world.kill(async () => {
        world.server.disk.remove("k");
        await world.run(ms);
        if (ms > 0) world.here.put("k", "");
      });
      await world.settle();
      expect(world.server.disk.shown()).toEqual(ms > 0 ? { k: "" } : {});
    }));

  test.each([1, 2, 3, 4, 5, 6])("looks at files of a folder that is gone are no deletions (%i)", (seed) =>
    within(async (world) => {
      for (let nth = 0; nth < 10; nth++) world.here.put(`d/${nth}`, `content ${nth}`);
      await world.settle();
      world.here.isAway = true;
      // The browser tells of some files of the folder, and not of the folder.
      for (let nth = 0; nth < 3; nth++) world.here.tell(`d/${nth}`);
      await world.run(8_000);
      expect(Object.keys(world.server.disk.shown()).length).toBe(11);
      world.here.isAway = false;
      await world.settle();
      expect(world.here.shown()).toEqual(world.server.disk.shown());
    }, seed));

  test("a folder that is moved away is no deletion, and goes on when it is back", () =>
    within(async (world) => {
      for (let nth = 0; nth < 10; nth++) world.here.put(`d/${nth}`, `content ${nth}`);
      await world.settle();
      world.here.isAway = true;
      world.follower.again();
      await world.run(8_000);
      expect(world.follower.status.peek().is).toBe("missing");
      expect(Object.keys(world.server.disk.shown()).length).toBe(11);
      world.server.disk.put("d/new", "made meanwhile");
      world.here.isAway = false;
      await world.settle();
      expect(world.here.shown()).toEqual(world.server.disk.shown());
      expect(world.here.shown()["d/new"]).toBe("made meanwhile");
    }));
});
