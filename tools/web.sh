#!/usr/bin/env bash
# Builds and tests the web page: web.sh build|dist|test|bench
#   build  builds the delta engine as WebAssembly, and web/dist; fails without Node 20.19
#   dist   does the same, but prints SKIPPED and succeeds without Node
#   test   tests the npm package, and the page in Chromium, against target/debug/deltic; prints SKIPPED without Node,
#          Chromium or dist
#   bench  measures transfers in a browser; DELTIC_BIN is the program (BENCH_RUNS, BENCH_NEW_MIB, BENCH_FILES)
#   bench lab [--smoke]
#          runs the page's lab in a browser and by the command; writes CSV, figures and a document (LAB_OUT and others:
#          web/tests/bench-lab.ts)
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints the reason why the page cannot be built here, if there is one.
obstacle() {
  tools/ensure.sh node nodejs >&2 || { echo "node is missing"; return; }
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' \
    || { echo "node is $(node --version), and 20.19 is needed"; return; }
  tools/ensure.sh npm npm >&2 || echo "npm is missing"
}

build() {
  # Without the modules, the page sends whole files.
  web/engine/build.sh
  cd web
  # npm writes .package-lock.json after all packages of package-lock.json are installed.
  [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci
  npm run check
  npm run build
}

# Runs all test files of the page. At most two files that fail run once more, alone, and are shown as FLAKY if they pass.
run_tests() {
  local report failed ended=0
  report=$(mktemp)
  # shellcheck disable=SC2064
  trap "rm -f '$report'" EXIT
  npx vitest run --reporter=default --reporter=json --outputFile.json="$report" || ended=$?
  [ "$ended" -ne 0 ] || return 0
  mapfile -t failed < <(node -e '
    for (const { name, status } of JSON.parse(require("fs").readFileSync(process.argv[1])).testResults)
      if (status === "failed") console.log(name);' "$report")
  [ "${#failed[@]}" -gt 0 ] && [ "${#failed[@]}" -le 2 ] || return "$ended"
  echo "once more, alone: ${failed[*]}"
  npx vitest run "${failed[@]}" || return
  printf 'FLAKY: %s\n' "${failed[@]}"
}

why=$(obstacle)
case $1 in
  build) [ -z "$why" ] || { echo "the page cannot be built: $why" >&2; exit 1; }; build ;;
  dist) if [ -n "$why" ]; then echo "SKIPPED: no page: $why"; else build; fi ;;
  test)
    [ -n "$why" ] || [ -n "${CHROMIUM:-}" ] || tools/ensure.sh chromium chromium || why="Chromium is missing"
    if [ -n "$why" ]; then
      echo "SKIPPED: the page is not tested: $why"
    else
      # Without these programs, the tests that need them print SKIPPED.
      tools/ensure.sh firefox-esr firefox-esr || true
      tools/ensure.sh nginx nginx || true
      npm --prefix web/engine test
      cd web && run_tests
    fi ;;
  bench)
    [ -z "$why" ] || { echo "the page cannot be measured: $why" >&2; exit 1; }
    bench=1
    if [ "${2:-}" = lab ]; then
      bench=lab
      shift
      if [ "${2:-}" = --smoke ]; then export LAB_SMOKE=1; shift; fi
      if [ -n "${LAB_OUT:-}" ]; then LAB_OUT=$(realpath -m "$LAB_OUT"); export LAB_OUT; fi
    fi
    cd web && BENCH=$bench NODE_OPTIONS=--experimental-websocket npx vitest run --disable-console-intercept "${@:2}" ;;
  *) echo "web.sh build|dist|test|bench [lab]" >&2; exit 1 ;;
esac
