#!/usr/bin/env bash
# Rewrites the lists beside it: every package that the build, the tests and the benchmarks take from the Python package
# index, with its version and the SHA-256 of its files for x86-64 Linux and each Python below. pip refuses any other file.
#   cmake/requirements/refresh.sh     then read the diff, and run cmake/bootstrap.sh --bench and the tests
#   cmake/requirements/refresh.sh --libtorch=VERSION FILE     writes the list of one more LibTorch for the Python that runs
set -euo pipefail
cd "$(dirname "$0")"
export LC_ALL=C

pythons=(3.11 3.12 3.13 3.14)
# LibTorch is unpacked from its wheel: the one that is built with if nothing else is said, and others that the tests pass with.
libtorch=2.11.0
other_libtorch=(2.15.0)
# numpy, safetensors, what torch asks for to run on a CPU, TensorBoard with what its readers of event files ask for, and
# torchmetrics with what it asks for.
tests=(numpy==2.4.6 safetensors==0.8.0 filelock==4.2.12 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0
  networkx==3.6.1 Jinja2==3.1.6 MarkupSafe==3.0.4 fsspec==2026.9.0 tensorboard==2.21.0 protobuf==7.36.2 absl-py==2.5.1
  torchmetrics==1.9.0 lightning-utilities==0.15.3 packaging==26.4)
# A CUDA compiler with headers and static runtime, of one release; the runtime is LibTorch's.
cuda=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
  nvidia-cuda-runtime==13.0.96)
# Packages of Horovod's build (Horovod itself comes as source, and its hash stands in tests/bench/peers.sh), and PyTorch
# Lightning with those that it needs beside the tests' packages.
peers=(setuptools==69.5.1 wheel packaging psutil pyyaml cloudpickle pytorch-lightning==2.6.6 tqdm)

# Prints "name==version sha256" for each package as this Python would install it. Of torch's dependencies only those count that
# its library for CPUs is linked to.
resolve() {
  local torch=(--no-deps)
  if [[ " ${*:2} " == *" torch=="* ]]; then torch=(); fi
  python3 -m pip install --disable-pip-version-check --quiet --dry-run --ignore-installed "${torch[@]}" --only-binary=:all: \
    --python-version "$1" --target "$scratch/none" --report "$scratch/report.json" "${@:2}" >&2
  python3 - "$scratch/report.json" <<'PYTHON'
import json, re, sys
for package in json.load(open(sys.argv[1]))["install"]:
    about = package["metadata"]
    if not package["requested"] and not re.fullmatch(r"nvidia-cuda-(runtime|cupti)(-cu\d+)?", about["name"]):
        continue
    print(f"{about['name']}=={about['version']}", package["download_info"]["archive_info"]["hash"].replace("=", ":"))
PYTHON
}

# The oldest Python decides a version that is not given, and the others follow.
write() {
  local list=$1 found python
  shift
  found=$(resolve "${pythons[0]}" "$@")
  mapfile -t pinned < <(cut -d' ' -f1 <<<"$found")
  for python in "${pythons[@]:1}"; do found+=$'\n'$(resolve "$python" "${pinned[@]}"); done
  {
    printf '# Written by cmake/requirements/refresh.sh.\n'
    sort -u <<<"$found" | awk '$1 != last { printf "%s%s", (NR > 1 ? "\n" : ""), last = $1 }
      { printf " \\\n    --hash=%s", $2 } END { print "" }'
  } >"$list"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ $# -gt 0 ]; then
  pythons=("$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')")
  write "$2" "torch==${1#--libtorch=}"
  exit
fi
write libtorch.txt "torch==$libtorch"
for version in "${other_libtorch[@]}"; do write "libtorch-$version.txt" "torch==$version"; done
write tests.txt "${tests[@]}"
write cuda.txt "${cuda[@]}"
write peers.txt "${peers[@]}"
