# SPDX-License-Identifier: Apache-2.0
"""GB/s of the functions of math.h over 64 K floats on one thread, beside those
of libtorch, NumPy and glibc's libmvec.

    functions.py BUILD_FOLDER [ROUNDS]

All programs run from the beginning to the end on one core and take turns,
function by function; a ratio is the median of those of the rounds.
"""

import os
import pathlib
import statistics
import subprocess
import sys

from samples import CORES, TORCHES, Program, exists, imports, save, say, table, \
    find_torches

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
SOURCE = pathlib.Path(__file__).resolve().parent
NUMPY = BUILD.parent / "numpy"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 15
PEERS = {"torch_tuned": "torch tuned", "torch_new": TORCHES["torch_new"],
         "numpy": "NumPy", "numpy_new": "NumPy 2"}
BYTES = 8 * (64 << 10)

# Functions, and between which numbers.
RANGES = {
    "exp": (-20, 20), "expm1": (-20, 20), "log": (0, 100),
    "log1p": (0, 100), "log2": (0, 100), "log10": (0, 100),
    "sqrt": (0, 100), "rsqrt": (0, 100), "cbrt": (-100, 100),
    "sin": (-10, 10), "cos": (-10, 10), "tan": (-10, 10), "asin": (-1, 1),
    "acos": (-1, 1), "atan": (-10, 10), "sinh": (-10, 10), "cosh": (-10, 10),
    "tanh": (-10, 10), "asinh": (-10, 10), "acosh": (1, 10), "atanh": (-1, 1),
    "erf": (-4, 4), "erfc": (-4, 4), "lgamma": (0, 10), "floor": (-10, 10),
    "rint": (-10, 10), "sigmoid": (-20, 20), "softplus": (-20, 20),
    "gelu": (-10, 10), "limit": (0, 1)}


class Peer:
    """A program that answers questions, as question.h says."""

    def __init__(self, program):
        self.name = program.name
        self.process = subprocess.Popen(
            program.command, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=program.env,
            preexec_fn=lambda: os.sched_setaffinity(0, CORES[1]))

    def ask(self, function):
        """{variant: GB/s}"""
        low, high = RANGES[function]
        print(function, low, high, file=self.process.stdin, flush=True)
        _, *answers = self.process.stdout.readline().split()
        pairs = (answer.split("=") for answer in answers)
        return {variant: BYTES / float(ns) for variant, ns in pairs}


def programs():
    """Ours first; the installed libtorch is left out."""
    found = [Program("tenon", [BENCH / "math"])]
    found += [each for each in find_torches(BENCH / "peers" / "math_torch", [], 1)
              if each.name in PEERS]
    numpy = SOURCE / "peers" / "math_numpy.py"
    for name, env in (("numpy", {}), ("numpy_new", {"PYTHONPATH": str(NUMPY)})):
        if env and not NUMPY.exists():
            continue
        if imports("numpy", **env):
            found.append(Program(name, ["/usr/bin/python3", numpy], **env))
        else:
            print(f"SKIPPED {name}: package python3-numpy not installed")
    mvec = BENCH / "peers" / "math_mvec"
    if exists("libmvec", mvec, "gcc"):
        flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii")
        if "avx512dq" in flags:
            found.append(Program("libmvec", [mvec]))
        else:
            print("SKIPPED libmvec: it is measured with AVX-512 only")
    return found


def best_level(rates):
    """Our result at the machine's widest level of instructions."""
    return next(rates[level] for level in ("avx512", "avx2", "base")
                if level in rates)


def collect():
    """{function: {column: [GB/s, round by round]}}"""
    rates = {function: {} for function in RANGES}
    peers = [Peer(program) for program in programs()]
    for _ in range(ROUNDS):
        for function, columns in rates.items():
            for peer in peers:
                answer = peer.ask(function)
                if peer.name == "tenon":
                    answer["tenon"] = best_level(answer)
                elif answer:
                    answer = {peer.name: next(iter(answer.values()))}
                for column, rate in answer.items():
                    columns.setdefault(column, []).append(rate)
    for peer in peers:
        peer.process.stdin.close()
        peer.process.wait()
    return rates


def ratio(columns, level, contenders):
    """Lowest, median and highest of ours over the best peer of the round."""
    rounds = [mine / max(theirs) for mine, theirs in
              zip(columns[level], zip(*(columns[c] for c in contenders)))]
    return "{:.2f} ({:.2f}–{:.2f})".format(
        statistics.median(rounds), min(rounds), max(rounds))


def main():
    """Lines, and a table."""
    rates = collect()
    rows = []
    for function, columns in rates.items():
        medians = {c: statistics.median(v) for c, v in columns.items()}
        for column, median in medians.items():
            low, high = min(columns[column]), max(columns[column])
            say(f"math.{function}.{column}", median, "GB/s",
                f"{low:.1f}-{high:.1f}")
        contenders = [c for c in PEERS if c in columns]
        against = ratio(columns, "tenon", contenders) if contenders else "–"
        rows.append([function] + [
            f"{medians[c]:.1f}" if c in medians else "–" for c in
            ("tenon", *PEERS, "libmvec", "avx2", "base", "libm")]
            + [against])
    table("GB/s over 64 K floats, one thread; the last column is tenon / best "
          "of torch and NumPy, round by round; `limit` adds 1",
          ["function", "tenon", *PEERS.values(), "libmvec", "tenon, AVX2",
           "tenon, SSE2", "libm", "ratio"], rows)
    save("math")


if __name__ == "__main__":
    main()
