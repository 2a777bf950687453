#!/usr/bin/env bash
# Installs what cohort needs to build: Debian packages and LibTorch. Safe to run again: what is there is only checked.
#   cmake/bootstrap.sh              packages and LibTorch for building
#   cmake/bootstrap.sh --tests      also what the test suite needs (OpenMPI, MPICH, OpenSSH, SLURM, clang, a venv with torch)
#   cmake/bootstrap.sh --bench      also what tests/bench compares with (Gloo)
#   cmake/bootstrap.sh --cuda       also a CUDA compiler, for machines without a CUDA toolkit
#   cmake/bootstrap.sh --libtorch=VERSION   that LibTorch in place of the pinned one; README.md names those that are tried
#   cmake/bootstrap.sh --packages   the Debian packages alone; beside --tests or --bench theirs, too. Only these need root
#   cmake/bootstrap.sh --dry-run    says what would be done and changes nothing
# The last line of its output is the LibTorch folder; CMake finds it by itself.
# COHORT_DEPS_DIR moves the cache (default: ~/.cache/cohort).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
lists=$here/requirements
torch_version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$lists/libtorch.txt")
cuda_version=$(sed -n 's/^nvidia-cuda-nvcc==\([0-9.]*\).*/\1/p' "$lists/cuda.txt")
build_packages=(g++ make cmake ninja-build ccache git python3 python3-pip python3-venv ca-certificates
  libboost-dev libboost-filesystem-dev libspdlog-dev libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev
  libsodium-dev libgloo-dev libopenmpi-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang libclang-rt-dev llvm clang-format openmpi-bin procps
  openssh-client openssh-server iproute2 locales mpich munge slurm-client slurmctld slurmd python3-yaml
  dpkg-dev file)
bench_packages=(libgloo-dev)
declare -A service_of=([openssh-server]=ssh [munge]=munge [slurmctld]=slurmctld [slurmd]=slurmd)

dry_run=false
with_tests=false
with_bench=false
with_cuda=false
packages_only=false
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }
say() { printf '[bootstrap] %s\n' "$*" >&2; }
die() { printf '[bootstrap] error: %s\n' "$*" >&2; exit 2; }

given=("$@")
for argument in "$@"; do
  case "$argument" in
    --dry-run) dry_run=true ;;
    --packages) packages_only=true ;;
    --tests) with_tests=true ;;
    --bench) with_tests=true; with_bench=true ;;
    --cuda) with_cuda=true ;;
    --libtorch=*) torch_version=${argument#*=} ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$argument'; the known ones are above" ;;
  esac
done

[[ $torch_version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "--libtorch=$torch_version is no version: give one like 2.11.0"
deps_dir=${COHORT_DEPS_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set; set COHORT_DEPS_DIR to a folder for LibTorch}/.cache}/cohort}
libtorch_dir=$deps_dir/libtorch-$torch_version
venv_dir=$deps_dir/venv-torch-$torch_version
cuda_dir=$deps_dir/cuda-$cuda_version

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

install_packages() {
  command -v dpkg-query >/dev/null || die "this script installs Debian packages; on another system install by hand: $*"
  local missing=() package
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  if [ ${#missing[@]} -eq 0 ]; then say "Debian packages: all ${#} present"; return; fi
  say "Debian packages missing: ${missing[*]} (needs root; $packages_size for all of them)"
  $dry_run && return
  if [ "$(id -u)" -ne 0 ]; then
    die "not root; ask for: sudo $(printf '%q ' "$0" "${given[@]}")--packages"
  fi
  say "apt-get update"
  apt-get update -qq || die "apt-get update failed; check the network and /etc/apt/sources.list"
  say "apt-get install ${#missing[@]} packages"
  without_services "${missing[@]}"
}

apt_get_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 ||
    die "apt-get install failed; its message is above"
}

# The tests start servers of their own: the system's are started neither now nor at boot. One that was installed before is
# left as it is.
without_services() (
  policy=/usr/sbin/policy-rc.d with_service=()
  for package in "$@"; do
    if [ -n "${service_of[$package]:-}" ]; then with_service+=("$package"); fi
  done
  if [ ${#with_service[@]} -gt 0 ] && [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    install -m 755 /dev/stdin "$policy" <<<$'#!/bin/sh\nexit 101'
  fi
  apt_get_install "$@"
  for package in "${with_service[@]}"; do  # deb-systemd-helper asks for the package that calls it
    update-rc.d "${service_of[$package]}" disable >&2
    DPKG_MAINTSCRIPT_PACKAGE=$package deb-systemd-helper disable "${service_of[$package]}.service"
  done
)

# The compiler looks for its libraries in lib64, and the packages have them in lib.
install_cuda() {
  if [ -L "$cuda_dir/nvidia/cu13/lib64" ]; then say "CUDA compiler $cuda_version: present in $cuda_dir"; return; fi
  say "CUDA compiler $cuda_version: 105 MB to download, 270 MB on disk in $cuda_dir"
  $dry_run && return
  rm -rf "$cuda_dir"
  "$here/unpack_wheels.sh" "$lists/cuda.txt" "$cuda_dir" ||
    die "pip could not fetch what $lists/cuda.txt lists; check the network and free space in $deps_dir"
  ln -s lib "$cuda_dir/nvidia/cu13/lib64"
}

# The venv names what it was made from: another list of packages makes it anew.
install_test_venv() {
  local made_from
  made_from=$(cat "$here/test_venv.sh" "$lists"/libtorch*.txt "$lists/tests.txt" | sha256sum)
  if [ "$(cat "$venv_dir/.complete" 2>/dev/null)" = "$made_from" ]; then say "test venv: present in $venv_dir"; return; fi
  say "test venv with numpy, TensorBoard, torchmetrics and LibTorch's torch: 37 MB to download, 200 MB on disk in $venv_dir"
  $dry_run && return
  "$here/test_venv.sh" "$libtorch_dir" "$venv_dir" >&2 ||
    die "the test venv could not be made, for the reason above; check the network and free space in $deps_dir"
  printf '%s\n' "$made_from" >"$venv_dir/.complete"
}

packages=("${build_packages[@]}")
packages_size="125 MB to download, 480 MB on disk"
if $with_tests; then
  packages+=("${test_packages[@]}")
  packages_size="200 MB to download, 860 MB on disk"
fi
if $with_bench; then packages+=("${bench_packages[@]}"); fi
install_packages "${packages[@]}"
if $packages_only; then exit; fi
"$here/libtorch.sh" --version="$torch_version" --unpack="$libtorch_dir" $($dry_run && printf %s --dry-run)
if $with_tests; then install_test_venv; fi
if $with_cuda; then install_cuda; fi
printf '%s\n' "$libtorch_dir"
