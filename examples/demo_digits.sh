#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the programs that learn digits against an installed Tenon and runs them:
# one makes calls and records them, one has a program of a graph, and these two must
# end with the same numbers; the third is a network of convolutions. In the last one
# several ranks learn together.
#
#   demo_digits.sh OUT_FOLDER
set -euo pipefail
out=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c11 -D_GNU_SOURCE -O2 "-I$out/include" "-L$out/lib"
  "-Wl,-rpath,$out/lib")
for each in train_digits_eager train_digits train_lenet; do
  "${CC:-cc}" "${flags[@]}" "$here/$each.c" \
    "$here"/{digits,digits_net,lenet_net,learner}.c \
    -o "$work/$each" -ltenon-graph -ltenon -lz -lm
  printf '\n$ %s digits.csv.gz\n' "$each"
  (cd "$work" && "./$each" "$here/data/digits.csv.gz") | tee "$work/$each.txt" |
    if [ "$each" = train_lenet ]; then cat; else sed -n '1,3p;$p'; fi
  sed 's/ [0-9.]* s$//' "$work/$each.txt" >"$work/$each.numbers"
done
if cmp "$work/train_digits_eager.numbers" "$work/train_digits.numbers"; then
  printf '\nBoth learned the same, number for number.\n'
else
  printf '\nThey did not learn the same.\n'
  exit 1
fi

"${CC:-cc}" "${flags[@]}" "$here/train_parallel.c" "$here"/{digits,digits_net}.c \
  -o "$work/train_parallel" -ltenon-parallel -ltenon-graph -ltenon -lz -lm -lpthread
for ranks in 1 2; do
  printf '\n$ train_parallel digits.csv.gz --ranks %s\n' "$ranks"
  "$work/train_parallel" "$here/data/digits.csv.gz" --ranks "$ranks" |
    tee "$work/$ranks.txt"
  sed -E 's/([0-9]{6})[0-9]* .*/\1/' "$work/$ranks.txt" >"$work/$ranks.numbers"
done
if cmp "$work/1.numbers" "$work/2.numbers"; then
  printf '\nTwo ranks learned what one did, to six digits.\n'
else
  printf '\nTwo ranks learned something else than one.\n'
  exit 1
fi
cp "$work/lenet.json" "$out/"
printf 'A trace of one step of train_lenet is in %s.\n' "$out/lenet.json"
