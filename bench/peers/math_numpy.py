# SPDX-License-Identifier: Apache-2.0
"""Time of NumPy for the functions of ../math.c, into an existing output, as a
program in Python calls it."""

import statistics
import sys
import time

import numpy

N = 64 << 10
SECONDS = 0.004
NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan",
         "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
HAS = """exp expm1 log log1p log2 log10 sqrt cbrt sin cos tan arcsin arccos
    arctan sinh cosh tanh arcsinh arccosh arctanh floor rint""".split()


def fill(low, high):
    """The numbers of question.h."""
    state, out = 1, numpy.empty(N, numpy.uint32)
    for i in range(N):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        out[i] = state >> 8
    unit = out.astype(numpy.float32) * numpy.float32(2.0 ** -24)
    low, high = numpy.float32(low), numpy.float32(high)
    return low + (high - low) * unit


def measure(function, x, y):
    """Nanoseconds, the median of single calls."""
    function(x, out=y)
    taken = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(taken) < 5:
        begin = time.perf_counter_ns()
        function(x, out=y)
        taken.append(time.perf_counter_ns() - begin)
    return statistics.median(taken)


def main():
    """Answers questions."""
    arrays, y = {}, numpy.empty(N, numpy.float32)
    for line in sys.stdin:
        name, low, high = line.split()
        ours = NAMES.get(name, name)
        answer = ""
        if ours in HAS:
            if (low, high) not in arrays:
                arrays[low, high] = fill(float(low), float(high))
            ns = measure(getattr(numpy, ours), arrays[low, high], y)
            answer = f" numpy={ns:.1f}"
        print(name + answer, flush=True)


if __name__ == "__main__":
    main()
