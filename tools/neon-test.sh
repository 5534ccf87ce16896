#!/usr/bin/env bash
# Runs the tests of the crate core on aarch64, for its vector instructions (NEON): neon-test.sh
# Machines of another architecture use an emulator (QEMU). If the emulator or the compiler cannot be installed, prints
# SKIPPED and succeeds. A failed test always fails.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
sysroot=/usr/aarch64-linux-gnu

skip() { echo "SKIPPED: tests with NEON: $*" >&2; exit 0; }

if [ "$(uname -m)" = aarch64 ]; then echo "this machine has NEON: make unit has tested it"; exit 0; fi
tools/rust-target.sh "$target" || skip "rustup gave no standard library for $target"
tools/ensure.sh aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross || skip "no cross compiler"
tools/ensure.sh qemu-aarch64 qemu-user || skip "no emulator"
[ -d "$sysroot/lib" ] || skip "no libraries in $sysroot"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $sysroot"
# Emulated instructions are slow: with optimisation, compilation and tests together take less time.
export CARGO_PROFILE_DEV_OPT_LEVEL=3
# make unit has tried all laws with 256 inputs each.
export PROPTEST_CASES=${PROPTEST_CASES:-64}
exec cargo test --locked -p deltic-core --target "$target" --lib --tests
