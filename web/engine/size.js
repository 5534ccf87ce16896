// Prints the size of the module, raw and as it travels: size.js [MODULE]. Fails above the aim.
import { readFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";

import { module } from "./test/server.js";

const AIM_KIB = 260;
const bytes = readFileSync(process.argv[2] ?? module);
const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 };
const packed = brotliCompressSync(bytes, { params: { ...params, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
const kib = (len) => `${(len / 1024).toFixed(0)} KiB`;
const imports = WebAssembly.Module.imports(new WebAssembly.Module(bytes));
console.log(`raw ${bytes.length} (${kib(bytes.length)}), brotli ${packed.length} (${kib(packed.length)})`);
console.log(`imports: ${imports.map(({ module, name }) => `${module}.${name}`).join(", ") || "none"}`);
if (packed.length > AIM_KIB * 1024) {
  console.error(`above the aim of ${AIM_KIB} KiB`);
  process.exit(1);
}
