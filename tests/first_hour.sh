#!/usr/bin/env bash
# Measures what the two commands of the README compile, in a clone of this checkout and without a compiler cache: processor time
# in units of parsing <torch/torch.h> once on this machine. Takes half an hour on two cores; nothing else should run.
#   tests/first_hour.sh            both commands
#   tests/first_hour.sh --first    examples/quickstart.sh alone
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_DISABLE=1
libtorch=$(cmake/bootstrap.sh --tests)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TIMEFORMAT='%U %S %R'

seconds() { awk '{printf "%.1f", $1 + $2}'; }
unit() {
  printf '#include <torch/torch.h>\n' >"$folder/unit.cpp"
  { time c++ -std=c++20 -fsyntax-only -isystem "$libtorch/torch/include" \
    -isystem "$libtorch/torch/include/torch/csrc/api/include" "$folder/unit.cpp"; } 2>&1 | seconds
}
# Prints a row of the table: what, seconds of the processor, units, minutes on the clock.
row() {  # TEXT UNIT "USER SYSTEM REAL"
  awk -v what="$1" -v unit="$2" '{printf "| %s | %.0f s | %.1f | %.1f min |\n", what, $1 + $2, ($1 + $2) / unit, $3 / 60}' <<<"$3"
}

git clone --quiet . "$folder/cohort"
cd "$folder/cohort"
cmake --preset release >/dev/null
before=$(unit)
first=$({ time cmake/build.py build/release quickstart >&2; } 2>&1 >/dev/null | tail -1)
after=$(unit)
one=$(awk -v a="$before" -v b="$after" 'BEGIN {print (a + b) / 2}')
printf '| command | processor time | units of %s s | clock |\n|---|---|---|---|\n' "$one"
row "examples/quickstart.sh" "$one" "$first"
if [ "${1:-}" = --first ]; then exit; fi
cmake --preset release -DCOHORT_TESTS=ON >/dev/null
second=$({ time cmake/build.py build/release all quick_tests >&2; } 2>&1 >/dev/null | tail -1)
again=$(unit)
row "tests/run.sh" "$(awk -v a="$after" -v b="$again" 'BEGIN {print (a + b) / 2}')" "$second"
