#!/usr/bin/env bash
# Syncs a real package from one release to the next, and prints the transferred bytes. A script takes the place of ssh.
# Files are in a new directory below ${TMPDIR:-/tmp}; DELTIC=PATH skips the build, KEEP=1 keeps the files.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd); root=$(dirname "$here")
export LC_ALL=C

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

if [ -z "${DELTIC:-}" ]; then
  say "Building deltic: about five minutes on two cores from nothing"
  "$here/ensure.sh" cargo
  "$here/ensure.sh" cc gcc libc6-dev
  # The profile has no link-time optimisation, which would take minutes of one core.
  (cd "$root" && cargo build --profile quick --locked -p deltic-cli)
  DELTIC=$(cd "$root" && realpath "${CARGO_TARGET_DIR:-target}")/quick/deltic
fi
"$here/ensure.sh" rsync rsync || echo "SKIPPED: the comparison with rsync"

work=$(mktemp -d "${TMPDIR:-/tmp}/deltic-demo.XXXXXX")
if [ -n "${KEEP:-}" ]; then echo "files stay in $work"; else trap 'rm -rf "$work"' EXIT; fi
# A replacement of ssh without a network: drops the host name and runs the rest of the command.
printf '#!/bin/sh\nshift; exec "$@"\n' >"$work/ssh"; chmod +x "$work/ssh"

say "Fetching two adjacent releases"
what=$("$here/fetch-pair.sh" "$work")
size=$(stat -c %s "$work/new.tar")
echo "$what: $size bytes unpacked to a tar"

# stat_of NAME: prints the number after NAME in the statistics of the last run, without commas. A unit, or the same
# number for people, may follow the number.
stat_of() { sed -n "s/^$1: \([0-9,]*\).*/\1/p" "$work/said" | head -n 1 | tr -d ,; }

# run LABEL TOTAL COMMAND...: runs a command, and prints a row of the table.
run() {
  local label=$1 total=$2 start end; shift 2
  start=$EPOCHREALTIME
  "$@" >"$work/said" 2>"$work/complained" || { cat "$work/complained"; fail "$label: $*"; }
  end=$EPOCHREALTIME
  sent=$(stat_of "Total bytes sent"); received=$(stat_of "Total bytes received"); literal=$(stat_of "Literal data")
  awk -v l="$label" -v s="$sent" -v r="$received" -v n="$literal" -v m="$(stat_of "Matched data")" \
    -v t="$total" -v a="$start" -v b="$end" \
    'BEGIN { printf "%-22s %12d %12d %12d %12d %9.1fx %8.2f s\n", l, s, r, n, m, t / (s + r), b - a }'
}
header() { printf '%-22s %12s %12s %12s %12s %10s %10s\n' "" sent received literal matched speed-up time; }
ours() { local label=$1; shift; run "$label" "$size" "$DELTIC" sync "$@"; }
far=(-e "$work/ssh" --deltic-path "$DELTIC" --stats)
restore() { cp -p "$work/old.tar" "$work/dest.tar"; }
same() { cmp "$work/new.tar" "$work/dest.tar" || fail "the copy is not the new release"; }

say "The new release over the old one, $size bytes"
header
restore; ours "deltic" -t --no-whole-file "${far[@]}" "$work/new.tar" "far:$work/dest.tar"; same
if command -v rsync >/dev/null; then
  for z in "" "-z --zc=zstd"; do
    restore
    # shellcheck disable=SC2086 # $z is empty, or two words
    run "rsync ${z%% *}" "$size" rsync $z -t --no-whole-file -e "$work/ssh" --stats "$work/new.tar" "far:$work/dest.tar"
    same
  done
fi
sha256sum "$work/new.tar" "$work/dest.tar" | sed "s|$work/||"

say "The same again: nothing left to move"
header
ours "deltic" -t --no-whole-file "${far[@]}" "$work/new.tar" "far:$work/dest.tar"
[ "$literal" -eq 0 ] || fail "$literal bytes were sent again"

files=$(find "$work/new" -type f | wc -l); size=$(du -sb --apparent-size "$work/new" | cut -f 1)
say "The unpacked trees, $files files: old release to new, and what is gone deleted"
header
tree() { ours "$1" -a --delete --no-whole-file "${far[@]}" "$work/new/" "far:$work/tree/"; }
cp -a "$work/old" "$work/tree"; tree "deltic -a --delete"
diff -r "$work/new" "$work/tree" || fail "the trees differ"
tree "deltic, again"
[ "$literal" -eq 0 ] || fail "$literal bytes were sent again"
if command -v rsync >/dev/null; then
  [ -z "$(rsync -anci --delete "$work/new/" "$work/tree/")" ] || fail "rsync -anci still finds differences"
  rm -rf "$work/tree"; cp -a "$work/old" "$work/tree"
  run "rsync -a --delete" "$size" rsync -a --delete --no-whole-file -e "$work/ssh" --stats "$work/new/" "far:$work/tree/"
fi
say "Every copy was compared with its source: all equal"
