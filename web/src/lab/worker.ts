/** The worker of the lab: makes files, syncs them by the engine, and compares them with the server's. */
import { BlobFiles } from "../../engine/src/browser.js";
import { versions, type Edit } from "./experiment";
import { Runner, type Cost, type Sync, type Way } from "./runner";

/** The old and the new version of a file. */
export interface Made {
  old: File;
  edited: File;
}

/** A file at the server. */
export interface There {
  /** Address of the file by plain HTTP. */
  address: string;
  token: string;
}

/** Calls that the page makes, and their answers. */
export interface Calls {
  make: (edit: Edit) => Promise<Made>;
  open: (way: Way) => Promise<void>;
  sync: (sync: Sync) => Promise<Cost>;
  /** True if the server's file equals `file`. */
  isEqual: (at: { file: File; there: There }) => Promise<boolean>;
}

export type Call = { [K in keyof Calls]: { id: number; call: K; of: Parameters<Calls[K]>[0] } }[keyof Calls];
export type Answer = { id: number } & ({ value: unknown } | { error: string });

const files = new BlobFiles();
const runner = new Runner({ files, open: (file) => files.open(file) });

const calls: Calls = {
  make: async (edit) => {
    const made = await versions(edit);
    // A file in the storage of the origin would be nearer to a file of the user, and is not everywhere.
    const file = (content: Blob, ms: number) => new File([content], "lab.bin", { lastModified: ms });
    const now = Date.now();
    return { old: file(made.old, now - 1000), edited: file(made.edited, now) };
  },
  open: (way) => runner.open(way),
  sync: (sync) => runner.sync(sync),
  isEqual: async ({ file, there }) => (await hasDigest(file, there)) ?? hasBytes(file, there),
};

self.onmessage = async ({ data }: MessageEvent<Call>) => {
  const { id, call, of } = data;
  const answer = (answer: Answer) => postMessage(answer);
  try {
    answer({ id, value: await (calls[call] as (of: unknown) => unknown)(of) });
  } catch (error) {
    answer({ id, error: error instanceof Error ? error.message : String(error) });
  }
};

/** Compares SHA-256. Undefined if the server or this browser computes none. */
async function hasDigest(file: File, { address, token }: There): Promise<boolean | undefined> {
  if (!globalThis.crypto?.subtle) return undefined;
  const headers = { Authorization: `Bearer ${token}`, "Want-Repr-Digest": "sha-256=1" };
  const answer = await fetch(address, { method: "HEAD", headers, cache: "no-store" });
  const told = /sha-256=:([^:]*):/.exec(answer.headers.get("Repr-Digest") ?? "")?.[1];
  if (!answer.ok || told === undefined) return undefined;
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return btoa(String.fromCharCode(...sum)) === told;
}

/** Compares the bytes. */
async function hasBytes(file: File, { address, token }: There): Promise<boolean> {
  const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  if (!answer.ok || !answer.body) throw new Error(`the server answered ${answer.status}`);
  const reader = answer.body.getReader();
  let at = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return at === file.size;
    const own = new Uint8Array(await file.slice(at, at + value.length).arrayBuffer());
    if (own.length !== value.length || value.some((byte, i) => byte !== own[i])) {
      await reader.cancel();
      return false;
    }
    at += value.length;
  }
}
