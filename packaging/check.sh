#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of a folder into a clean Debian, uses them as their readers
# would, removes them, and compares the files before and after.
#
#   check.sh FOLDER
#
# The clean Debian is FOLDER/root.tar, with a compiler and meson and without Tenon.
# The first check makes it with mmdebstrap, from the network.
set -euo pipefail

here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
folder=$(realpath "$1")
base=$folder/root.tar
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
[ "$(id -u)" -eq 0 ] || {
  echo "check.sh: become root: a clean Debian starts by chroot" >&2
  exit 1
}

# make_base: needed packages of Debian only; ours name the libraries that they use,
# so a missing dependency stops their installation.
make_base() {
  local suite
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mmdebstrap --quiet --mode=root --format=tar --variant=apt \
    --include=gcc,libc6-dev,meson,ninja-build,pkg-config,libffi8,libyaml-0-2,zlib1g,libopenblas0-pthread \
    "$suite" "$base.part"
  mv "$base.part" "$base"
}

# inside COMMAND...: runs it in the clean Debian, with its own processes.
inside() {
  unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
}

# Files that dpkg keeps about itself, and caches, change with every package.
list_files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev \
    -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/cache \
    -o -path ./var/log \) -prune -o -print | sort)
}

[ -e "$base" ] || make_base
tar -xf "$base" -C "$root"
list_files >"$folder/before.txt"
mkdir "$root/tmp/packages"
cp "$folder"/*.deb "$here/try.sh" "$root/tmp/packages"
rm -f "$root"/tmp/packages/*-dbgsym_*.deb
inside sh -c 'dpkg --install /tmp/packages/*.deb' >"$folder/dpkg.txt" 2>&1 || {
  cat "$folder/dpkg.txt" >&2
  exit 1
}
inside sh -e /tmp/packages/try.sh
inside sh -c 'dpkg --purge $(for each in /tmp/packages/*.deb; do
  dpkg-deb --field "$each" Package; done)' >"$folder/dpkg.txt" 2>&1 || {
  cat "$folder/dpkg.txt" >&2
  exit 1
}
list_files >"$folder/after.txt"
diff "$folder/before.txt" "$folder/after.txt" || {
  echo "check.sh: these files remain after the packages were removed" >&2
  exit 1
}
echo "removed: no file remains"
