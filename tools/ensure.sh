#!/usr/bin/env bash
# Makes sure that a command exists: ensure.sh COMMAND [DEBIAN_PACKAGE...]
# If the command is missing, installs the packages by apt and prints a message. Fails if the command is still missing.
set -euo pipefail
command=$1; shift
if command -v "$command" >/dev/null; then exit 0; fi

if [ "$command" = cargo ]; then
  echo "cargo is missing: install Rust 1.95 or newer by rustup (https://rustup.rs), then try again." >&2
  exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root="sudo -n"; fi
if ! command -v apt-get >/dev/null || [ $# -eq 0 ]; then
  echo "$command is missing, and there is no apt to install it: please install it by hand." >&2
  exit 1
fi
echo "$command is missing: installing $* by apt" >&2
# Often there is root without sudo, or a fresh image without package lists.
{ $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"; } \
  </dev/null >/dev/null || { echo "could not install $*" >&2; exit 1; }
command -v "$command" >/dev/null
