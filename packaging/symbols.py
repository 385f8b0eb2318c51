#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes debian/libtenon0.symbols: the exported names of each library, with the
version of the package that a program needs for that name.

    symbols.py [--check] VERSION LIBRARY...

A name keeps the version that the file already has; a new one gets VERSION. Names
of libtenon for the other libraries of the same release are one line. --check
changes nothing, and fails if the names differ.
"""

import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).resolve().parent / "debian" / "libtenon0.symbols"
PRIVATE = re.compile(r"@TENON_PRIVATE_[\d.]+$")


def output(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def read_soname(library):
    return re.search(r"SONAME\).*\[(.*)\]", output("readelf", "-dW", library))[1]


def read_names(library):
    """Exported names as dpkg-gensymbols prints them: NAME@VERSION. A version is a
    name of its own, of kind A."""
    found = []
    for line in output("nm", "--dynamic", "--defined-only",
                       "--with-symbol-versions", library).splitlines():
        _, kind, name = line.split()
        name, _, version = name.replace("@@", "@").partition("@")
        found.append(f"{name}@{name if kind == 'A' else version or 'Base'}")
    return sorted(found)


def make_text(version, libraries, known):
    """The content of the file; `known` has versions of (soname, name)."""
    text = ""
    for soname, library in sorted((read_soname(each), each)
                                  for each in libraries):
        text += (f"{soname} libtenon0 #MINVER#\n"
                 "* Build-Depends-Package: libtenon-dev\n")
        names = read_names(library)
        for name in names:
            if not PRIVATE.search(name):
                text += f" {name} {known.get((soname, name), version)}\n"
        for each in sorted({PRIVATE.search(name)[0][1:] for name in names
                            if PRIVATE.search(name)}):
            text += f" (symver){each} {version}\n"
    return text


def read_known():
    """Versions of the file as it is."""
    known, soname = {}, None
    for line in FILE.read_text().splitlines() if FILE.exists() else []:
        if line.startswith(" "):
            name, version = line.split()
            known[soname, name] = version
        elif not line.startswith("*"):
            soname = line.split()[0]
    return known


def main(*arguments):
    check = "--check" in arguments
    version, *libraries = (each for each in arguments if each != "--check")
    text = make_text(version, libraries, read_known())
    if not check:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        before, after = (set(each.splitlines()) for each in
                         (FILE.read_text(), text))
        sys.exit("symbols.py: debian/libtenon0.symbols differs from the libraries\n"
                 + "".join(f"  is exported, not in the file: {line.strip()}\n"
                           for line in sorted(after - before))
                 + "".join(f"  in the file, not exported: {line.strip()}\n"
                           for line in sorted(before - after))
                 + "run: python3 packaging/symbols.py "
                   f"{version} build/gcc/core/libtenon*.so\n"
                   "After a release no name may go: that breaks programs.")


if __name__ == "__main__":
    main(*sys.argv[1:])
