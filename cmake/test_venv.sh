#!/usr/bin/env bash
# Makes the venv that the tests run in: its torch is the unpacked LibTorch, by hard links, so that there is one on disk.
#   cmake/test_venv.sh LIBTORCH VENV      cmake/bootstrap.sh --tests calls it
# torch's library for CUDA asks for 2.5 GB of NVIDIA's libraries as it is loaded. Here it computes on the CPU, and one
# small library stands in for all of them: it has their functions by name, and each says so and ends the process.
set -euo pipefail
requirements=$(cd "$(dirname "$0")" && pwd)/requirements/tests.txt
libtorch=$1
venv=$2

# Where the file system has no hard links it is a second copy.
link() {
  cp -al "$@" 2>/dev/null || cp -a --remove-destination "$@"
}

needed() { readelf -d "$@" | sed -n 's/.*(NEEDED).*\[\(lib[cn][uvc].*\)\]/\1/p' | sort -u; }

write_stand_in() {
  local libraries=("$1"/torch/lib/libtorch_{cuda,python,nvshmem}.so) folder name
  folder=$(dirname "$(compgen -G "$1/nvidia/*/lib/libcudart.so.*" | head -n 1)")
  {
    printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' 'static void absent(void) {' \
      '  fputs("the venv of the tests has no CUDA libraries: torch computes on the CPU in it\n", stderr);' '  abort();' '}'
    nm -D --undefined-only "${libraries[@]}" | grep -oE '\b(cublas|cudnn|cufft|cuFile|curand|cusparse|nccl|nvrtc|nvshmem)\w+' |
      sort -u | sed 's/.*/void &(void) __attribute__((alias("absent")));/'
  } | gcc -shared -fPIC -x c -o "$folder/stand_in.so" -
  for name in $(needed "${libraries[@]}"); do
    [ -e "$folder/$name" ] || ln -s stand_in.so "$folder/$name"
  done
}

rm -rf "$venv"
python3 -m venv "$venv"
packages=$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --only-binary=:all: \
  --require-hashes -r "$requirements"
link "$libtorch"/{torch,torchgen,functorch,nvidia,*.dist-info} "$packages/"
write_stand_in "$packages"

# It shows that all works, and leaves the byte code of what the tests import: it halves the time that importing takes.
export PYTHONDONTWRITEBYTECODE=
"$venv/bin/python" -c '
import safetensors.torch
import tensorboard.backend.event_processing.data_provider
import tensorboard.plugins.hparams.list_session_groups
import torchmetrics'
"$venv/bin/python" -m torch.distributed.run --standalone --nproc-per-node=1 --no-python "$venv/bin/python" -c '
import torch
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(3, 2)).sum().backward()
torch.optim.Adam(model.parameters()).step()
torch.distributed.destroy_process_group()'
