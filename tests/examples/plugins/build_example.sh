#!/bin/sh
# Builds an example plugin with the line of its README, which needs a compiler and headers alone, and with warnings as
# errors. The result exports one symbol and needs nothing but the language's own libraries.
# Usage: build_example.sh EXAMPLE_DIR OUTPUT
set -eu
output=$2
cd "$1"
line=$(grep -E '^ *(cc|c\+\+) ' README.md)
command=$(echo "$line" | sed "s|-o [^ ]*|-o '$output'|")
sh -c "$command -Wall -Wextra -Wpedantic -Wconversion -Werror"
symbols=$(nm -D --defined-only "$output" | awk '{print $3}')
test "$symbols" = cohort_plugin_0 || { echo "exported: $symbols" >&2; exit 1; }
if nm -D --undefined-only "$output" | awk '$1 == "U"' | grep -vE '@(GLIBC|GLIBCXX|CXXABI|GCC)_'; then
  echo "the example needs more than the libraries of its language" >&2
  exit 1
fi
