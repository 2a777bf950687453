#!/usr/bin/env bash
# Shows that no test fails by chance: beside four busy processes per core, runs the entries of tests/timing.txt five times and the quick
# tier once. What ends by its deadline here has failed, for it is not run again: mend the test, or the product.
#   tests/stress.sh          the quick tier and what of it depends on time; at most 40 minutes on two cores
#   tests/stress.sh --all    five times also what depends on time and only tests/run.sh --all runs; some hours
# Further arguments go to ctest, as in `tests/stress.sh -R nodes_test`.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '[stress] %s\n' "$*"; }
failed=()

part() {  # NAME arguments of tests/run.sh...
  local name=$1 begin=$SECONDS
  shift
  tests/run.sh --once "$@" || failed+=("$name")
  say "$name: $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
}

spin() { while :; do :; done; }
stir() { while :; do head -c 64M /dev/zero | tail -c 64M > "$folder/$1"; done; }  # memory and disk

tier=()
arguments=()
for argument in "$@"; do
  case "$argument" in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --all) tier=(--all) ;;
    *) arguments+=("$argument") ;;
  esac
done

tests/run.sh --build "${tier[@]}"
folder=$(mktemp -d)
load=()
trap 'kill "${load[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
for ((core = 0; core < $(nproc); ++core)); do
  for _ in 1 2 3; do spin & load+=($!); done
  stir "$core" & load+=($!)
done
say "${#load[@]} busy processes beside the tests"
# More at a time than tests/run.sh: they get a part of the cores, and most of those that depend on time wait.
part "what depends on time, five times" "${tier[@]}" -L '^timing$' --repeat until-fail:5 --parallel $((3 * $(nproc))) "${arguments[@]}"
part "the quick tier" --parallel $((2 * $(nproc))) "${arguments[@]}"
[ ${#failed[@]} -eq 0 ] || { say "failed:$(printf ' %s;' "${failed[@]}")"; exit 1; }
