/**
 * Keeps one folder of this device and one folder of a volume equal while the page is open.
 *
 * A round lists what may have changed at both ends, asks for a plan, and executes the plan. Each step that succeeds is
 * noted at once, so a page that is closed in the middle goes on from there. A step that finds another state than the
 * plan knew does nothing, and the next round decides anew.
 */
import { signal } from "@preact/signals";
import { isBusy, pause, Problem, reach, reachable, Unreachable } from "../api/http";
import { follow } from "../files/events";
import { SMALL_BYTES } from "../transfer/bundle";
import { isMissing, Local, observe, permission } from "./local";
import { planOf } from "./plan";
import { DIGEST_BYTES, digestOf, Remote } from "./remote";
import { Ancestor, keptCommon, keptFolders, type FolderRecord } from "./store";
import { Outdated, parent, type Clash, type FileState, type Guard, type Node, type Plan, type Step, type Tree } from "./types";

export type Status =
  | { is: "starting" | "synced" | "offline" | "paused" | "elsewhere" | "permission" | "missing" | "refused" }
  | { is: "working"; left: number }
  | { is: "asking"; guard: Guard };

/** An edit that arrived at an end. */
export interface Edit {
  step: Step;
  bytes: number;
  ms: number;
  at: number;
}

export interface Trouble {
  path: string;
  why: Clash | { is: "failed"; detail: string };
}

export class Follower {
  readonly status = signal<Status>({ is: "starting" });
  readonly edits = signal<readonly Edit[]>([]);
  readonly troubles = signal<readonly Trouble[]>([]);
  readonly #local: Local;
  readonly #remote: Remote;
  readonly #stop = new AbortController();
  #ancestor!: Ancestor;
  #here: Tree = new Map();
  #there: Tree = new Map();
  /** Paths that may have changed; "all" for everything. */
  #dirtyHere: Set<string> | "all" = "all";
  #dirtyThere: Set<string> | "all" = "all";
  #wake = (): void => undefined;
  #isAwake = true;
  /** The deletions that the user has agreed to. */
  #confirmed: Guard | undefined;
  /** The last question about deletions. */
  #asked: Guard | undefined;
  /** Files that were deleted here and there since the user was asked last. */
  #deleted: [number, number] = [0, 0];
  /** Time that the last complete looks took. */
  #tookHere = 0;
  #tookThere = 0;

  constructor(readonly record: FolderRecord) {
    this.#local = new Local(record.handle);
    this.#remote = new Remote(record.to, this.#stop.signal);
  }

  /** Follows until `end` is called. Only one tab follows a folder at a time. */
  run(): void {
    const stop = this.#stop.signal;
    this.status.value = { is: "elsewhere" };
    this.#running = navigator.locks
      .request(`deltic.live.${this.record.id}`, { signal: stop }, () => this.#follow())
      .catch((error: unknown) => {
        if (!stop.aborted) this.#tellFailure(error);
      });
  }

  #running: Promise<void> = Promise.resolve();

  /** Ends. Resolves when the last step has ended and all is noted. */
  end(): Promise<void> {
    this.#stop.abort(new DOMException("ended", "AbortError"));
    this.#wake();
    return this.#running;
  }

  /** Looks at everything again, now. */
  again(): void {
    this.#dirtyHere = "all";
    this.#dirtyThere = "all";
    this.#rouse();
  }

  /** The user agrees to the deletions that the plan asked about. */
  confirm(): void {
    this.#confirmed = this.#asked;
    this.again();
  }

  /** The user wants the deleted files back: the ancestor forgets them, so they are new at the other end. */
  bringBack(): void {
    for (const [path] of this.#ancestor.entries) if (!this.#here.has(path) || !this.#there.has(path)) this.#ancestor.set(path, undefined);
    this.#deleted = [0, 0];
    this.again();
  }

  async #follow(): Promise<void> {
    const stop = this.#stop.signal;
    // The tab that worked until now may have paused or stopped the sync.
    const kept = (await keptFolders()).find(({ id }) => id === this.record.id);
    if (!kept || kept.paused) return void (this.status.value = { is: "paused" });
    this.status.value = { is: "starting" };
    this.#ancestor = new Ancestor(this.record.id, await keptCommon(this.record.id));
    const inside = this.record.to.path.join("/");
    const unfollow = follow(this.record.to.volume, (path) => this.#heard(path, inside));
    let unobserve: (() => void) | undefined;
    const looking = this.#look();
    try {
      while (!stop.aborted) {
        this.#isAwake = false;
        if ((await this.#permitted()) && !unobserve) unobserve = await observe(this.record.handle, (path) => this.#sawHere(path));
        this.#observes = unobserve !== undefined;
        await this.#safeRound();
        await this.#sleep();
      }
    } finally {
      unfollow();
      unobserve?.();
      await looking;
      await this.#ancestor.written();
    }
  }

  #observes = false;

  async #permitted(): Promise<boolean> {
    return (await permission(this.record.handle)) === "granted";
  }

  /** Waits for a change. */
  #sleep(): Promise<void> {
    if (this.#isAwake || this.#stop.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => (this.#wake = resolve));
  }

  #rouse(): void {
    this.#isAwake = true;
    this.#wake();
  }

  #heard(path: string, inside: string): void {
    if (path === "") this.#dirtyThere = "all";
    else if (inside === "") this.#mark("there", path);
    else if (path.startsWith(`${inside}/`)) this.#mark("there", path.slice(inside.length + 1));
    else if (inside === path || inside.startsWith(`${path}/`)) this.#dirtyThere = "all";
    else return;
    this.#rouse();
  }

  #sawHere(path: string | undefined): void {
    if (path?.endsWith(".crswap")) return;
    if (path === undefined) this.#dirtyHere = "all";
    else this.#mark("here", path);
    this.#rouse();
  }

