#!/usr/bin/env bash
# Unpacks the wheels of a list, each known by its hash, into a folder that does not exist: beside it and renamed in the end, so that
# an interrupted run leaves nothing that looks complete.
#   unpack_wheels.sh LIST FOLDER
set -euo pipefail
partial=$2.partial
rm -rf "$partial"
mkdir -p "$partial"
python3 -m pip install --no-deps --no-compile --no-cache-dir --only-binary=:all: --require-hashes --upgrade \
  --disable-pip-version-check --target "$partial" -r "$1" >&2
mv -T "$partial" "$2"
