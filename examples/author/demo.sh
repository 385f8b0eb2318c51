#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What an author does, in front of your eyes: demo.sh OUT, where OUT is an
# installed Tenon. Everything happens in a new folder outside the tree.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(cd "$1" && pwd)
export PATH=$out/bin:$PATH PKG_CONFIG_PATH=$out/lib/pkgconfig

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
cp "$here"/{plugin.yaml,cube.yaml,meson.build} "$project"
cd "$project"

# Shows a command, then runs it.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

echo "An operator is a page of YAML; nothing else is written by hand:"
show cat cube.yaml
show cat meson.build

echo
echo "Build it as any project would, against $out:"
printf '\n$ meson setup build && meson compile -C build\n'
if ! { meson setup build && meson compile -C build; } >log.txt 2>&1; then
  cat log.txt
  exit 1
fi
ls -l build/acme.so

echo
echo "Look at the file without running any of its code:"
show tenon inspect build/acme.so

echo
echo "Load it, run it forward and backward:"
show tenon run acme.cube '[[1,2],[3,-4]]' scale=2 --plugin build/acme.so \
  --grad | tee result.txt

# By hand: 2x^3 and its derivative 6x^2 at 1, 2, 3 and -4.
cat >expected.txt <<'END'

$ tenon run acme.cube [[1,2],[3,-4]] scale=2 --plugin build/acme.so --grad
[[2, 16],
 [54, -128]]
grad.data:
[[6, 24],
 [54, 96]]
END
if diff expected.txt result.txt; then
  printf '\nThat is 2x^3 and 6x^2, as computed by hand: the demo holds.\n'
else
  printf '\nThat is not what was computed by hand.\n'
  exit 1
fi
