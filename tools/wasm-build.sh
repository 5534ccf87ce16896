#!/usr/bin/env bash
# Builds crates for WebAssembly: wasm-build.sh PACKAGE... [-- cargo arguments]
#   1. with the toolchain's own wasm32 target, which rustup installs if it is missing;
#   2. else with the standard library built from Debian's rustc-web packages (137 MB once, about a minute).
# WASM_STD=debian chooses way 2; an empty WASM_RUSTFLAGS builds without vector instructions.
# If both ways are impossible, prints SKIPPED and succeeds. A crate that does not build always fails.
set -euo pipefail
cd "$(dirname "$0")/.."
target=wasm32-unknown-unknown
cache=${WASM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/deltic-wasm-std}
packages=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do packages+=(-p "$1"); shift; done
[ $# -eq 0 ] || shift
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/wasm
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="${WASM_RUSTFLAGS--C target-feature=+simd128}"

fetch_std() {
  local cache=$0
  rm -rf "$cache"; mkdir -p "$cache/debs"; cd "$cache/debs"
  apt-get download -q rustc-web libstd-rust-web-dev rust-web-src libllvm22 \
    "$(apt-cache pkgnames libstd-rust-web-1 | sort -V | tail -n 1)" >/dev/null
  for deb in rustc-web_* libstd-rust-web* libllvm*; do dpkg -x "$deb" "$cache"; done
  dpkg --fsys-tarfile rust-web-src_* \
    | tar -x -C "$cache" --wildcards './usr/src/rustc-*/library/*' './usr/lib/rustlib/src/*'
  rm -rf "$cache/debs"; touch "$cache/ready"
}

unpack_std() {
  [ -e "$cache/ready" ] && return 0
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  echo "rustup cannot add it: unpacking Debian's rustc-web into $cache" >&2
  # Runs in a separate process: this function is called in a condition, where bash ignores `set -e`.
  bash -euo pipefail -c "$(declare -f fetch_std); fetch_std" "$cache"
}

if [ "${WASM_STD:-}" != debian ] && tools/rust-target.sh "$target"; then
  exec cargo build --locked --target "$target" "${packages[@]}" "$@"
elif unpack_std; then
  host=$(rustc -vV | sed -n 's/^host: //p')
  export RUSTC="$cache/usr/bin/rustc" RUSTC_BOOTSTRAP=1
  CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld
  LD_LIBRARY_PATH=$(dirname "$(find "$cache/usr/lib" -name 'librustc_driver*.so' -o -name 'libLLVM*.so*' | head -n 1)")
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER LD_LIBRARY_PATH
  exec cargo build --locked -Zbuild-std=std,panic_abort --target "$target" "${packages[@]}" "$@"
else
  echo "SKIPPED: wasm build: neither rustup nor Debian's packages gave a wasm32 standard library" >&2
fi
