// One origin for the page and the API, as the product will be: the files of `dist` with the policy that the server will
// send, and everything below /v1 passed on to a real `deltic serve`. A test can cut the way to the server.
import { createServer, request } from "node:http";
import { readFileSync } from "node:fs";
import { extname, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist", import.meta.url));

/** What the server must send with the page. */
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
  "trusted-types 'none'",
].join("; ");

const types = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/**
 * Starts the origin before the server at `server` (host:port). `prefix` is the path below which everything is, as
 * behind a proxy that strips it.
 */
export async function startOrigin(server, prefix = "/") {
  const origin = { cut: false, seen: [] };
  const http = createServer((ask, answer) => {
    const path = ask.url.startsWith(prefix) ? "/" + ask.url.slice(prefix.length) : undefined;
    if (path === undefined) return void answer.writeHead(404).end();
    if (/^\/(v1\/|healthz)/.test(path)) return pass(ask, answer, path);
    const name = normalize(decodeURIComponent(path.split("?")[0]));
    try {
      if (!extname(name) || !/^\/(assets\/|mark)/.test(name)) throw undefined;
      const body = readFileSync(dist + name);
      answer.writeHead(200, { "Content-Type": types[extname(name)] }).end(body);
    } catch {
      const html = readFileSync(`${dist}/index.html`, "utf8").replace('<base href="/">', `<base href="${prefix}">`);
      answer.writeHead(200, { "Content-Type": types[".html"], "Content-Security-Policy": POLICY }).end(html);
    }
  });

  function pass(ask, answer, path) {
    origin.seen.push(`${ask.method} ${path}`);
    if (origin.cut) return void ask.socket.destroy();
    const [host, port] = server().split(":");
    const on = request({ host, port, method: ask.method, path, headers: ask.headers }, (back) => {
      answer.writeHead(back.statusCode, back.headers);
      back.pipe(answer);
    });
    on.on("error", () => (answer.headersSent ? answer.destroy() : answer.writeHead(502).end()));
    ask.on("error", () => on.destroy());
    answer.on("close", () => on.destroy());
    ask.pipe(on);
  }

  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  origin.url = `http://127.0.0.1:${http.address().port}${prefix}`;
  origin.drop = () => http.closeAllConnections();
  origin.stop = () => {
    http.closeAllConnections();
    return new Promise((resolve) => http.close(resolve));
  };
  return origin;
}
