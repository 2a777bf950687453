#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs into build/packed, for a machine with a GPU, its driver and PyTorch, and no Debian
# packages: the programs, the plugins, and the libraries that they need beside LibTorch's, CUDA's and the C library.
#   tests/gpu/pack.sh                        then carry build/packed and the sources to that machine
set -euo pipefail
cd "$(dirname "$0")/../.."
packed=build/packed
most_mib=60

cmake --preset release -DCOHORT_TESTS=ON -DCOHORT_CUDA=ON >/dev/null
cmake --build --preset release --target all gpu_programs >&2
rm -rf "$packed"
mkdir -p "$packed/bin" "$packed/tests"
cmake --install build/release --prefix "$packed" --strip >/dev/null
rm -rf "$packed/include" "$packed/share" "$packed/lib/cmake"
cp build/release/bin/cohort_numerics "$packed/bin/"
cp build/release/tests/*_on_cuda "$packed/tests/"
strip "$packed/bin/cohort_numerics" "$packed"/tests/*

# The libraries of the machine here; those of the other machine's PyTorch come in front of them by LD_LIBRARY_PATH.
find "$packed" -type f \( -perm -u+x -o -name '*.so*' \) -print0 | xargs -0 ldd 2>/dev/null |
  awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -v -E '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|ld-linux.*|libtorch.*|libc10.*|libcu.*|libnv.*|libgomp.*|libcohort_.*)\.so' |
  xargs -r cp -L -t "$packed/lib"
mib=$(du -sm "$packed" | cut -f1)
if [ "$mib" -gt "$most_mib" ]; then
  printf 'tests/gpu/pack.sh: %s has %s MiB, more than the %s that are carried; build for one architecture, with -DCMAKE_CUDA_ARCHITECTURES=90-real\n' "$packed" "$mib" "$most_mib" >&2
  exit 1
fi
printf 'packed %s MiB in %s\n' "$mib" "$packed"
