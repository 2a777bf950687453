#!/usr/bin/env bash
# Makes the venv of the Python peers that tests/bench measures against: the test venv's torch, PyTorch Lightning, and
# Horovod built for it with MPI. Safe to run again. A Horovod that cannot be built is left out, with a line that says where
# its log is.
#   tests/bench/peers.sh              7 minutes the first time; packages and LibTorch come from cmake/bootstrap.sh --bench
#   tests/bench/peers.sh --dry-run    says what would be done and changes nothing
# The last line of its output is the venv's folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

horovod_version=0.28.1
horovod_hash=sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0  # of its source archive
say() { printf '[peers] %s\n' "$*" >&2; }
die() { printf '[peers] error: %s\n' "$*" >&2; exit 2; }

dry_run=false
case "${1:-}" in
  '') ;;
  --dry-run) dry_run=true ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; die "unknown argument '$1'; the known ones are above" ;;
esac

bootstrap=(cmake/bootstrap.sh --bench)
if $dry_run; then bootstrap+=(--dry-run); fi
libtorch=$("${bootstrap[@]}")
deps_dir=$(dirname "$libtorch")
torch_venv=$(find "$deps_dir" -maxdepth 1 -name 'venv-torch-*' 2>/dev/null | sort -V | tail -n 1 || true)
venv=$deps_dir/venv-peers-$(basename "${torch_venv:-venv-torch}" | cut -d- -f2-)
log=$deps_dir/horovod-$horovod_version.log

# The patch: torch 2.11's headers need C++17, which Horovod's last release does not ask for.
build_horovod() (
  sources=$(mktemp -d)
  trap 'rm -rf "$sources"' EXIT
  printf 'horovod==%s --hash=%s\n' "$horovod_version" "$horovod_hash" >"$sources/horovod.txt"
  "$venv/bin/python" -m pip download --no-deps --no-binary horovod --no-build-isolation --require-hashes --dest "$sources" \
    -r "$sources/horovod.txt" &&
    tar -xzf "$sources/horovod-$horovod_version.tar.gz" -C "$sources" &&
    find "$sources/horovod-$horovod_version" -name third_party -prune -o -name CMakeLists.txt -exec \
      sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' {} + &&
    env CUDA_HOME= MAKEFLAGS="-j$(nproc)" HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITH_PYTORCH=1 \
      HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 PATH="$venv/bin:$PATH" \
      "$venv/bin/python" -m pip install --no-deps --no-build-isolation "$sources/horovod-$horovod_version" &&
    "$venv/bin/python" -c 'import horovod.torch as hvd; assert hvd.mpi_built()'
)

make_venv() {
  [ -n "$torch_venv" ] || die "no venv with torch in $deps_dir; cmake/bootstrap.sh --bench makes it"
  rm -rf "$venv"
  "$torch_venv/bin/python" -m venv "$venv"
  "$torch_venv/bin/python" -c 'import site; print(site.getsitepackages()[0])' \
    >"$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch_venv.pth"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    -r cmake/requirements/peers.txt >&2 ||
    die "pip could not fetch Lightning and Horovod's build packages; check the network"
  say "Horovod $horovod_version: building against torch, about 6 minutes; log: $log"
  if build_horovod >"$log" 2>&1; then
    say "Horovod $horovod_version: built"
  else
    say "Horovod $horovod_version: cannot be built here and is left out of the tables; its messages: $log (to try again, remove $venv)"
  fi
  cp cmake/requirements/peers.txt "$venv/.complete"
}

if cmp --silent cmake/requirements/peers.txt "$venv/.complete"; then
  say "peers' venv: present in $venv"
elif $dry_run; then
  say "peers' venv with Horovod $horovod_version: to build in $venv, 6 minutes"
else
  make_venv
fi
printf '%s\n' "$venv"
