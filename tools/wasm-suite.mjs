// Runs the suite of all chunkers' forms (crates/core/examples/suite.rs) in this machine: wasm-suite.mjs MODULE
// Fails where a form differs, where the module wants anything of its host, and where nothing was compared.
import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(module);
if (imports.length > 0) fail(`the module has imports: ${JSON.stringify(imports)}`);

const { exports } = new WebAssembly.Instance(module);
const started = performance.now();
let passed = 0;
try {
  passed = exports.main(0, 0);
} catch (trap) {
  const memory = Buffer.from(exports.memory.buffer).toString("latin1");
  fail(memory.match(/suite: \w[^\n\0]+/)?.[0] ?? `the suite: ${trap}`);
}
if (!(passed > 0)) fail("the suite compared nothing");
console.log(`${passed} chunkers cut alike with vectors of 16 bytes (${((performance.now() - started) / 1000).toFixed(1)} s)`);

function fail(why) {
  console.error(why);
  process.exit(1);
}
