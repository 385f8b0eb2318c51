#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/logic_cases.inc: values of comparisons, logic, operations
on bits, whole quotients and remainders, rounding and `where` of plugins/elemwise
for test_logic.c.

    logic.py > logic_cases.inc

Results are those of NumPy, for 8 to 64 bits, f32 and f64; quotients of integers
towards zero are those of Python's integers, because NumPy has none. Nothing here
knows of Tenon. The committed file was made with NumPy 2.4.6, Python 3.11.
"""

import math

import numpy as np

np.seterr(all="ignore")
INTEGERS = "i8 u8 i16 u16 i32 u32 i64".split()
NAMES = {"i": "int", "u": "uint", "f": "float"}
RANDOM = np.random.default_rng(40)


def numpy_type(dtype):
    if dtype == "bool":
        return np.dtype(bool)
    return np.dtype(NAMES[dtype[0]] + dtype[1:])


def wrap(value, dtype):
    """The integer of a type with the same bits modulo its size."""
    info = np.iinfo(numpy_type(dtype))
    return (value - info.min) % (info.max - info.min + 1) + info.min


def operands(dtype):
    """Pairs: bounds, zeros, signs, and drawn numbers of all sizes."""
    if dtype == "bool":
        return [0, 0, 1, 1], [0, 1, 0, 1]
    info = np.iinfo(numpy_type(dtype))
    pairs = [(7, 2), (0, 3), (5, 0), (info.max, 2), (info.max, info.max)]
    if info.min < 0:
        pairs += [(info.min, -1), (-7, 2), (7, -2), (-7, -2), (-5, 0),
                  (info.min, 1), (info.min, info.max)]
    bits = info.bits - (info.min < 0)
    for _ in range(8):
        a, b = (int(RANDOM.integers(0, 1 << int(RANDOM.integers(1, bits)),
                                    dtype=np.int64)) for _ in "ab")
        sign = [1 if info.min == 0 else int(RANDOM.choice([-1, 1]))
                for _ in "ab"]
        pairs.append((a * sign[0], b * sign[1]))
    return [list(each) for each in zip(*pairs)]


def whole(value):
    value = int(value)
    return "INT64_MIN" if value == -2**63 else f"{value}"


def real(value):
    value = float(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "-INFINITY" if value < 0 else "INFINITY"
    return value.hex() if value != int(value) or value == 0 else repr(value)


def row(op, dtype, made, columns):
    show = real if dtype[0] == "f" else whole
    lists = ["{" + ", ".join(map(show, each)) + "}" for each in columns[:-1]]
    last = real if made[0] == "f" else whole
    lists.append("{" + ", ".join(map(last, columns[-1])) + "}")
    kind = "TN_" + dtype.upper(), "TN_" + made.upper()
    print(f'{{"{op}", {kind[0]}, {kind[1]}, {len(columns[-1])},')
    print(" {" + ",\n  ".join(lists) + "}},")


def truncated(a, b, dtype):
    quotients = []
    for x, y in zip(a, b):
        size = 0 if y == 0 else abs(x) // abs(y)
        quotients.append(wrap(-size if (x < 0) != (y < 0) else size, dtype))
    return quotients


COMPARED = {"is_equal": np.equal, "is_not_equal": np.not_equal,
            "is_greater": np.greater, "is_greater_equal": np.greater_equal,
            "is_less": np.less, "is_less_equal": np.less_equal,
            "logical_and": np.logical_and, "logical_or": np.logical_or,
            "logical_xor": np.logical_xor}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor}
DIVIDED = {"floor_divide": np.floor_divide, "fmod": np.fmod,
           "broadcast_mod": np.remainder}
SHIFTED = {"left_shift": np.left_shift, "right_shift": np.right_shift}


def whole_rows():
    for dtype in ["bool"] + INTEGERS:
        kind = numpy_type(dtype)
        a, b = (np.array(each, kind) for each in operands(dtype))
        for op, function in COMPARED.items():
            row(op, dtype, "bool", [a, b, function(a, b)])
        for op, function in BITS.items():
            row(op, dtype, dtype, [a, b, function(a, b)])
    for dtype in INTEGERS:
        kind = numpy_type(dtype)
        a, b = (np.array(each, kind) for each in operands(dtype))
        for op, function in DIVIDED.items():
            row(op, dtype, dtype, [a, b, function(a, b)])
        row("trunc_divide", dtype, dtype,
            [a, b, truncated(a.tolist(), b.tolist(), dtype)])
        far = [0, 1, 2, kind.itemsize * 8 - 1, kind.itemsize * 8, 100]
        a = np.resize(a, 3 * len(far))
        b = np.array(3 * far, kind)
        for op, function in SHIFTED.items():
            row(op, dtype, dtype, [a, b, function(a, b)])
        row("bitwise_not", dtype, dtype, [a, np.invert(a)])
        row("logical_not", dtype, "bool", [a, np.logical_not(a)])


def real_rows():
    nan, inf = float("nan"), float("inf")
    pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2), (1, 0.1), (-1, 0.1),
             (0, 3), (0, -3), (-0.0, 3), (5, 0), (-5, 0), (0, 0), (inf, 2),
             (1, inf), (-1, inf), (nan, 1), (1, nan), (1e30, 3), (0.3, 1e-5),
             (6, 0.25)]
    ones = [-2.5, -1.5, -0.5, -0.25, 0, -0.0, 0.5, 1.5, 2.5, 0.49999997,
            8388607.5, 1e20, nan, inf, -inf]
    for dtype in "f32", "f64":
        kind = numpy_type(dtype)
        a, b = (np.array(each, kind) for each in zip(*pairs))
        for op, function in COMPARED.items():
            row(op, dtype, "bool", [a, b, function(a, b)])
        for op in "floor_divide", "fmod":
            row(op, dtype, dtype, [a, b, DIVIDED[op](a, b)])
        row("trunc_divide", dtype, dtype, [a, b, np.trunc(a / b)])
        x = np.array(ones, kind)
        row("round_even", dtype, dtype, [x, np.rint(x)])
        for op, function in {"is_nan": np.isnan, "is_inf": np.isinf,
                             "is_finite": np.isfinite,
                             "logical_not": np.logical_not}.items():
            row(op, dtype, "bool", [x, function(x)])


print("/* Written by tests/reference/logic.py. */")
print("#ifdef WHOLE_CASES")
whole_rows()
print("#else")
real_rows()
print("#endif")
