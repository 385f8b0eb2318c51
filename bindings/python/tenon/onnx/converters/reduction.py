# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes."""

from typing import List, Optional

import numpy as np

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant

_EMPTY = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceMean": np.nan}


@converter(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"
)
@converter("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
def convert_reduction(node: Node, x: Value, axes: Optional[Value] = None) -> Value:
    """Reductions; the axes are an attribute or an input."""
    chosen = node.axes(axes, x.rank)
    if not chosen:
        if node.attribute("noop_with_empty_axes", 0):
            return _apply_to_elements(node, x)
        chosen = list(range(x.rank))
    keepdims = bool(node.attribute("keepdims", 1))
    if any(x.shape[axis] == 0 for axis in chosen) and node.proto.op_type in _EMPTY:
        return _reduce_nothing(node, x, chosen, keepdims)
    return _REDUCERS[node.proto.op_type](node, x, chosen, keepdims)


def _apply_to_elements(node: Node, x: Value) -> Value:
    """Computes a reduction over no axis: of each element by itself."""
    build, name = node.build, node.proto.op_type
    if name in ("ReduceL1", "ReduceL2"):
        return build.call("elemwise.abs", x)
    if name == "ReduceSumSquare":
        return build.call("elemwise.square", x)
    if name == "ReduceLogSum":
        return build.compute("elemwise.log", x)
    return x


def _reduce_nothing(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    """Makes the extremes of no elements: the least or greatest number of the type."""
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
    number = _EMPTY[node.proto.op_type]
    dtype = types.numpy_type(x.dtype)
    if x.dtype == "bool":
        number = number > 0
    elif x.dtype in types.INTEGERS:
        limits = np.iinfo(dtype)
        number = limits.max if number > 0 else limits.min
    return make_constant(np.full(shape, number, dtype))


def reduce_axes(node: Node, operator: str, x: Value, axes: List[int], keepdims: bool) -> Value:
    """Calls a reduction of the plugin `tensor`, also for types that it does not take."""
    if x.rank == 0:
        return x
    return node.build.compute(operator, x, axis=list(axes), keepdims=keepdims)


def _reduce_sum(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return reduce_axes(node, "tensor.sum", x, axes, keepdims)


def _reduce_mean(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return reduce_axes(node, "tensor.mean", x, axes, keepdims)


def _reduce_prod(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return reduce_axes(node, "tensor.prod", x, axes, keepdims)


def _reduce_extreme(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    operator = "tensor.max" if node.proto.op_type == "ReduceMax" else "tensor.min"
    if x.dtype == "bool":
        small = reduce_axes(node, operator, node.build.cast(x, "u8"), axes, keepdims)
        return node.build.cast(small, "bool")
    return reduce_axes(node, operator, x, axes, keepdims)


def _reduce_l1(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return _reduce_sum(node, node.build.call("elemwise.abs", x), axes, keepdims)


def _reduce_l2(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    if x.rank == 0:
        return node.build.call("elemwise.abs", x)
    return node.build.compute("tensor.norm", x, axis=list(axes), keepdims=keepdims, ord=2)


def _reduce_sum_square(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return _reduce_sum(node, node.build.call("elemwise.square", x), axes, keepdims)


def _reduce_log_sum(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return node.build.compute("elemwise.log", _reduce_sum(node, x, axes, keepdims))


def _reduce_log_sum_exp(node: Node, x: Value, axes: List[int], keepdims: bool) -> Value:
    return reduce_axes(node, "tensor.logsumexp", x, axes, keepdims)


_REDUCERS = {
    "ReduceSum": _reduce_sum,
    "ReduceMean": _reduce_mean,
    "ReduceProd": _reduce_prod,
    "ReduceMax": _reduce_extreme,
    "ReduceMin": _reduce_extreme,
    "ReduceL1": _reduce_l1,
    "ReduceL2": _reduce_l2,
    "ReduceSumSquare": _reduce_sum_square,
    "ReduceLogSum": _reduce_log_sum,
    "ReduceLogSumExp": _reduce_log_sum_exp,
}


@converter("ArgMax", "ArgMin")
def convert_arg(node: Node, x: Value) -> Value:
    """Places of extremes along an axis."""
    build = node.build
    axis = node.axis(node.attribute("axis", 0), x.rank)
    keepdims = bool(node.attribute("keepdims", 1))
    operator = "tensor." + node.proto.op_type.lower()
    if not node.attribute("select_last_index", 0):
        return build.call(operator, x, axis=axis, keepdims=keepdims)
    turned = build.call("tensor.reverse", x, axis=[axis])
    places = build.call(operator, turned, axis=axis, keepdims=keepdims)
    return build.sub(build.full((), x.shape[axis] - 1, "i64"), places)
