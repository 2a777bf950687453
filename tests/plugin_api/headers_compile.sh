#!/bin/sh
# Compiles each header alone as the oldest and the newest C and C++ that plugins are written in, and all together as those
# between, with every compiler that is there.
# Usage: headers_compile.sh INCLUDE_DIR
set -eu
include=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-Wall -Wextra -Wpedantic -Wpadded -Werror -fsyntax-only"

cd "$include"
headers=$(find cohort/api -name '*.h' | sort)
for header in $headers; do
  printf '#include <%s>\n#include <%s>\nint unused_name;\n' "$header" "$header" > "$work/$(echo "$header" | tr / _).c"
done
for header in $headers; do printf '#include <%s>\n' "$header"; done > "$work/all.c"
printf 'int unused_name;\n' >> "$work/all.c"

compiled=0
try() {  # file, standards of C, standards of C++
  for standard in $2; do "$compiler" -x c -std=$standard $flags -I"$include" "$1"; done
  for standard in $3; do "$compiler" -x c++ -std=$standard $flags -I"$include" "$1"; done
  compiled=$((compiled + 4))
}
for compiler in gcc clang; do
  command -v "$compiler" > /dev/null || continue
  for file in "$work"/*.c; do try "$file" "c99 c17" "c++11 c++20"; done
  try "$work/all.c" "c11 c17" "c++14 c++17"
  for target in 1u COHORT_ABI_VERSION+1; do  # older and newer than the headers can serve
    if "$compiler" -x c -DCOHORT_TARGET_ABI=$target $flags -I"$include" "$work/all.c" 2> "$work/errors"; then
      echo "COHORT_TARGET_ABI=$target compiles" >&2
      exit 1
    fi
    grep -q '"COHORT_TARGET_ABI is ' "$work/errors"
  done
  for runs_on in 0u COHORT_TARGET_ABI; do  # hosts that a plugin can be for
    "$compiler" -x c -DCOHORT_TARGET_ABI=2u -DCOHORT_RUNS_ON_ABI=$runs_on $flags -I"$include" "$work/all.c"
  done
  if "$compiler" -x c -DCOHORT_TARGET_ABI=2u -DCOHORT_RUNS_ON_ABI=3u $flags -I"$include" "$work/all.c" \
    2> "$work/errors"; then
    echo "COHORT_RUNS_ON_ABI newer than COHORT_TARGET_ABI compiles" >&2
    exit 1
  fi
  grep -q '"COHORT_RUNS_ON_ABI is newer than ' "$work/errors"
done
test "$compiled" -gt 0
echo "$compiled compilations"
