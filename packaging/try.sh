#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Uses installed packages as their readers would: runs an operator, builds the
# project of `opgen new` and runs its tests, compiles a program by pkg-config.
# Prints a line for each, and ends with the first failure.
set -eu

# expect TEXT COMMAND...: the command prints that.
expect() {
  expected=$1
  shift
  found=$("$@")
  if [ "$found" != "$expected" ]; then
    printf 'try.sh: %s\nexpected: %s\nfound:    %s\n' "$*" "$expected" "$found" >&2
    exit 1
  fi
}

work=$(mktemp -d)
cd "$work"
tenon list plugins >plugins.txt
for name in cuda elemwise image linalg nn openblas optim random tensor; do
  grep -q "^$name " plugins.txt || {
    cat plugins.txt >&2
    echo "try.sh: tenon list has no plugin $name" >&2
    exit 1
  }
done
expect '[0, 1.1752012]' tenon run elemwise.sinh '[0, 1]'
echo "tenon: lists the plugins and runs an operator"

expect 6 tenon run blas.dot '[1, 2, 3]' '[1, 1, 1]' \
  --plugin "$(pkg-config --variable=plugindir tenon)/blas/dot.yaml"
echo "blas: a function of OpenBLAS runs by its manifest"

opgen new acme.cube >/dev/null
cd acme
meson setup build >log
meson compile -C build >log
meson test -C build >log
expect '[1, 4, 9]' tenon run acme.cube '[1, 2, 3]' a=1 --plugin build/acme.so
cd ..
echo "opgen: a new project builds, and its tests pass"

# The session of docs/start/first-program.md; libraries of the system need no -rpath.
cp "$(pkg-config --variable=prefix tenon)/share/doc/tenon/examples/host/main.c" .
# shellcheck disable=SC2046 # flags without blanks
cc main.c $(pkg-config --cflags --libs tenon) -o main
expect '6 11 18 27' ./main
echo "libtenon-dev: a program compiles and runs"

cd /
rm -r "$work"
