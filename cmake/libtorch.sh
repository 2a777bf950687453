#!/usr/bin/env bash
# Says which LibTorch stands beside this script for an installation of cohort, and brings one there. `cohort libtorch` runs it.
#   libtorch.sh                                 says which one is there
#   libtorch.sh --install [--from=FOLDER]       unpacks the pinned wheel, or links a LibTorch that is in a folder
#   libtorch.sh --unpack=FOLDER [--dry-run]     unpacks a wheel for a build of cohort: cmake/bootstrap.sh
#   --version=VERSION   the one that cohort is or was built with, if it is not the pinned one
#   --as=FILE           the command that messages name
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
list=$here/requirements/libtorch.txt
pinned=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$list")
link=$here/libtorch
size="550 MB to download, 1.2 GB on disk"
wanted=$pinned
cohort=cohort
action=show
from=
folder=
dry_run=false
say() { printf '[libtorch] %s\n' "$*" >&2; }
die() { printf 'error: cohort libtorch: %s\n' "$*" >&2; exit 2; }

for argument in "$@"; do
  case "$argument" in
    --install) action=install ;;
    --from=*) from=${argument#*=} ;;
    --unpack=*) action=unpack folder=${argument#*=} ;;
    --dry-run) dry_run=true ;;
    --version=*) wanted=${argument#*=} ;;
    --as=*) cohort=${argument#*=} ;;
    *) die "unknown argument '$argument'; the known ones are at the top of $0" ;;
  esac
done

# Prints the folder with lib and include of the LibTorch in a folder: an unpacked wheel or a site-packages folder has it in torch.
# Fails where there is none.
root_of() {  # FOLDER
  local root
  for root in "$1/torch" "$1"; do
    if [ -e "$root/lib/libtorch_cpu.so" ] && [ -e "$root/lib/libc10.so" ] &&
      [ -e "$root/include/torch/csrc/api/include/torch/torch.h" ]; then
      realpath "$root"
      return
    fi
  done
  return 1
}

version_of() {  # ROOT
  cat "$1"/include/torch/{headeronly,csrc/api/include/torch}/version.h 2>/dev/null |
    sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' | head -n 3 | paste -sd .
}

# Prints the libraries that those of a LibTorch need and do not find, on one line.
missing_libraries() {  # ROOT
  ldd "$1/lib/libtorch_cpu.so" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p' | paste -sd ' '
}

# Says what is wrong with the LibTorch at a root, or nothing.
objection_to() {  # ROOT
  local version missing
  version=$(version_of "$1")
  missing=$(missing_libraries "$1")
  if [ "$version" != "$wanted" ]; then
    printf '%s has version %s, and this cohort was built with %s' "$1" "${version:-unknown}" "$wanted"
  elif [ -n "$missing" ]; then
    printf '%s does not find %s, which a complete one has' "$1" "$missing"
  fi
}

show() {
  local root objection
  root=$(root_of "$link") ||
    die "no LibTorch in $link: run $cohort libtorch --install ($size), or give --install --from=FOLDER with one of version $wanted"
  objection=$(objection_to "$root")
  [ -z "$objection" ] || die "$objection: run $cohort libtorch --install, or give --install --from=FOLDER with another one"
  if [ "$root" = "$link" ]; then printf 'LibTorch %s in %s\n' "$wanted" "$link"; else printf 'LibTorch %s in %s, a link to %s\n' "$wanted" "$link" "$root"; fi
}

# Prints the versions that cohort is tried with: there is a list of wheels for each.
tried_versions() { sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$here"/requirements/libtorch*.txt | sort -V | paste -sd' '; }

unpack() {  # FOLDER
  python3 -m pip --version >/dev/null 2>&1 ||
    die "python3 with pip unpacks the wheel and is missing: install python3-pip, or give a LibTorch that is there with --install --from=FOLDER"
  list=$(grep -l "^torch==$wanted " "$here"/requirements/libtorch*.txt) || list=$(write_list "$1")
  "$here/unpack_wheels.sh" "$list" "$1" ||
    die "pip could not unpack torch $wanted into $1: check the network and the free space, or give a LibTorch that is there with --install --from=FOLDER"
}

# Writes the list of wheels of a version that has none here, as the package index has them today, and prints its path.
write_list() {  # FOLDER
  local written
  mkdir -p "$(dirname "$1")"
  written=$(realpath "$(dirname "$1")")/$(basename "$1").txt
  "$here/requirements/refresh.sh" --libtorch="$wanted" "$written" ||
    die "the package index has no wheel of torch $wanted for this Python: give another version, or check the network"
  printf '%s\n' "$written"
}

# The link is replaced in one step: a program that starts meanwhile finds the old LibTorch or the new one.
make_link() {  # TARGET
  if [ -d "$link" ] && [ ! -L "$link" ]; then die "$link is a folder of its own and no link: move it away first"; fi
  ln -s "$1" "$link.new.$$" && mv -T "$link.new.$$" "$link"
}

require_room() {
  [ -w "$here" ] || die "$here cannot be written to: run it as its owner, as in sudo $cohort libtorch --install"
}

install_from() {
  local root objection
  [ -d "$from" ] || die "--from=$from is no folder: give one with torch/lib, or lib and include, of LibTorch $wanted"
  root=$(root_of "$from") || die "--from=$from holds no LibTorch: give a folder with torch/lib, or lib and include, of LibTorch $wanted"
  objection=$(objection_to "$root")
  [ -z "$objection" ] || die "$objection: give another folder, or leave --from out to download it"
  require_room
  make_link "$root"
}

install_wheel() {
  local folder=$here/libtorch-$pinned
  [ "$wanted" = "$pinned" ] || die "this cohort was built with LibTorch $wanted, and $pinned is the one to download: give --from=FOLDER with $wanted"
  require_room
  if ! root_of "$folder" >/dev/null; then
    say "LibTorch $pinned: $size in $folder"
    rm -rf "$folder"
    unpack "$folder"
  fi
  make_link "libtorch-$pinned/torch"
}

if [ "$action" = unpack ]; then
  if [[ " $(tried_versions) " != *" $wanted "* ]]; then
    say "warning: cohort is not tried with LibTorch $wanted, but with $(tried_versions); no hash says which file its wheel is"
  fi
  if root_of "$folder" >/dev/null && compgen -G "$folder/nvidia/*/lib/libcudart.so.*" >/dev/null; then
    say "LibTorch $wanted: present in $folder"
  else
    say "LibTorch $wanted: $size in $folder"
    if ! $dry_run; then rm -rf "$folder"; unpack "$folder"; fi
  fi
  exit
fi
if [ "$action" = install ]; then
  if [ -n "$from" ]; then install_from; else install_wheel; fi
fi
show
