#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: dependencies, build, MNIST on two ranks. Run it again to resume after Ctrl-C.
#   examples/quickstart.sh            ten epochs, about a minute of training on two cores
#   examples/quickstart.sh --epochs=2 further arguments go to the example
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n[quickstart] %s\n' "$*"; }

say "what is coming"
cmake/bootstrap.sh --dry-run >/dev/null
cat <<'TEXT'
Then: the build (about 4 minutes on two cores the first time, 40 MB in build/release) and the training (about a minute).
Nothing but missing Debian packages needs root. Ctrl-C is safe: the same command resumes.
TEXT
say "1/3 dependencies (Debian packages, LibTorch)"
cmake/bootstrap.sh >/dev/null
say "2/3 build"
cmake --preset release >/dev/null
cmake/build.py build/release quickstart
say "3/3 train MNIST on two ranks: ./mnist --devices=2"
build/release/bin/mnist --devices=2 --summary-json=build/release/mnist-summary.json "$@"
python3 - build/release/mnist-summary.json <<'PYTHON'
import json, sys
summary = json.load(open(sys.argv[1]))
digests = summary["weights_sha256"]
print(f"\ntest accuracy   {summary['metrics']['test_acc']:.2%}")
print(f"weights         {digests[0][:16]}... on {len(digests)} ranks, {'equal' if len(set(digests)) == 1 else 'DIFFERENT'}")
print(f"training        {summary['wall_seconds']:.1f} s, {summary['samples_per_second']:.0f} samples/s")
PYTHON
cat <<'TEXT'

What to try next:
  build/release/bin/mnist --help                                  all flags
  build/release/bin/mnist --devices=2 --strategy=ddp,compression=bf16
  build/release/bin/cohort run -n 2 build/release/bin/mnist       the launcher on its own
  build/release/bin/cohort new my_project                         a program of your own
  build/release/bin/cohort plugins info ddp                       what a strategy is made of
  cmake --build build/release                                     all strategies, collectives and examples
  examples/plugins/rendezvous_layer                               a plugin of a few lines of C
TEXT
