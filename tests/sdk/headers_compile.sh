#!/bin/sh
# Compiles each SDK header alone as C++17 and C++20, with every compiler that is there.
# Usage: headers_compile.sh SDK_INCLUDE_DIR API_INCLUDE_DIR
set -eu
sdk=$(cd "$1" && pwd)
api=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$sdk"
compiled=0
for header in $(find cohort/sdk -name '*.hpp' | sort); do
  printf '#include <%s>\n#include <%s>\nint unused_name;\n' "$header" "$header" > "$work/alone.cpp"
  for compiler in g++ clang++; do
    command -v "$compiler" > /dev/null || continue
    for standard in c++17 c++20; do
      "$compiler" -std=$standard -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I"$sdk" -I"$api" \
        "$work/alone.cpp"
      compiled=$((compiled + 1))
    done
  done
done
test "$compiled" -gt 0
echo "$compiled compilations"
if grep -rnE '#include <' cohort/sdk | grep -vE '<(cohort/(api|sdk)/[a-z_/.]+|[a-z_]+)>'; then
  echo "an SDK header includes something else than the standard library, plugin_api and the SDK" >&2
  exit 1
fi
