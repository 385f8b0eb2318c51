#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/storage_cases.inc: values of storage types, elemwise.cast,
nn.quantize and nn.dequantize for test_storage.c.

    storage.py > storage_cases.inc

Numbers of codes are those of ml_dtypes. The code of a number is the nearest one,
in exact fractions. If ml_dtypes or onnx convert the same number, the script
compares the codes. Results of quantize and dequantize are those of onnx's reference
implementation. Nothing here knows of Tenon. The committed file was made with
ml_dtypes 0.6.0, onnx 1.23.2, NumPy 2.4.6, Python 3.11.
"""

import math
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import operands

warnings.filterwarnings("ignore")
RANDOM = np.random.default_rng(40)

TYPES = {  # C's name: ml_dtypes, bits, onnx
    "TN_F8E4M3FN": (ml_dtypes.float8_e4m3fn, 8, "FLOAT8E4M3FN"),
    "TN_F8E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, 8, "FLOAT8E4M3FNUZ"),
    "TN_F8E5M2": (ml_dtypes.float8_e5m2, 8, "FLOAT8E5M2"),
    "TN_F8E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, 8, "FLOAT8E5M2FNUZ"),
    "TN_F8E8M0": (ml_dtypes.float8_e8m0fnu, 8, "FLOAT8E8M0"),
    "TN_F4E2M1": (ml_dtypes.float4_e2m1fn, 4, "FLOAT4E2M1"),
    "TN_I4": (ml_dtypes.int4, 4, "INT4"),
    "TN_U4": (ml_dtypes.uint4, 4, "UINT4"),
    "TN_I2": (ml_dtypes.int2, 2, "INT2"),
    "TN_U2": (ml_dtypes.uint2, 2, "UINT2"),
}
FLOATS = list(TYPES)[:4] + ["TN_F4E2M1"]
INTEGERS = list(TYPES)[6:]
MODES = ["up", "down", "nearest"]


def numbers_of(name):
    """The number of every code."""
    dtype, bits, _ = TYPES[name]
    codes = np.arange(1 << bits, dtype=np.uint8)
    if name in INTEGERS:
        signed = name in ("TN_I4", "TN_I2")
        half = 1 << (bits - 1)
        return [float(c - (1 << bits) if signed and c >= half else c)
                for c in codes.tolist()]
    return codes.view(dtype).astype(np.float64).tolist()


NUMBERS = {name: numbers_of(name) for name in TYPES}


def codes_of(array, name):
    """The codes of an array of ml_dtypes."""
    return (array.astype(TYPES[name][0]).view(np.uint8)
            & ((1 << TYPES[name][1]) - 1)).ravel().tolist()


# ------------------------------------------------------------ numbers to codes


def sign_of(x):
    return math.copysign(1, x) < 0


def encode_float(x, name, saturate):
    numbers = NUMBERS[name]
    sign = 1 << (TYPES[name][1] - 1)
    has_minus_zero = numbers[sign] == 0
    if math.isnan(x):
        return {"TN_F8E4M3FN": 0x7f, "TN_F8E5M2": 0x7e,
                "TN_F4E2M1": 7}.get(name, 0x80)
    positive = [c for c in range(sign) if math.isfinite(numbers[c])]
    most = max(positive, key=lambda c: numbers[c])
    beyond = most
    if name != "TN_F4E2M1" and not saturate:
        beyond = {"TN_F8E4M3FN": 0x7f, "TN_F8E5M2": 0x7c}.get(name, 0x80)
    magnitude = abs(x)
    # The next number, if the type had one: ties at the end are even there.
    step = numbers[most] - numbers[most - 1]
    limit = Fraction(numbers[most]) + Fraction(step) / 2
    if math.isinf(x) or Fraction(magnitude) > limit or (
            Fraction(magnitude) == limit and most % 2 == 1):
        code = beyond
    else:
        code = min(positive, key=lambda c: (
            abs(Fraction(numbers[c]) - Fraction(magnitude)), c % 2))
    if code == 0x80 or (code == 0 and not has_minus_zero):
        return code
    return code | (sign if sign_of(x) else 0)


def encode_power(x, saturate, mode):
    if math.isnan(x) or x < 0:
        return 0xff
    if x == 0:
        return 0 if saturate else 0xff
    if math.isinf(x):
        return 0xfe if saturate else 0xff
    fraction, exponent = math.frexp(x)  # x = fraction * 2^exponent
    power = exponent - 1
    up = {"up": fraction > 0.5, "down": False, "nearest": fraction >= 0.75}
    code = power + 127 + up[mode]
    if 0 <= code <= 0xfe:
        return code
    return (0 if code < 0 else 0xfe) if saturate else 0xff


def encode_integer(x, name):
    least, most = min(NUMBERS[name]), max(NUMBERS[name])
    whole = 0 if math.isnan(x) else int(np.trunc(np.clip(x, least, most)))
    return whole & ((1 << TYPES[name][1]) - 1)


def encode(x, name, saturate=True, mode="up"):
    if name in INTEGERS:
        return encode_integer(x, name)
    if name == "TN_F8E8M0":
        return encode_power(x, saturate, mode)
    return encode_float(x, name, saturate)


def is_nan(code, name):
    return math.isnan(NUMBERS[name][code])


def check(x, name):
    """ml_dtypes and onnx convert f32 by the same rules."""
    f32 = np.float32(x)
    if float(f32) != x and not math.isnan(x):
        return
    dtype = TYPES[name][0]
    if name in FLOATS and not (math.isnan(x) and name == "TN_F4E2M1"):
        plain = codes_of(f32.reshape(1), name)[0]
        other = codes_of(numpy_helper.saturate_cast(f32.reshape(1), dtype),
                         name)[0]
        for theirs, ours in (plain, encode(x, name, False)), (
                other, encode(x, name, True)):
            both_nan = is_nan(theirs, name) and is_nan(ours, name)
            assert theirs == ours or both_nan, (name, x, theirs, ours)
    if name == "TN_F8E8M0" and 2.0**-126 <= x <= 1.5 * 2.0**126:
        for mode in MODES:
            theirs = numpy_helper.to_float8e8m0(f32.reshape(1), True, mode)
            assert codes_of(theirs, name)[0] == encode(x, name, True, mode)


def grid(name):
    """Numbers on and beside the halves between codes, and special ones."""
    numbers = sorted({n for n in NUMBERS[name] if math.isfinite(n) and n >= 0})
    few = numbers
    if len(numbers) > 16:
        middle = RANDOM.choice(np.arange(8, len(numbers) - 4), 12, False)
        few = [numbers[i] for i in [*range(8), *sorted(middle),
                                    *range(len(numbers) - 4, len(numbers))]]
    values = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, -1e-300]
    for low in few:
        high = numbers[min(numbers.index(low) + 1, len(numbers) - 1)]
        if high == low:
            high = low + (low - numbers[numbers.index(low) - 1])
        half = low + (high - low) / 2
        beside = [half * (1 - 2.0**-50), half, half * (1 + 2.0**-50)]
        values += [low, *beside[RANDOM.integers(2):], -half]
    top = numbers[-1]
    return values + [top * 1.0625, top * 1.25, -top * 2, 2.0**-149]


def show(x):
    """A number as a constant of C, exactly."""
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "-INFINITY" if x < 0 else "INFINITY"
    if x == 0:
        return "-0.0" if sign_of(x) else "0"
    if x * 1024 == int(x * 1024) and abs(x) < 1e6:
        return repr(x).removesuffix(".0")
    mantissa, exponent = float(x).hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent


def join(items):
    return "{" + ", ".join(str(i) for i in items) + "}"


print("/* Written by tests/reference/storage.py. */")
print("#ifdef STORAGE_CODES /* the number of each code */")
for name, numbers in NUMBERS.items():
    print(f"{{{name}, {len(numbers)}, {join(map(show, numbers))}}},")
print("#endif")
print("#ifdef STORAGE_NUMBERS /* codes: saturated and not, up, down, nearest */")
for name in TYPES:
    rows = []
    for x in grid(name):
        check(x, name)
        modes = MODES if name == "TN_F8E8M0" else ["up"]
        codes = [encode(x, name, s, m) for m in modes for s in (True, False)]
        rows.append(f"{{{show(x)}, {join(codes)}}}")
    print(f"{{{name}, {len(rows)}, {join(rows)}}},")
print("#endif")

# ------------------------------------------------------------- cast and others

print("#ifdef STORAGE_CASTS /* codes of one type, and of another */")
for source in TYPES:
    for target in TYPES:
        all_codes = np.arange(1 << TYPES[source][1])
        n = min(len(all_codes), 11)
        codes = sorted(RANDOM.choice(all_codes, n, False).tolist())
        numbers = [NUMBERS[source][c] for c in codes]
        if source in INTEGERS and target in INTEGERS:
            mask = (1 << TYPES[target][1]) - 1
            casts = [int(x) & mask for x in numbers]
        else:
            casts = [encode(x, target) for x in numbers]
        print(f"{{{source}, {target}, {n}, {join(codes)}, {join(casts)}}},")
print("#endif")


def run(op, inputs, types, out_type, **attributes):
    names = ["data", "scale", "zero"][:len(inputs)]
    node = helper.make_node(op, names, ["out"], **attributes)
    values = [helper.make_tensor_value_info(n, t, list(x.shape))
              for n, t, x in zip(names, types, inputs)]
    out = helper.make_tensor_value_info("out", out_type, None)
    model = helper.make_model(
        helper.make_graph([node], "g", values, [out]),
        opset_imports=[helper.make_opsetid("", 25)])
    return ReferenceEvaluator(model).run(
        None, dict(zip(names, inputs)))[0]


def operand(array):
    return operands.show(array, lambda x: show(float(x)))


def codes_operand(array, name):
    codes = np.reshape(codes_of(array, name), array.shape)
    return operands.show(codes, str)


def scales_of(shape, axis, block):
    if axis is None:
        return ()
    if block == 0:
        return (shape[axis],)
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block)
    return tuple(scales)


def quantized(name, shape, axis, block, has_zero, saturate=True):
    dtype, _, onnx_name = TYPES[name]
    onnx_type = getattr(onnx.TensorProto, onnx_name)
    f32 = onnx.TensorProto.FLOAT
    of = scales_of(shape, axis, block)
    scale = (RANDOM.integers(1, 9, of) / 4).astype(np.float32)
    top = max(x for x in NUMBERS[name] if math.isfinite(x))
    data = (RANDOM.normal(size=shape) * top * 0.7).astype(np.float32)
    data = np.round(data * 4) / 4
    attributes = {} if axis is None else {"axis": axis}
    if block:
        attributes["block_size"] = block
    inputs, types = [data, scale], [f32, f32]
    if has_zero:
        least = int(min(NUMBERS[name]))
        zero = RANDOM.integers(least, int(top) + 1, of).astype(np.int8)
        inputs.append(np.asarray(zero).astype(dtype))
        types.append(onnx_type)
    out = run("QuantizeLinear", inputs, types, onnx_type, output_dtype=onnx_type,
              saturate=int(saturate), **attributes)
    codes = codes_of(out, name)
    back = run("DequantizeLinear", [out, *inputs[1:]], [onnx_type, *types[1:]],
               f32, **attributes)
    text = "" if axis is None else f"axis={axis}"
    text += f" block_size={block}" if block else ""
    zeros = codes_operand(inputs[2], name) if has_zero else operands.ABSENT
    print(f'{{{name}, "{text}", {int(saturate)}, {int(has_zero)},')
    print(f" {operand(data)},\n {operand(scale)},\n {zeros},")
    print(f" {join(codes)},\n {operand(back)}}},")


print("#ifdef STORAGE_SCALED /* quantize, and dequantize of the result */")
for name in FLOATS:
    quantized(name, (7,), None, 0, False)
    quantized(name, (3, 5), 1, 0, False, saturate=False)
    quantized(name, (2, 5, 3), 1, 2, False)
for name in INTEGERS:
    quantized(name, (9,), None, 0, True)
    quantized(name, (3, 5), 0, 0, True)
    quantized(name, (3, 5), -1, 0, False)
    quantized(name, (2, 3, 3), 1, 0, True)
    quantized(name, (2, 7), 1, 3, True)
    quantized(name, (5, 3), 0, 2, True)
    quantized(name, (2, 3, 5), -2, 2, False)
print("#endif")
