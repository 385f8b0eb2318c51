# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of shapes: nodes of small known arrays are computed with NumPy.

Models compute shapes with nodes: `Shape`, `Gather`, `Mul`, `Concat`, then `Reshape`. Operators
take shapes as parameters, so the importer must know these numbers.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from .node import Node
from .values import Value, make_constant

_MOST_ELEMENTS = 256

Folder = Callable[..., np.ndarray]


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return x / y
    quotient = np.abs(x) // np.abs(y)
    return (quotient * np.sign(x) * np.sign(y)).astype(x.dtype)


def _simple(function: Callable[..., np.ndarray]) -> Folder:
    return lambda node, *arrays: function(*arrays)


_FOLDERS: Dict[str, Folder] = {
    "Add": _simple(np.add),
    "Sub": _simple(np.subtract),
    "Mul": _simple(np.multiply),
    "Div": _simple(_divide),
    "Neg": _simple(np.negative),
    "Abs": _simple(np.abs),
    "Floor": _simple(np.floor),
    "Ceil": _simple(np.ceil),
    "Sqrt": _simple(np.sqrt),
    "Equal": _simple(np.equal),
    "Greater": _simple(np.greater),
    "GreaterOrEqual": _simple(np.greater_equal),
    "Less": _simple(np.less),
    "LessOrEqual": _simple(np.less_equal),
    "Not": _simple(np.logical_not),
    "And": _simple(np.logical_and),
    "Or": _simple(np.logical_or),
    "Where": _simple(np.where),
}


def _reduce_all(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def reduce(*arrays: np.ndarray) -> np.ndarray:
        result = arrays[0]
        for array in arrays[1:]:
            result = function(result, array)
        return result

    return reduce


_FOLDERS["Max"] = _simple(_reduce_all(np.maximum))
_FOLDERS["Min"] = _simple(_reduce_all(np.minimum))


def _fold_gather(node: Node, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.take(data, indices, node.attribute("axis", 0))


_FOLDERS["Gather"] = _fold_gather


def fold(node: Node, inputs: Sequence[Any]) -> Optional[List[Value]]:
    """Computes a node of small constants, or returns None."""
    folder = _FOLDERS.get(node.proto.op_type) if node.proto.domain in ("", "ai.onnx") else None
    if folder is None or not inputs:
        return None
    if not all(isinstance(v, Value) and _is_small(v) for v in inputs):
        return None
    if node.opset < 7 or (node.proto.op_type == "Div" and _divides_by_zero(inputs)):
        return None
    try:
        with np.errstate(all="ignore"):
            result = folder(node, *[v.constant for v in inputs])
    except (IndexError, ValueError) as error:
        raise node.refuse(str(error)) from error
    return [make_constant(np.asarray(result))]


def _divides_by_zero(inputs: Sequence[Value]) -> bool:
    return inputs[1].constant.dtype.kind in "iu" and not np.all(inputs[1].constant)


def _is_small(value: Value) -> bool:
    constant = value.constant
    return (
        constant is not None
        and constant.size <= _MOST_ELEMENTS
        and constant.dtype in (np.int64, np.int32, np.bool_, np.float32, np.float64)
    )
