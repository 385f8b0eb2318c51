# SPDX-License-Identifier: Apache-2.0
"""The methods of arrays that need no speed, and the slow cases that tenon._core hands over."""

import os

from tenon import _core
from tenon._dtypes import BY_NAME, BY_NUMBER, DType, find_dtype, promote
from tenon.ops import find_operator

Array = _core.Array
_core.set_folder(os.path.dirname(os.path.abspath(__file__)) + os.sep)
_PLACES = {1: "cpu", 2: "cuda", 3: "cuda_host"}


# ------------------------------------------------------------------ for the core

def dtype_number(value):
    return find_dtype(value).number


def convert(value):
    """An array of any object that is neither a number nor a plain array of NumPy."""
    if hasattr(value, "__dlpack__") and not type(value).__module__.startswith("numpy"):
        return _core.from_dlpack(value)
    import numpy
    if not isinstance(value, (list, tuple, range)) and not hasattr(value, "__array__") and \
            not hasattr(value, "__array_interface__"):
        raise TypeError(f"cannot make an array of a {type(value).__name__}: pass a number, lists "
                        "of numbers, or an array of NumPy or of another package")
    if isinstance(value, (list, tuple)) and any(isinstance(each, Array) for each in value):
        return find_operator("tensor.stack")([convert_any(each) for each in value])
    try:
        found = numpy.asarray(value)
    except ValueError as error:
        raise ValueError(f"the lists do not form an array: {error}") from None
    if found.dtype == numpy.float64 and not isinstance(value, numpy.ndarray) and \
            not hasattr(value, "__array__"):
        found = found.astype(numpy.float32)
    return from_numpy(found)


def from_numpy(value):
    """A copy of an array of NumPy, of any layout and byte order."""
    import numpy
    if value.dtype.hasobject or value.dtype.kind in "USmMOc" or value.dtype.fields:
        raise TypeError(f"arrays cannot have elements of NumPy's type {value.dtype}: they are "
                        "real numbers or bools")
    dtype = find_dtype(value.dtype)
    dense = numpy.ascontiguousarray(value)
    if not dense.dtype.isnative:
        dense = dense.astype(dense.dtype.newbyteorder("="))
    dense = dense.reshape(value.shape)
    if dtype.kind != "storage" and dtype.name != "bf16":
        return _core.convert(dense)
    if dtype.bits < 8:
        raise TypeError(f"NumPy keeps {dtype} in whole bytes; pass i8 or u8, and quantize")
    wide = _core.convert(dense.view(numpy.uint16 if dtype.bits == 16 else numpy.uint8))
    return wide._bits(dtype.number)


def convert_any(value, like=None):
    return value if isinstance(value, Array) else _core.convert_like(value, like)


def copy(array):
    return find_operator("elemwise.copy")(array)


def refuse_argument(function, name):
    """Raises the error of a keyword that an operator does not have."""
    import difflib
    import inspect
    names = list(inspect.signature(function).parameters)
    near = difflib.get_close_matches(name, names, 1)
    raise TypeError(f"{function.__name__}() got an unexpected argument {name!r}"
                    + (f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}"))


def call_symbols(op, inputs, named):
    from tenon import graph
    return graph.call_symbols(op, inputs, named)


_PYTHON_NUMBERS = (bool, int, float)


def binary(name, left, right, out):
    """An operator of Python whose operands are no two arrays of one type."""
    for each in (left, right):
        if hasattr(type(each), "_tenon_symbol"):
            return NotImplemented
    try:
        left, right = _convert_operands(left, right)
    except TypeError:
        return NotImplemented
    dtype = promote(left.dtype, right.dtype)
    compares = name.startswith("is_")
    if name == "div" and not dtype.is_float:
        dtype = BY_NAME["f32"]
    elif dtype.name == "bool" and not compares and not name.startswith("bitwise"):
        dtype = BY_NAME["i64"] if name != "div" else BY_NAME["f32"]
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    op = find_operator(f"elemwise.{_BROADCAST.get(name, name)}")
    if out is None:
        return op(left, right)
    if out.dtype != dtype:
        raise _dtype_error(f"the result has type {dtype}, but the array that it would go into has "
                           f"{out.dtype}; write a = a {_SIGNS.get(name, name)} b")
    return op(left, right, out=out)


_BROADCAST = {each: f"broadcast_{each}" for each in ("add", "sub", "mul", "div", "mod", "power")}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "power": "**",
          "floor_divide": "//"}


