# SPDX-License-Identifier: Apache-2.0
"""Says how to run the program of one test, for a debugger.

    debug.py BUILD TEST

Prints lines `target FILE`: files to build; `set NAME=VALUE`: the environment of
the test; `word WORD`: its command line. TEST is the name of a test. Its
program must not be a script. Options that are for meson alone are left out.
"""

import sys

import areas

FOR_MESON = ("--tap",)


def plan(tests, targets, build, name):
    """The lines for the test of that name."""
    found = [test for test in tests if test["name"] == name]
    if not found:
        raise areas.Unknown(areas.explain_unknown(tests, name))
    test = found[0]
    if "python" in test["cmd"][0]:
        raise areas.Unknown(f"'{name}' is a script of Python, not a program "
                            "for gdb; give the name of another test")
    lines = [f"target {file}"
             for file in areas.files_of([test], targets, build)]
    lines += [f"set {key}={value}" for key, value in test["env"].items()]
    return lines + [f"word {word}" for word in test["cmd"]
                    if word not in FOR_MESON]


def main():
    build, name = sys.argv[1:]
    try:
        print("\n".join(plan(*areas.read_build(build), build, name)))
    except areas.Unknown as failure:
        sys.exit(f"dev: {failure}")


if __name__ == "__main__":
    main()
