/** Requests about tokens made by this page's token, and about the whole server (docs/http.md). */
import { call } from "./http";
import { uploadAddress, type Place } from "./volumes";

/** A token without the secret. */
export interface Share {
  id: string;
  name: string;
  volumes: string[] | null;
  /** Directory in each volume; null for whole volumes. */
  path: string | null;
  read: boolean;
  write: boolean;
  delete: boolean;
  share: boolean;
  /** Seconds since 1970; null for no end. */
  expires: number | null;
  /** Time of the last request, in seconds since 1970; null for a token without requests. */
  used: number | null;
  /** Number of visits. A visit ends with half an hour without a request. */
  visits: number;
}

/** A token with the fields for administrators. */
export interface ServerToken extends Share {
  /** Id of the token that made this token; null for tokens made on the server's machine. */
  made_by: string | null;
  /** The present number of sessions and watches. */
  connected: number;
  admin: boolean;
  /** True for the token of a signed-in page. */
  session: boolean;
  /** True for the token of this request. */
  own: boolean;
  /** True for the token of the printed address. */
  starter: boolean;
}

export interface NewShare {
  name: string;
  read: boolean;
  write: boolean;
  /** Seconds until the end; undefined for no end. */
  expires_in: number | undefined;
}

export async function shares(): Promise<Share[]> {
  return ((await (await call("v1/tokens")).json()) as { tokens: Share[] }).tokens;
}

/** Makes a token for a folder, without the right to make tokens. Returns the secret. */
export async function makeShare({ volume, path }: Place, wanted: NewShare): Promise<string> {
  const part = path.length ? { path: path.join("/") } : {};
  const body = JSON.stringify({ ...wanted, ...part, volumes: [volume], share: false });
  const answer = await call("v1/tokens", { method: "POST", body, headers: { "Content-Type": "application/json" } });
  return ((await answer.json()) as { token: string }).token;
}

export async function revokeShare(id: string): Promise<void> {
  await call(`v1/tokens/${encodeURIComponent(id)}`, { method: "DELETE" });
}

export async function serverTokens(): Promise<{ version: string; tokens: ServerToken[] }> {
  return (await (await call("v1/server")).json()) as { version: string; tokens: ServerToken[] };
}

/** An upload of which bytes are missing. */
export interface UnfinishedUpload {
  /** For `cancelUpload`. */
  id: string;
  path: string;
  bytes: number;
  arrived: number;
  /** Time at which the server removes the upload, in seconds since 1970. */
  expires: number;
  /** Name of the token. */
  token: string | null;
}

export async function unfinishedUploads(volume: string): Promise<UnfinishedUpload[]> {
  return ((await (await call(`v1/volumes/${encodeURIComponent(volume)}/uploads`)).json()) as { uploads: UnfinishedUpload[] }).uploads;
}

export async function cancelUpload(volume: string, id: string): Promise<void> {
  await call(uploadAddress(volume, id), { method: "DELETE" });
}
