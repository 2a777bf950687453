#!/bin/sh
# The README's one line builds the example, which exports one symbol and needs nothing but the C library.
# Usage: rendezvous_layer_test.sh SOURCE_DIR
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
line=$(grep -E '^ *cc ' examples/plugins/rendezvous_layer/README.md)
command=$(echo "$line" | sed "s|-o [^ ]*|-o '$work/cohort_rendezvous_layer.so'|")
(cd examples/plugins/rendezvous_layer && sh -c "$command -Wall -Wextra -Wpedantic -Werror")
symbols=$(nm -D --defined-only "$work/cohort_rendezvous_layer.so" | awk '{print $3}')
test "$symbols" = cohort_plugin_0 || { echo "exported: $symbols" >&2; exit 1; }
if nm -D --undefined-only "$work/cohort_rendezvous_layer.so" | awk '$1 == "U"' | grep -v GLIBC; then
  echo "the example needs more than the C library" >&2
  exit 1
fi
