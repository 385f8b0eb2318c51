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
        # A copy, and now: its owner may change the elements after the call.
        return _core.from_dlpack(value).copy().wait()
    import numpy
    if not isinstance(value, (list, tuple, range)) and not hasattr(value, "__array__") and \
            not hasattr(value, "__array_interface__"):
        raise TypeError(f"cannot make an array of a {type(value).__name__}: pass a number, lists "
                        "of numbers, or an array of NumPy or of another package")
    if _has_arrays(value):
        return find_operator("tensor.stack")([convert_any(each) for each in value])
    found = _read_lists(value, None)
    if found.dtype == numpy.float64 and not isinstance(value, numpy.ndarray) and \
            not hasattr(value, "__array__"):
        found = found.astype(numpy.float32)
    return from_numpy(found)


def _has_arrays(value):
    return isinstance(value, (list, tuple)) and any(isinstance(each, Array) for each in value)


def _read_lists(value, dtype):
    import numpy
    try:
        return numpy.asarray(value, dtype)
    except ValueError as error:
        raise ValueError(f"the lists do not form an array: {error}") from None


def make_array(value, dtype):
    """An array of a type, of any object. Numbers of Python are read as this type at once, so that
    no digit is lost on the way; those outside of its range raise OverflowError."""
    dtype = find_dtype(dtype)
    is_number = isinstance(value, (bool, int, float, list, tuple, range))
    if is_number and not _has_arrays(value) and dtype.is_plain:
        return from_numpy(_read_lists(value, dtype.numpy))
    return convert_any(value).astype(dtype, copy=False)


def from_numpy(value):
    """A copy of an array of NumPy, of any layout and byte order."""
    import numpy
    if value.dtype.hasobject or value.dtype.kind in "USmMOc" or value.dtype.fields:
        raise TypeError(f"arrays cannot have elements of NumPy's type {value.dtype}: they are "
                        "real numbers or bools")
    dtype = find_dtype(value.dtype)
    if value.ndim > 16:
        raise ValueError(f"{value.ndim} dimensions; arrays have at most 16")
    native = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
    dense = numpy.require(value, native, ["C", "A"]).reshape(value.shape)
    if dtype.is_plain:
        return _core.convert(dense)
    if dtype.bits < 8:
        raise TypeError(f"NumPy keeps {dtype} in whole bytes; pass i8 or u8, and quantize")
    wide = _core.convert(dense.view(numpy.uint16 if dtype.bits == 16 else numpy.uint8))
    return wide._bits(dtype.number)


def convert_any(value, like=None):
    return value if isinstance(value, Array) else _core.convert_like(value, like)


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
        raise _dtype_error(f"the result has type {dtype}, but the array that it would go into has "
                           f"{out.dtype}; write a = a {_SIGNS.get(name, name)} b")
    if name == "power" and not dtype.is_float:
        result = _raise_integers(left, right)
        return result if out is None else assign(out, result) or out
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


def _dtype_error(text):
    from tenon._errors import DtypeError
    return DtypeError(text)


def make_range_error(text):
    from tenon._errors import OutOfRangeError
    return OutOfRangeError(text)


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
            from tenon._errors import ShapeError
            raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not fit together at axis "
                             f"{i - n}: a size must be equal or 1")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def item(array):
    """The number of an array of a type that only stores elements."""
    return find_operator("elemwise.cast")(array, dtype="f32" if array.dtype.bits >= 8 or
                                          array.dtype.kind == "storage" else "i32").item()


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
    if copy is not None and not copy:
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
    if dtype is None or found.dtype == dtype:
        return found
    if copy is False:
        raise ValueError(f"the elements have type {self.dtype}; as {dtype} they need a copy")
    return found.astype(dtype)




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
    if not (dtype.can_compute and self.dtype.can_compute):
        return find_operator("elemwise.cast")(self, dtype=dtype.name)
    if _core.get_recording() is not None and dtype.is_float and self.dtype.is_float:
        return find_operator("elemwise.cast")(self, dtype=dtype.name)
    return self._cast(dtype.number)


@_method
def to(self, place):
    """The array on another device, as "cpu" or "cuda(1)"; this array if it is there."""
    if not isinstance(place, str):
        raise TypeError(f"a device is a text, as 'cuda(1)', not a {type(place).__name__}")
    text = place if "(" in place else f"{place}(0)"
    return self if text == self.device else self._to_place(text)


@_method
def copy(self):
    """A new array with the same elements, dense and row-major."""
    if self.dtype.is_float:
        return find_operator("elemwise.copy")(self)
    return self._cast(self.dtype.number)


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
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    if any(not -self.ndim <= each < self.ndim for each in axes):
        raise make_range_error(f"axis {axis} is outside of an array with {self.ndim} dimensions")
    axes = {each % self.ndim for each in axes}
    if any(self.shape[each] != 1 for each in axes):
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
    if len(values) == 1 and not hasattr(values[0], "__index__"):
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
    dtype = array.dtype
    if dtype.kind in ("int", "uint", "bool"):
        array = array.astype(_reduction_type(name, dtype), copy=False)
        if dtype.name == "bool" and name in ("max", "min"):
            return _reduce(name, array, axis, keepdims).astype(dtype)
    if axis is None:
        return op(array, keepdims=True).reshape((1,) * array.ndim) if keepdims else op(array)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return op(array, axis=axes, keepdims=keepdims) if axes else array.copy()


def _reduction_type(name, dtype):
    """The type in which integers and bools are reduced."""
    if name == "mean":
        return BY_NAME["f32"]
    if name in ("sum", "prod"):
        return BY_NAME["u64" if dtype.kind == "uint" else "i64"]
    return BY_NAME["u8"] if dtype.name == "bool" else dtype


for _name, _doc in (("sum", "The sum"), ("mean", "The mean"), ("prod", "The product"),
                    ("max", "The greatest element"), ("min", "The least element")):
    _reduction(_name, _doc)


@_method_named("any")
def _any(self, axis=None, keepdims=False):
    """Whether any element is not 0, of all or along `axis`: an array of bools."""
    return (self != 0).astype("u8").sum(axis, keepdims) != 0


@_method_named("all")
def _all(self, axis=None, keepdims=False):
    """Whether all elements are not 0, of all or along `axis`: an array of bools."""
    return (self == 0).astype("u8").sum(axis, keepdims) == 0


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
    if array.dtype.name == "bool":
        array = array.astype("u8")
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
def __reversed__(self):
    return iter(self[::-1])


@_method
def __float__(self):
    return float(self.item())


@_method
def __int__(self):
    return int(self.item())


@_method
def __index__(self):
    if self.dtype.kind not in ("int", "uint"):
        raise TypeError(f"an array of {self.dtype} is no integer; use int()")
    return int(self.item())


@_method
def __contains__(self, value):
    found = self == value
    return isinstance(found, Array) and bool(found.numpy().any())


@_method
def __reduce__(self):
    if self.dtype.is_plain or self.dtype.bits < 8:
        return _restore, (self.numpy(), self.dtype.name)
    return _restore_bits, (self.copy().view(f"u{self.dtype.bits}").numpy(), self.dtype.name)


def _restore(values, name):
    return _core.convert(values).astype(name, copy=False)


def _restore_bits(values, name):
    return _core.convert(values).view(name)


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

# That module uses the functions above; the core finds its functions here.
from tenon._indexing import assign, get_item, record_item, set_item  # noqa: E402, F401

# Docs of types only: an Array can be compared with DType through `dtype`.
__all__ = ["Array", "DType"]
