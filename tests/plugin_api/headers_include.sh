#!/bin/sh
# The headers include each other and, of the rest of the world, <stddef.h> and <stdint.h> alone.
# Usage: headers_include.sh INCLUDE_DIR
set -eu
cd "$1"
if grep -rnE '^ *# *include *<' cohort/api | grep -vE '<(stddef|stdint)\.h>'; then
  echo "a header of plugin_api includes something else than <stddef.h> and <stdint.h>" >&2
  exit 1
fi
grep -rhoE '^ *# *include *"[^"]+"' cohort/api | sed 's/.*"\(.*\)"/\1/' | sort -u | while read -r name; do
  file=$(echo "$name" | sed 's|^\(\.\./\)*||')
  if ! test -e "cohort/api/$file" && ! test -e "cohort/api/host/$file"; then
    echo "\"$name\" is no header of plugin_api" >&2
    exit 1
  fi
done
# values.h has functions that are compiled into the plugin, and nothing that crosses the ABI.
for header in $(find cohort/api -name '*.h' ! -name values.h); do
  # Without comments.
  if cc -fpreprocessed -dD -E -P "$header" 2> /dev/null | grep -nwE 'bool|_Bool|size_t|long|enum|wchar_t'; then
    echo "$header: the ABI has fixed-width integers and pointers only" >&2
    exit 1
  fi
done
