#!/usr/bin/env bash
# The whole suite, from nothing: installs what is missing, builds, and runs every test.
#   tests/run.sh            everything
#   tests/run.sh -R NAME    further arguments go to ctest
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '[tests] %s\n' "$*"; }

say "1/3 dependencies"
cmake/bootstrap.sh --tests >/dev/null
say "2/3 build"
cmake --preset dev >/dev/null
cmake --build --preset dev
say "3/3 tests"
# Two at a time: the machine that this is meant for has two cores.
ctest --preset dev --parallel 2 --no-tests=error "$@"
