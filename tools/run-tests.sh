#!/usr/bin/env bash
# Runs a test program for cargo: run-tests.sh PROGRAM [ARGUMENT...]   (cargo's setting `runner`)
# Runs each end-to-end test (programs suite_*) in a separate process, three at a time for each core: such tests mostly
# wait. Tests cannot share a process: a program that one test starts inherits, for an instant, the open files of other
# tests in the process, and a sync rightly refuses to send files that are open for writing.
# A failed test runs once more, alone, at the end. If it passes then, it is shown as FLAKY and should be repaired. More
# than two flaky tests fail the run.
set -euo pipefail
program=$1; shift
case $(basename "$program") in suite_*) ;; *) exec "$program" "$@" ;; esac

said=$(mktemp -d); trap 'rm -rf "$said"' EXIT
one() {
  local said=$1 program=$2 name=$3 ended=0
  "$program" --exact --test-threads 1 "$name" >"$said/$name" 2>&1 </dev/null || ended=$?
  if [ "$ended" -eq 0 ]; then grep -E '^test .* \.\.\. |SKIPPED' "$said/$name"; else cat "$said/$name"; echo "FAILED: $name"; fi
  return "$ended"
}
export -f one
started=$SECONDS ended=0
"$program" "$@" --list --format terse | sed -n 's/: test$//p' >"$said/.list"
xargs -r -a "$said/.list" -n 1 -P "$((3 * $(nproc)))" bash -c 'one "$@" || echo "$3" >>"$1/.failed"' one "$said" "$program"
if [ -s "$said/.failed" ]; then
  echo "once more, alone: $(wc -l <"$said/.failed") tests"
  while read -r name; do
    if one "$said" "$program" "$name"; then echo "FLAKY: $name" | tee -a "$said/.flaky"; else ended=1; fi
  done <"$said/.failed"
  if [ -e "$said/.flaky" ] && [ "$(wc -l <"$said/.flaky")" -gt 2 ]; then ended=1; fi
fi
echo "$(basename "$program"): $(wc -l <"$said/.list") tests in $((SECONDS - started)) s"
exit "$ended"
