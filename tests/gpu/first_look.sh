#!/usr/bin/env bash
# Looks at cohort on a machine with a GPU and measures it beside PyTorch: `tests/gpu/first_look.sh --help`.
# In the folder that tests/gpu/pack.sh has made, the programs are there; in a checkout they are built first, unless --build=DIR names
# others.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cuda=ON target=gpu_programs
case " $* " in
  *" --help "* | *" -h "* | *" --build="* | *" --build "*) target= ;;
  *" --accelerator=cpu "* | *" --accelerator=fake "*) cuda=AUTO target=rehearsal_programs ;;
esac
build() {
  cmake --preset release -DCOHORT_TESTS=ON -DCOHORT_CUDA="$cuda" >/dev/null &&
    cmake --build --preset release --target "$target" >&2
}
if [ -n "$target" ] && [ ! -e "$root/packed.json" ]; then
  (cd "$root" && build) || {
    printf 'tests/gpu/first_look.sh: the programs could not be built, for the reason above; for a machine without the libraries that cohort needs, pack them elsewhere with tests/gpu/pack.sh\n' >&2
    exit 1
  }
fi
exec python3 "$root/tests/gpu/first_look" "$@"
