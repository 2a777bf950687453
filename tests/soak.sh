#!/usr/bin/env bash
# Every soak for many rounds, each with moments and inputs by chance: kills and stops of ranks on every wire, under mpirun and on
# other hosts, signals to whole jobs, kills while checkpoints are written, forks, and mutations for every fuzz target.
#   tests/soak.sh [ROUNDS]    rounds of each (default 200); a round of a fuzz target is 1,000 inputs
# The seed is COHORT_TEST_SEED, or a new one, and is printed. All run, also after one has failed; their output is kept in
# build/release/soak. A soak that is skipped has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-200}
export COHORT_SOAK_ROUNDS=$rounds COHORT_TEST_SEED=${COHORT_TEST_SEED:-$((RANDOM << 15 | RANDOM))}
export COHORT_BUILD=$PWD/build/release PYTHONDONTWRITEBYTECODE=1
soaks=(rank_death_test:Soak checkpoint_test:Soak spawn_test:Soak ssh_test:Soak stop_signals_test:Signals
  restart_test:HostsInFull.test_kills_of_ranks_and_agents_at_random_cost_no_step
  kill_resume_test:KilledManyTimesInFull mpi_test:DeadRanksInFull.test_a_rank_that_is_killed_at_any_moment_is_named)

cmake/bootstrap.sh --tests >/dev/null
cmake --preset release -DCOHORT_TESTS=ON >/dev/null
cmake --build --preset release --target all quick_tests fuzz_targets
python=$(sed -n 's/^COHORT_TEST_PYTHON:FILEPATH=//p' "$COHORT_BUILD/CMakeCache.txt")
logs=$COHORT_BUILD/soak
mkdir -p "$logs"

child=
trap '[ -z "$child" ] || kill "$child"; exit 130' INT TERM  # timeout ends the group that it leads

failed=()
soak() {  # NAME command words...
  local name=$1 log=$logs/$1.log
  shift
  echo "[soak] $name"
  # A round takes a few seconds; this ends one that hangs, and what it has started.
  timeout --kill-after=60 $((600 + 60 * rounds)) "$@" > "$log" 2>&1 &
  child=$!
  if ! wait "$child" || grep -q '^SKIPPED' "$log"; then
    failed+=("$name")
    tail -n 40 "$log"
    echo "[soak] $name FAILED or was skipped; its output is in $log"
  fi
}

echo "[soak] $rounds rounds of each; to repeat them: COHORT_TEST_SEED=$COHORT_TEST_SEED tests/soak.sh $rounds"
for entry in "${soaks[@]}"; do
  soak "${entry//:/.}" "$python" "tests/system/${entry%%:*}.py" "${entry#*:}"
done
for source in tests/fuzz/*_fuzz.cpp; do
  target=$(basename "$source" .cpp)
  arguments=(-runs=$((1000 * rounds)) -seed="$COHORT_TEST_SEED" -artifact_prefix="$logs/")
  [ ! -e "tests/fuzz/dictionary/$target" ] || arguments+=(-dict="tests/fuzz/dictionary/$target")
  soak "$target" "$COHORT_BUILD/tests/$target" "${arguments[@]}" "tests/fuzz/corpus/$target"
done
[ ${#failed[@]} -eq 0 ] || { echo "[soak] failed: ${failed[*]}" >&2; exit 1; }
