#!/bin/sh
# Build and run runner.c for every plain table of a suite with headers: sh run_c.sh FOLDER [-DMISTAKE]
# pecli golden -o FOLDER --format all makes one.
here=$(dirname "$0")
folder=${1:-golden}
status=0
for header in "$folder"/table-default.h "$folder"/table-theta-500000.h "$folder"/table-dim-*.h; do
    binary=$(mktemp)
    name=$(basename "$header" .h | tr -c '[:alnum:]\n' _)  # of its tensors: table_default_cos
    cc -O1 "-DCASE=\"$(cd "$folder" && pwd)/$(basename "$header")\"" "-DTENSOR(name)=${name}_##name" ${2:-} "$here/runner.c" -o "$binary" -lm || exit 2
    "$binary" || status=1
    rm -f "$binary"
done
exit $status
