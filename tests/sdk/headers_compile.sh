#!/bin/sh
# Compiles the SDK headers with every compiler that is there: `together`, as one file in the oldest and the newest
# standard, or `alone`, each in both standards.
# Usage: headers_compile.sh together|alone SDK_INCLUDE_DIR API_INCLUDE_DIR
set -eu
how=$1
sdk=$(cd "$2" && pwd)
api=$(cd "$3" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$sdk"
compiled=0
try() {  # compiler, standard, file
  command -v "$1" > /dev/null || return 0
  "$1" "-std=$2" -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I"$sdk" -I"$api" "$3"
  compiled=$((compiled + 1))
}
headers=$(find cohort/sdk -name '*.hpp' | sort)
if [ "$how" = together ]; then
  for header in $headers; do printf '#include <%s>\n' "$header"; done > "$work/all.cpp"
  printf 'int unused_name;\n' >> "$work/all.cpp"
  try g++ c++17 "$work/all.cpp"
  try clang++ c++20 "$work/all.cpp"
else
  for header in $headers; do
    printf '#include <%s>\n#include <%s>\nint unused_name;\n' "$header" "$header" > "$work/alone.cpp"
    for compiler in g++ clang++; do
      for standard in c++17 c++20; do try $compiler $standard "$work/alone.cpp"; done
    done
  done
fi
test "$compiled" -gt 0
echo "$compiled compilations"
if grep -rnE '#include <' cohort/sdk | grep -vE '<(cohort/(api|sdk)/[a-z0-9_/.]+|[a-z_]+)>'; then
  echo "an SDK header includes something else than the standard library, plugin_api and the SDK" >&2
  exit 1
fi
