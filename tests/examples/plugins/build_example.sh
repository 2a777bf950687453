#!/bin/sh
# Builds an example plugin with the line of its README, and with warnings as errors. The result exports one symbol and
# needs nothing but the language's own libraries and those that the line names.
# Usage: build_example.sh EXAMPLE_DIR OUTPUT
set -eu
output=$2
cd "$1"
line=$(grep -E '^ *(cc|c\+\+) ' README.md)
command=$(echo "$line" | sed "s|-o [^ ]*|-o '$output'|")
sh -c "$command -Wall -Wextra -Wpedantic -Wconversion -Werror -Wl,--no-undefined"
symbols=$(nm -D --defined-only "$output" | awk '{print $3}')
test "$symbols" = cohort_plugin_0 || { echo "exported: $symbols" >&2; exit 1; }
allowed="libc libm libstdc++ libgcc_s ld-linux-x86-64 ld-linux-aarch64 $(echo "$line" | grep -oE ' -l[a-z]+' | sed 's/ -l/lib/' | tr '\n' ' ')"
for library in $(readelf -d "$output" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*/\1/p'); do
  case " $allowed " in
    *" $library "*) ;;
    *) echo "the example needs $library, which the line of its README does not name" >&2; exit 1 ;;
  esac
done
