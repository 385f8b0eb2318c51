# SPDX-License-Identifier: Apache-2.0
"""Names and global state of the built library; a planted violation of each
rule is found.

    test_symbols.py LIBTENON CC FOLDER_LIBRARY...
"""

import pathlib
import re
import shlex
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

LIBTENON = pathlib.Path(sys.argv[1])
CC = shlex.split(sys.argv[2])
LIBRARIES = [pathlib.Path(each) for each in sys.argv[3:]]
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)

# Of the process, not of a runtime: keys of thread-local texts, the number of
# the next runtime or thread, constants that must have an address, and the tables of
# functions that libraries provide when libtenon opens them.
ALLOWED = {"provided", "key", "key_once", "has_key", "once", "next", "no_strides",
           "nothing"}
# Those of compilers and start files.
FOREIGN = re.compile(r"^(?:completed|__|_)")


def state_of(file):
    """Writable objects of a library, by the names in its source."""
    found = set()
    for line in tap.output(["objdump", "-t", file]).splitlines():
        part = line.split()
        if " O " in line and re.search(r"\s\.(?:data|bss)\s", line):
            name = re.sub(r"\.\d+$", "", part[-1])
            if not FOREIGN.match(name):
                found.add(name)
    return found


def foreign_names(file):
    """Names that a static library exports and that are not of this project."""
    names = tap.output(["nm", "--defined-only", "-g",
                        "--format=just-symbols", file]).split()
    return {name for name in names
            if not name.endswith(":") and not name.startswith(("tn_", "tnm_"))}


def compile_part(text, *more):
    source, file = FOLDER / "part.c", FOLDER / "part.so"
    source.write_text(text)
    tap.output([*CC, *more, "-o", file, source])
    return file


def the_library_has_no_state_but_that_of_the_process():
    tap.equal(state_of(LIBTENON) - ALLOWED, set(), "writable objects")


def a_counter_is_found_as_state():
    file = compile_part("static int n_calls;\nint count(void);\n"
                        "int count(void) { return ++n_calls; }\n",
                        "-shared", "-fPIC", "-O0")
    tap.equal(state_of(file) - ALLOWED, {"n_calls"})


def every_folder_exports_names_of_its_prefix():
    for archive in LIBRARIES:
        tap.equal(foreign_names(archive), set(), archive.name)


def a_name_without_prefix_is_found():
    file = compile_part("int count(void);\nint count(void) { return 1; }\n"
                        "int tn__count(void);\nint tn__count(void) { return 1; }\n",
                        "-c")
    tap.equal(foreign_names(file), {"count"})


tap.run([the_library_has_no_state_but_that_of_the_process,
         a_counter_is_found_as_state,
         every_folder_exports_names_of_its_prefix,
         a_name_without_prefix_is_found])
