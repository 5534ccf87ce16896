#!/usr/bin/env bash
# Makes the packages below target/dist, and tests each package: dist.sh [ARCH=PROGRAM...]
#   Without programs, tools/static-build.sh builds a program for x86-64 and one for aarch64, if this machine can.
#   For a dynamic program of this machine, the test copies the libraries of the program too.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/dist
tools/ensure.sh python3 python3

programs=("$@")
if [ ${#programs[@]} = 0 ]; then
  echo "== building static programs: about 15 minutes on two cores for each architecture"
  tools/static-build.sh
  for arch in x86_64 aarch64; do
    program=$target/$arch-unknown-linux-musl/release/deltic
    if [ -x "$program" ]; then programs+=("$arch=$program"); fi
  done
fi

echo "== packing"
rm -rf "$out" "$out.again"
python3 tools/package.py "$out" "${programs[@]}"
# Packs again with another time zone, umask and time: each byte must be the same.
(umask 077; sleep 1.1; TZ=Asia/Tokyo python3 tools/package.py "$out.again" "${programs[@]}")
diff -r "$out" "$out.again" || { echo "two packings of the same programs differ" >&2; exit 1; }
rm -r "$out.again"

echo "== installing and running each"
for program in "${programs[@]}"; do tools/dist-test.sh "$out" "${program%%=*}"; done
ls -l "$out"
