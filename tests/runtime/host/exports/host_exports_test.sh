#!/bin/sh
# The library of the host lends plugins no function of its copy of the SDK, and still exports its own.
# Usage: host_exports_test.sh LIBRARY
set -eu
symbols=$(nm -D --defined-only "$1")
if echo "$symbols" | grep -E '_Z[A-Z]*6cohort3sdk'; then
  echo "these functions of the SDK are exported; see runtime/host/exports.map" >&2
  exit 1
fi
echo "$symbols" | grep -q '_ZN6cohort4host10PluginHost'
