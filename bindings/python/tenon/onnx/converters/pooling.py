# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from typing import List, Sequence

import numpy as np

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant
from ..windows import Window, read_window


def _pad_for_windows(
    node: Node, x: Value, window: Window, counts: Sequence[int], number: float
) -> Value:
    """Pads, also as far as the last window reaches beyond the padding."""
    widths = [(0, 0), (0, 0)]
    for i, count in enumerate(counts):
        needed = (count - 1) * window.strides[i] + window.reaches[i]
        after = needed - x.shape[i + 2] - window.begins[i]
        widths.append((window.begins[i], max(after, 0)))
    return node.build.pad(x, widths, number)


def _cut_windows(node: Node, result: Value, counts: Sequence[int]) -> Value:
    for i, count in enumerate(counts):
        result = node.build.slice_axis(result, i + 2, 0, count)
    return result


def _parameters(window: Window, **more: object) -> dict:
    return dict(
        kernel=window.kernel, stride=window.strides, dilate=window.dilations, **more
    )


@converter("MaxPool")
def convert_max_pool(node: Node, x: Value) -> object:
    """Largest elements of windows, and their places."""
    window = read_window(node, x.shape[2:], ())
    counts = window.count_windows(x.shape[2:], bool(node.attribute("ceil_mode", 0)))
    wide = x if x.dtype in types.FLOATS else node.build.cast(x, "f32")
    if node.has_output(1):
        return _pool_with_indices(node, wide, x, window, counts)
    if window.is_symmetric and counts == window.count_windows(x.shape[2:], False):
        result = node.build.call(
            "nn.pooling", wide, **_parameters(window, pool_type="max", pad=window.begins)
        )
    else:
        padded = _pad_for_windows(node, wide, window, counts, -np.inf)
        result = node.build.call("nn.pooling", padded, **_parameters(window, pool_type="max"))
    return node.build.cast(_cut_windows(node, result, counts), x.dtype)


def _pool_with_indices(
    node: Node, wide: Value, x: Value, window: Window, counts: List[int]
) -> List[Value]:
    build = node.build
    padded = _pad_for_windows(node, wide, window, counts, -np.inf)
    result, places = build.call("nn.max_pool_indices", padded, **_parameters(window))
    result, places = (_cut_windows(node, value, counts) for value in (result, places))
    order = range(len(counts))
    lengths, flat = padded.shape[2:], None
    if node.attribute("storage_order", 0):
        order = reversed(order)
    stride = 1
    strides = {}
    for axis in reversed(list(order)):
        strides[axis] = stride
        stride *= x.shape[axis + 2]
    rest = places
    for axis in reversed(range(len(counts))):
        divisor = build.full((), lengths[axis], "i64")
        place = build.call("elemwise.broadcast_mod", rest, divisor)
        rest = build.call("elemwise.floor_divide", rest, divisor)
        place = build.sub(place, build.full((), window.begins[axis], "i64"))
        term = build.mul(place, build.full((), strides[axis], "i64"))
        flat = term if flat is None else build.add(flat, term)
    image = np.arange(x.shape[0] * x.shape[1], dtype=np.int64) * stride
    image = make_constant(image.reshape(x.shape[:2] + (1,) * len(counts)))
    return [build.cast(result, x.dtype), build.add(flat, image)]


@converter("AveragePool")
def convert_average_pool(node: Node, x: Value) -> Value:
    """Means of windows; padding counts only on request."""
    window = read_window(node, x.shape[2:], ())
    lengths = x.shape[2:]
    counts = window.count_windows(lengths, bool(node.attribute("ceil_mode", 0)))
    include = bool(node.attribute("count_include_pad", 0))
    if window.is_symmetric and counts == window.count_windows(lengths, False):
        parameters = _parameters(window, pool_type="avg", pad=window.begins)
        return node.build.call("nn.pooling", x, **parameters, count_include_pad=include)
    padded = _pad_for_windows(node, x, window, counts, 0)
    sums = node.build.call("nn.pooling", padded, **_parameters(window, pool_type="sum"))
    sums = _cut_windows(node, sums, counts)
    divisors = np.ones((1, 1) + (1,) * len(counts))
    for i, count in enumerate(counts):
        numbers = [_count_places(window, i, k, lengths[i], include) for k in range(count)]
        shape = [1] * (len(counts) + 2)
        shape[i + 2] = count
        divisors = divisors * np.array(numbers).reshape(shape)
    return node.build.div(sums, make_constant(divisors, x.dtype))


def _count_places(window: Window, axis: int, number: int, length: int, include: bool) -> int:
    """Counts the places of a window that a mean divides by, along one axis."""
    first, last = 0, length
    if include:
        first, last = -window.begins[axis], length + window.ends[axis]
    begin = number * window.strides[axis] - window.begins[axis]
    places = range(begin, begin + window.reaches[axis], window.dilations[axis])
    return max(sum(first <= place < last for place in places), 1)


@converter("LpPool", since=2)
def convert_lp_pool(node: Node, x: Value) -> Value:
    """Roots of sums of powers."""
    window = read_window(node, x.shape[2:], ())
    counts = window.count_windows(x.shape[2:], bool(node.attribute("ceil_mode", 0)))
    padded = _pad_for_windows(node, x, window, counts, 0)
    parameters = _parameters(window, p_value=float(node.attribute("p", 2)))
    return _cut_windows(node, node.build.call("nn.lp_pooling", padded, **parameters), counts)


@converter("GlobalAveragePool", "GlobalMaxPool")
def convert_global_pool(node: Node, x: Value) -> Value:
    """Mean or largest element of a whole image."""
    axes = list(range(2, x.rank))
    operator = "tensor.max" if node.proto.op_type == "GlobalMaxPool" else "tensor.mean"
    return node.build.call(operator, x, axis=axes, keepdims=True)


@converter("GlobalLpPool", since=2)
def convert_global_lp_pool(node: Node, x: Value) -> Value:
    """Root of the sum of powers of a whole image."""
    return node.build.call(
        "nn.lp_pooling", x, global_pool=True, p_value=float(node.attribute("p", 2))
    )


@converter("MaxUnpool", since=9)
def convert_max_unpool(node: Node, x: Value, places: Value, size: Value = None) -> Value:
    """Elements at their indices in a larger tensor."""
    build = node.build
    kernel = node.attribute("kernel_shape")
    rank = len(kernel)
    strides = node.attribute("strides", [1] * rank)
    pads = node.attribute("pads", [0] * (2 * rank))
    inferred = [
        (x.shape[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank]
        for i in range(rank)
    ]
    wanted = node.integers(size, "output_shape")
    whole = list(x.shape[:2]) + inferred
    total = int(np.prod(whole, dtype=np.int64))
    flat = build.call(
        "tensor.scatter_elements",
        build.full((total,), 0, x.dtype),
        build.reshape(places, (places.size,)),
        build.reshape(x, (x.size,)),
        axis=0,
    )
    result = build.reshape(flat, whole)
    if wanted is None:
        return result
    if any(more < less for more, less in zip(wanted, whole)):
        raise node.refuse(f"`output_shape` {wanted} is smaller than the unpooled {whole}")
    return build.pad(result, [(0, more - less) for more, less in zip(wanted, whole)])
