/**
 * Keeps one folder of this device and one folder of a volume equal while the page is open.
 *
 * A round lists what may have changed at both ends, asks for a plan, and executes the plan. Each step that succeeds is
 * noted at once, so a page that is closed in the middle goes on from there. A step that finds another state than the
 * plan knew does nothing, and the next round decides anew.
 */
import { signal } from "@preact/signals";
import { isBusy, pause, Problem, reach, reachable, Unreachable } from "../api/http";
import type { Place } from "../api/volumes";
import { follow } from "../files/events";
import { SMALL_BYTES } from "../transfer/bundle";
import { Consent } from "./consent";
import { isMissing, Local, observe, permission } from "./local";
import { DIGEST_BYTES, digestOf, Remote } from "./remote";
import { Ancestor, keptCommon, keptFolders, type FolderRecord, type HalfMade } from "./store";
import { Outdated, parent, removeBelow, type Clash, type FileState, type Guard, type Node, type Plan, type Step, type Tree } from "./types";

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

/** The end there, as the follower uses it. */
export type RemoteEnd = Pick<Remote, "list" | "hasEntries" | "lookAll" | "digest" | "put" | "putSmall" | "get" | "rename" | "remove" | "make">;
type AnyEnd = Local | RemoteEnd;

export class Follower {
  readonly status = signal<Status>({ is: "starting" });
  readonly edits = signal<readonly Edit[]>([]);
  readonly troubles = signal<readonly Trouble[]>([]);
  readonly #local: Local;
  readonly #remote: RemoteEnd;
  readonly #stop = new AbortController();
  #ancestor!: Ancestor;
  #here: Tree = new Map();
  #there: Tree = new Map();
  /** Paths that may have changed; "all" for everything. */
  #dirtyHere: Set<string> | "all" = "all";
  #dirtyThere: Set<string> | "all" = "all";
  #wake = (): void => undefined;
  #isAwake = true;
  readonly #consent = new Consent();
  /** Time that the last complete looks took, and times at which they ended. */
  #tookHere = 0;
  #tookThere = 0;
  #lastHere = performance.now();
  #lastThere = performance.now();
  /** Paths that this page changed there. The server tells of these changes too, and such paths wait in `#echoes`. */
  #mine = new Set<string>();
  /** Paths of `#mine` that the server told of. They are looked at when nothing else is left. */
  #echoes = new Set<string>();
  /** True if a tree or the ancestor may differ from those of the last plan. */
  #isChanged = true;

  constructor(
    readonly record: FolderRecord,
    remote: (to: Place, stop: AbortSignal) => RemoteEnd = (to, stop) => new Remote(to, stop),
  ) {
    this.#local = new Local(record.handle);
    this.#remote = remote(record.to, this.#stop.signal);
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
    this.#consent.give();
    this.again();
  }

  /** The user wants the deleted files back. */
  bringBack(): void {
    this.#bringsBack = true;
    this.again();
  }

  /** True until the next plan, which is made without the deletions. No plan that is being made sees a part of them. */
  #bringsBack = false;

  /** Forgets files that an end lacks, so they are new at the other end. */
  #forgetDeleted(): void {
    this.#bringsBack = false;
    this.#isChanged = true;
    for (const [path] of this.#ancestor.entries) if (!this.#here.has(path) || !this.#there.has(path)) this.#ancestor.set(path, undefined);
    this.#consent.refuse();
  }

  async #follow(): Promise<void> {
    const stop = this.#stop.signal;
    // The tab that worked until now may have paused or stopped the sync.
    const kept = (await keptFolders()).find(({ id }) => id === this.record.id);
    if (!kept || kept.paused) return void (this.status.value = { is: "paused" });
    this.status.value = { is: "starting" };
    const { entries, making } = await keptCommon(this.record.id);
    this.#ancestor = new Ancestor(this.record.id, entries);
    this.#halfMade = making;
    this.#local.notes = this.#ancestor;
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
  /** Files that an earlier page was making here. */
  #halfMade: readonly HalfMade[] = [];

