#!/usr/bin/env bash
# Builds the fuzz targets of crates/serve/fuzz on stable Rust, with libFuzzer, and runs each for some seconds.
#
#   tools/fuzz.sh [SECONDS] [TARGET...]     by default 60 seconds, and all targets
#
# The results are in target/fuzz/TARGET/state: the corpus, and an artifact for each failure.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}; shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(control upgrade socket bodies patch update code)
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/fuzz")
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks"
# With --target, cargo does not use RUSTFLAGS for build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --locked --manifest-path crates/serve/fuzz/Cargo.toml --target "$host" --target-dir "$out/build"
# Runs a fuzz target, and prints the number of inputs, and the log of a failure. Two targets run at a time.
run() {
  local target=$1 world=$out/$1
  # The server confines the process to its directories, so the fuzzer's corpus and artifacts are in the state directory.
  rm -rf "$world/photos"; mkdir -p "$world/photos" "$world/state/corpus"
  find crates/serve/fuzz/seeds -name "$target-*" -exec cp -t "$world/state/corpus" {} +
  local ended=0
  (cd "$world/state" && DELTIC_FUZZ=$world "$out/build/$host/release/$target" corpus -artifact_prefix="$world/state/" \
    -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0) \
    >"$world/log" 2>&1 || ended=$?
  echo "== $target, $seconds s: $(grep -oE 'number_of_executed_units: *[0-9]+' "$world/log" | grep -oE '[0-9]+$' || echo no) inputs"
  [ "$ended" -eq 0 ] || tail -n 60 "$world/log"
  return "$ended"
}
failed=0
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || failed=1; done
  run "$target" &
done
while [ -n "$(jobs -p)" ]; do wait -n || failed=1; done
exit "$failed"
