# SPDX-License-Identifier: Apache-2.0
"""Operators of Python on arrays, as far as tenon._core hands them over: operands of several types,
integers outside of a type, powers of integers, products of matrices."""

from tenon import _core
from tenon._convert import Array, convert_any
from tenon._dtypes import BY_NAME, promote
from tenon._errors import DtypeError, ShapeError
from tenon.ops import find_operator


def binary(name, left, right, out):
    """An operator of Python whose operands are no two arrays of one type."""
    for each in (left, right):
        if hasattr(type(each), "_tenon_symbol"):
            return NotImplemented
    compares = name.startswith("is_")
    if compares and _is_outside(right, left.dtype):
        return _compare_outside(name, left, right)
    try:
        left, right = _convert_operands(left, right)
    except TypeError:
        return NotImplemented
    dtype = promote(left.dtype, right.dtype)
    if name == "div" and not dtype.is_float:
        dtype = BY_NAME["f32"]
    elif dtype.name == "bool" and not compares and not name.startswith("bitwise"):
        dtype = BY_NAME["i64"]
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    if out is not None and out.dtype != dtype:
        raise DtypeError(f"the result has type {dtype}, but the array that it would go into has "
                         f"{out.dtype}; write a = a {_SIGNS.get(name, name)} b")
    if name == "power" and not dtype.is_float:
        result = _raise_integers(left, right)
        if out is None:
            return result
        from tenon._indexing import assign  # which needs this module
        assign(out, result)
        return out
    op = find_operator(f"elemwise.{_BROADCAST.get(name, name)}")
    return op(left, right) if out is None else op(left, right, out=out)


def _is_outside(number, dtype):
    """Whether an int is outside of the range of an integer type."""
    if not isinstance(number, int) or isinstance(number, bool) or dtype.kind not in ("int", "uint"):
        return False
    low, high = dtype.range
    return not low <= number <= high


def _compare_outside(name, array, number):
    """A comparison with an int that no element can be equal to."""
    is_less = number > 0  # the elements are
    answer = {"is_equal": False, "is_not_equal": True, "is_less": is_less,
              "is_less_equal": is_less, "is_greater": not is_less,
              "is_greater_equal": not is_less}[name]
    return convert_any(answer).broadcast_to(array.shape).copy()


def _raise_integers(base, exponent):
    """Powers of integers, exact in their type, by repeated squares."""
    if exponent.size and exponent.min().item() < 0:
        raise ValueError("powers of integers with negative exponents are fractions; convert the "
                         "array with astype('f32') first")
    shape = broadcast_shapes(base.shape, exponent.shape)
    base = base.broadcast_to(shape)
    result = (base * 0) + 1
    left = exponent.max().item() if exponent.size else 0
    exponent = exponent.broadcast_to(shape)
    while left:
        result = find_operator("tensor.where")((exponent & 1) == 1, result * base, result)
        base, exponent, left = base * base, exponent >> 1, left >> 1
    return result


_BROADCAST = {each: f"broadcast_{each}" for each in ("add", "sub", "mul", "div", "mod", "power")}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "power": "**",
          "floor_divide": "//"}


def _convert_operands(left, right):
    if isinstance(left, Array):
        return left, _convert_beside(right, left)
    return _convert_beside(left, right), right


def _convert_beside(value, array):
    if isinstance(value, Array):
        return value
    if isinstance(value, (list, tuple)):
        return _core.convert(value)
    if isinstance(value, (str, bytes)) or value is None:
        raise TypeError
    return _core.convert_like(value, array)


def truth(array):
    if array.size != 1:
        raise ValueError(f"an array with {array.size} elements is neither true nor false; use "
                         "its any() or all()")
    return bool(array.item())


def matmul(left, right):
    """`left @ right`: matrices in the last two axes, as NumPy's matmul."""
    if not isinstance(left, Array) or not isinstance(right, Array):
        for each in (left, right):
            if hasattr(type(each), "_tenon_symbol"):
                return NotImplemented
        try:
            left, right = _convert_operands(left, right)
        except TypeError:
            return NotImplemented
    dtype = promote(left.dtype, right.dtype)
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    if left.ndim == 0 or right.ndim == 0:
        raise ValueError("@ needs arrays with at least one axis; use * for numbers")
    if left.ndim <= 2 and right.ndim <= 2:
        return find_operator("tensor.dot")(left, right)
    return _multiply_batches(left, right)


def _multiply_batches(left, right):
    drop = []
    if left.ndim == 1:
        left, drop = left[None, :], [-2]
    if right.ndim == 1:
        right, drop = right[:, None], [-1]
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    wide_left = left.broadcast_to(batch + left.shape[-2:])
    wide_right = right.broadcast_to(batch + right.shape[-2:])
    product = find_operator("tensor.batch_dot")(
        wide_left.reshape((-1,) + left.shape[-2:]), wide_right.reshape((-1,) + right.shape[-2:]))
    shape = batch + product.shape[1:]
    result = product.reshape(shape)
    return result.squeeze(drop[0]) if drop else result


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes get together."""
    n = max(map(len, shapes))
    result = []
    for i in range(n):
        sizes = {each[i - n + len(each)] for each in shapes if i - n + len(each) >= 0}
        sizes.discard(1)
        if len(sizes) > 1:
            raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not fit together at axis "
                             f"{i - n}: a size must be equal or 1")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)
