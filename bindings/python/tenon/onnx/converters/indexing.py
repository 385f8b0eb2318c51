# SPDX-License-Identifier: Apache-2.0
"""Elements at places: gathering, scattering, sorting, and results of a size that elements set."""

from typing import Optional, Sequence

import numpy as np

from .. import types
from ..node import Node
from ..registry import ML, converter
from ..values import Value, make_constant


@converter("Gather")
def convert_gather(node: Node, x: Value, indices: Value) -> Value:
    """Slices at places of an axis; negative places count from the end."""
    axis = node.axis(node.attribute("axis", 0), x.rank)
    known = indices.constant
    length = x.shape[axis]
    if known is not None and not np.all((-length <= known) & (known < length)):
        raise node.refuse(f"an index is out of range for the length {length}")
    if indices.size == 0 or x.size == 0:
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        return make_constant(np.zeros(shape, types.numpy_type(x.dtype)))
    return node.build.call("tensor.take", x, indices, axis=axis, mode="wrap")


@converter("ArrayFeatureExtractor", domain=ML)
def convert_feature_extractor(node: Node, x: Value, indices: Value) -> Value:
    """Columns of the last axis."""
    flat = node.build.reshape(indices, (indices.size,))
    result = node.build.call("tensor.take", x, flat, axis=x.rank - 1, mode="raise")
    return node.build.reshape(result, (1, result.size)) if x.rank == 1 else result


@converter("GatherElements", since=11)
def convert_gather_elements(node: Node, x: Value, indices: Value) -> Value:
    """Elements, each at its own place of an axis."""
    axis = node.axis(node.attribute("axis", 0), x.rank)
    return node.build.call("tensor.gather_elements", x, indices, axis=axis)


@converter("GatherND", since=11)
def convert_gather_nd(node: Node, x: Value, indices: Value) -> Value:
    """Slices, each at a place of several dimensions."""
    return node.build.call(
        "tensor.gather_nd", x, indices, index_axis=-1, batch_dims=node.attribute("batch_dims", 0)
    )


