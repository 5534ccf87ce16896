#!/usr/bin/env bash
# Builds the modules of the engine into dist/: push.wasm and pull.wasm. Where WebAssembly cannot be built, says SKIPPED.
set -euo pipefail
cd "$(dirname "$0")"
target=$(cd ../.. && realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
built=$target/wasm/wasm32-unknown-unknown/wasm/deltic_page.wasm
mkdir -p dist
for end in push pull; do
  rm -f "$built"
  ../../tools/wasm-build.sh deltic-page -- --profile wasm --no-default-features --features "$end"
  if [ -e "$built" ]; then cp "$built" "dist/$end.wasm"; fi
done
