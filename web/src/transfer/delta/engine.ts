/**
 * Sends the data of a file that the server lacks: the new data of a changed file, or the rest of a new file. Small
 * files are sent whole by plain HTTP. Without the module or Web Workers, all files are sent whole. Without WebSockets,
 * all new files are sent whole.
 */
import type { Result } from "../../../engine/src/engine.js";
import { answers, lost, pause, Problem, Unreachable } from "../../api/http";
import type { Place } from "../../api/volumes";
import { root } from "../../root";
import { token } from "../../session";
import { Taken, Unreadable, type Base, type Engine, type Progress } from "../engine";
import { isContent, lookIfAllowed, plain } from "../plain";
import { limit } from "../rate";
import { disconnect, transfer } from "./client";
import type { Failure, Report } from "./messages";

/** Files shorter than this cost less as a whole. */
const LEAST_BYTES = 64 * 1024;
/** New files shorter than this are sent again from the start after a break. */
const LEAST_NEW_BYTES = 8 * 1024 * 1024;
/** Number of connections in a row without progress, before the whole file is sent. */
const TRIES = 3;

export const delta: Engine = {
  async upload(file, to, base, on, stop) {
    const isNew = base === "nothing";
    // Only the engine can send slowly.
    if (file.size < (isNew && limit.peek() === 0 ? LEAST_NEW_BYTES : LEAST_BYTES)) return plain.upload(file, to, base, on, stop);
    on(underWay(file, { settled: 0, sent: 0 }));
    const taken = isNew ? await lookIfAllowed(to) : undefined;
    if (taken) throw new Taken(taken);
    const replaces = isNew ? "" : base.tag.replace(/^W\/|"/g, "");
    let begins = isNew ? undefined : await beginning(file, base);
    await settled(to, stop);
    let furthest = 0;
    // Bytes that earlier connections have sent.
    let earlier = 0;
    for (let tries = 0; tries < TRIES; tries++) {
      let progress = underWay(file, { settled: 0, sent: 0 });
      const heard = ({ settled, sent }: Report) => {
        if (settled > furthest) [furthest, tries] = [settled, 0];
        progress = underWay(file, { settled, sent: earlier + sent });
        on(progress);
      };
      const begun = transfer({ is: "upload", file, replaces, begins, ...way(to) }, heard, stop);
      const end = await begun.catch((error: unknown) => (brokeOff(to), Promise.reject(error)));
      if (end && !("is" in end)) return on(arrived(file, end, earlier));
      begins = undefined;
      // All that the server has of a new file was sent.
      earlier = isNew ? file.size : Math.max(earlier, progress.sent);
      brokeOff(to);
      if (end) refuse(end);
      // While the server is away, do not fall back to plain HTTP: the server keeps the bytes that arrived.
      if (!(await answers())) {
        lost();
        throw new Unreachable();
      }
      if (end?.is !== "ended") break;
      await pause(Math.min(LAST_PAUSE, FIRST_PAUSE * 2 ** tries) * (0.5 + Math.random()), stop);
      await settled(to, stop);
    }
    // The server may have refused the upload because of another version.
    await refuseIfTaken(to, base);
    return plain.upload(file, to, base, on, stop);
  },

  download: plain.download,
};

/** Returns the length of the version to replace, if the file is that version and some bytes more. */
async function beginning(file: File, { bytes, sha256 }: Exclude<Base, "nothing">): Promise<number | undefined> {
  if (!bytes || bytes >= file.size || file.size > MOST_APPENDED_TO || file.size - bytes > MOST_APPENDED) return undefined;
  return (await isContent(file.slice(0, bytes), { bytes, sha256 })) ? bytes : undefined;
}

/** Longest file that bytes are appended to by one message, and most bytes to append (docs/protocol.md, "Updates"). */
const MOST_APPENDED_TO = 32 << 20;
const MOST_APPENDED = 250_000;

/** Times of the last failed transfers, by place. */
const ends = new Map<string, number>();
const placeKey = ({ volume, path }: Place): string => [volume, ...path].join("/");

/** Notes that a transfer to a place has ended just now, without success. */
export function brokeOff(to: Place): void {
  if (ends.size >= MOST_ENDS) ends.clear();
  ends.set(placeKey(to), performance.now());
}

/**
 * Waits until the server has noticed the end of an earlier transfer to this place, by this page or by an earlier page.
 * Before that, the bytes that arrived belong to the earlier transfer, and would be sent again.
 */
async function settled(to: Place, stop: AbortSignal): Promise<void> {
  const wait = (ends.get(placeKey(to)) ?? 0) + SETTLE_MS - performance.now();
  if (wait > 0) await pause(wait / 1000, stop);
}

/** A file whose upload may have begun. */
export interface Begun {
  to: Place;
  bytes: number;
  /** Undefined before the file was opened. */
  modified: number | undefined;
}

/**
 * Removes the bytes that arrived at the server of uploads which were cancelled. Without an answer in time, the server
 * keeps these bytes for some days.
 */
export async function discard(begun: readonly Begun[]): Promise<void> {
  const stop = AbortSignal.timeout(DISCARD_MS);
  await Promise.all(
    begun.map(async ({ to, bytes, modified }) => {
      if (bytes < LEAST_BYTES || modified === undefined) return;
      // The user may sign out meanwhile.
      const by = way(to);
      // The abort has not reached the upload yet.
      await pause(0);
      if (!ends.has(placeKey(to))) return;
      await settled(to, stop);
      await transfer({ is: "discard", bytes, modified, ...by }, () => undefined, stop);
    }),
  ).catch(() => undefined);
}

const SETTLE_MS = 1_500;
/** Time in which a cancelled upload is removed. */
const DISCARD_MS = 10_000;
const MOST_ENDS = 10_000;

/** Seconds between two connections. */
const FIRST_PAUSE = 0.25;
const LAST_PAUSE = 8;

// Close all connections: after a change of the network, old connections stay silent.
addEventListener("offline", disconnect);

/** Returns the volume, the path, the WebSocket's address and the token for a transfer. */
export function way({ volume, path }: Place): { volume: string; path: string; socket: string; token: string } {
  const socket = new URL("v1/ws", root()).href.replace(/^http/, "ws");
  return { volume, path: path.join("/"), socket, token: token.value ?? "" };
}

/** Rejects if the server has another version than the version that the upload may replace. */
async function refuseIfTaken(to: Place, base: Base): Promise<void> {
  const there = await lookIfAllowed(to);
  const isTaken = base === "nothing" ? there !== undefined : there?.tag !== base.tag;
  if (isTaken) throw new Taken(there);
}

/** Throws if plain HTTP would fail as well: an unreadable file, or a busy server. */
function refuse(failure: Failure): void {
  if (failure.is === "unreadable") throw new Unreadable();
  if (failure.is === "busy") throw new Problem(503, failure.why, failure.secs);
}

function underWay({ size }: File, { settled, sent }: Report): Progress {
  const fresh = Math.min(sent, settled);
  const stage = settled === 0 ? "matching" : settled < size ? "sending" : "writing";
  return { stage, bytes: size, kept: settled - fresh, moved: 0, fresh, sent: fresh };
}

/** Returns the final progress. The server does not report the source of matched bytes, so moved bytes count as kept. */
function arrived({ size }: File, { matched, literal }: Result, earlier: number): Progress {
  const resumed = Math.min(earlier, matched);
  const fresh = literal + resumed;
  return { stage: "writing", bytes: size, kept: matched - resumed, moved: 0, fresh, sent: fresh };
}
