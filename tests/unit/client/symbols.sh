#!/bin/sh
# symbols.sh LIBRARY HEADER: the library exports the functions of the header, and nothing else.
set -eu
declared=$(grep -v '^ \*' "$2" | tr '\n' ' ' | grep -o 'RG_CLIENT_API[^;]*;' | grep -o 'rg_[a-z_]*(' |
    tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | grep -v '^__asan\|^__odr_asan' |
    sort -u)
if [ "$declared" != "$exported" ]; then
    echo "declared:"; echo "$declared"
    echo "exported:"; echo "$exported"
    exit 1
fi
echo "$declared" | wc -l
readelf -d "$1" | grep -q 'SONAME.*librailgate\.so\.0\]'
