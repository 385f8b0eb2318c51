#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes FOLDER/tenon-VERSION.tar.gz with the files of a commit, and prints its name.
# The same commit gives the same bytes: times are those of the commit, and settings
# of the user do not matter.
#
#   tarball.sh ROOT COMMIT FOLDER
set -euo pipefail

root=$1 commit=$2 folder=$3
read_version='s/^ *version: .\([0-9.]*\).,$/\1/p'
version=$(git -C "$root" show "$commit:meson.build" | sed -n "$read_version" | head -n 1)
name=tenon-$version
mkdir -p "$folder"
unset GZIP # options of the user
git -C "$root" -c tar.umask=0022 -c core.attributesFile=/dev/null \
  -c core.autocrlf=false -c core.eol=lf archive --format=tar --prefix="$name/" "$commit" |
  gzip -9n >"$folder/$name.tar.gz"
echo "$folder/$name.tar.gz"
