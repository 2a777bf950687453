#!/usr/bin/env bash
# What `tests/run.sh --sanitize` does once the dependencies are there; each part alone by its name.
#   tests/sanitize.sh [asan] [tsan] [fuzz]
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '[sanitize] %s\n' "$*"; }

run_tests() {  # PRESET FURTHER-CTEST-ARGUMENTS...
  local preset=$1; shift
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset"
  ctest --preset "$preset" --parallel "$(nproc)" --no-tests=error --output-junit "$PWD/build/$preset/junit.xml" \
    --test-output-size-passed 10000000 "$@"
  python3 tests/report.py "build/$preset/junit.xml"
}

asan() {
  say "units and conformance under AddressSanitizer and UndefinedBehaviorSanitizer"
  run_tests asan -L '^quick$' -LE '^(tidy|fuzz)$'
  say "one training run on two ranks"
  build/asan/bin/mnist --devices=2 --epochs=1 --max-steps=20
}

tsan() {
  say "what needs no LibTorch under ThreadSanitizer"
  run_tests tsan -L '^quick$' -LE '^(tidy|fuzz)$'
}

fuzz() {
  say "every fuzz target under both, 100,000 inputs each"
  tests/fuzz/run.sh 100000
}

if [ $# -eq 0 ]; then set -- asan tsan fuzz; fi
for part in "$@"; do
  case "$part" in
    asan | tsan | fuzz) "$part" ;;
    *) printf "unknown part '%s'; there are asan, tsan and fuzz\n" "$part" >&2; exit 2 ;;
  esac
done
say "done: $*"
