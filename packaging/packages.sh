#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of a source tarball, beside it.
#
#   packages.sh TARBALL
set -euo pipefail

folder=$(dirname "$1")
name=$(basename "$1" .tar.gz) # tenon-VERSION
cd "$folder"
rm -rf "$name" ./*.deb ./*.dsc ./*.changes ./*.buildinfo ./*.debian.tar.*
tar -xf "$name.tar.gz"
ln -f "$name.tar.gz" "tenon_${name#tenon-}.orig.tar.gz"
cp -r "$name/packaging/debian" "$name/debian"
(cd "$name" && dpkg-buildpackage --no-sign)
if command -v lintian >/dev/null; then
  lintian --fail-on error,warning ./*.changes
else
  echo "SKIPPED: lintian is not installed"
fi
