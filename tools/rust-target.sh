#!/usr/bin/env bash
# Makes sure that the toolchain has the standard library of a target: rust-target.sh TARGET
# If the library is missing, installs it by rustup and prints a message. Fails if the library is still missing.
set -euo pipefail
target=$1
if [ -n "$(find "$(rustc --print sysroot)/lib/rustlib/$target/lib" -name 'libstd-*.rlib' 2>/dev/null)" ]; then exit 0; fi
command -v rustup >/dev/null || exit 1
echo "the target is missing: rustup target add $target" >&2
timeout 300 rustup target add "$target" </dev/null
