/** Changes that other clients make on the server (docs/http.md, "Events"). */
import { call, pause } from "../api/http";

type Changed = (path: string) => void;

/** Streams by volume. Browsers open six connections to a server, so followers of a volume share a stream. */
const streams = new Map<string, { followers: Set<Changed>; stop: AbortController }>();

/**
 * Calls `changed` with the path of each change in a volume, until the returned function is called. An empty path means
 * that changes were missed: anything may have changed.
 */
export function follow(volume: string, changed: Changed): () => void {
  let stream = streams.get(volume);
  if (!stream) {
    const followers = new Set<Changed>();
    const stop = new AbortController();
    streams.set(volume, (stream = { followers, stop }));
    void run(volume, (path) => followers.forEach((tell) => tell(path)), stop.signal);
  }
  const { followers, stop } = stream;
  // A function may follow twice, so each follower is another function.
  const follower: Changed = (path) => changed(path);
  followers.add(follower);
  return () => {
    followers.delete(follower);
    if (followers.size > 0) return;
    stop.abort();
    streams.delete(volume);
  };
}

async function run(volume: string, changed: (path: string) => void, stop: AbortSignal): Promise<void> {
  let last: string | undefined;
  let isFirst = true;
  for (let wait = 1; ; wait = Math.min(wait * 2, 30)) {
    try {
      const headers: Record<string, string> = last === undefined ? {} : { "Last-Event-ID": last };
      const answer = await call(`v1/volumes/${encodeURIComponent(volume)}/events`, { headers, signal: stop });
      // A token for a part of a volume gets no names of events, so the stream begins anew.
      if (!isFirst && last === undefined) changed("");
      isFirst = false;
      for await (const event of events(answer.body!)) {
        wait = 1;
        last = event.id ?? last;
        if (event.path !== undefined) changed(event.path);
        if (event.kind === "missed") last = undefined;
      }
      // The stream ended. Changes until the next stream may be lost.
      await pause(wait, stop);
    } catch {
      if (stop.aborted) return;
      // The server has no free stream, denies the right, or is away. A folder still has the right list when opened.
      try {
        await pause(wait, stop);
      } catch {
        return;
      }
    }
  }
}

interface Event {
  id: string | undefined;
  kind: string;
  path: string | undefined;
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true }).replaceAll("\r", "");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      yield parse(text.slice(0, end));
      text = text.slice(end + 2);
    }
    if (text.length > LONGEST) throw new Error("an event is too long");
  }
}

function parse(block: string): Event {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1).trimStart());
  }
  let path: string | undefined;
  try {
    const data = JSON.parse(fields.get("data") ?? "") as { path?: unknown };
    if (typeof data.path === "string") path = data.path;
  } catch {
    // `ready` and comments have no data.
  }
  return { id: fields.get("id"), kind: fields.get("event") ?? "", path };
}

/** Maximum length of an event: a path of 4,096 bytes, up to seven bytes each in JSON, and the other fields. */
const LONGEST = 64 * 1024;
