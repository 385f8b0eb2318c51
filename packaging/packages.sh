#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of a source tarball, beside it, and checks their form.
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
# No bug asks for these packages in Debian, since they are not uploaded there.
lintian --allow-root --fail-on error,warning \
  --suppress-tags initial-upload-closes-no-bugs ./*.changes