def _dtype_error(text):
    from tenon._errors import DtypeError
    return DtypeError(text)


def _convert_operands(left, right):
    if isinstance(left, Array):
        return left, _convert_beside(right, left)
    return _convert_beside(left, right), right


def _convert_beside(value, array):
    if isinstance(value, Array):
        return value
    if isinstance(value, (list, tuple, str, bytes)) or value is None:
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
        left, right = _convert_operands(left, right)
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
        sizes = {each[i - n + len(each)] for each in shapes if i - n + len(each) >= 0} - {1}
        if len(sizes) > 1:
            from tenon._errors import ShapeError
            raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not fit together at axis "
                             f"{i - n}: a size must be equal or 1")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


# ---------------------------------------------------------------- arrays as indices

def _split_key(key, ndim):
    """Basic items before arrays are applied, and the arrays: (basic key, position, arrays)."""
    key = key if isinstance(key, tuple) else (key,)
    used = sum(_count_axes(each) for each in key if each is not Ellipsis and each is not None)
    items = []
    for each in key:
        if each is Ellipsis:
            items += [slice(None)] * (ndim - used)
        else:
            items.append(each)
    items += [slice(None)] * (ndim - sum(_count_axes(each) for each in items if each is not None))
    return items


def _count_axes(item):
    if isinstance(item, Array) and item.dtype.name == "bool":
        return item.ndim
    return 1


def _as_index(item):
    if isinstance(item, (Array, slice)) or item is None or item is Ellipsis:
        return item
    if isinstance(item, bool):
        raise IndexError("True and False are no indices; use an array of bools")
    if isinstance(item, int):
        return item
    if isinstance(item, (list, tuple)) or hasattr(item, "__array__"):
        found = _core.convert(item)
        if found.dtype.is_float and found.size == 0:
            found = found.astype("i64")
        return found
    if hasattr(item, "__index__"):
        return item.__index__()
    raise IndexError(f"an index is an int, a slice, None, ... or an array of integers or bools, "
                     f"not a {type(item).__name__}")


def _prepare_arrays(array, key):
    """The view and the arrays of a key with arrays: (view, position of the first, [arrays])."""
    key = key if isinstance(key, tuple) else (key,)
    items = _split_key(tuple(_as_index(each) for each in key), array.ndim)
    items = _expand_bools(items)
    places = [i for i, each in enumerate(items) if isinstance(each, Array)]
    if any(each.dtype.is_float for each in items if isinstance(each, Array)):
        raise IndexError("arrays of floats are no indices; convert them with astype('i64')")
    if places[-1] - places[0] + 1 != len(places):
        raise IndexError("arrays in an index must be beside one another; use transpose() first")
    view = array[tuple(slice(None) if isinstance(each, Array) else each for each in items)]
    first = sum(1 for each in items[:places[0]] if not isinstance(each, int))
    return view, first, [items[i].astype("i64", copy=False) for i in places]


def _expand_bools(items):
    """Replaces arrays of bools by the indices of their true elements."""
    result = []
    for each in items:
        if isinstance(each, Array) and each.dtype.name == "bool":
            where = find_operator("tensor.nonzero")(each)
            result += [where[:, i] for i in range(each.ndim)]
        else:
            result.append(each)
    return result


def get_item(array, key):
    view, first, arrays = _prepare_arrays(array, key)
    if len(arrays) == 1:
        return find_operator("tensor.take")(view, _wrap(arrays[0], view.shape[first]), axis=first)
    order = [*range(first, first + len(arrays)), *range(first), *range(first + len(arrays), view.ndim)]
    moved = view.transpose(order)
    shape = broadcast_shapes(*(each.shape for each in arrays))
    wrapped = [_wrap(each, moved.shape[i]).broadcast_to(shape) for i, each in enumerate(arrays)]
    found = find_operator("tensor.gather_nd")(moved, find_operator("tensor.stack")(wrapped))
    back = [*range(len(shape), len(shape) + first), *range(len(shape)),
            *range(len(shape) + first, found.ndim)]
    return found.transpose(back)


