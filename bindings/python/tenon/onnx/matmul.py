# SPDX-License-Identifier: Apache-2.0
"""Products of matrices with the rules of NumPy's `matmul`."""

from typing import Any

import numpy as np

from . import types
from .values import Value


def multiply_matrices(build: Any, x: Value, y: Value) -> Value:
    """Multiplies the last two axes; the others broadcast."""
    drop_row, drop_column = x.rank == 1, y.rank == 1
    x = build.reshape(x, (1,) + x.shape) if drop_row else x
    y = build.reshape(y, y.shape + (1,)) if drop_column else y
    result = _multiply(build, x, y)
    shape = list(result.shape)
    if drop_column:
        del shape[-1]
    if drop_row:
        del shape[-1 if drop_column else -2]
    return build.reshape(result, shape)


def _multiply(build: Any, x: Value, y: Value) -> Value:
    if x.dtype in types.FLOATS:
        return _multiply_floats(build, x, y)
    wide = "i32" if x.dtype in ("i8", "u8", "i16", "u16", "i32", "bool") else "i64"
    batch = _batch_shape(x, y)
    left = build.cast(build.broadcast_to(x, batch + x.shape[-2:]), wide)
    right = build.cast(build.broadcast_to(y, batch + y.shape[-2:]), wide)
    result = build.call("tensor.einsum", left, right, equation="...ij,...jk->...ik")
    return build.cast(result, x.dtype)


def _multiply_floats(build: Any, x: Value, y: Value) -> Value:
    if x.rank == 2 and y.rank == 2:
        return build.call("tensor.dot", x, y)
    if y.rank == 2:
        rows = build.reshape(x, (int(np.prod(x.shape[:-1], dtype=np.int64)), x.shape[-1]))
        product = build.call("tensor.dot", rows, y)
        return build.reshape(product, x.shape[:-1] + y.shape[-1:])
    batch = _batch_shape(x, y)
    count = int(np.prod(batch, dtype=np.int64))
    left = build.broadcast_to(x, batch + x.shape[-2:])
    right = build.broadcast_to(y, batch + y.shape[-2:])
    product = build.call(
        "tensor.batch_dot",
        build.reshape(left, (count,) + x.shape[-2:]),
        build.reshape(right, (count,) + y.shape[-2:]),
    )
    return build.reshape(product, batch + (x.shape[-2], y.shape[-1]))


def _batch_shape(x: Value, y: Value) -> tuple:
    return tuple(np.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