@converter("Scatter", since=9)
@converter("ScatterElements", since=11)
def convert_scatter_elements(node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """New elements, each at its own place of an axis."""
    axis = node.axis(node.attribute("axis", 0), x.rank)
    reduction = node.attribute("reduction", "none")
    if reduction == "none":
        return node.build.call("tensor.scatter_elements", x, indices, updates, axis=axis)
    if reduction == "add":
        return node.build.call("tensor.scatter_add", x, indices, updates, axis=axis)
    return node.build.call(
        "tensor.scatter_reduce", x, indices, updates, axis=axis, reduction=reduction
    )


@converter("ScatterND", since=11)
def convert_scatter_nd(node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """New slices at places of several dimensions."""
    reduction = node.attribute("reduction", "none")
    if reduction in ("none", "add"):
        operator = "tensor.scatter_nd_" + ("update" if reduction == "none" else "add")
        return node.build.call(operator, x, indices, updates, index_axis=-1)
    return node.build.call(
        "tensor.scatter_nd_reduce", x, indices, updates, index_axis=-1, reduction=reduction
    )


@converter("TensorScatter", since=24)
def convert_tensor_scatter(
    node: Node, past: Value, update: Value, begins: Optional[Value] = None
) -> Value:
    """Writes new slices of a sequence into a cache, for each batch at its own place."""
    build = node.build
    axis = node.axis(node.attribute("axis", -2), past.rank)
    steps, most = update.shape[axis], past.shape[axis]
    row = [1] * past.rank
    row[axis] = steps
    places = build.reshape(make_constant(np.arange(steps, dtype=np.int64)), row)
    if begins is not None:
        column = build.reshape(build.cast(begins, "i64"), (past.shape[0],) + (1,) * (past.rank - 1))
        places = build.add(places, column)
    if node.attribute("mode", "linear") == "circular":
        places = build.call("elemwise.broadcast_mod", places, build.full((), most, "i64"))
    indices = build.broadcast_to(places, update.shape)
    return build.call("tensor.scatter_elements", past, indices, update, axis=axis)


@converter("OneHot", since=9)
def convert_one_hot(node: Node, indices: Value, depth: Value, values: Value) -> Value:
    """Rows that are on at one place."""
    build = node.build
    length = int(node.elements(depth, "depth").reshape(-1)[0])
    places = build.cast(indices, "i64")
    zero, end = build.full((), 0, "i64"), build.full((), length, "i64")
    negative = build.call("elemwise.is_less", places, zero)
    places = build.where(negative, build.add(places, end), places)
    hot = build.call("tensor.one_hot", places, depth=length, dtype="u8")
    hot = build.move_axis(hot, -1, node.axis(node.attribute("axis", -1), hot.rank))
    off = build.reshape(build.slice_axis(values, 0, 0, 1), ())
    on = build.reshape(build.slice_axis(values, 0, 1, 2), ())
    return build.where(build.cast(hot, "bool"), on, off)


@converter("TopK", since=1)
def convert_topk(node: Node, x: Value, k: Optional[Value] = None) -> Sequence[Value]:
    """Greatest or least elements of lines, and their places."""
    axis = node.axis(node.attribute("axis", -1), x.rank)
    count = node.attribute("k") if k is None else node.integers(k, "K")[0]
    if count == 0:
        shape = x.shape[:axis] + (0,) + x.shape[axis + 1 :]
        empty = np.zeros(shape, types.numpy_type(x.dtype))
        return [make_constant(empty), make_constant(np.zeros(shape, np.int64))]
    least = not node.attribute("largest", 1)
    return node.build.call("tensor.topk", x, axis=axis, k=count, is_ascend=least)


@converter("NonZero", since=9)
def convert_nonzero(node: Node, x: Value) -> Value:
    """Places of the elements that are not 0."""
    return node.build.call("tensor.nonzero", x)


@converter("Compress", since=9)
def convert_compress(node: Node, x: Value, condition: Value) -> Value:
    """Slices where a condition is true."""
    axis = node.attribute("axis")
    if axis is not None:
        axis = node.axis(axis, x.rank)
    return node.build.call("tensor.compress", x, condition, axis=axis)


@converter("Unique", since=11)
def convert_unique(node: Node, x: Value) -> Sequence[Value]:
    """Each value once, and where it occurs."""
    axis = node.attribute("axis")
    if axis is not None:
        axis = node.axis(axis, x.rank)
    is_sorted = bool(node.attribute("sorted", 1))
    return node.build.call("tensor.unique", x, axis=axis, sorted=is_sorted)


@converter("NonMaxSuppression", since=10)
def convert_nms(
    node: Node,
    boxes: Value,
    scores: Value,
    most: Optional[Value] = None,
    overlap: Optional[Value] = None,
    least: Optional[Value] = None,
) -> Value:
    """Boxes that are left by non-maximum suppression."""
    count = node.integers(most, "max_output_boxes_per_class")
    if not count or count[0] <= 0:
        return make_constant(np.zeros((0, 3), np.int64))
    bounds = []
    for value, name in ((overlap, "iou_threshold"), (least, "score_threshold")):
        known = None if value is None else node.elements(value, name).reshape(-1)
        bounds.append(None if known is None or not known.size else float(known[0]))
    return node.build.call(
        "nn.nms_selected",
        boxes,
        scores,
        max_output=min(count[0], boxes.shape[1]),
        iou_threshold=bounds[0] or 0.0,
        score_threshold=bounds[1],
        center_point_box=bool(node.attribute("center_point_box", 0)),
    )


@converter("ReverseSequence", since=10)
def convert_reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    """Sequences with their first steps in reverse order."""
    build = node.build
    batch_axis, time_axis = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    if sorted((batch_axis, time_axis)) != [0, 1]:
        raise node.refuse(f"`batch_axis` {batch_axis} and `time_axis` {time_axis}")
    if time_axis == 1:
        x = build.call("tensor.swap_axes", x, dim1=0, dim2=1)
    result = build.call("nn.sequence_reverse", x, lengths, use_sequence_length=True)
    if time_axis == 1:
        result = build.call("tensor.swap_axes", result, dim1=0, dim2=1)
    return result


