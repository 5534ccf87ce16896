// The page is built into `dist`, which the server embeds. While developing, one origin serves both the page and the
// API, as in the product: `vite` proxies `/v1` and `/healthz` to the server at DELTIC_URL.
import { defineConfig } from "vite";

const server = process.env["DELTIC_URL"] ?? "http://127.0.0.1:8420";
const proxy = Object.fromEntries(
  // `Host` stays that of the page: the server refuses requests of pages from elsewhere.
  ["/v1", "/healthz"].map((path) => [path, { target: server, ws: true }]),
);

export default defineConfig({
  // Addresses in index.html are relative to its <base>, so the page also works below a path of a proxy.
  base: "./",
  server: { host: "127.0.0.1", port: 5173, proxy },
  preview: { host: "127.0.0.1", port: 4173, proxy },
  build: { target: "es2022", cssTarget: ["chrome123", "firefox120", "safari17.5"], assetsInlineLimit: 0, modulePreload: { polyfill: false }, sourcemap: false },
  worker: { format: "es" },
  test: { include: [process.env["SHOTS"] ? "tests/shots.ts" : process.env["BENCH"] === "live" ? "tests/bench-live.ts" : process.env["BENCH"] === "lab" ? "tests/bench-lab.ts" : process.env["BENCH"] ? "tests/bench.ts" : "tests/**/*.test.ts"], testTimeout: 180_000, retry: 1, hookTimeout: 120_000, fileParallelism: false, expect: { poll: { timeout: 20_000 } } },
} as import("vite").UserConfig);
