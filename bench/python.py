# SPDX-License-Identifier: Apache-2.0
"""Calls from Python, beside NumPy and torch in the same process, and the time of an import.

    python.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and tables of the medians; a ratio is the median
of the ratios of the rounds. Debian's Python runs everything, pinned to one core. A newer NumPy,
of PyPI, has a process of its own, because Debian's torch does not work with it.
"""

import os
import pathlib
import sys
import time

from samples import CORES, Program, Samples, imports, save, say, table

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
PACKAGE = BUILD.parent / "python" / "package"
NEW_NUMPY = BUILD.parent / "numpy"
PYTHON = "/usr/bin/python3"
CALLS = HERE / "python_calls.py"
PEERS = {"numpy": "NumPy", "numpy_new": "NumPy of PyPI", "torch": "torch",
         "torch_inference": "torch, inference"}
ROWS = (("a + b", "sign"), ("add(a, b)", "new"), ("add(a, b, out=c)", "given"),
        ("prepared add", "prepared"), ("relu(a + b) and its gradient", "gradient"),
        ("100 sin, one by one", "eager"), ("100 sin, a program", "program"))
# A row of a program is beside calls one by one of the peers, a prepared call beside `out`.
BESIDE = {"prepared": "given", "program": "eager"}


def paths(*more):
    """The variable PYTHONPATH for the package and other folders."""
    return {"PYTHONPATH": os.pathsep.join(map(str, (PACKAGE, *more)))}


def programs():
    """Both processes, as far as their packages are there."""
    found = [Program("debian", [PYTHON, CALLS], CORES[1], **paths())]
    if NEW_NUMPY.exists():
        found.append(Program("pypi", [PYTHON, CALLS, "--numpy-only"], CORES[1],
                             **paths(NEW_NUMPY)))
    else:
        print("SKIPPED numpy_new: NumPy of PyPI not installed")
    if not imports("torch"):
        print("SKIPPED torch: package python3-torch not installed")
    return found


def collect_calls():
    """Samples by (peer, "new/64")."""
    samples, sorted_samples = Samples(), Samples()
    samples.collect(programs(), ROUNDS)
    for (program, line), values in samples.values.items():
        name, _, peer = line.rpartition("/")
        if program == "pypi":
            peer = {"numpy": "numpy_new"}.get(peer)
        if peer:
            sorted_samples.values[peer, name].extend(values)
    return sorted_samples


def cell(samples, peer, row, digits=0):
    """Medians for 1 and 64 elements."""
    medians = [samples.median(peer, f"{row}/{n}") for n in (1, 64)]
    return "–" if None in medians else " / ".join(f"{each:.{digits}f}" for each in medians)


def ratio(samples, row, peers):
    """Tenon's time over that of the fastest of these peers, for 1 and 64 elements."""
    cells = []
    for n in (1, 64):
        ours, theirs = f"{row}/{n}", f"{BESIDE.get(row, row)}/{n}"
        best = samples.best(theirs, peers)
        if best is None:
            return "–"
        pairs = Samples()
        pairs.values["tenon", ours] = samples.values["tenon", ours]
        pairs.values[best, ours] = samples.values[best, theirs]
        cells.append(f"{pairs.ratio(ours, 'tenon', best)[1]:.2f}")
    return " / ".join(cells)


def calls():
    """Small calls."""
    samples = collect_calls()
    for peer, name in samples.values:
        low, high = samples.spread(peer, name)
        say(f"python.{name.replace('/', '.')}.{peer}", samples.median(peer, name), "ns",
            f"{low:.0f}-{high:.0f}")
    floor = samples.median("python", "floor")
    numpys, torches = ("numpy", "numpy_new"), ("torch", "torch_inference")
    table("Nanoseconds per call from Python on 1 / 64 floats, one thread; a call of an empty "
          f"function takes {floor:.0f}; ratios are to the fastest NumPy and torch, for the goals "
          "1.0 and 0.5",
          ["call", "tenon", *PEERS.values(), "tenon / NumPy", "tenon / torch"],
          [[text, cell(samples, "tenon", row), *(cell(samples, peer, row) for peer in PEERS),
            ratio(samples, row, numpys), ratio(samples, row, torches)] for text, row in ROWS])


class Start(Program):
    """A process that imports and ends."""

    def __init__(self, name, statement):
        super().__init__(name, [PYTHON, "-c", statement], CORES[1], **paths())

    def run(self):
        begin = time.perf_counter()
        super().run()
        return [("start", str((time.perf_counter() - begin) * 1e3))]


def starts():
    """Milliseconds of processes that only import."""
    rows = (("python", "pass", "no import"),
            ("numpy", "import numpy", "import numpy"),
            ("tenon", "import tenon", "import tenon"),
            ("both", "import numpy, tenon", "import numpy, tenon"),
            ("first", "import tenon; tenon.ones(1)", "import tenon; tenon.ones(1)"))
    samples = Samples()
    samples.collect([Start(name, code) for name, code, _ in rows], 3 * ROUNDS)
    empty = samples.median("python", "start")
    for name, _, _ in rows:
        say(f"python.start.{name}", samples.median(name, "start"), "ms",
            "{:.1f}-{:.1f}".format(*samples.spread(name, "start")))
    more = [b - a for a, b in zip(samples.values["numpy", "start"],
                                  samples.values["both", "start"])]
    more = sorted(more)[len(more) // 2]
    say("python.start.beyond_numpy", more, "ms")
    table(f"Milliseconds of a process of Python that imports; tenon adds {more:.1f} to NumPy, for "
          "the goal 30", ["statements", "process", "without Python's own start"],
          [[text, f"{samples.median(name, 'start'):.1f}",
            f"{samples.median(name, 'start') - empty:.1f}"] for name, _, text in rows])


def main():
    """All figures of the Python package in docs/benchmarks/performance.md."""
    if not (PACKAGE / "tenon").exists():
        sys.exit(f"python.py: {PACKAGE} has no package; build it with ./dev python")
    calls()
    starts()
    save("python")


if __name__ == "__main__":
    main()