def _wrap(indices, size):
    """Indices below 0 count from the end."""
    if size == 0 or indices.size == 0:
        return indices
    low = find_operator("tensor.min")(indices).item()
    high = find_operator("tensor.max")(indices).item()
    if low < -size or high >= size:
        from tenon._errors import OutOfRangeError
        raise OutOfRangeError(f"index {high if high >= size else low} is outside of an axis of "
                              f"size {size}")
    return indices if low >= 0 else find_operator("tensor.where")(indices < 0, indices + size,
                                                                 indices)


def set_item(array, key, value):
    view, first, arrays = _prepare_arrays(array, key)
    order = [*range(first, first + len(arrays)), *range(first), *range(first + len(arrays), view.ndim)]
    moved = view.transpose(order)
    shape = broadcast_shapes(*(each.shape for each in arrays))
    wrapped = [_wrap(each, moved.shape[i]).broadcast_to(shape) for i, each in enumerate(arrays)]
    rest = moved.shape[len(arrays):]
    value = convert_any(value, array).astype(array.dtype, copy=False)
    target = shape[:0] + view.shape[:first] + shape + view.shape[first + len(arrays):]
    wide = value.broadcast_to(target)
    there = [*range(first, first + len(shape)), *range(first),
             *range(first + len(shape), wide.ndim)]
    new = find_operator("tensor.scatter_nd_update")(
        moved, find_operator("tensor.stack")(wrapped), copy(wide.transpose(there)))
    assert new.shape[len(arrays):] == rest
    assign(moved, new)


def assign(view, value):
    """Overwrites the elements of a view."""
    value = convert_any(value, view)
    if value.shape != view.shape:
        if value.ndim > view.ndim and set(value.shape[:value.ndim - view.ndim]) <= {1}:
            value = value.reshape(value.shape[value.ndim - view.ndim:])
        value = value.broadcast_to(view.shape)
    if _core.get_recording() is not None and value.dtype == view.dtype:
        find_operator("elemwise.copy")(value, out=view)
    else:
        view._copy_from(value)


# ---------------------------------------------------------------------- methods

def _method(function):
    setattr(Array, function.__name__, function)
    return function


def _method_named(name):
    """A method with the name of a function that this file uses."""
    def add(function):
        function.__name__ = name
        return _method(function)
    return add


def _property(function):
    setattr(Array, function.__name__, property(function, doc=function.__doc__))
    return function


@_property
def dtype(self):
    """The element type, as tn.f32."""
    return BY_NUMBER[self._dtype_number]


@_property
def device(self):
    """The device, as "cpu(0)"."""
    kind, number = self._place
    return f"{_PLACES.get(kind, f'device {kind}')}({number})"


@_property
def itemsize(self):
    """The bytes of one element."""
    return self.dtype.itemsize


@_property
def nbytes(self):
    """The bytes of all elements."""
    return (self.size * self.dtype.bits + 7) // 8


@_property
def T(self):
    """The array with its axes in reverse order, a view."""
    return self._transpose(None)


@_method
def numpy(self, copy=True):
    """The elements as an array of NumPy: a copy, or with copy=False a view of the same memory,
    which must not be used while work that writes the array is pending.

        tn.ones((2, 2)).numpy().sum()
    """
    import numpy as np
    if not copy:
        return np.from_dlpack(self)
    source = self if self._place[0] == 1 else self.to("cpu")
    if source.dtype.bits < 8:
        return find_operator("elemwise.cast")(source, dtype="i8").numpy()
    out = np.empty(self.shape, self.dtype.numpy)
    source._read_into(out)
    return out


@_method
def __array__(self, dtype=None, copy=None):
    found = self.numpy() if copy is not False else self.numpy(copy=False)
    return found if dtype is None else found.astype(dtype, copy=False)


@_method
def tolist(self):
    """The elements as numbers in nested lists."""
    source = self if self.dtype.kind != "storage" and self.dtype.name != "bf16" else \
        self.astype("f32")
    return source.numpy().tolist()


