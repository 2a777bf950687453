#!/usr/bin/env bash
# Measures what docs/performance.md reports.   tests/bench/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake/bootstrap.sh --tests >/dev/null
cmake --preset release -DCOHORT_TESTS=ON >/dev/null
cmake --build --preset release --target mnist step_overhead collective_bench cohort_plugin_{cpu,shm,single,ddp}
bench=build/release/bench

echo "== Trainer against a bare LibTorch loop, Linear(32, 2), batch 1"
"$bench/step_overhead" --barebones --log-level=warning

echo "== Launch to the end of the first step, mnist on two ranks, five runs"
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
for _ in 1 2 3 4 5; do
  build/release/bin/mnist --devices=2 --epochs=1 --max-steps=5 --barebones --log-level=warning --summary-json="$summary" >/dev/null
  python3 -c 'import json, sys; print("%.2f s" % json.load(open(sys.argv[1]))["seconds_to_first_step"])' "$summary"
done

echo "== shm all-reduce in place, fp32 sum, two processes"
"$bench/collective_bench" --plugin=build/release/lib/cohort/plugins/cohort_shm.so
