#!/bin/sh
# Compiles each header alone and all together, as C and C++ of several years, with every compiler that is there.
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
for compiler in gcc clang; do
  command -v "$compiler" > /dev/null || continue
  for file in "$work"/*.c; do
    for standard in c11 c17; do "$compiler" -x c -std=$standard $flags -I"$include" "$file"; done
    for standard in c++17 c++20; do "$compiler" -x c++ -std=$standard $flags -I"$include" "$file"; done
    compiled=$((compiled + 4))
  done
done
test "$compiled" -gt 0
echo "$compiled compilations"
