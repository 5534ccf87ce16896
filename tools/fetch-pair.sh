#!/usr/bin/env bash
# Fetches two adjacent releases of a real package: fetch-pair.sh DIR
# Makes DIR/old.tar and DIR/new.tar, unpacks both to DIR/old and DIR/new, and prints the name and the releases.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1; mkdir -p "$dir/fetched"

from_npm() { # NAME OLD NEW
  local version side=old
  for version in "$2" "$3"; do
    npm pack --silent "$1@$version" --pack-destination "$dir/fetched" >/dev/null \
      && gzip -dc "$dir/fetched/$1-$version.tgz" >"$dir/$side.tar" \
      && mkdir -p "$dir/$side" && tar -xm --no-same-owner -C "$dir/$side" -f "$dir/$side.tar" || return 1
    side=new
  done
  echo "$1 $2 -> $3 (npm)"
}

from_pip() { # NAME OLD NEW, of a package that is the same on every machine
  local version side=old
  for version in "$2" "$3"; do
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
      -d "$dir/fetched/$version" "$1==$version" >/dev/null || return 1
    mkdir -p "$dir/$side"
    python3 -m zipfile -e "$dir/fetched/$version"/*.whl "$dir/$side"
    tar -c --sort=name --mtime=@0 --owner=0 --group=0 -C "$dir/$side" -f "$dir/$side.tar" .
    side=new
  done
  echo "$1 $2 -> $3 (pip)"
}

if command -v npm >/dev/null && from_npm typescript 5.9.2 5.9.3; then :
else
  echo "npm is missing or cannot reach its registry: trying pip" >&2
  rm -rf "${dir:?}"/old* "${dir:?}"/new* "${dir:?}"/fetched/*
  python3 -m pip --version >/dev/null 2>&1 || "$here/ensure.sh" pip3 python3-pip
  from_pip botocore 1.40.0 1.40.1
fi
rm -rf "$dir/fetched"
# Sets the times of the old version to another day. Packages have one made-up time for all releases: with that time, a
# quick check by size and time would take a changed file of equal length for unchanged.
find "$dir/old" "$dir/old.tar" -exec touch -h -d '1 day ago' {} +
