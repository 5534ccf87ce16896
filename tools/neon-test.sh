#!/usr/bin/env bash
# Runs the tests of core on aarch64, for its vectors: neon-test.sh
# Other machines emulate it (QEMU). Where what that takes cannot be had this says SKIPPED and succeeds; a failed test always fails.
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
# An emulator pays for every instruction: optimised code is done sooner, its compilation included.
export CARGO_PROFILE_DEV_OPT_LEVEL=3
exec cargo test --locked -p deltic-core --target "$target" --lib --tests