@_method
def astype(self, dtype, copy=True):
    """The elements converted to another type: a new array, or with copy=False this one if it has
    the type already. The gradient is converted back.

        tn.array([1.5, 2.5]).astype("i32")
    """
    dtype = find_dtype(dtype)
    if dtype == self.dtype and not copy:
        return self
    if dtype.kind == "storage" or self.dtype.kind == "storage" or self.dtype.bits < 8:
        return find_operator("elemwise.cast")(self, dtype=dtype.name)
    if _core.get_recording() is not None and dtype.is_float and self.dtype.is_float:
        return find_operator("elemwise.cast")(self, dtype=dtype.name)
    return self._cast(dtype.number)


@_method
def to(self, place):
    """The array on another device, as "cpu" or "cuda(1)"; this array if it is there."""
    text = place if "(" in place else f"{place}(0)"
    return self if text == self.device else self._to_place(text)


@_method
def copy(self):
    """A new array with the same elements, dense and row-major."""
    return find_operator("elemwise.copy")(self)


@_method
def reshape(self, *shape):
    """The elements in another shape: a view if the layout allows it, else a copy. One size may be
    -1.

        tn.arange(6).reshape(2, 3)
    """
    shape = _spread(shape)
    try:
        return self._reshape(shape)
    except ValueError:
        if self.is_contiguous:
            raise
        return self.copy()._reshape(shape)


@_method
def view(self, dtype):
    """The same memory as elements of another type with the same size."""
    return self._bits(find_dtype(dtype).number)


@_method
def transpose(self, *axes):
    """The axes in another order, a view; without arguments in reverse order."""
    if not axes or axes == (None,):
        return self._transpose(None)
    return self._transpose(_spread(axes))


@_method
def swapaxes(self, first, second):
    """Two axes exchanged, a view."""
    order = list(range(self.ndim))
    order[first], order[second] = order[second], order[first]
    return self._transpose(order)


@_method
def broadcast_to(self, *shape):
    """A view that repeats the elements to a larger shape. It cannot be written."""
    shape = _spread(shape)
    return self if shape == self.shape else self._broadcast(shape)


@_method
def squeeze(self, axis=None):
    """A view without axes of size 1: all of them, or those named."""
    if axis is None:
        return self._reshape(tuple(each for each in self.shape if each != 1))
    axes = {each % self.ndim for each in (axis if isinstance(axis, (tuple, list)) else (axis,))}
    if max(self.shape[each] for each in axes) != 1:
        from tenon._errors import ShapeError
        raise ShapeError(f"axis {sorted(axes)} of shape {self.shape} does not have size 1")
    return self._reshape(tuple(n for i, n in enumerate(self.shape) if i not in axes))


@_method
def flatten(self):
    """A copy with one axis."""
    return self.copy()._reshape((-1,))


@_method
def ravel(self):
    """The elements with one axis: a view if the layout allows it."""
    return self.reshape(-1)


def _spread(values):
    if len(values) == 1 and not isinstance(values[0], int):
        return tuple(values[0])
    return tuple(values)


def _reduction(name, doc):
    def reduce(self, axis=None, keepdims=False):
        return _reduce(name, self, axis, keepdims)
    reduce.__name__ = name
    reduce.__doc__ = f"{doc} over all axes or over `axis`, an int or a tuple."
    setattr(Array, name, reduce)


def _reduce(name, array, axis, keepdims):
    op = find_operator(f"tensor.{name}")
    if axis is None:
        return op(array, keepdims=True).reshape((1,) * array.ndim) if keepdims else op(array)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return op(array, axis=axes, keepdims=keepdims)


for _name, _doc in (("sum", "The sum"), ("mean", "The mean"), ("prod", "The product"),
                    ("max", "The greatest element"), ("min", "The least element")):
    _reduction(_name, _doc)


@_method_named("any")
def _any(self, axis=None, keepdims=False):
    """Whether any element is not 0, of all or along `axis`: an array of bools."""
    return _reduce("max", (self != 0).astype("u8"), axis, keepdims).astype("bool")


