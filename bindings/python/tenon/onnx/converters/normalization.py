# SPDX-License-Identifier: Apache-2.0
"""Normalisations, softmaxes and dropout."""

from typing import List, Optional

import numpy as np

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant


@converter("BatchNormalization", since=7)
def convert_batch_norm(
    node: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> object:
    """Normalises each channel by moving averages, or by those of the batch in training."""
    build = node.build
    eps = node.attribute("epsilon", 1e-5)
    if not node.attribute("training_mode", 0):
        if node.has_output(1):
            raise node.refuse("outputs of training before opset 14")
        values = [build.cast(v, x.dtype) for v in (scale, bias, mean, variance)]
        return build.call("nn.batch_norm", x, *values, eps=eps, fix_gamma=False)
    momentum = node.attribute("momentum", 0.9)
    axes = [axis for axis in range(x.rank) if axis != 1]
    row = (1, x.shape[1]) + (1,) * (x.rank - 2)
    mean_now = build.call("tensor.mean", x, axis=axes, keepdims=True)
    centred = build.sub(x, mean_now)
    squares = build.call("elemwise.square", centred)
    variance_now = build.call("tensor.mean", squares, axis=axes, keepdims=True)
    factor = build.call("elemwise.rsqrt", build.shift(variance_now, eps))
    normal = build.mul(centred, factor)
    result = build.mul(normal, build.reshape(build.cast(scale, x.dtype), row))
    result = build.add(result, build.reshape(build.cast(bias, x.dtype), row))
    averages = []
    for old, new in ((mean, mean_now), (variance, variance_now)):
        fresh = build.cast(build.reshape(new, (x.shape[1],)), old.dtype)
        mixed = build.add(build.scale(old, momentum), build.scale(fresh, 1 - momentum))
        averages.append(mixed)
    return [result] + averages


@converter("InstanceNormalization", since=6)
def convert_instance_norm(node: Node, x: Value, scale: Value, bias: Value) -> Value:
    """Normalises each channel of each image."""
    return node.build.call(
        "nn.instance_norm", x, scale, bias, eps=node.attribute("epsilon", 1e-5)
    )


@converter("GroupNormalization", since=18)
def convert_group_norm(node: Node, x: Value, scale: Value, bias: Value) -> Value:
    """Normalises groups of channels of each image."""
    build = node.build
    groups = node.attribute("num_groups")
    values = []
    for value in (scale, bias):
        if node.opset < 21 and value.shape == (groups,) != (x.shape[1],):
            value = build.call("tensor.repeat", value, repeats=x.shape[1] // groups, axis=0)
        values.append(value)
    return build.call(
        "nn.group_norm", x, *values, num_groups=groups, eps=node.attribute("epsilon", 1e-5)
    )


@converter("LayerNormalization", since=17)
def convert_layer_norm(
    node: Node, x: Value, scale: Value, bias: Optional[Value] = None
) -> List[Value]:
    """Normalises each line over the last axes."""
    build = node.build
    axis = node.axis(node.attribute("axis", -1), x.rank)
    outer, inner = _split_shape(x, axis)
    eps = node.attribute("epsilon", 1e-5)
    rows = build.reshape(x, (outer, inner))
    gamma = build.reshape(build.broadcast_to(scale, x.shape[axis:]), (inner,))
    if bias is None:
        beta = build.full((inner,), 0, x.dtype)
    else:
        beta = build.reshape(build.broadcast_to(bias, x.shape[axis:]), (inner,))
    result = build.call("nn.layer_norm", rows, gamma, beta, axis=-1, eps=eps)
    outputs = [build.reshape(result, x.shape)]
    if node.has_output(1) or node.has_output(2):
        wide = types.name_of_type(node.attribute("stash_type", 1))
        shape = x.shape[:axis] + (1,) * (x.rank - axis)
        rows = build.cast(rows, wide)
        mean = build.call("tensor.mean", rows, axis=[1], keepdims=True)
        squares = build.call("elemwise.square", build.sub(rows, mean))
        variance = build.call("tensor.mean", squares, axis=[1], keepdims=True)
        deviation = build.call("elemwise.rsqrt", build.shift(variance, eps))
        outputs += [build.reshape(mean, shape), build.reshape(deviation, shape)]
    return outputs


@converter("RMSNormalization", since=23)
def convert_rms_norm(node: Node, x: Value, scale: Value) -> Value:
    """Divides each line by its root mean square."""
    build = node.build
    axis = node.axis(node.attribute("axis", -1), x.rank)
    outer, inner = _split_shape(x, axis)
    gamma = build.reshape(build.broadcast_to(scale, x.shape[axis:]), (inner,))
    rows = build.reshape(x, (outer, inner))
    eps = node.attribute("epsilon", 1e-5)
    result = build.call("nn.rms_norm", rows, build.cast(gamma, x.dtype), axis=-1, eps=eps)
    return build.reshape(result, x.shape)


def _split_shape(x: Value, axis: int) -> List[int]:
    """Returns the number of lines and their length, if an axis and all after it are lines."""
    return [int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis:])]


