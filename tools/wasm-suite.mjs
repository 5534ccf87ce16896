// Runs a suite of tests in WebAssembly (crates/core/examples/suite.rs, crates/worker/examples/sync):
// wasm-suite.mjs MODULE WORDS. Fails if a case fails, if the module has imports, or if no case ran. Prints the number
// of cases, followed by WORDS.
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
if (!(passed > 0)) fail("no case of the suite ran");
console.log(`${passed} ${process.argv[3]} (${((performance.now() - started) / 1000).toFixed(1)} s)`);

function fail(why) {
  console.error(why);
  process.exit(1);
}
