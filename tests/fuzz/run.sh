#!/usr/bin/env bash
# Runs the fuzz targets as clang's libFuzzer programs, with AddressSanitizer and UBSan, in a build tree of their own.
#   tests/fuzz/run.sh [INPUTS [TARGET...]]    INPUTS for each target (default 100000); all targets, or those named
# The seed is COHORT_TEST_SEED, or a new one, and is printed. An input fails that crashes, throws, leaks, is reported by a
# sanitizer, is refused without a sentence of one line, or takes more than a second, also when it runs again alone: it is kept in
# build/fuzz, and the command to run it again is printed. What leads to new code is kept as well (build/fuzz/found) and is where
# the next run begins.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/../.."
inputs=${1:-100000}
shift || true
targets=("$@")
seed=${COHORT_TEST_SEED:-$((RANDOM << 15 | RANDOM))}
tree=build/fuzz

[ ${#targets[@]} -gt 0 ] || for file in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$file" .cpp)"); done
mkdir -p "$tree"
{
  cmake -S . -B "$tree" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DCOHORT_TESTS=ON -DCOHORT_CORE=OFF -DCOHORT_EXAMPLES=OFF \
    -DCOHORT_SANITIZE=fuzzer-no-link,address,undefined &&
    cmake --build "$tree" --target "${targets[@]}"
} > "$tree/build.log" 2>&1 || { tail -n 40 "$tree/build.log" >&2; exit 1; }

# Succeeds unless an input among these, which took a second on a machine that others used too, does so in each of three tries.
are_fast() {
  local target=$1 input try
  shift
  for input in "$@"; do
    for try in 1 2 3; do
      ! "$tree/tests/$target" -timeout=1 "$input" >> "$tree/$target.log" 2>&1 || continue 2
    done
    return 1
  done
}

failed=()
echo "seed $seed, $inputs inputs for each target"
for target in "${targets[@]}"; do
  found=$tree/found/$target log=$tree/$target.log
  mkdir -p "$found"
  arguments=(-runs=$((inputs + $(find "$found" "tests/fuzz/corpus/$target" -type f | wc -l))) -seed="$seed" -timeout=20
    -report_slow_units=1 -max_len=8192 -artifact_prefix="$tree/$target-")
  [ ! -e "tests/fuzz/dictionary/$target" ] || arguments+=(-dict="tests/fuzz/dictionary/$target")
  rm -f "$tree/$target-slow-unit-"*
  if "$tree/tests/$target" "${arguments[@]}" "$found" "tests/fuzz/corpus/$target" > "$log" 2>&1 &&
    are_fast "$target" "$tree/$target-slow-unit-"*; then
    echo "$target: $(grep -a "^Done" "$log")"
  else
    failed+=("$target")
    grep -a -v '^#' "$log" | tail -n 60
    echo "$target FAILED; its output is in $log; run it again with: $tree/tests/$target $(ls -t "$tree/$target-"* | head -n 1)"
  fi
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
