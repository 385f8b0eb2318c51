# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors and their products."""

from typing import Optional, Sequence

import numpy as np

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant
from ..windows import read_convolution, read_window


def _scale_layout(node: Node, x: Value, scale: Value) -> dict:
    """Returns the parameters that say how a scale belongs to the data."""
    axis = node.attribute("axis", 1)
    block = node.attribute("block_size", 0)
    if scale.size == 1 and not block:
        return {}
    if scale.rank == 1 and not block:
        axis = node.axis(axis, x.rank)
        return {"axis": axis}
    return {"axis": node.axis(axis, x.rank), "block_size": block}


def _as_scalar(node: Node, value: Value, layout: dict) -> Value:
    """Returns a scale or zero point of one element with rank 0."""
    if layout or value.rank == 0:
        return value
    if value.dtype in types.STORAGE:
        return make_constant(node.elements(value, "zero point").reshape(()))
    return node.build.reshape(value, ())


@converter("QuantizeLinear", since=10)
def convert_quantize(node: Node, x: Value, scale: Value, zero: Optional[Value] = None) -> Value:
    """Numbers as small integers or floats."""
    build = node.build
    number = node.attribute("output_dtype", 0)
    dtype = "u8" if zero is None else zero.dtype
    if number and zero is None:
        dtype = types.name_of_type(number)
    precision = node.attribute("precision", 0)
    compute = types.name_of_type(precision) if precision else _wider(x.dtype, scale.dtype)
    layout = _scale_layout(node, x, scale)
    inputs = [build.cast(x, compute), build.cast(_as_scalar(node, scale, layout), compute)]
    if zero is not None:
        inputs.append(_as_scalar(node, zero, layout))
    options = {"saturate": bool(node.attribute("saturate", 1))} if dtype.startswith("f8") else {}
    return build.call("nn.quantize", *inputs, dtype=dtype, **layout, **options)


def _wider(first: str, second: str) -> str:
    """Returns the type that a quotient of both is computed in."""
    if first == second and first in types.FLOATS:
        return first
    return "f32"


@converter("DequantizeLinear", since=10)
def convert_dequantize(node: Node, x: Value, scale: Value, zero: Optional[Value] = None) -> Value:
    """The numbers of small integers or floats."""
    build = node.build
    layout = _scale_layout(node, x, scale)
    inputs = [x, _as_scalar(node, scale, layout)]
    if zero is not None:
        inputs.append(_as_scalar(node, zero, layout))
    result = build.call("nn.dequantize", *inputs, **layout)
    number = node.attribute("output_dtype", 0)
    return build.cast(result, types.name_of_type(number)) if number else result


@converter("DynamicQuantizeLinear", since=11)
def convert_dynamic_quantize(node: Node, x: Value) -> Sequence[Value]:
    """Numbers as u8, by their own extremes."""
    return node.build.call("nn.dynamic_quantize", x)


@converter("MatMulInteger", since=10)
def convert_matmul_integer(
    node: Node,
    a: Value,
    b: Value,
    a_zero: Optional[Value] = None,
    b_zero: Optional[Value] = None,
) -> Value:
    """Products of small integers, with exact sums."""
    return integer_product(node, a, b, a_zero, b_zero)


def integer_product(
    node: Node, a: Value, b: Value, a_zero: Optional[Value], b_zero: Optional[Value]
) -> Value:
    """Multiplies matrices of integers minus their zero points; the sums are i32."""
    build = node.build
    shapes = all(z is None or z.size == 1 for z in (a_zero, b_zero))
    if shapes and a.rank >= 2 and b.rank >= 2:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        zeros = [None if z is None else build.reshape(z, ()) for z in (a_zero, b_zero)]
        return build.call(
            "nn.integer_dot",
            build.broadcast_to(a, batch + a.shape[-2:]),
            build.broadcast_to(b, batch + b.shape[-2:]),
            *(zeros if any(z is not None for z in zeros) else []),
        )
    left = _subtract_zero(node, a, a_zero, -1)
    right = _subtract_zero(node, b, b_zero, -2)
    return build.dot(left, right)


def _subtract_zero(node: Node, x: Value, zero: Optional[Value], axis: int) -> Value:
    build = node.build
    wide = build.cast(x, "i32")
    if zero is None:
        return wide
    if zero.rank == 1 and zero.size > 1 and axis == -1:
        zero = build.reshape(zero, (zero.size, 1))
    return build.sub(wide, build.cast(zero, "i32"))


@converter("QLinearMatMul", since=10)
def convert_qlinear_matmul(
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    """Products of quantised matrices, quantised again."""
    build = node.build
    sums = integer_product(node, a, b, a_zero, b_zero)
    factor = [build.cast(scale, "f32") for scale in (a_scale, b_scale, y_scale)]
    scale = build.div(build.mul(factor[0], factor[1]), factor[2])
    if scale.size != 1:
        raise node.refuse("a scale for each row or column")
    scale, zero = build.reshape(scale, ()), build.reshape(y_zero, ())
    return build.call("nn.requantize", sums, scale, zero, dtype=y_zero.dtype)


def _convolve_integers(
    node: Node, x: Value, weight: Value, x_zero: Optional[Value], w_zero: Optional[Value]
) -> Value:
    build = node.build
    zero = 0
    if x_zero is not None and not read_window(node, x.shape[2:], weight.shape[2:]).is_symmetric:
        zero = int(node.elements(x_zero, "x_zero_point").reshape(-1)[0])
    x, parameters = read_convolution(node, x, weight, zero)
    inputs = [x, weight]
    if x_zero is not None or w_zero is not None:
        inputs.append(None if x_zero is None else build.reshape(x_zero, ()))
    if w_zero is not None:
        row = build.reshape(w_zero, (w_zero.size,))
        inputs.append(build.broadcast_to(row, (weight.shape[0],)))
    return build.call("nn.integer_convolution", *inputs, **parameters)


@converter("ConvInteger", since=10)
def convert_conv_integer(
    node: Node,
    x: Value,
    weight: Value,
    x_zero: Optional[Value] = None,
    w_zero: Optional[Value] = None,
) -> Value:
    """Convolution of small integers, with exact sums."""
    return _convolve_integers(node, x, weight, x_zero, w_zero)


@converter("QLinearConv", since=10)
def convert_qlinear_conv(node: Node, *inputs: Optional[Value]) -> Value:
    """Convolution of quantised images, quantised again."""
    build = node.build
    x, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    sums = _convolve_integers(node, x, weight, x_zero, w_zero)
    if len(inputs) > 8 and inputs[8] is not None:
        row = (1, weight.shape[0]) + (1,) * (x.rank - 2)
        sums = build.add(sums, build.reshape(inputs[8], row))
    scale = build.div(build.mul(x_scale, w_scale), y_scale)
    zero = build.reshape(y_zero, ())
    if scale.size == 1:
        return build.call("nn.requantize", sums, build.reshape(scale, ()), zero, dtype=y_zero.dtype)
    zeros = build.broadcast_to(build.reshape(zero, (1,)), (weight.shape[0],))
    scale = build.reshape(scale, (weight.shape[0],))
    return build.call("nn.requantize", sums, scale, zeros, axis=1, dtype=y_zero.dtype)
