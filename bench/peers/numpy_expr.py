# SPDX-License-Identifier: Apache-2.0
"""Speed of NumPy for the expressions of expr.c, into existing outputs, on one
thread, which is all that it supports:

    numpy_expr.py THREADS    GB/s moved, by expression and size

An expression that is no function of its own is the shortest row of functions in
place; there is no gelu.
"""

import sys
import time

import numpy as np

A, B, C = map(np.float32, (0.5, -1.25, 0.75))
ONE = np.float32(1)
SIZES = (1024, 65536, 1048576, 16777216)
SECONDS, BATCHES = 0.03, 5


def timed(once, times):
    """Seconds of so many calls."""
    begin = time.perf_counter()
    for _ in range(times):
        once()
    return time.perf_counter() - begin


def each(once):
    """Nanoseconds of one call, as measure_each of measure.c has them."""
    times = 1
    once()
    while timed(once, times) < SECONDS / BATCHES:
        times *= 2
    return 1e9 * sorted(timed(once, times)
                        for _ in range(BATCHES))[BATCHES // 2] / times


def say(name, n, size, once):
    """The line of one expression."""
    print(f"{name}/{n} {size * n / each(once):.2f}", flush=True)


def some(shape, dtype=np.float32):
    """Numbers between -4 and 4."""
    return (np.random.default_rng(1).random(shape, np.float32) * 8 - 4) \
        .astype(dtype)


def quadratic(x, out):
    """By Horner's rule."""
    np.multiply(x, A, out)
    np.add(out, B, out)
    np.multiply(out, x, out)
    np.add(out, C, out)


def sigmoid(x, out):
    """1 / (1 + exp(-x))."""
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, ONE, out)
    np.reciprocal(out, out)


def axpy(x, y, out):
    """A*x + y."""
    np.multiply(x, A, out)
    np.add(out, y, out)


def chain(x, out):
    """The logistic function of the quadratic one."""
    quadratic(x, out)
    sigmoid(out, out)


def dense(n):
    """Expressions of vectors of floats."""
    x, y, out = some(n), some(n), np.empty(n, np.float32)
    say("add", n, 12, lambda: np.add(x, y, out=out))
    say("mul", n, 12, lambda: np.multiply(x, y, out))
    say("axpy", n, 12, lambda: axpy(x, y, out))
    say("quadratic", n, 8, lambda: quadratic(x, out))
    say("relu", n, 8, lambda: np.maximum(x, np.float32(0), out=out))
    say("sigmoid", n, 8, lambda: sigmoid(x, out))
    say("tanh", n, 8, lambda: np.tanh(x, out))
    say("exp", n, 8, lambda: np.exp(x, out))
    say("chain", n, 8, lambda: chain(x, out))


def layouts(n):
    """An add of a row, a column, and every second element."""
    columns = 1024 if n > 1024 else 32
    rows = n // columns
    x, y = some((rows, columns)), some((rows, columns))
    row, column = some((1, columns)), some((rows, 1))
    every = some((rows, 2 * columns))[:, ::2]
    out = np.empty((rows, columns), np.float32)
    say("add_row", n, 8, lambda: np.add(x, row, out))
    say("add_column", n, 8, lambda: np.add(x, column, out))
    say("add_strided", n, 12, lambda: np.add(every, y, out))


def types(n):
    """An add of other types."""
    for name, dtype, size in (("add_f64", np.float64, 24),
                              ("add_f16", np.float16, 6)):
        x, y, out = some(n, dtype), some(n, dtype), np.empty(n, dtype)
        say(name, n, size, lambda a=x, b=y, c=out: np.add(a, b, c))


def main():
    """All sizes that this number of threads is measured at."""
    for n in SIZES[2 if int(sys.argv[1]) > 1 else 0:]:
        dense(n)
        layouts(n)
        types(n)


if __name__ == "__main__":
    main()
