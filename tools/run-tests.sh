#!/usr/bin/env bash
# Runs a test program for cargo: run-tests.sh PROGRAM [ARGUMENT...]   (cargo's setting `runner`)
# Runs each end-to-end test (programs suite_*) as a process of its own, three for each core: such tests mostly wait.
# One process for all tests would be wrong: a program that one test starts holds, for an instant, the files that other
# tests of the process write, and a sync rightly refuses to send files that are open for writing.
set -euo pipefail
program=$1; shift
case $(basename "$program") in suite_*) ;; *) exec "$program" "$@" ;; esac

said=$(mktemp -d); trap 'rm -rf "$said"' EXIT
one() {
  local said=$1 program=$2 name=$3 ended=0
  "$program" --exact --test-threads 1 "$name" >"$said/$name" 2>&1 || ended=$?
  if [ "$ended" -eq 0 ]; then grep -E '^test .* \.\.\. |SKIPPED' "$said/$name"; else cat "$said/$name"; echo "FAILED: $name"; fi
  return "$ended"
}
export -f one
started=$SECONDS ended=0
"$program" "$@" --list --format terse | sed -n 's/: test$//p' >"$said/.list"
xargs -r -a "$said/.list" -n 1 -P "$((3 * $(nproc)))" bash -c 'one "$@"' one "$said" "$program" || ended=1
echo "$(basename "$program"): $(wc -l <"$said/.list") tests in $((SECONDS - started)) s"
exit "$ended"
