#!/usr/bin/env bash
# Packs first_look.sh and all that it needs into a folder, for a machine with a GPU, its driver and PyTorch, and none of the libraries
# of Debian: programs, plugins, and the libraries that these need beside LibTorch's, CUDA's and the C library.
#   tests/gpu/pack.sh                             builds for compute capability 9.0 (H100, H200) and packs into build/packed
#   tests/gpu/pack.sh --architectures="80-real;90-real"   for other GPUs
#   tests/gpu/pack.sh --build=DIR                 packs what is built in DIR
#   tests/gpu/pack.sh --to=DIR                    packs into this folder, which is made anew
set -euo pipefail
cd "$(dirname "$0")/../.."
most_mib=30
build= architectures=90-real packed=build/packed
for argument in "$@"; do
  case "$argument" in
    --build=*) build=${argument#*=} ;;
    --architectures=*) architectures=${argument#*=} ;;
    --to=*) packed=${argument#*=} ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) printf "tests/gpu/pack.sh: unknown argument '%s'; see --help\n" "$argument" >&2; exit 2 ;;
  esac
done

if [ -z "$build" ]; then  # a tree of its own, because its device code runs on these GPUs alone
  build=build/packing
  cmake --preset release -B "$build" -DCOHORT_TESTS=ON -DCOHORT_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$architectures" >/dev/null
  cmake --build "$build" --target gpu_programs >&2
fi

rm -rf "$packed"
mkdir -p "$packed"/{bin,lib/cohort/plugins,share/cohort,tests/gpu,tests/bench/driver,tests/bench/training}
cp -P "$build"/lib/libcohort_{host,launch,memory,runtime,trainer}.so.* "$packed/lib/"
cp "$build"/bin/{cohort_numerics,mnist} "$packed/bin/"
for plugin in "$build"/lib/cohort/plugins/*.so; do
  case "$plugin" in */cohort_mpi.so) ;; *) cp "$plugin" "$packed/lib/cohort/plugins/" ;; esac  # MPI's own files cannot be moved
done
for program in "$build"/tests/*_on_cuda "$build/tests/accelerator_suite"; do
  if [ -e "$program" ]; then cp "$program" "$packed/tests/"; fi
done
cp -r "$build/share/cohort/mnist" "$packed/share/cohort/"
cp -r tests/gpu/first_look.sh tests/gpu/first_look "$packed/tests/gpu/"
rm -rf "$packed/tests/gpu/first_look/__pycache__"
cp tests/bench/driver/training_data.py "$packed/tests/bench/driver/"
cp tests/bench/training/{models,peer}.py "$packed/tests/bench/training/"

# first_look.sh says where libraries are; a path of this machine would hide here that one is missing.
mapfile -t files < <(find "$packed/bin" "$packed/lib" "$packed/tests" -maxdepth 3 -type f ! -name '*.py' ! -name '*.sh')
mapfile -t needed < <(ldd "${files[@]}" | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -v -E '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s|libstdc\+\+|ld-linux.*|libtorch.*|libc10.*|libcu.*|libnv.*|libgomp.*|libcohort_.*)\.so')
strip "${files[@]}"
{
  for file in "${files[@]}"; do printf 'file(RPATH_REMOVE FILE "%s")\n' "$(realpath "$file")"; done
} >"$packed/without_paths.cmake"
cmake -P "$packed/without_paths.cmake" >/dev/null 2>&1
rm "$packed/without_paths.cmake"
if [ ${#needed[@]} -gt 0 ]; then cp -L -t "$packed/lib" "${needed[@]}"; fi
torch=$(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$build/lib/cohort/libtorch/version.py")
printf '{"torch": "%s"}\n' "$torch" >"$packed/packed.json"

mib=$(du -sm "$packed" | cut -f1)
if [ "$mib" -gt "$most_mib" ]; then
  printf 'tests/gpu/pack.sh: %s has %s MiB, more than the %s that are to be carried; pack for fewer --architectures\n' "$packed" "$mib" "$most_mib" >&2
  exit 1
fi
printf 'packed %s MiB in %s\n' "$mib" "$packed"
