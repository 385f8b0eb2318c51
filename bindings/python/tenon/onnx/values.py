# SPDX-License-Identifier: Apache-2.0
"""Values that pass between nodes while a model is converted or computed."""

from typing import Any, Optional, Tuple

import numpy as np

from . import types
from .errors import OnnxError

Shape = Tuple[int, ...]
_MOST_ELEMENTS = 1 << 28


class Value:
    """A tensor: its type, its shape, and its elements where the importer knows them.

    `handle` belongs to the builder: an Array in eager execution, a Symbol in a graph. A
    constant has none until an operator reads it.
    """

    __slots__ = ("dtype", "shape", "constant", "handle", "name")

    def __init__(
        self,
        dtype: str,
        shape: Shape,
        constant: Optional[np.ndarray] = None,
        handle: Any = None,
        name: str = "",
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.constant = constant
        self.handle = handle
        self.name = name

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        known = ", constant" if self.constant is not None else ""
        return f"Value({self.dtype}, {self.shape}{known})"


def make_constant(elements: Any, dtype: Optional[str] = None, name: str = "") -> Value:
    """Makes a value whose elements are known: `make_constant([1, 2], "i64")`."""
    if dtype is not None:
        array = np.asarray(elements, types.numpy_type(dtype))
    else:
        array = np.asarray(elements)
    return Value(types.type_of_numpy(array.dtype), tuple(array.shape), array, name=name)


def check_size(shape: Shape) -> Shape:
    """Refuses shapes of constants that would fill the memory; returns the shape."""
    size = 1
    for length in shape:
        size *= length
        if length < 0:
            raise OnnxError(f"the shape {list(shape)} has a negative length")
    if size > _MOST_ELEMENTS:
        raise OnnxError(
            f"a constant of the shape {list(shape)} has more than {_MOST_ELEMENTS} elements"
        )
    return shape


class TensorSequence(list):
    """A sequence of ONNX: a list of values that is one value itself."""
