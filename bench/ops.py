# SPDX-License-Identifier: Apache-2.0
"""Operators one by one, beside libtorch and ONNX Runtime.

    ops.py BUILD_FOLDER [ROUNDS [PART ...]]

The rows are those of ops.h with one of the parts in their name. Prints lines
`PASS/ROW MICROSECONDS` and a table. Programs take turns, and the least time of
all rounds counts: it is processor time, which other load on the machine can
only increase.
"""

import os
import pathlib
import re
import sys

from samples import CORES, TORCHES, Program, Samples, imports, save, say, table, \
    find_torches

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
PARTS = ["--", *sys.argv[3:]]
PLUGINS = [BUILD / "plugins" / name / f"{name}.so"
           for name in ("openblas", "elemwise", "nn", "tensor", "random",
                        "optim", "linalg")]
PEERS = {**TORCHES, "onnxruntime": "ONNX Runtime"}
# Of wheels; the first needs the second, Debian's is too old.
MODULES = {"PYTHONPATH": os.pathsep.join(
    str(BUILD.parent / name) for name in ("onnxruntime", "numpy"))}


def programs():
    """Ours, and the peers that are there."""
    ops = BENCH / "ops"
    found = [Program("tenon", [ops, *filter(os.path.exists, PLUGINS), *PARTS],
                     CORES[1]),
             *find_torches(BENCH / "peers" / "torch_ops", PARTS, 1)]
    if imports("onnx, onnxruntime", **MODULES):
        found.append(Program(
            "onnxruntime", ["/usr/bin/python3", HERE / "peers" / "onnx_ops.py",
                            ops, *PARTS], CORES[1], **MODULES))
    else:
        print("SKIPPED onnxruntime: packages onnxruntime and numpy of PyPI not "
              "installed")
    return found


def table_of_rows():
    """Arithmetic and goals, as the program that knows ops.h prints them."""
    listed = Program("rows", [BENCH / "ops", "--rows"]).run()
    return {name: (float(flops), float(goal))
            for name, flops, goal in ((" ".join(words[:-2]), *words[-2:])
                                      for words in listed)}


class Rows(Samples):
    """Names have blanks, so the value is the last word."""

    def collect(self, programs, rounds):
        for _ in range(rounds):
            for program in programs:
                for *name, value in program.run():
                    self.values[program.name, " ".join(name)].append(
                        float(value))

    def least(self, program, name):
        """None if there is no such sample."""
        return min(self.values.get((program, name), [None]))


def number(value, digits=1):
    """A cell."""
    return "–" if value is None else f"{value:.{digits}f}"


def line(samples, name, flops, goal):
    """Times, and the ratios computed from them."""
    ours = samples.least("tenon", name)
    peers = [samples.least(each, name) for each in PEERS]
    best = min(filter(None, peers), default=None)
    rate = flops / ours / 1e3 if flops else None
    kind, row = re.fullmatch(r"([^/]+)/(.*)", name).groups()
    return [row, kind, number(ours), number(rate, 0), *map(number, peers),
            number(best and best / ours, 2), number(goal) if goal else "–"]


def main():
    """All figures of operators in docs/benchmarks/performance.md."""
    samples, known = Rows(), table_of_rows()
    samples.collect(programs(), ROUNDS)
    for program, name in samples.values:
        say(f"{name.replace(' ', '_')}.{program}",
            samples.least(program, name), "us")
    table("Microseconds of an operator, one thread, processor time",
          ["operator", "pass", "tenon", "GFLOP/s", *PEERS.values(),
           "best peer / tenon", "goal over torch tuned"],
          [line(samples, name, *known[name])
           for name in samples.names("tenon")])
    save("ops")


if __name__ == "__main__":
    main()
