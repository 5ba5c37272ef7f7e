#!/bin/sh
# A port that only writes its answers, one file per case: pecli says which are right, and what is wrong with the others.
# sh run_verify.sh FOLDER [--mistake]        the port here is awk with seven digits, about as many as float32 has
golden=${1:-golden}
answers=$(mktemp -d)
trap 'rm -rf "$answers"' EXIT
awk -v mistake="$2" -v answers="$answers" '
function rounded(x) { return sprintf("%.7g", x) + 0 }
function wave(part,   i, k, text, angle) {
    text = sprintf("\"%s.%s\": {\"dtype\": \"float32\", \"shape\": [%d, %d], \"data\": [", name, part, rows, dim / 2)
    for (i = 1; i <= rows; i++) {
        text = text (i > 1 ? ", [" : "[")
        for (k = 0; k < dim / 2; k++) {  # the port: put yours here
            angle = rounded(place[i] * rounded(exp(-log(mistake ? 10000 : base) * 2 * k / dim)))
            text = text (k ? ", " : "") sprintf("%.9g", part == "cos" ? cos(angle) : sin(angle))
        }
        text = text "]"
    }
    return text "]}"
}
/^   "name":/ { gsub(/[",]/, ""); name = $2; rows = 0 }
/^    "base":/ { base = $2 + 0 }
/^    "dim":/ { dim = $2 + 0 }
/^    "positions": \[/ { inside = 1; next }
inside && /\]/ { inside = 0 }
inside { place[++rows] = $1 + 0 }
/^  }/ && name ~ /^table-(default|dim-|theta-)/ {
    print "{\"tensors\": {" wave("cos") ", " wave("sin") "}}" > (answers "/" name ".json")
}
' "$golden/index.json"
for answer in "$answers"/*.json; do
    name=$(basename "$answer" .json)
    if pecli verify --golden "$golden" "$answer" --atol 1e-6 -q; then
        echo "passed  $name"
    elif said=$(pecli verify --golden "$golden" "$answer" --atol 0.12); then
        echo "FAILED  $name (float32 arithmetic explains it)"
    else
        echo "FAILED  $name: $(echo "$said" | sed -n 2p)"
    fi
done
