#!/usr/bin/env bash
# Runs a test program for cargo: run-tests.sh PROGRAM [ARGUMENT...]   (cargo's setting `runner`)
# Runs each end-to-end test (programs suite_*) as a process of its own, three for each core: such tests mostly wait.
# One process for all tests would be wrong: a program that one test starts holds, for an instant, the files that other
# tests of the process write, and a sync rightly refuses to send files that are open for writing.
# A test that fails runs once more, alone, at the end. A test that passes then is shown as FLAKY, which is a fault to mend;
# more than two of them fail the run.
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
