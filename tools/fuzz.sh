#!/usr/bin/env bash
# Builds the fuzz targets of crates/serve/fuzz on stable Rust, with libFuzzer, and runs each for some seconds.
#
#   tools/fuzz.sh [SECONDS] [TARGET...]     60, and all of them
#
# What it found lies in target/fuzz/TARGET: corpus, and an artifact for each failure.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}; shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(control upgrade socket bodies patch)
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/fuzz")
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks"
# A target is named, so that scripts of builds are built without all that.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --locked --manifest-path crates/serve/fuzz/Cargo.toml --target "$host" --target-dir "$out/build"
for target in "${targets[@]}"; do
  # The server keeps to its directories, so the fuzzer's own are there.
  world=$out/$target
  rm -rf "$world/photos"; mkdir -p "$world/photos" "$world/state/corpus"
  find crates/serve/fuzz/seeds -name "$target-*" -exec cp -t "$world/state/corpus" {} +
  echo "== $target, $seconds s"
  (cd "$world/state" && DELTIC_FUZZ=$world "$out/build/$host/release/$target" corpus -artifact_prefix="$world/state/" \
    -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0)
done
