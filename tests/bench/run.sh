#!/usr/bin/env bash
# Measures cohort beside its peers: what docs/performance.md reports, as Markdown, with a verdict for each goal.
#   tests/bench/run.sh                                             everything, once all is built
#   tests/bench/run.sh PART...                                     overhead, codec, all-reduce, training, launch, replicas,
#                                                                  parts, algorithms, accuracy, precision, curves or scale
# All figures also go to build/release/bench/results.json. Let nothing else run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/../.."

peers=$(tests/bench/peers.sh)
cmake --preset release -DCOHORT_TESTS=ON >/dev/null
cmake --build --preset release --target bench >&2
exec python3 tests/bench/driver --build=build/release --peers="$peers" --json=build/release/bench/results.json "$@"
