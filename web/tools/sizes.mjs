// Compresses the files of the build with brotli, for the server to send; prints the bytes of each file, raw and
// compressed; and fails when the page outgrows its first load.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";

const LIMIT_BYTES = 120 * 1024; // beside wasm: the whole first load may take 350 KiB

const dist = new URL("../dist/", import.meta.url);
let first = 0;
for (const file of readdirSync(dist, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())) {
  const path = `${file.parentPath ?? file.path}/${file.name}`;
  const bytes = readFileSync(path);
  let small = bytes.length;
  // Fonts are compressed already, and the server fills in index.html.
  if (!/\.(woff2|html)$/.test(file.name)) {
    const compressed = brotliCompressSync(bytes);
    small = compressed.length;
    writeFileSync(`${path}.br`, compressed);
  }
  // Letters beyond Latin-1 come only when a name has one, the engine comes with the first delta, and the lab when it is opened.
  if (!file.name.includes("latin-ext") && !/^worker-|^Lab-|\.wasm$/.test(file.name)) first += small;
  console.log(`${file.name.padEnd(72)} ${String(bytes.length).padStart(8)} ${String(small).padStart(8)}`);
}
console.log(`${"first load".padEnd(72)} ${" ".repeat(8)} ${String(first).padStart(8)}`);
if (first > LIMIT_BYTES) {
  console.error(`the first load has more than ${LIMIT_BYTES} bytes`);
  process.exit(1);
}
