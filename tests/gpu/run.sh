#!/usr/bin/env bash
# Tries cohort on a machine with a GPU and measures it beside PyTorch: `tests/gpu/run.sh --help`.
# Where there is a compiler with CUDA the programs are built first; else they are those that tests/gpu/pack.sh has packed.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ ! -d build/packed ]; then
  cmake --preset release -DCOHORT_TESTS=ON -DCOHORT_CUDA=ON >/dev/null
  cmake --build --preset release --target all gpu_programs >&2
fi
exec python3 tests/gpu/run.py "$@"