@_method_named("all")
def _all(self, axis=None, keepdims=False):
    """Whether all elements are not 0, of all or along `axis`: an array of bools."""
    return _reduce("min", (self != 0).astype("u8"), axis, keepdims).astype("bool")


@_method
def argmax(self, axis=None, keepdims=False):
    """The index of the greatest element: of all, or along an axis."""
    return _find_index("argmax", self, axis, keepdims)


@_method
def argmin(self, axis=None, keepdims=False):
    """The index of the least element: of all, or along an axis."""
    return _find_index("argmin", self, axis, keepdims)


def _find_index(name, array, axis, keepdims):
    op = find_operator(f"tensor.{name}")
    found = op(array.reshape(-1), axis=0) if axis is None else op(array, axis=axis,
                                                                 keepdims=keepdims)
    return found if found.dtype.name == "i64" else found.astype("i64")


@_method
def __repr__(self):
    try:
        body = repr_elements(self)
    except Exception as error:  # the elements could not be computed
        return f"<array of shape {self.shape} and type {self.dtype}: {error}>"
    place = "" if self.device == "cpu(0)" else f", device={self.device!r}"
    plain = self.dtype.name in ("f32", "i64", "bool") and self.size > 0
    kind = "" if plain else f", dtype={self.dtype}"
    return f"array({body}{kind}{place})"


def repr_elements(array):
    import numpy as np
    source = array if array.dtype.is_float and array.dtype.name != "bf16" else \
        array.astype("f32") if array.dtype.kind in ("float", "storage") else array
    return np.array2string(source.numpy(), separator=", ", prefix="array(")


@_method
def __str__(self):
    import numpy as np
    source = self.astype("f32") if self.dtype.name == "bf16" or self.dtype.kind == "storage" \
        else self
    return np.array2string(source.numpy())


@_method
def __format__(self, spec):
    return format(self.item(), spec) if self.ndim == 0 and spec else str(self)


@_method
def __iter__(self):
    return (self[i] for i in range(len(self)))


@_method
def __float__(self):
    return float(self.item())


@_method
def __int__(self):
    return int(self.item())


@_method
def __index__(self):
    if self.dtype.is_float:
        raise TypeError(f"an array of {self.dtype} is no integer; use int()")
    return int(self.item())


@_method
def __contains__(self, value):
    return bool((self == value).numpy().any())


@_method
def __reduce__(self):
    return (_restore, (self.numpy() if self.dtype.kind != "storage" else self.tolist(),
                       self.dtype.name))


def _restore(values, name):
    return _core.convert(values).astype(name, copy=False)


@_method
def __copy__(self):
    return self.copy()


@_method
def __deepcopy__(self, memo):
    return self.copy()


@_method
def attach_grad(self, request="write"):
    """Asks for a gradient: tapes watch the array from now on, and backward() writes `grad`;
    request "add" adds to it instead, until it is set to None. Only arrays of floats.

        w.attach_grad()
        with tn.record():
            loss = ((w * x - y) ** 2).sum()
        loss.backward()
        print(w.grad)
    """
    numbers = {"write": 1, "add": 3, None: 0, "null": 0}
    if request not in numbers:
        raise ValueError(f"the request of a gradient is 'write', 'add' or None, not {request!r}")
    if not self.dtype.is_float and numbers[request]:
        raise _dtype_error(f"an array of {self.dtype} has no gradient; convert it to a float type")
    self._request_gradient(numbers[request])
    self.grad = None
    return self


@_method
def backward(self, gradient=None, keep=False):
    """Computes the gradients of the sum of this array, weighted by `gradient`, with respect to all
    arrays that the tape watches, and stores them as their `grad`. With keep=True the tape can be
    used again."""
    from tenon import autograd
    autograd.backward([self], None if gradient is None else [gradient], keep)


@_method
def detach(self):
    """A copy through which no gradient passes."""
    tape = _core.get_recording() or self._tape
    return self.copy() if tape is None else tape.detach(self)


Array.__array_priority__ = 100  # NumPy's operators leave mixed operands to those of Array

# Docs of types only: an Array can be compared with DType through `dtype`.
__all__ = ["Array", "DType"]
