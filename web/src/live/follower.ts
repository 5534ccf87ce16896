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
import { Consent } from "./consent";
import { KnownEnd, type Ends, type RemoteEnd } from "./ends";
import { isMissing, Local, observe, permission } from "./local";
import { Remote } from "./remote";
import { Settling, withoutDeletions } from "./settling";
import { Steps, type Trouble } from "./steps";
import { Ancestor, keptCommon, keptFolders, type FolderRecord, type HalfMade } from "./store";
import type { Guard, Plan } from "./types";

export type Status =
  | { is: "starting" | "synced" | "offline" | "paused" | "elsewhere" | "permission" | "missing" | "refused" }
  | { is: "working"; left: number }
  | { is: "asking"; guard: Guard };

export class Follower {
  readonly status = signal<Status>({ is: "starting" });
  readonly troubles = signal<readonly Trouble[]>([]);
  readonly #stop = new AbortController();
  readonly #ends: Ends;
  readonly #steps: Steps;
  readonly #consent = new Consent();
  readonly #settling = new Settling();
  #ancestor!: Ancestor;
  #running: Promise<void> = Promise.resolve();
  #wake = (): void => undefined;
  #isAwake = true;
  /** True if the browser tells of changes on this device. */
  #isObserved = false;
  /** Files that an earlier page was making here. */
  #halfMade: readonly HalfMade[] = [];
  /** The last plan. */
  #planned: Plan | undefined;
  /** True until the next plan, which is made without the deletions. No plan that is being made sees a part of them. */
  #bringsBack = false;

  constructor(
    readonly record: FolderRecord,
    remote: (to: Place, stop: AbortSignal) => RemoteEnd = (to, stop) => new Remote(to, stop),
  ) {
    const stop = this.#stop.signal;
    this.#ends = { here: new KnownEnd(new Local(record.handle)), there: new KnownEnd(remote(record.to, stop)) };
    const tell = (left: number) => (this.status.value = { is: "working", left });
    this.#steps = new Steps(this.#ends, { stop, tell, deleted: (end, path) => this.#consent.count(end, path) });
  }

