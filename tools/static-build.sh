#!/usr/bin/env bash
# Builds deltic as static programs that run on any Linux of their architecture, and has each sync a file: x86-64 and aarch64, or the
# architectures named. DELTIC_PROFILE names another profile than release.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${DELTIC_PROFILE:-release}
out=$profile
[ "$profile" != dev ] || out=debug
host=$(uname -m)

# What runs a program of another architecture here.
runner() {
  [ "$1" != "$host" ] || { echo env; return; }
  command -v "qemu-$1-static" "qemu-$1" | head -1
}

check() {
  local arch=$1 program=$2 run dir
  run=$(runner "$arch")
  if [ -z "$run" ]; then
    echo "SKIPPED: nothing here runs programs of $arch (qemu-user-static)"
    return
  fi
  dir=$(mktemp -d)
  seq 100000 >"$dir/from"
  "$run" "$program" sync --no-config -t "$dir/from" "$dir/to"
  seq 100001 >"$dir/from"
  # Both ends, by way of differences.
  "$run" "$program" sync --no-config -e "sh -c 'shift; exec $run \"\$@\"' rsh" --deltic-path "$program" "$dir/from" "h:$dir/to"
  cmp "$dir/from" "$dir/to"
  rm -r "$dir"
  echo "$program runs: $("$run" "$program" --version)"
}

for arch in ${*:-x86_64 aarch64}; do
  target=$arch-unknown-linux-musl
  cc=$arch-linux-musl-gcc
  # The C parts (zstd, BLAKE3) need no library, so any compiler for the architecture will do.
  if ! command -v "$cc" >/dev/null; then
    cc=musl-gcc
    if [ "$arch" != "$host" ]; then
      cc=$arch-linux-gnu-gcc
    fi
  fi
  package=musl-tools
  [ "$cc" = musl-gcc ] || package=gcc-${arch/_/-}-linux-gnu
  tools/ensure.sh "$cc" "$package" || { echo "SKIPPED: $target needs $cc"; continue; }
  if command -v rustup >/dev/null; then
    rustup target add "$target"
  fi
  name=${target//-/_}
  # Rust brings its own linker for these targets.
  env "CC_$name=$cc" "CARGO_TARGET_${name^^}_LINKER=rust-lld" "CARGO_TARGET_${name^^}_RUSTFLAGS=" RUSTFLAGS= \
    cargo build --profile "$profile" --locked -p deltic-cli --target "$target"
  program=$PWD/${CARGO_TARGET_DIR:-target}/$target/$out/deltic
  file=$(od -An -tx1 -j0 -N4 "$program" | tr -d ' ')
  [ "$file" = 7f454c46 ] || { echo "$program is no program" >&2; exit 1; }
  if readelf -l "$program" | grep -q INTERP; then
    echo "$program is not static" >&2
    exit 1
  fi
  check "$arch" "$program"
done