  #mark(end: "here" | "there", path: string): void {
    const dirty = end === "here" ? this.#dirtyHere : this.#dirtyThere;
    if (dirty === "all") return;
    dirty.add(path);
    if (dirty.size <= MOST_DIRTY) return;
    if (end === "here") this.#dirtyHere = "all";
    else this.#dirtyThere = "all";
  }

  /** Looks regularly: at this device if the browser tells no changes, at the server for changes by its other programs. */
  async #look(): Promise<void> {
    const stop = this.#stop.signal;
    let [lastHere, lastThere] = [performance.now(), performance.now()];
    while (!stop.aborted) {
      await pause(LOOK_SECS / 4, stop).catch(() => undefined);
      if (document.visibilityState !== "visible") continue;
      const now = performance.now();
      const hereEvery = Math.max(this.#observes ? OBSERVED_MS : LOOK_SECS * 1000, 10 * this.#tookHere);
      if (now - lastHere >= hereEvery) {
        lastHere = now;
        this.#dirtyHere = "all";
        this.#rouse();
      }
      if (now - lastThere >= Math.max(THERE_MS, 20 * this.#tookThere)) {
        lastThere = now;
        this.#dirtyThere = "all";
        this.#rouse();
      }
    }
  }

  async #safeRound(): Promise<void> {
    const stop = this.#stop.signal;
    try {
      if (!(await this.#permitted())) return void (this.status.value = { is: "permission" });
      await this.#rounds();
    } catch (error) {
      if (stop.aborted) return;
      this.#dirtyHere = this.#dirtyThere = "all";
      if (error instanceof Unreachable) {
        this.status.value = { is: "offline" };
        await reachable(stop).catch(() => undefined);
        return this.#rouse();
      }
      if (isBusy(error)) {
        await pause(error.retryAfter ?? 1, stop).catch(() => undefined);
        return this.#rouse();
      }
      this.#tellFailure(error);
    }
  }

  #tellFailure(error: unknown): void {
    if (error instanceof DOMException && error.name === "NotAllowedError") this.status.value = { is: "permission" };
    else if (isMissing(error)) this.status.value = { is: "missing" };
    else {
      this.status.value = { is: "refused" };
      const detail = error instanceof Problem ? error.detail : String(error);
      this.troubles.value = [{ path: "", why: { is: "failed", detail } }];
    }
  }

  /** Plans and executes until nothing is left. */
  async #rounds(): Promise<void> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      await Promise.all([this.#refreshHere(), this.#refreshThere()]);
      const plan = await this.#plan();
      this.troubles.value = plan.clashes.map((why) => ({ path: why.path, why }));
      if (plan.guard) {
        this.#asked = plan.guard;
        return void (this.status.value = { is: "asking", guard: plan.guard });
      }
      if (await this.#mustSettle(plan)) continue;
      const failed = await this.#execute(plan);
      this.#confirmed = undefined;
      if (failed.length > 0) {
        this.troubles.value = [...this.troubles.value, ...failed];
        return void (this.status.value = { is: "synced" });
      }
      const isOver = plan.steps.length === 0 && !this.#hasDirt();
      if (isOver) this.#outdated.clear();
      if (isOver) return void (this.status.value = reach.value.on ? { is: "synced" } : { is: "offline" });
      this.#stop.signal.throwIfAborted();
    }
    // Both ends change faster than the rounds: go on, after the events so far.
    this.#rouse();
  }

  /** Returns the plan. The user's consent is for the deletions of the question, and for no more. */
  async #plan(): Promise<Plan> {
    const trees = { ancestor: this.#ancestor.entries, here: this.#here, there: this.#there };
    const plan = await planOf(trees, false, this.#deleted);
    const [asked, agreed] = [plan.guard, this.#confirmed];
    if (!asked || !agreed || asked.end !== agreed.end || asked.files > agreed.files) return plan;
    this.#deleted = [0, 0];
    return planOf(trees, true, this.#deleted);
  }

  /**
   * Waits before deletions that are new, and looks again: while a folder is being removed or moved, some of its files
   * are gone before others.
   */
  async #mustSettle({ steps }: Plan): Promise<boolean> {
    const deletions = JSON.stringify(steps.filter(({ is }) => is === "delete"));
    const isNew = deletions !== this.#settled && deletions !== "[]";
    this.#settled = deletions;
    if (!isNew) return false;
    await pause(SETTLE_SECS, this.#stop.signal);
    this.#dirtyHere = "all";
    for (const step of steps) if (step.is === "delete") this.#mark("there", step.path);
    return true;
  }

  /** The deletions of the last plan. */
  #settled = "";

  #hasDirt(): boolean {
    const isDirty = (dirt: Set<string> | "all") => dirt === "all" || dirt.size > 0;
    return isDirty(this.#dirtyHere) || isDirty(this.#dirtyThere);
  }

  async #refreshHere(): Promise<void> {
    const dirty = this.#dirtyHere;
    this.#dirtyHere = new Set();
    if (dirty === "all") {
      const began = performance.now();
      this.#here = withDigests(await this.#local.list(), this.#here);
      this.#tookHere = performance.now() - began;
      return;
    }
    for (const path of dirty) await refresh(this.#here, path, await this.#local.look(path), () => this.#local.list(path));
  }

  async #refreshThere(): Promise<void> {
    const dirty = this.#dirtyThere;
    this.#dirtyThere = new Set();
    if (dirty === "all") {
      const began = performance.now();
      this.#there = withDigests(await this.#remote.list(), this.#there);
      this.#tookThere = performance.now() - began;
      return;
    }
    for (const path of dirty) await refresh(this.#there, path, await this.#remote.look(path), () => this.#remote.list(path));
  }

  // ---------- steps ----------

  /** Executes a plan. Steps of one kind that follow each other run several at a time. Returns what failed. */
  async #execute({ steps }: Plan): Promise<Trouble[]> {
    const failed: Trouble[] = [];
    const skipped = new Set<string>();
    let left = steps.length;
    const tell = () => (this.status.value = left > 0 ? { is: "working", left } : this.status.peek());
    for (let at = 0; at < steps.length; ) {
      const { is } = steps[at]!;
      let end = at + 1;
      if (is === "transfer" || is === "compare") while (steps[end]?.is === is) end++;
      const run = steps.slice(at, end).reverse();
      // Small new files travel together.
      const small = run.filter((step) => this.#isSmallNew(step));
      const others = run.filter((step) => !this.#isSmallNew(step));
      const work = async (group: Step[]) => {
        try {
          for (let step = group.pop(); step; step = group.pop()) {
            this.#stop.signal.throwIfAborted();
            const { path } = step;
            tell();
            left--;
            // A file that could not be set aside must not be replaced.
            if (skipped.has(path)) continue;
            const trouble = await this.#tryStep(step);
            if (trouble !== "done") skipped.add(path);
            if (typeof trouble === "object") failed.push({ path, why: trouble });
          }
        } finally {
          // After a failure, the other workers end with their present steps.
          group.length = 0;
        }
      };
      await allEnded(Array.from({ length: Math.min(BUNDLE, small.length) }, () => work(small)));
      await allEnded(Array.from({ length: Math.min(AT_ONCE, others.length) }, () => work(others)));
      at = end;
    }
    return failed;
  }

  /** True for a step that uploads a small new file. */
  #isSmallNew(step: Step): boolean {
    const here = this.#here.get(step.path);
    return step.is === "transfer" && step.end === "there" && typeof here === "object" && here.bytes <= SMALL_BYTES && !this.#there.has(step.path);
  }

  /** Executes a step. Returns why the step failed, or `again` if the next plan may succeed at once. */
  async #tryStep(step: Step): Promise<Trouble["why"] | "done" | "again"> {
    const began = performance.now();
    try {
      const bytes = await this.#step(step);
      if (bytes !== undefined) {
        const edit = { step, bytes, ms: performance.now() - began, at: Date.now() };
        this.edits.value = [edit, ...this.edits.value].slice(0, MOST_EDITS);
      }
      return "done";
    } catch (error) {
      if (this.#stop.signal.aborted || error instanceof Unreachable || isBusy(error)) throw error;
      if (error instanceof DOMException && error.name === "NotAllowedError") throw error;
      if (error instanceof Problem && error.status === 401) throw error;
      // What is there now is looked at again.
      for (const path of "to" in step ? [step.path, step.to] : [step.path]) {
        this.#mark("here", path);
        this.#mark("there", path);
      }
      if (error instanceof Outdated || isMissing(error)) return this.#isAgain(step) ? { is: "failed", detail: String((error as Error).message) } : "again";
      return { is: "failed", detail: error instanceof Problem ? error.detail : String(error) };
    }
  }

  /** Number of times that each step found another state, since nothing was left to do. */
  #outdated = new Map<string, number>();

  #isAgain(step: Step): boolean {
    const key = JSON.stringify(step);
    const count = (this.#outdated.get(key) ?? 0) + 1;
    this.#outdated.set(key, count);
    return count > 3;
  }

  /** Executes a step and notes the result. Returns the bytes that travelled, for steps that a user is told of. */
  async #step(step: Step): Promise<number | undefined> {
    const { path } = step;
    const [here, there] = [this.#here.get(path), this.#there.get(path)];
    switch (step.is) {
      case "adopt":
        this.#ancestor.set(path, here === "d" || !here || !there || typeof here !== "object" || typeof there !== "object" ? "d" : { here, there });
        return undefined;
      case "forget":
        this.#ancestor.set(path, undefined);
        return undefined;
      case "compare":
        return this.#compare(path, file(here), file(there));
      case "make":
        await (step.end === "here" ? this.#local : this.#remote).make(path);
        (step.end === "here" ? this.#here : this.#there).set(path, "d");
        if (this.#here.get(path) === "d" && this.#there.get(path) === "d") this.#ancestor.set(path, "d");
        return undefined;
      case "delete":
        return this.#delete(step.end, path, step.end === "here" ? here : there);
      case "aside":
        return this.#rename(step.end, path, step.to);
      case "move":
        return this.#move(step.end, path, step.to);
      case "transfer":
        return step.end === "there" ? this.#up(path) : this.#down(path);
    }
  }

  async #compare(path: string, here: FileState, there: FileState): Promise<undefined> {
    const content = (await this.#local.expect(path, here))!;
    let [one, other] = await Promise.all([digestOf(content), this.#remote.digest(path, there)]);
    // Too long for digests: files of one length and one time count as equal, as in a sync by the command.
    if (here.bytes > DIGEST_BYTES && Math.floor(here.modified / 1000) === there.modified) other = one;
    this.#here.set(path, { ...here, digest: one });
    this.#there.set(path, { ...there, digest: other });
  }

  async #delete(end: "here" | "there", path: string, was: Node | undefined): Promise<number> {
    if (was === undefined || was === "o") throw new Outdated();
    await (end === "here" ? this.#local : this.#remote).remove(path, was);
    (end === "here" ? this.#here : this.#there).delete(path);
    this.#ancestor.set(path, undefined);
    if (was !== "d") this.#deleted[end === "here" ? 0 : 1]++;
    return 0;
  }

  async #rename(end: "here" | "there", from: string, to: string): Promise<number> {
    const tree = end === "here" ? this.#here : this.#there;
    const was = file(tree.get(from));
    const state = await (end === "here" ? this.#local : this.#remote).rename(from, to, was);
    tree.delete(from);
    tree.set(to, state);
    return 0;
  }

  /** Renames a file at `end`, if the other end's file of the new name has the same content. */
  async #move(end: "here" | "there", from: string, to: string): Promise<number> {
    const [here, there] = end === "there" ? [to, from] : [from, to];
    const [one, other] = [file(this.#here.get(here)), file(this.#there.get(there))];
    const content = (await this.#local.expect(here, one))!;
    const sums = await Promise.all([digestOf(content), this.#remote.digest(there, other)]);
    if (sums[0] !== sums[1]) {
      // The next plan knows the digests: a deletion, which may need the user's consent, and a transfer.
      this.#here.set(here, { ...one, digest: sums[0] });
      this.#there.set(there, { ...other, digest: sums[1] });
      throw new Outdated();
    }
    await this.#rename(end, from, to);
    this.#ancestor.set(from, undefined);
    this.#ancestor.set(to, { here: file(this.#here.get(to)), there: file(this.#there.get(to)) });
    return 0;
  }

  async #up(path: string): Promise<number> {
    const here = file(this.#here.get(path));
    const there = this.#there.get(path);
    const content = (await this.#local.expect(path, here))!;
    const { state, bytes } = typeof there === "object" ? await this.#remote.put(path, content, there) : await this.#remote.putNew(path, content);
    this.#there.set(path, state);
    this.#ancestor.set(path, { here, there: state });
    return bytes;
  }

  async #down(path: string): Promise<number> {
    const there = file(this.#there.get(path));
    const here = this.#here.get(path);
    const { state, bytes, there: now } = await this.#remote.get(path, there, this.#local, typeof here === "object" ? here : undefined);
    this.#here.set(path, state);
    this.#there.set(path, now);
    this.#ancestor.set(path, { here: state, there: now });
    return bytes;
  }
}

/** Waits until all have ended, also after a failure. Rejects with the first failure. */
async function allEnded(work: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(work);
  await Promise.all(work);
}

function file(of: Node | undefined): FileState {
  if (typeof of !== "object") throw new Outdated();
  return of;
}

/** Replaces the entry at `path` in a tree, with everything below. */
async function refresh(tree: Tree, path: string, now: Node | undefined, list: () => Promise<Tree>): Promise<void> {
  const was = tree.get(path);
  if (typeof was === "object" && typeof now === "object" && was.tag === now.tag) return;
  for (const other of [...tree.keys()]) if (other.startsWith(`${path}/`)) tree.delete(other);
  if (now === undefined) return void tree.delete(path);
  tree.set(path, now);
  for (let dir = parent(path); dir; dir = parent(dir)) tree.set(dir, "d");
  if (now === "d") for (const [below, node] of await list()) tree.set(below, node);
}

/** Keeps digests of versions that are still there. */
function withDigests(now: Tree, was: Tree): Tree {
  for (const [path, node] of was) {
    const present = now.get(path);
    if (typeof node === "object" && node.digest && typeof present === "object" && present.tag === node.tag) now.set(path, node);
  }
  return now;
}

/** Time between two looks at this device, if the browser tells no changes; and if it does. */
const LOOK_SECS = 2;
const OBSERVED_MS = 30_000;
/** Time between two looks at the server, whose events leave out changes by other programs. */
const THERE_MS = 5_000;
/** Time from the first sight of a deletion to its execution. */
const SETTLE_SECS = 0.7;
/** Number of changed paths above which an end is listed whole. */
const MOST_DIRTY = 100;
const MOST_ROUNDS = 20;
const MOST_EDITS = 20;
const AT_ONCE = 4;
/** Small new files that are opened at once. */
const BUNDLE = 256;