  /** Removes the empty files that a page leaves which is killed while it makes them. Empty files of later are the user's. */
  async #removeHalfMade(): Promise<void> {
    // Rejects if the folder is away: the notes stay for the next round.
    if (this.#halfMade.length > 0) await this.#local.hasEntries();
    for (const { path, at } of this.#halfMade) {
      const there = await this.#local.look(path);
      if (typeof there === "object" && there.bytes === 0 && there.modified <= at + MAKING_MS) await this.#local.remove(path, there);
      this.#ancestor.set(path, undefined);
    }
    this.#halfMade = [];
  }

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
    else if (inside === "") this.#heardBelow(path);
    else if (path.startsWith(`${inside}/`)) this.#heardBelow(path.slice(inside.length + 1));
    else if (inside === path || inside.startsWith(`${path}/`)) this.#dirtyThere = "all";
    else return;
    this.#rouse();
  }

  #heardBelow(path: string): void {
    if (this.#mine.has(path)) this.#echoes.add(path);
    else this.#mark("there", path);
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
    while (!stop.aborted) {
      await pause(LOOK_SECS / 4, stop).catch(() => undefined);
      if (document.visibilityState !== "visible") continue;
      const now = performance.now();
      const hereEvery = Math.max(this.#observes ? OBSERVED_MS : LOOK_SECS * 1000, 10 * this.#tookHere);
      if (now - this.#lastHere >= hereEvery) {
        this.#lastHere = now;
        this.#dirtyHere = "all";
        this.#rouse();
      }
      if (now - this.#lastThere >= Math.max(THERE_MS, 20 * this.#tookThere)) {
        this.#lastThere = now;
        this.#dirtyThere = "all";
        this.#rouse();
      }
    }
  }

  async #safeRound(): Promise<void> {
    const stop = this.#stop.signal;
    try {
      if (!(await this.#permitted())) return void (this.status.value = { is: "permission" });
      await this.#removeHalfMade();
      await this.#rounds();
    } catch (error) {
      if (stop.aborted) return;
      this.#consent.end();
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
    this.#hearEchoes();
    for (let round = 0; round < MOST_ROUNDS; round++) {
      await Promise.all([this.#refreshHere(), this.#refreshThere()]);
      if (this.#bringsBack) this.#forgetDeleted();
      const plan = await this.#plan();
      this.troubles.value = plan.clashes.map((why) => ({ path: why.path, why }));
      if (plan.guard) return void (this.status.value = { is: "asking", guard: plan.guard });
      const settles = this.#settles(plan);
      const failed = await this.#execute(settles ? withoutDeletions(plan.steps) : plan.steps);
      if (settles) {
        await this.#settle(plan);
        continue;
      }
      this.#consent.end();
      if (failed.length > 0) {
        this.troubles.value = [...this.troubles.value, ...failed];
        return void (this.status.value = { is: "synced" });
      }
      if (plan.steps.length === 0) this.#hearEchoes();
      const isOver = plan.steps.length === 0 && !this.#hasDirt();
      if (isOver) this.#outdated.clear();
      if (isOver) return void (this.status.value = reach.value.on ? { is: "synced" } : { is: "offline" });
      this.#stop.signal.throwIfAborted();
    }
    // Both ends change faster than the rounds: go on, after the events so far.
    this.#rouse();
  }

  /** Lets the next round look at the paths that this page changed there: another client may have changed them since. */
  #hearEchoes(): void {
    for (const path of this.#echoes) this.#mark("there", path);
    this.#echoes.clear();
    this.#mine.clear();
  }

  /** Returns the plan. */
  async #plan(): Promise<Plan> {
    // Equal trees have the same plan.
    if (!this.#isChanged && this.#planned && this.#planned.steps.length === 0 && !this.#planned.guard) return this.#planned;
    this.#isChanged = false;
    this.#planned = undefined;
    return (this.#planned = await this.#consent.plan({ ancestor: this.#ancestor.entries, here: this.#here, there: this.#there }));
  }

  /** The last plan. */
  #planned: Plan | undefined;

  /**
   * True if the deletions of the plan are new, and wait: while a folder is being removed or moved, some of its files
   * are gone before others.
   */
  #settles({ steps }: Plan): boolean {
    const deletions = JSON.stringify(steps.filter(({ is }) => is === "delete"));
    const isNew = deletions !== this.#settled && deletions !== "[]";
    this.#settled = deletions;
    this.#settledAt = performance.now();
    return isNew;
  }

  /** The deletions of the last plan, and the time of that plan. */
  #settled = "";
  #settledAt = 0;

  /**
   * Waits, and looks again at the end where files are gone. If the whole folder of this end is gone, as with a stick that
   * was pulled, the round ends. An empty folder is listed again: the plan then asks the user.
   */
  async #settle({ steps }: Plan): Promise<void> {
    const left = SETTLE_SECS - (performance.now() - this.#settledAt) / 1000;
    if (left > 0) await pause(left, this.#stop.signal);
    this.#isChanged = true;
    if (!this.#observes) this.#dirtyHere = "all";
    // Of programs that delete many files there, the last look may have seen a part.
    if (this.#tookThere < QUICK_MS && steps.some((step) => step.is === "delete" && step.end === "here")) this.#dirtyThere = "all";
    const deletions = steps.flatMap((step) => (step.is === "delete" ? [step] : []));
    for (const { end, path } of deletions) this.#mark(end === "here" ? "there" : "here", path);
    if (deletions.some(({ end }) => end === "there") && !(await this.#local.hasEntries())) this.#dirtyHere = "all";
    if (deletions.some(({ end }) => end === "here") && !(await this.#remote.hasEntries())) this.#dirtyThere = "all";
  }

  #hasDirt(): boolean {
    const isDirty = (dirt: Set<string> | "all") => dirt === "all" || dirt.size > 0;
    return isDirty(this.#dirtyHere) || isDirty(this.#dirtyThere);
  }

  async #refreshHere(): Promise<void> {
    const dirty = this.#dirtyHere;
    this.#dirtyHere = new Set();
    if (dirty !== "all") return this.#refresh(this.#here, dirty, this.#local);
    const began = performance.now();
    this.#here = withDigests(await this.#local.list(), this.#here);
    this.#lastHere = performance.now();
    this.#tookHere = this.#lastHere - began;
    this.#isChanged = true;
  }

  async #refreshThere(): Promise<void> {
    const dirty = this.#dirtyThere;
    this.#dirtyThere = new Set();
    if (dirty !== "all") return this.#refresh(this.#there, dirty, this.#remote);
    const began = performance.now();
    // These paths are listed now, and changes that the server tells of from now on are later changes.
    this.#mine.clear();
    this.#echoes.clear();
    this.#there = withDigests(await this.#remote.list(), this.#there);
    this.#lastThere = performance.now();
    this.#tookThere = this.#lastThere - began;
    this.#isChanged = true;
  }

  /** Looks at paths of an end, and corrects the tree. */
  async #refresh(tree: Tree, paths: ReadonlySet<string>, end: AnyEnd): Promise<void> {
    if (paths.size === 0) return;
    const found = await end.lookAll([...paths], tree);
    const listed = new Set<string>();
    const isListed = (path: string): boolean => path !== "" && (listed.has(path) || isListed(parent(path)));
    // Folders come before their entries.
    for (const path of [...paths].sort()) {
      const [was, now] = [tree.get(path), found.get(path)];
      const isSame = now !== "d" && (was === now || (typeof was === "object" && typeof now === "object" && was.tag === now.tag));
      if (isSame || isListed(path)) continue;
      this.#isChanged = true;
      removeBelow(tree, path);
      if (now === undefined) continue;
      for (let dir = parent(path); dir; dir = parent(dir)) tree.set(dir, "d");
      tree.set(path, now);
      if (now !== "d") continue;
      listed.add(path);
      for (const [below, node] of await this.#listBelow(path, end)) tree.set(below, node);
    }
  }

  /** Lists a folder that was there just now. */
  async #listBelow(path: string, end: AnyEnd): Promise<Tree> {
    try {
      return await end.list(path);
    } catch (error) {
      if (!isMissing(error) && !(error instanceof Problem && error.status === 404)) throw error;
      // The folder is gone by now. The next round looks again.
      this.#mark(end === this.#local ? "here" : "there", path);
      return new Map();
    }
  }

  // ---------- steps ----------

  /** Executes steps. Steps that do not depend on each other run several at a time. Returns what failed. */
  async #execute(steps: readonly Step[]): Promise<Trouble[]> {
    const failed: Trouble[] = [];
    const skipped = new Set<string>();
    let left = steps.length;
    for (let at = 0; at < steps.length; ) {
      const kind = this.#kind(steps[at]!);
      let end = at + 1;
      while (kind !== undefined && end < steps.length && this.#kind(steps[end]!) === kind) end++;
      const run = steps.slice(at, end).reverse();
      const work = async (group: Step[]) => {
        try {
          for (let step = group.pop(); step; step = group.pop()) {
            this.#stop.signal.throwIfAborted();
            const { path } = step;
            this.#tell(left--);
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
      const lanes = Object.entries(LANES).flatMap(([way, most]) => {
        const group = run.filter((step) => this.#way(step) === way);
        return Array.from({ length: Math.min(most, group.length) }, () => work(group));
      });
      await allEnded(lanes);
      at = end;
    }
    if (this.#news.length > 0) this.#tellNews();
    return failed;
  }

  /** Steps of one kind that follow each other may run in any order. Undefined for a step that runs alone. */
  #kind(step: Step): string | undefined {
    switch (step.is) {
      case "transfer":
      case "compare":
      case "adopt":
      case "forget":
        return step.is;
      case "make":
        // A folder is made before the folders in it.
        return `make ${step.path.split("/").length}`;
      case "delete":
        return (step.end === "here" ? this.#here : this.#there).get(step.path) === "d" ? undefined : "delete";
      default:
        return undefined;
    }
  }

  #way(step: Step): keyof typeof LANES {
    if (step.is === "delete" || step.is === "make") return "name";
    if (step.is !== "transfer") return "other";
    const from = (step.end === "there" ? this.#here : this.#there).get(step.path);
    if (typeof from !== "object" || from.bytes > SMALL_BYTES) return "other";
    // Small files travel together.
    return step.end === "there" ? "smallUp" : "smallDown";
  }

  /** Tells the number of steps that are left. */
  #tell(left: number): void {
    const now = performance.now();
    if (this.status.peek().is === "working" && now - this.#toldAt < TELL_MS) return;
    this.#toldAt = now;
    this.status.value = { is: "working", left };
    if (this.#news.length > 0) this.#tellNews();
  }

  #toldAt = 0;
  /** The last edits that were not told yet, the newest first. */
  #news: Edit[] = [];

  #tellNews(): void {
    this.edits.value = [...this.#news, ...this.edits.value].slice(0, MOST_EDITS);
    this.#news = [];
  }

  /** Executes a step. Returns why the step failed, or `again` if the next plan may succeed at once. */
  async #tryStep(step: Step): Promise<Trouble["why"] | "done" | "again"> {
    const began = performance.now();
    this.#isChanged = true;
    try {
      const bytes = await this.#step(step);
      if (bytes !== undefined) {
        this.#news = [{ step, bytes, ms: performance.now() - began, at: Date.now() }, ...this.#news.slice(0, MOST_EDITS)];
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
    if ("end" in step && step.end === "there" && step.is !== "transfer") this.#mine.add(path).add("to" in step ? step.to : path);
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
    if (was !== "d") this.#consent.count(end, path);
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
    this.#mine.add(path);
    const { state, bytes } = await this.#remote.putSmall(path, content, typeof there === "object" ? there : undefined);
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

/** Returns the steps that need not wait for the deletions of a plan, and do not stand in for them. */
function withoutDeletions(steps: readonly Step[]): Step[] {
  // Names that fold together are never created beside each other, and a folder takes the place of a file only after it.
  const folded = (path: string) => path.normalize("NFKC").toLowerCase();
  const waiting = new Set<string>();
  for (const step of steps) {
    if (step.is === "delete" || step.is === "aside" || step.is === "move") waiting.add(folded(step.path));
    if ("to" in step) waiting.add(folded(step.to));
  }
  const isFree = (path: string): boolean => path === "" || (!waiting.has(folded(path)) && isFree(parent(path)));
  return steps.filter(({ is, path }) => (is === "make" || is === "transfer") && isFree(path));
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
/** Longest time from the note that a file is being made to the making, with the difference between two clocks. */
const MAKING_MS = 10_000;
/** Longest time of a look at all of the server that is repeated before files are deleted here. */
const QUICK_MS = 500;
/** Number of changed paths above which an end is listed whole. */
const MOST_DIRTY = 4_000;
const MOST_ROUNDS = 20;
const MOST_EDITS = 20;
/** Time between two reports of a plan that is being executed. */
const TELL_MS = 100;
/**
 * Number of steps at once. Small files to the server wait for a bundle. Of small files to this device, most wait for the
 * device's own disk.
 */
const LANES = { smallUp: 256, smallDown: 12, name: 5, other: 4 } as const;
