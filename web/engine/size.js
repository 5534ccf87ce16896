// Prints the sizes of the modules, raw and as they travel. Fails if the module of pushes is above the aim.
import { readFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";

import { modules } from "./test/server.js";

const AIM_KIB = 260;
const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 };
const kib = (len) => `${(len / 1024).toFixed(0)} KiB`;

function size(name) {
  const bytes = readFileSync(modules[name]);
  const packed = brotliCompressSync(bytes, { params: { ...params, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  const imports = WebAssembly.Module.imports(new WebAssembly.Module(bytes));
  console.log(`${name}: raw ${bytes.length} (${kib(bytes.length)}), brotli ${packed.length} (${kib(packed.length)})`);
  console.log(`imports: ${imports.map(({ module, name }) => `${module}.${name}`).join(", ") || "none"}`);
  return packed.length;
}

size("pull");
if (size("push") > AIM_KIB * 1024) {
  console.error(`above the aim of ${AIM_KIB} KiB`);
  process.exit(1);
}
