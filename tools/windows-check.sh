#!/usr/bin/env bash
# Checks that crates compile for Windows: windows-check.sh PACKAGE...
# Nothing is linked, so no C compiler for Windows is needed. Without the target's standard library, prints SKIPPED and
# succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-pc-windows-gnu
packages=(); for package in "$@"; do packages+=(-p "$package"); done

if tools/rust-target.sh "$target"; then
  export CC_x86_64_pc_windows_gnu=true AR_x86_64_pc_windows_gnu=true
  exec cargo check --locked --target "$target" "${packages[@]}"
fi
echo "SKIPPED: Windows: rustup did not give the standard library of $target" >&2
