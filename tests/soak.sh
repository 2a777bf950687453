#!/usr/bin/env bash
# The soaks in full: what tests/run.sh does for a few rounds, many times, on every wire.   tests/soak.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-200}
cmake/bootstrap.sh --tests >/dev/null
cmake --preset dev >/dev/null
cmake --build --preset dev
COHORT_SOAK_ROUNDS=$rounds ctest --preset dev -R 'system_rank_death|system_spawn|fuzz' --timeout 7200 --no-tests=error
