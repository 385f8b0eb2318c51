#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the programs that make images and learn their classes against an
# installed Tenon, and runs them (run_images.sh).
#
#   demo_images.sh OUT_FOLDER
set -euo pipefail
out=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! printf '#include <stdio.h>\n#include <jpeglib.h>\n' |
  "${CC:-cc}" -E - >/dev/null 2>&1; then
  echo "SKIPPED images: package libjpeg-dev not installed"
  exit
fi
flags=(-std=c11 -D_GNU_SOURCE -O2 "-I$out/include" "-L$out/lib"
  "-Wl,-rpath,$out/lib")
"${CC:-cc}" "${flags[@]}" "$here/make_images.c" -o "$work/make_images" -ljpeg -lm
"${CC:-cc}" "${flags[@]}" "$here"/{image_folder,image_net,digits_net,digits}.c \
  -o "$work/image_folder" -ltenon-data -ltenon -lz -lm
bash "$here/run_images.sh" "$out/bin/tenon" "$work/make_images" "$work/image_folder"
