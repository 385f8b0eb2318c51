# SPDX-License-Identifier: Apache-2.0
"""gdb shows the objects of libtenon by tools/gdb/tenon_gdb.py.

    test_gdb.py PRINTERS PROGRAM PLUGIN

PROGRAM is tests/gdb/shown, which needs PLUGIN (elemwise.so).
"""

import functools
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

PRINTERS, PROGRAM, PLUGIN = sys.argv[1:4]
SHOWN = (
    ("*array", "array f32 (2,3) on cpu(0), 1 owner: [1, 2.5, -3, 4, 5, 6]"),
    ("array->tensor",
     "tensor f32 (2,3) on cpu(0): [1, 2.5, -3, 4, 5, 6]"),
    ("*empty", "array f32 (2,3) on cpu(0), 1 owner, no memory yet"),
    ("*failed", "variable, 1 owner: TN_IO: read x: no file x"),
    ("*failed->var->error", "error TN_IO: read x: no file x"),
    ("*busy", "variable, 1 owner: a writer"),
    ("array->block->var", "variable: unused"),
    ("*graph", "graph of 2 nodes, 1 head = {[0] = variable `x`, 0 inputs, "
               "[1] = call `y` elemwise.relu@1, 1 input}"),
    ("*(tn__node *)graph->nodes.v[1]",
     "call `y` elemwise.relu@1, 1 input"),
    ("*operation", "operation train, pushed 2 times: read, update"),
    ("*((tn__node *)graph->nodes.v[1])->op", "operator elemwise.relu@1, 3 kernels"),
)


@functools.lru_cache(maxsize=None)
def printed():
    """The answers of gdb, by expression."""
    if not shutil.which("gdb"):
        raise tap.Skip("gdb is not installed")
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load no",
             "-iex", "set debuginfod enabled off",
             "-ex", "set width 0", "-ex", "set print address off",
             "-ex", f"source {PRINTERS}", "-ex", "break show_objects",
             "-ex", "run"]
    for expression, _ in SHOWN:
        words += ["-ex", f"echo \\n@{expression}@", "-ex",
                  f"print {expression}"]
    done = subprocess.run(words + ["--args", PROGRAM, PLUGIN], check=False,
                          capture_output=True, text=True, timeout=300)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        raise tap.Skip("this system allows no debugger")
    assert "Breakpoint 1, show_objects" in done.stdout, (
        done.stdout + done.stderr)
    return done.stdout


def shows(expression, expected):
    answer = printed().split(f"@{expression}@")[1].split("\n")[0]
    tap.equal(answer.split(" = ", 1)[-1], expected, expression)


if __name__ == "__main__":
    tap.run([(f"shows {expression}",
              functools.partial(shows, expression, expected))
             for expression, expected in SHOWN])
