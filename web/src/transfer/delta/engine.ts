/**
 * Sends what is new of a file that replaces a version of the server. New and small files travel by plain HTTP, and so
 * does every file where the module, Web Workers or WebSockets are missing.
 */
import type { Result } from "../../../engine/src/engine.js";
import { Problem } from "../../api/http";
import { address, type Place } from "../../api/volumes";
import { root } from "../../route";
import { token } from "../../session";
import { Taken, Unreadable, type Engine, type Progress } from "../engine";
import { lookIfAllowed, plain } from "../plain";
import { transfer } from "./client";
import type { Failure, Report } from "./messages";

/** Shorter files cost less as a whole. */
const LEAST_BYTES = 64 * 1024;
/** A connection that ended is tried once more before the whole file is sent. */
const TRIES = 2;

export const delta: Engine = {
  async upload(file, to, base, on, stop) {
    if (base === "nothing" || file.size < LEAST_BYTES) return plain.upload(file, to, base, on, stop);
    on(underWay(file, { settled: 0, sent: 0 }));
    const there = { address: new URL(address("files", to), root()).href, tag: base.tag };
    for (let tries = 0; tries < TRIES; tries++) {
      const end = await transfer({ is: "upload", file, ...there, ...way(to) }, (report) => on(underWay(file, report)), stop);
      if (end && !("is" in end)) return on(arrived(file, end));
      if (end) await refuse(end, to);
      if (end?.is !== "ended") break;
    }
    return plain.upload(file, to, base, on, stop);
  },

  download: plain.download,
};

/** Returns the way to a file over the WebSocket. */
export function way({ volume, path }: Place): { volume: string; path: string; socket: string; token: string } {
  const socket = new URL("v1/ws", root()).href.replace(/^http/, "ws");
  return { volume, path: path.join("/"), socket, token: token.value ?? "" };
}

/** Rejects with a failure that the way of sending does not matter for. */
async function refuse(failure: Failure, to: Place): Promise<void> {
  if (failure.is === "taken") throw new Taken(await lookIfAllowed(to));
  if (failure.is === "unreadable") throw new Unreadable();
  if (failure.is === "busy") throw new Problem(503, failure.why, failure.secs);
}

function underWay({ size }: File, { settled, sent }: Report): Progress {
  const fresh = Math.min(sent, settled);
  const stage = settled === 0 ? "matching" : settled < size ? "sending" : "writing";
  return { stage, bytes: size, kept: settled - fresh, moved: 0, fresh, sent: fresh };
}

/** The sender does not learn where the server found the bytes that it had: moved bytes count as kept. */
function arrived({ size }: File, { matched, literal }: Result): Progress {
  return { stage: "writing", bytes: size, kept: matched, moved: 0, fresh: literal, sent: literal };
}