  /** The last edits, the newest first. */
  get edits(): Steps["edits"] {
    return this.#steps.edits;
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

  /** Ends. Resolves when the last step has ended and all is noted. */
  end(): Promise<void> {
    this.#stop.abort(new DOMException("ended", "AbortError"));
    this.#wake();
    return this.#running;
  }

  /** Looks at everything again, now. */
  again(): void {
    this.#markAll();
    this.#rouse();
  }

  #markAll(): void {
    this.#ends.here.markAll();
    this.#ends.there.markAll();
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

  /** Forgets files that an end lacks, so they are new at the other end. */
  #forgetDeleted(): void {
    this.#bringsBack = false;
    const { here, there } = this.#ends;
    here.isChanged = true;
    for (const [path] of this.#ancestor.entries) if (!here.tree.has(path) || !there.tree.has(path)) this.#ancestor.set(path, undefined);
    this.#consent.refuse();
  }

  async #follow(): Promise<void> {
    const stop = this.#stop.signal;
    // The tab that worked until now may have paused or stopped the sync.
    const kept = (await keptFolders()).find(({ id }) => id === this.record.id);
    if (!kept || kept.paused) return void (this.status.value = { is: "paused" });
    this.status.value = { is: "starting" };
    const { entries, making } = await keptCommon(this.record.id);
    this.#ancestor = this.#steps.ancestor = this.#ends.here.end.notes = new Ancestor(this.record.id, entries);
    this.#halfMade = making;
    const inside = this.record.to.path.join("/");
    const unfollow = follow(this.record.to.volume, (path) => this.#heard(path, inside));
    let unobserve: (() => void) | undefined;
    const looking = this.#look();
    try {
      while (!stop.aborted) {
        this.#isAwake = false;
        if ((await this.#permitted()) && !unobserve) unobserve = await observe(this.record.handle, (path) => this.#sawHere(path));
        this.#isObserved = unobserve !== undefined;
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

  /** Removes the empty files that a page leaves which is killed while it makes them. Empty files of later are the user's. */
  async #removeHalfMade(): Promise<void> {
    // Rejects if the folder is away: the notes stay for the next round.
    const { end } = this.#ends.here;
    if (this.#halfMade.length > 0) await end.hasEntries();
    for (const { path, at } of this.#halfMade) {
      const found = await end.look(path);
      if (typeof found === "object" && found.bytes === 0 && found.modified <= at + MAKING_MS) await end.remove(path, found);
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

  /** The server tells of a change in the volume. The synced folder is at `inside`. */
  #heard(path: string, inside: string): void {
    const { there } = this.#ends;
    if (path === "") there.markAll();
    else if (inside === "") there.hear(path);
    else if (path.startsWith(`${inside}/`)) there.hear(path.slice(inside.length + 1));
    else if (inside === path || inside.startsWith(`${path}/`)) there.markAll();
    else return;
    this.#rouse();
  }

  #sawHere(path: string | undefined): void {
    if (path?.endsWith(".crswap")) return;
    if (path === undefined) this.#ends.here.markAll();
    else this.#ends.here.mark(path);
    this.#rouse();
  }

  /** Looks regularly: at this device if the browser tells no changes, at the server for changes by its other programs. */
  async #look(): Promise<void> {
    const stop = this.#stop.signal;
    const { here, there } = this.#ends;
    while (!stop.aborted) {
      await pause(LOOK_SECS / 4, stop).catch(() => undefined);
      if (document.visibilityState !== "visible") continue;
      const isDue = [here.markIfDue(Math.max(this.#isObserved ? OBSERVED_MS : LOOK_SECS * 1000, 10 * here.tookMs)), there.markIfDue(Math.max(THERE_MS, 20 * there.tookMs))];
      if (isDue.includes(true)) this.#rouse();
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
      this.#markAll();
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
    const { here, there } = this.#ends;
    const stop = this.#stop.signal;
    there.hearEchoes();
    for (let round = 0; round < MOST_ROUNDS; round++) {
      await Promise.all([here.refresh(), there.refresh()]);
      if (this.#bringsBack) this.#forgetDeleted();
      const plan = await this.#plan();
      this.troubles.value = plan.clashes.map((why) => ({ path: why.path, why }));
      if (plan.guard) return void (this.status.value = { is: "asking", guard: plan.guard });
      const settles = this.#settling.begins(plan);
      const failed = await this.#steps.execute(settles ? withoutDeletions(plan.steps) : plan.steps);
      if (settles) {
        await this.#settling.wait(plan, this.#ends, this.#isObserved, stop);
        continue;
      }
      this.#consent.end();
      if (failed.length > 0) {
        this.troubles.value = [...this.troubles.value, ...failed];
        return void (this.status.value = { is: "synced" });
      }
      if (plan.steps.length === 0) there.hearEchoes();
      if (plan.steps.length === 0 && !here.isDirty && !there.isDirty) {
        this.#steps.settled();
        // A page that says so may be closed.
        await this.#ancestor.written();
        return void (this.status.value = reach.value.on ? { is: "synced" } : { is: "offline" });
      }
      stop.throwIfAborted();
    }
    // Both ends change faster than the rounds: go on, after the events so far.
    this.#rouse();
  }

  async #plan(): Promise<Plan> {
    const { here, there } = this.#ends;
    // Equal trees have the same plan.
    const isSame = !here.isChanged && !there.isChanged;
    if (isSame && this.#planned?.steps.length === 0 && !this.#planned.guard) return this.#planned;
    here.isChanged = there.isChanged = false;
    this.#planned = undefined;
    return (this.#planned = await this.#consent.plan({ ancestor: this.#ancestor.entries, here: here.tree, there: there.tree }));
  }
}

/** Time between two looks at this device, if the browser tells no changes; and if it does. */
const LOOK_SECS = 2;
const OBSERVED_MS = 30_000;
/** Time between two looks at the server, whose events leave out changes by other programs. */
const THERE_MS = 5_000;
/** Longest time from the note that a file is being made to the making, with the difference between two clocks. */
const MAKING_MS = 10_000;
const MOST_ROUNDS = 20;
