# SPDX-License-Identifier: Apache-2.0
"""Selects the tests of an area, and the files to build for them.

    areas.py BUILD [AREA ...] [--not AREA ...]

An area is a suite of meson (a folder of the core, a plugin), another folder,
or the name of a test. Without an area all tests are selected. Prints a line `target FILE`
for each file to build and a line `test NAME` for each test, those of `--not`
excepted. An unknown area ends the program with a list of all areas.
"""

import argparse
import difflib
import json
import os
import pathlib
import sys
import textwrap


# Folders whose tests are in the suite of another.
WITHIN = {
    "execution": "graph", "gradient": "graph", "program_bind": "graph",
    "fences": "engine", "pool": "engine", "tokens": "engine",
    "variables": "engine", "binding": "bindings", "call": "ndarray",
    "files": "exchange",
    "graph_json": "graph", "passes": "graph", "program": "graph",
    "choice": "registry", "fields": "registry", "loading": "registry",
    "shapes": "registry",
    "api": "product", "gdb": "product", "math": "kernel", "pages": "tenon",
    "probe": "bindings",
    "site": "product",
}


class Unknown(Exception):
    """An area that does not exist; the text lists those that do."""


def read_build(build):
    """(tests, {id of a target: its files}) of a configured build folder."""
    info = pathlib.Path(build) / "meson-info"
    tests = json.loads((info / "intro-tests.json").read_text())
    targets = json.loads((info / "intro-targets.json").read_text())
    return tests, {each["id"]: each["filename"] for each in targets}


def suites_of(test):
    """The suites of a test, without the name of the project."""
    return [suite.split(":")[-1] for suite in test["suite"]]


def names_of(tests):
    """(all suites, all names of tests), each sorted."""
    return (sorted({suite for test in tests for suite in suites_of(test)}),
            sorted({test["name"] for test in tests}))


def find_area(tests, area):
    """The tests of a suite or folder, or else the test of that name."""
    suite = WITHIN.get(area, area)
    found = [test for test in tests if suite in suites_of(test)]
    found = found or [test for test in tests if test["name"] == area]
    if not found:
        raise Unknown(explain_unknown(tests, area))
    return found


def explain_unknown(tests, area):
    """The message for an unknown area: the nearest ones, and the suites."""
    suites, names = names_of(tests)
    every = [*suites, *WITHIN]
    every += [name for name in names if name not in every]
    near = difflib.get_close_matches(area, every, 3, 0.6)
    near += [name for name in every if area in name and name not in near][:3]
    lines = [f"there is no area '{area}'"]
    if near:
        lines[0] += "; did you mean " + " or ".join(
            f"'{name}'" for name in near[:3]) + "?"
    lines += textwrap.wrap("Areas: " + " ".join(sorted([*suites, *WITHIN])), 78,
                           subsequent_indent="  ", break_on_hyphens=False)
    lines.append("A test's name is an area as well: "
                 "`meson test -C build/gcc --list` prints them.")
    return "\n".join(lines)


def select(tests, areas, without):
    """The tests of any of the areas (of all, if none) and none of `without`."""
    chosen = list(tests) if not areas else []
    for area in areas:
        chosen += [test for test in find_area(tests, area)
                   if test not in chosen]
    for area in without:
        excluded = [test["name"] for test in find_area(tests, area)]
        chosen = [test for test in chosen if test["name"] not in excluded]
    return chosen


def files_of(chosen, targets, build):
    """The files of the targets that the tests need, as ninja names them."""
    needed = {each for test in chosen for each in test["depends"]}
    return sorted(os.path.relpath(file, os.path.abspath(build))
                  for each in needed for file in targets[each])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("areas", nargs="*")
    parser.add_argument("--not", dest="without", action="append", default=[])
    arguments = parser.parse_args()
    tests, targets = read_build(arguments.build)
    try:
        chosen = select(tests, arguments.areas, arguments.without)
    except Unknown as failure:
        sys.exit(f"dev: {failure}")
    for file in files_of(chosen, targets, arguments.build):
        print("target", file)
    for test in chosen:
        print("test", test["name"])


if __name__ == "__main__":
    main()
