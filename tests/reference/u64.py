#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/u64_cases.inc: values of u64 for test_u64.c, in all operators
of plugins/elemwise that have integers, and in reductions of plugins/tensor.

    u64.py > u64_cases.inc

Results are those of NumPy, whose uint64 wraps; quotients and remainders by 0 are
0. Conversions between u64 and floats are those of exact integers, rounded once,
because NumPy leaves values out of range to the processor. Nothing here knows of
Tenon. The committed file was made with NumPy 2.4.6, Python 3.11.
"""

from fractions import Fraction
import math

import numpy as np

np.seterr(all="ignore")
MOST = 2**64 - 1
LEFT = [0, 7, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63, 10**19, MOST]
RIGHT = [0, 1, 3, 2**32, 2**53 + 1, 2**63 + 5, MOST]
FAR = [0, 1, 31, 32, 63, 64, MOST]
ONES = [0, 1, 2, 255, 2**31, 2**32 - 1, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63,
        2**63 + 2**39 + 1, 10**19, MOST - 1, MOST]
SCALARS = [("3", 3), ("2.75", 2), ("-5", 0), ("1e30", MOST), ("0", 0),
           ("9223372036854775808", 2**63)]
FLOATS = [0.75, -0.5, -3, math.nan, math.inf, -math.inf, 2.0**63, 2.0**64,
          1.5 * 2**63, 2.0**53 + 2, 1e30, 4294967297.0]


def u64(values):
    return np.array(values, np.uint64)


def guard_zero(function):
    """The function, and 0 for a divisor of 0."""
    def divide(a, b):
        return np.where(b == 0, u64(0), function(a, np.where(b == 0, u64(1), b)))
    return divide


def shift(function):
    """The function, and 0 for distances of 64 and more."""
    def move(a, n):
        return np.where(n > u64(63), u64(0), function(a, np.minimum(n, u64(63))))
    return move


TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply,
       "mod": guard_zero(np.remainder), "maximum": np.maximum,
       "minimum": np.minimum}
COMPARED = {"equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
            "greater_equal": np.greater_equal, "lesser": np.less,
            "lesser_equal": np.less_equal}
TRUTHS = {"is_equal": np.equal, "is_not_equal": np.not_equal,
          "is_greater": np.greater, "is_greater_equal": np.greater_equal,
          "is_less": np.less, "is_less_equal": np.less_equal,
          "logical_and": np.logical_and, "logical_or": np.logical_or,
          "logical_xor": np.logical_xor}
MORE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor,
        "floor_divide": guard_zero(np.floor_divide),
        "trunc_divide": guard_zero(np.floor_divide), "fmod": guard_zero(np.remainder)}
SHIFTED = {"left_shift": shift(np.left_shift),
           "right_shift": shift(np.right_shift)}
ONE = {"copy": np.positive, "negative": lambda a: u64(0) - a, "abs": np.positive,
       "square": np.square, "bitwise_not": np.invert, "stop_gradient": np.positive,
       "zeros_like": np.zeros_like, "ones_like": np.ones_like}
SCALAR = {"add_scalar": np.add, "sub_scalar": np.subtract,
          "rsub_scalar": lambda a, s: s - a, "mul_scalar": np.multiply,
          "mod_scalar": guard_zero(np.remainder),
          "rmod_scalar": lambda a, s: guard_zero(np.remainder)(s, a),
          "maximum_scalar": np.maximum, "minimum_scalar": np.minimum,
          "equal_scalar": np.equal, "not_equal_scalar": np.not_equal,
          "greater_scalar": np.greater, "greater_equal_scalar": np.greater_equal,
          "lesser_scalar": np.less, "lesser_equal_scalar": np.less_equal}

REDUCED = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min,
           "nansum": np.nansum, "nanprod": np.nanprod}


def literal(value):
    value = int(value)
    return f"{value}" if value < 2**63 else f"{value}u"


def braces(values):
    return "{" + ", ".join(map(literal, values)) + "}"


def row(kind, op, params, out, values):
    print(f'{{{kind}, "{op}", "{params}", TN_{out}, {len(values)},\n'
          f" {braces(values)}}},")


def pairs(kind, functions, left, right, out):
    a, b = (each.ravel() for each in np.broadcast_arrays(u64(left)[:, None],
                                                         u64(right)))
    for op, function in functions.items():
        row(kind, op, "", out, function(a, b).astype(np.uint64))


def print_lists():
    print("#ifdef U64_LISTS")
    for name, values in ("left", LEFT), ("right", RIGHT), ("far", FAR), ("ones", ONES):
        print(f"static const uint64_t {name}[] = {braces(values)};")
    print("#endif")


def print_cases():
    print("#ifdef U64_CASES")
    pairs("ALIKE", TWO, LEFT, RIGHT, "U64")
    pairs("ALIKE", {"grad_add": np.add}, LEFT, RIGHT, "U64")
    pairs("ALIKE", COMPARED, LEFT, RIGHT, "U64")
    pairs("BROADCAST", {f"broadcast_{op}": f for op, f in TWO.items()}, LEFT, RIGHT,
          "U64")
    pairs("BROADCAST", {f"broadcast_{op}": f for op, f in COMPARED.items()}, LEFT,
          RIGHT, "U64")
    pairs("BROADCAST", TRUTHS, LEFT, RIGHT, "BOOL")
    pairs("BROADCAST", MORE, LEFT, RIGHT, "U64")
    pairs("SHIFT", SHIFTED, LEFT, FAR, "U64")
    ones = u64(ONES)
    for op, function in ONE.items():
        row("ONE", op, "", "U64", function(ones))
    row("ONE", "logical_not", "", "BOOL", np.logical_not(ones))
    for op, function in SCALAR.items():
        for text, value in SCALARS:
            row("ONE", op, f"scalar={text}", "U64",
                function(ones, u64(value)).astype(np.uint64))
    for low, high in (SCALARS[0], SCALARS[5]), (SCALARS[2], SCALARS[3]):
        row("ONE", "clip", f"a_min={low[0]} a_max={high[0]}", "U64",
            np.minimum(np.maximum(ones, u64(low[1])), u64(high[1])))
    table = u64(LEFT)[:, None] * u64(RIGHT)
    for op, function in REDUCED.items():
        row("TABLE", op, "", "U64", [function(table)])
        for axis in 0, 1:
            row("TABLE", op, f"axis=({axis})", "U64", function(table, axis=axis))
    for op in "argmax", "argmin":
        row("TABLE", op, "", "I64", [getattr(np, op)(table)])
        for axis in 0, 1:
            row("TABLE", op, f"axis={axis}", "I64", getattr(np, op)(table, axis=axis))
    print("#endif")


# ------------------------------------------------------------------ conversions

# exponent of the greatest power of two, and digits
FORMATS = {"F16": (15, 11), "BF16": (127, 8), "F32": (127, 24), "F64": (1023, 53)}


def rounded(value, form):
    """The float of a format that is nearest to an integer, ties to even, as an
    integer; or infinity."""
    top, digits = FORMATS[form]
    extra = max(0, value.bit_length() - digits)
    half, rest = (1 << extra) >> 1, value & ((1 << extra) - 1)
    low = value >> extra
    low += rest > half or (rest == half and extra > 0 and low & 1)
    value = low << extra
    return math.inf if value >= 2**(top + 1) else value


def bits_of(value, form):
    """The bits of a float that the format has exactly."""
    if form == "F64":
        return int(np.float64(value).view(np.uint64))
    if form == "F16":
        return int(np.float16(value).view(np.uint16))
    single = int(np.float32(value).view(np.uint32))
    return single if form == "F32" else single >> 16


def whole(value):
    """A float as u64."""
    if math.isnan(value):
        return 0
    return MOST if value >= 2.0**64 else int(max(0, value))


def convert(source, to, values, results):
    print(f"{{TN_{source}, TN_{to}, {len(values)},\n {braces(values)},\n"
          f" {braces(results)}}},")


def print_conversions():
    print("#ifdef U64_CONVERSIONS")
    for form in FORMATS:
        convert("U64", form, ONES, [bits_of(rounded(v, form), form) for v in ONES])
        fits = [v for v in FLOATS if math.isinf(v) or math.isnan(v) or
                Fraction(v) == Fraction(float(np.float32(v)))]
        if form == "F64":
            fits = FLOATS
        if form in ("F16", "BF16"):
            fits = [0.75, -0.5, -3, math.nan, math.inf, -math.inf, 2048, 0]
            fits += [2.0**63, 2.0**64] if form == "BF16" else []
        convert(form, "U64", [bits_of(v, form) for v in fits],
                [whole(v) for v in fits])
    for bits in 8, 16, 32, 64:
        mask = 2**bits - 1
        for kind in "IU":
            if (kind, bits) != ("U", 64):
                convert("U64", f"{kind}{bits}", ONES, [v & mask for v in ONES])
                low = [0, 1, mask >> 1, (mask >> 1) + 1, mask - 1, mask]
                wide = [v - mask - 1 if kind == "I" and v > mask >> 1 else v
                        for v in low]
                convert(f"{kind}{bits}", "U64", low, [v % 2**64 for v in wide])
    convert("U64", "BOOL", ONES, [v != 0 for v in ONES])
    convert("BOOL", "U64", [0, 1], [0, 1])
    convert("U64", "U64", ONES, ONES)
    print("#endif")


# The exact rounding agrees with NumPy where NumPy rounds once.
assert [bits_of(rounded(v, "F32"), "F32") for v in ONES] == u64(ONES).astype(
    np.float32).view(np.uint32).tolist()
assert [bits_of(rounded(v, "F64"), "F64") for v in ONES] == u64(ONES).astype(
    np.float64).view(np.uint64).tolist()

print("/* Written by tests/reference/u64.py. */")
print_lists()
print_cases()
print_conversions()
