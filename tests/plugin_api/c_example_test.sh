#!/bin/sh
# The README's one line builds an example in C, which exports one symbol and needs nothing but the C library.
# Usage: c_example_test.sh SOURCE_DIR EXAMPLE
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
line=$(grep -E '^ *cc ' "examples/plugins/$2/README.md")
command=$(echo "$line" | sed "s|-o [^ ]*|-o '$work/cohort_$2.so'|")
(cd "examples/plugins/$2" && sh -c "$command -Wall -Wextra -Wpedantic -Werror")
symbols=$(nm -D --defined-only "$work/cohort_$2.so" | awk '{print $3}')
test "$symbols" = cohort_plugin_0 || { echo "exported: $symbols" >&2; exit 1; }
if nm -D --undefined-only "$work/cohort_$2.so" | awk '$1 == "U"' | grep -v GLIBC; then
  echo "the example needs more than the C library" >&2
  exit 1
fi