@converter("LpNormalization")
def convert_lp_norm(node: Node, x: Value) -> Value:
    """Divides each line by its norm; lines of zeros stay."""
    build = node.build
    axis = node.axis(node.attribute("axis", -1), x.rank)
    norm = build.call(
        "tensor.norm", x, axis=[axis], keepdims=True, ord=node.attribute("p", 2)
    )
    zero = build.call("elemwise.is_equal", norm, build.full((), 0, x.dtype))
    return build.div(x, build.where(zero, build.full((), 1, x.dtype), norm))


@converter("LRN")
def convert_lrn(node: Node, x: Value) -> Value:
    """Divides by a power of the squares of neighbouring channels."""
    build = node.build
    size, bias = node.attribute("size"), node.attribute("bias", 1.0)
    alpha, beta = node.attribute("alpha", 1e-4), node.attribute("beta", 0.75)
    if size % 2 == 1:
        return build.call("nn.lrn", x, nsize=size, alpha=alpha, beta=beta, knorm=bias)
    widths = [(0, 0), ((size - 1) // 2, size // 2)] + [(0, 0)] * (x.rank - 2)
    squares = build.pad(build.call("elemwise.square", x), widths)
    parts = [build.slice_axis(squares, 1, i, i + x.shape[1]) for i in range(size)]
    base = build.shift(build.scale(build.call("tensor.add_n", *parts), alpha / size), bias)
    return build.mul(x, build.call("elemwise.power_scalar", base, scalar=-beta))


@converter("MeanVarianceNormalization", since=9)
def convert_mean_variance(node: Node, x: Value) -> Value:
    """Subtracts means and divides by deviations."""
    build = node.build
    axes = node.axes(None, x.rank, [0, 2, 3])
    centred = build.sub(x, build.call("tensor.mean", x, axis=axes, keepdims=True))
    squares = build.call("elemwise.square", centred)
    variance = build.call("tensor.mean", squares, axis=axes, keepdims=True)
    deviation = build.shift(build.call("elemwise.sqrt", variance), 1e-9)
    return build.div(centred, deviation)


@converter("Softmax", "LogSoftmax", "Hardmax", since=13)
def convert_softmax(node: Node, x: Value) -> Value:
    """Softmaxes along one axis."""
    return _softmax(node, x, node.axis(node.attribute("axis", -1), x.rank))


@converter("Softmax", "LogSoftmax", "Hardmax")
def convert_softmax_1(node: Node, x: Value) -> Value:
    """Softmaxes over all axes from one on."""
    axis = node.axis(node.attribute("axis", 1), x.rank)
    rows = node.build.reshape(x, _split_shape(x, axis))
    return node.build.reshape(_softmax(node, rows, 1), x.shape)


def _softmax(node: Node, x: Value, axis: int) -> Value:
    build = node.build
    if node.proto.op_type == "Softmax":
        return build.call("nn.softmax", x, axis=axis)
    if node.proto.op_type == "LogSoftmax":
        return build.call("nn.log_softmax", x, axis=axis)
    places = build.call("tensor.argmax", x, axis=axis, keepdims=False)
    hot = build.call("tensor.one_hot", places, depth=x.shape[axis], dtype=x.dtype)
    return build.move_axis(hot, -1, axis)


@converter("Dropout", since=7)
def convert_dropout(
    node: Node, x: Value, ratio: Optional[Value] = None, training: Optional[Value] = None
) -> List[Value]:
    """The data itself; random zeros are not supported."""
    if training is not None and bool(node.elements(training, "training_mode").reshape(-1)[0]):
        share = 0.5 if ratio is None else float(node.elements(ratio, "ratio").reshape(-1)[0])
        if share > 0:
            raise node.refuse("`training_mode` with a `ratio` above 0 draws random numbers")
    mask = make_constant(np.ones(x.shape, np.bool_)) if node.has_output(1) else None
    return [x, mask]
