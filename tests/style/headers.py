#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the public headers in their groups, and prints TAP.

    headers.py [ROOT]

sdk/include/tenon has the headers of hosts; plugin/ the plugin ABI; kernel/ the
library that is compiled into plugins; draft/ headers that may still change;
test/ the headers of generated tests. A header includes headers of some groups
only (MAY_INCLUDE), by a path that begins with tenon/. Each header of draft/
states in its head that it may change, and no other header states it.
"""
import pathlib
import re
import sys

HOST = "host"
MAY_INCLUDE = {
    "plugin": {"plugin"},
    HOST: {HOST, "plugin"},
    "draft": {"draft", "plugin", "kernel"},
    "kernel": {"kernel", "draft", "plugin"},
    "test": {"test", HOST, "plugin"},
}
# Headers of kernel/ that need no other part of it, so that tests may have them.
ALONE = {"kernel/storage.h"}
DRAFT = "Draft: this header may change in any release."
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def group_of(name):
    """The group of a header, from its path below include/tenon."""
    parts = pathlib.PurePosixPath(name).parts
    return parts[0] if len(parts) > 1 else HOST


def check_group(name, body):
    group = group_of(name)
    if group not in MAY_INCLUDE:
        yield f"{name}: {group}/ is no group of headers"
        return
    for mark, path in INCLUDE.findall(body):
        if not path.startswith("tenon/"):
            if mark == '"':
                yield (f"{name} includes \"{path}\"; begin the path with "
                       "tenon/")
            continue
        name_of_other = path[len("tenon/"):]
        other = group_of(name_of_other)
        if group == "test" and name_of_other in ALONE:
            continue
        if other not in MAY_INCLUDE[group]:
            yield (f"{name} includes {path}: headers of group {group} include "
                   f"only those of {', '.join(sorted(MAY_INCLUDE[group]))}")


def check_draft(name, body):
    head = body.split("*/", 1)[0]
    if group_of(name) == "draft" and DRAFT not in head:
        yield f"{name} does not state in its head: {DRAFT}"
    if group_of(name) != "draft" and DRAFT in head:
        yield f"{name} states that it is a draft, but is not in draft/"


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else
                        pathlib.Path(__file__).parents[2])
    folder = root / "sdk/include/tenon"
    bodies = {path.relative_to(folder).as_posix(): path.read_text()
              for path in sorted(folder.rglob("*"))
              if path.suffix in (".h", ".cuh")}
    failed = not bodies
    print(f"1..{max(len(bodies), 1)}")
    if not bodies:
        print(f"not ok 1 - headers: {folder} has none")
    for number, (name, body) in enumerate(bodies.items(), 1):
        faults = [*check_group(name, body), *check_draft(name, body)]
        failed = failed or bool(faults)
        print(f"{'not ok' if faults else 'ok'} {number} - headers: {name}")
        for fault in faults:
            print(f"# {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
