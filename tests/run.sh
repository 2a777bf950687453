#!/usr/bin/env bash
# The test suite, from nothing: installs what is missing, builds in the tree of examples/quickstart.sh, and runs the tests.
#   tests/run.sh                       the quick tier: every kind of test, six to thirteen minutes on two cores
#   tests/run.sh --all                 everything; tests/only_all.txt says what the quick tier leaves out
#   tests/run.sh --changed-since=REV   of what only --all runs, the entries that the changes since that commit can break
#   tests/run.sh --libtorch=VERSION    with that LibTorch, in build/libtorch-VERSION
#   tests/run.sh --sanitize            units, conformance and one training run under ASan and UBSan, TSan, and every fuzz target
#   with --build                       builds what it would run; with --once, what ends by its deadline is not run again
# Further arguments go to ctest, as in `tests/run.sh -R lane_test`.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '[tests] %s\n' "$*"; }

tier=quick
since=
last_part=tests
build=build/release
libtorch=()
is_run_again=yes
arguments=()
for argument in "$@"; do
  case "$argument" in
    --all) tier=all ;;
    --sanitize) tier=sanitize ;;
    --changed-since=?*) tier=changed since=${argument#*=} ;;
    --libtorch=?*) libtorch=("$argument") build=build/libtorch-${argument#*=} ;;
    --build) last_part=build ;;
    --once) is_run_again=no ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) arguments+=("$argument") ;;
  esac
done
if [ "$tier" = sanitize ] && [ ${#libtorch[@]} -gt 0 ]; then
  say "error: --sanitize is with the pinned LibTorch; leave $libtorch out"
  exit 2
fi

say "what is coming"
cmake/bootstrap.sh --tests "${libtorch[@]}" --dry-run >/dev/null
say "then the build (about 11 minutes on two cores the first time, 1.1 GB in $build) and the tests (six to thirteen minutes; --all: an hour)"
say "1/3 dependencies"
folder=$(cmake/bootstrap.sh --tests "${libtorch[@]}" | tail -n 1)
if [ "$tier" = sanitize ]; then exec tests/sanitize.sh "${arguments[@]}"; fi

say "2/3 build"
cmake --preset release -B "$build" -DCOHORT_TESTS=ON ${libtorch:+-DCOHORT_LIBTORCH="$folder"} >/dev/null
target=all_tests
selection=()
case "$tier" in
  quick) target=quick_tests selection=(-L '^quick$') ;;
  changed)
    names=$(python3 tests/changed.py "$build" "$since")
    if [ -z "$names" ]; then say "nothing that only --all runs can have changed since $since"; exit 0; fi
    selection=(-R "^($names)\$") ;;
esac
cmake/build.py "$build" all "$target"
if [ "$last_part" = build ]; then exit 0; fi

say "3/3 tests"
# Three at a time on two cores: many wait, and those that compute on both all the time count twice.
status=0
GTEST_COLOR=no ctest --test-dir "$build" --parallel "$(($(nproc) + 1))" --no-tests=error --output-on-failure \
  --output-junit "$PWD/$build/junit.xml" --test-output-size-passed 10000000 --test-output-size-failed 10000000 \
  "${selection[@]}" "${arguments[@]}" || status=$?
if [ "$status" -ne 0 ] && [ "$is_run_again" = yes ] && python3 tests/run_again.py "$build" "$build/junit.xml"; then status=0; fi
python3 tests/report.py "$build/junit.xml" || status=$?
exit "$status"
