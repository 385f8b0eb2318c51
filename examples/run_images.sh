#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes images, packs them into files of records, and trains a network on them.
# A second program continues the training from the middle of an epoch. It must
# print the same numbers.
#
#   run_images.sh TENON MAKE_IMAGES IMAGE_FOLDER [PLUGIN...]
set -euo pipefail
files=()
for each in "$@"; do files+=("$(realpath "$each")"); done
tenon=${files[0]} make_images=${files[1]} image_folder=${files[2]}
set -- "${files[@]:3}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

printf '\n$ make_images train 150 1; make_images test 40 2\n'
"$make_images" train 150 1
"$make_images" test 40 2
for each in train test; do
  printf '$ tenon data pack %s --out %s.rec\n' "$each" "$each"
  "$tenon" data pack "$each" --out "$each.rec"
done
printf '$ image_folder train.rec test.rec --save 230 half.safetensors\n'
"$image_folder" train.rec test.rec --save 230 half.safetensors "$@" | tee whole.txt
printf '$ image_folder train.rec test.rec --resume half.safetensors\n'
"$image_folder" train.rec test.rec --resume half.safetensors "$@" | tee resumed.txt
if sed '1,/^saved/d' whole.txt | cmp - <(sed 1d resumed.txt); then
  printf '\nBoth learned the same, number for number.\n'
else
  printf '\nThey did not learn the same.\n'
  exit 1
fi
