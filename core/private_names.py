#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the version script of libtenon.so.

    private_names.py NM VERSION TEMPLATE OUTPUT ARCHIVE...

To the public names of TEMPLATE it adds the internal ones (tn__*) that the
archives of libtenon-graph.so and libtenon-files.so need and do not define. They
get a version of their own with the release in it, so that the dynamic linker
refuses libraries of another release.
"""

import pathlib
import re
import subprocess
import sys

INTERNAL = re.compile(r"^tn__\w+$")


def names(nm, option, archives):
    text = subprocess.run([nm, option, "--format=just-symbols", *archives],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name for name in text.split() if INTERNAL.match(name)}


def main(nm, version, template, output, *archives):
    needed = (names(nm, "--undefined-only", archives) -
              names(nm, "--defined-only", archives))
    lines = [pathlib.Path(template).read_text(),
             "/* For libtenon-graph.so and libtenon-files.so of the same release. */",
             f"TENON_PRIVATE_{version} {{", "  global:"]
    lines += [f"    {name};" for name in sorted(needed)]
    pathlib.Path(output).write_text("\n".join(lines + ["};", ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
