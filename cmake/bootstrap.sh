#!/usr/bin/env bash
# Installs what cohort needs to build: Debian packages and LibTorch. Safe to run again: what is there is only checked.
#   cmake/bootstrap.sh              packages and LibTorch for building
#   cmake/bootstrap.sh --tests      also what the test suite needs (OpenMPI, OpenSSH, clang, a venv with torchrun)
#   cmake/bootstrap.sh --bench      also what tests/bench compares with (Gloo)
#   cmake/bootstrap.sh --dry-run    says what would be done and changes nothing
# The last line of its output is the LibTorch folder; CMake finds it by itself.
# COHORT_DEPS_DIR moves the cache (default: ~/.cache/cohort).
set -euo pipefail

torch_version=2.11.0
cudart_version=13.0.96
cupti_version=13.0.85
build_packages=(g++ make cmake ninja-build ccache git python3 python3-pip python3-venv ca-certificates
  libboost-dev libboost-filesystem-dev libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev
  libgloo-dev libopenmpi-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang clang-format openmpi-bin procps
  openssh-client openssh-server iproute2)
bench_packages=(libgloo-dev)

dry_run=false
with_tests=false
with_bench=false
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }
say() { printf '[bootstrap] %s\n' "$*" >&2; }
die() { printf '[bootstrap] error: %s\n' "$*" >&2; exit 2; }

for argument in "$@"; do
  case "$argument" in
    --dry-run) dry_run=true ;;
    --tests) with_tests=true ;;
    --bench) with_tests=true; with_bench=true ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$argument'; the known ones are above" ;;
  esac
done

deps_dir=${COHORT_DEPS_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set; set COHORT_DEPS_DIR to a folder for LibTorch}/.cache}/cohort}
libtorch_dir=$deps_dir/libtorch-$torch_version
venv_dir=$deps_dir/venv-torch-$torch_version

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

install_packages() {
  command -v dpkg-query >/dev/null || die "this script installs Debian packages; on another system install by hand: $*"
  local missing=() package
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  if [ ${#missing[@]} -eq 0 ]; then say "Debian packages: all ${#} present"; return; fi
  say "Debian packages missing: ${missing[*]}"
  $dry_run && return
  if [ "$(id -u)" -ne 0 ]; then
    die "not root; ask for: sudo apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "apt-get update"
  apt-get update -qq || die "apt-get update failed; check the network and /etc/apt/sources.list"
  say "apt-get install ${#missing[@]} packages"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get install failed; its message is above"
}

libtorch_complete() {
  [ -e "$1/torch/lib/libtorch_cpu.so" ] && [ -e "$1/torch/include/torch/csrc/api/include/torch/torch.h" ] &&
    [ -e "$1/nvidia/cu13/lib/libcudart.so.13" ] && [ -e "$1/nvidia/cu13/lib/libcupti.so.13" ]
}

# Unpacked beside its final place and renamed, so that an interrupted run leaves nothing that looks complete.
install_libtorch() {
  if libtorch_complete "$libtorch_dir"; then say "LibTorch $torch_version: present in $libtorch_dir"; return; fi
  say "LibTorch $torch_version: 550 MB to download, 1.2 GB on disk in $libtorch_dir"
  $dry_run && return
  local partial=$libtorch_dir.partial
  rm -rf "$partial" "$libtorch_dir"
  mkdir -p "$partial"
  python3 -m pip install --no-deps --no-compile --upgrade --disable-pip-version-check --target "$partial" \
    "torch==$torch_version" "nvidia-cuda-runtime==$cudart_version" "nvidia-cuda-cupti==$cupti_version" >&2 ||
    die "pip could not fetch torch==$torch_version; check the network and free space in $deps_dir"
  libtorch_complete "$partial" || die "the torch wheel lacks libtorch_cpu.so or its headers; remove $partial and try again"
  mv "$partial" "$libtorch_dir"
}

install_test_venv() {
  if [ -e "$venv_dir/.complete" ]; then say "test venv: present in $venv_dir"; return; fi
  say "test venv with torch $torch_version and its dependencies: to download, 4.6 GB on disk in $venv_dir, a minute or two"
  $dry_run && return
  rm -rf "$venv_dir"
  python3 -m venv "$venv_dir"
  "$venv_dir/bin/pip" install --disable-pip-version-check --no-compile "torch==$torch_version" numpy safetensors >&2 ||
    die "pip could not build the test venv; check the network and free space in $deps_dir"
  "$venv_dir/bin/python" -c 'import torch; print("[bootstrap] python torch", torch.__version__)' >&2 ||
    die "the test venv cannot import torch; remove $venv_dir and try again"
  touch "$venv_dir/.complete"
}

packages=("${build_packages[@]}")
if $with_tests; then packages+=("${test_packages[@]}"); fi
if $with_bench; then packages+=("${bench_packages[@]}"); fi
install_packages "${packages[@]}"
install_libtorch
if $with_tests; then install_test_venv; fi
printf '%s\n' "$libtorch_dir"
