#!/usr/bin/env bash
# Checks that crates compile for a target: target-check.sh TARGET PACKAGE...
# Nothing is linked, so no C compiler for the target is needed. Without the target's standard library, prints SKIPPED and
# succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1; shift
packages=(); for package; do packages+=(-p "$package"); done

if tools/rust-target.sh "$target"; then
  exec env "CC_${target//-/_}=true" "AR_${target//-/_}=true" cargo check --locked --target "$target" "${packages[@]}"
fi
echo "SKIPPED: rustup did not give the standard library of $target" >&2
