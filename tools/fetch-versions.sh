#!/usr/bin/env bash
# Fetches many releases of real packages, as tar files: fetch-versions.sh DIR
# Makes DIR/typescript/*.tar (24 releases of source text, 723 MB) and DIR/esbuild/*.tar (13 releases of a program,
# 134 MB). Existing files are not fetched again.
set -euo pipefail
dir=$1

fetch() { # DIR PACKAGE VERSION...
  local to=$dir/$1 package=$2 version packed
  shift 2; mkdir -p "$to"
  for version; do
    [ ! -e "$to/$version.tar" ] || continue
    packed=$(npm pack --silent "$package@$version" --pack-destination "$to" 2>/dev/null | tail -n 1)
    gzip -dc "$to/$packed" >"$to/$version.part"
    mv "$to/$version.part" "$to/$version.tar"; rm "$to/$packed"
  done
  echo "$package: $# releases in $to"
}

"$(dirname "$0")/ensure.sh" npm npm
fetch typescript typescript \
  5.0.2 5.0.3 5.0.4 5.1.3 5.1.5 5.1.6 5.2.2 5.3.2 5.3.3 5.4.2 5.4.3 5.4.4 5.4.5 \
  5.5.2 5.5.3 5.5.4 5.6.2 5.6.3 5.7.2 5.7.3 5.8.2 5.8.3 5.9.2 5.9.3
fetch esbuild @esbuild/linux-x64 \
  0.25.0 0.25.1 0.25.2 0.25.3 0.25.4 0.25.5 0.25.6 0.25.7 0.25.8 0.25.9 0.25.10 0.25.11 0.25.12
