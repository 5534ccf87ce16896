/**
 * A server in front of `deltic serve`, as one origin for the page and the API. The files of `dist` have the policy that
 * the real server sends (`served.test.ts` compares both); requests below /v1 go on to a real `deltic serve`. A test can
 * cut the connection to that server.
 */
import { readFileSync } from "node:fs";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { extname, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist", import.meta.url));

/** The content security policy that the server sends with the page. */
export const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "manifest-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types deltic",
].join("; ");

const types: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".wasm": "application/wasm",
};

export interface Origin {
  url: string;
  /** While true, no request reaches the server. */
  cut: boolean;
  /** Rate at which bodies of requests pass, in bytes a second; undefined for no limit. */
  slow: number | undefined;
  /** Requests that were passed on, as `METHOD /path`. */
  seen: string[];
  /** False for a proxy that refuses WebSockets. */
  sockets: boolean;
  /** Files that are served beside the page, by their paths, without a policy. */
  more: Map<string, string | Buffer>;
  /** Runs before a WebSocket is passed on. */
  onUpgrade: ((client: Socket) => void) | undefined;
  /** Longest body of a request that passes, like the limit of a proxy; undefined for no limit. */
  longest: number | undefined;
  /** Lengths of the bodies of uploads. */
  bodies: number[];
  /** Bytes of requests and answers over WebSockets. */
  wire: { up: number; down: number };
  /** Greatest number of requests with files in progress at the same time. */
  most: number;
  /** Ends all connections. */
  drop: () => void;
  stop: () => Promise<void>;
}

/** Starts the origin in front of the server at `server()`. The origin strips `prefix` from paths, as a proxy does. */
export async function startOrigin(server: () => string, prefix = "/"): Promise<Origin> {
  let uploads = 0;
  const sockets = new Set<Socket>();
  const drop = () => {
    http.closeAllConnections();
    for (const socket of sockets) socket.destroy();
  };
  const origin: Origin = {
    url: "",
    cut: false,
    slow: undefined,
    seen: [],
    most: 0,
    sockets: true,
    more: new Map(),
    onUpgrade: undefined,
    longest: undefined,
    bodies: [],
    wire: { up: 0, down: 0 },
    drop,
    stop: () => {
      drop();
      return new Promise((resolve) => http.close(() => resolve()));
    },
  };
  const http = createServer((ask, answer) => {
    const url = ask.url ?? "";
    if (!url.startsWith(prefix)) return void answer.writeHead(404).end();
    const path = "/" + url.slice(prefix.length);
    if (/^\/(v1\/|healthz)/.test(path)) pass(ask, answer, path);
    else serve(path, answer);
  });

  function serve(path: string, answer: ServerResponse): void {
    const name = normalize(decodeURIComponent(path.split("?")[0]!));
    const more = origin.more.get(name);
    if (more !== undefined) return void answer.writeHead(200, { "Content-Type": types[extname(name)] ?? "" }).end(more);
    try {
      if (!/^\/(assets\/|mark)/.test(name)) throw new Error("a screen");
      answer.writeHead(200, { "Content-Type": types[extname(name)] ?? "" }).end(readFileSync(dist + name));
    } catch {
      const html = readFileSync(`${dist}/index.html`, "utf8").replace('<base href="/">', `<base href="${prefix}">`);
      answer.writeHead(200, { "Content-Type": types[".html"]!, "Content-Security-Policy": POLICY }).end(html);
    }
  }

  function pass(ask: IncomingMessage, answer: ServerResponse, path: string): void {
    origin.seen.push(`${ask.method} ${path}`);
    if (origin.cut) return void ask.socket.destroy();
    const isUpload = ask.method === "PUT" || (ask.method === "POST" && path.endsWith("/files"));
    if (isUpload || ask.method === "PATCH" || path.startsWith("/v1/streams/")) {
      const length = Number(ask.headers["content-length"] ?? 0);
      if (origin.longest !== undefined && length > origin.longest) return void answer.writeHead(413, { Connection: "close" }).end();
      if (ask.method !== "GET") origin.bodies.push(length);
    }
    if (isUpload) origin.most = Math.max(origin.most, ++uploads);
    const [host, port] = server().split(":");
    const on = request({ host, port, method: ask.method, path, headers: ask.headers }, (back) => {
      answer.writeHead(back.statusCode ?? 502, back.headers);
      back.pipe(answer);
    });
    on.on("error", () => (answer.headersSent ? answer.destroy() : answer.writeHead(502).end()));
    ask.on("error", () => on.destroy());
    answer.on("close", () => {
      if (isUpload) uploads--;
      on.destroy();
    });
    ask.on("data", (bytes: Buffer) => {
      on.write(bytes);
      if (!origin.slow) return;
      ask.pause();
      setTimeout(() => ask.resume(), (bytes.length / origin.slow) * 1000);
    });
    ask.on("end", () => on.end());
  }

  http.on("upgrade", (ask, client: Socket, head) => {
    origin.seen.push(`UPGRADE ${ask.url}`);
    if (origin.cut || !origin.sockets) return void client.destroy();
    origin.onUpgrade?.(client);
    const [host, port] = server().split(":");
    const on = connect(Number(port), host, () => {
      const lines = [`GET /${ask.url!.slice(prefix.length)} HTTP/1.1`];
      for (let i = 0; i < ask.rawHeaders.length; i += 2) lines.push(`${ask.rawHeaders[i]}: ${ask.rawHeaders[i + 1]}`);
      on.write(lines.join("\r\n") + "\r\n\r\n");
      on.write(head);
      client.on("data", (bytes) => {
        origin.wire.up += bytes.length;
        on.write(bytes);
        if (!origin.slow) return;
        client.pause();
        setTimeout(() => client.resume(), (bytes.length / origin.slow) * 1000);
      });
      client.on("end", () => on.end());
      on.on("data", (bytes) => (origin.wire.down += bytes.length));
      on.pipe(client);
    });
    sockets.add(client);
    for (const end of [client, on]) {
      end.on("error", () => undefined);
      end.on("close", () => {
        sockets.delete(client);
        client.destroy();
        on.destroy();
      });
    }
  });

  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  origin.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}${prefix}`;
  return origin;
}
