#!/usr/bin/env bash
# Builds static programs of deltic, which run on any Linux of their architecture, and syncs a file with each:
# static-build.sh [ARCH...], by default x86-64 and aarch64. DELTIC_PROFILE names another profile than release.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${DELTIC_PROFILE:-release}
out=$profile
[ "$profile" != dev ] || out=debug
host=$(uname -m)

# The program names no directory of this machine, so that any machine can repeat the build. Of several prefixes that fit
# a path, rustc takes the last.
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(rustc --print sysroot)
remapped="--remap-path-prefix=$PWD=. --remap-path-prefix=$target_dir=target"
for dir in "$cargo_home"/registry/src/*; do remapped+=" --remap-path-prefix=$dir=registry"; done
remapped+=" --remap-path-prefix=$sysroot=rust"

# runner ARCH: prints the command that runs programs of the architecture here; nothing if there is none.
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
  # The second sync sends differences. Both ends are the tested program.
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
  env "CC_$name=$cc" "CARGO_TARGET_${name^^}_LINKER=rust-lld" RUSTFLAGS="$remapped" \
    cargo build --profile "$profile" --locked -p deltic-cli --target "$target"
  program=$target_dir/$target/$out/deltic
  file=$(od -An -tx1 -j0 -N4 "$program" | tr -d ' ')
  [ "$file" = 7f454c46 ] || { echo "$program is no program" >&2; exit 1; }
  if readelf -l "$program" | grep -q INTERP; then
    echo "$program is not static" >&2
    exit 1
  fi
  for dir in "$PWD" "$target_dir" "$cargo_home" "$sysroot" "$HOME"; do
    # The home directory of some containers is /.
    if [ "$dir" != / ] && grep -aqF "$dir/" "$program"; then
      echo "$program names $dir, a directory of this machine" >&2
      exit 1
    fi
  done
  check "$arch" "$program"
done
