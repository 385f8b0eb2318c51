# SPDX-License-Identifier: Apache-2.0
"""The methods of arrays that need no speed, and the slow cases that tenon._core hands over."""

import os

from tenon import _core
# Most of these are for tenon._core, which finds them here.
from tenon._arithmetic import binary, broadcast_shapes, matmul, truth  # noqa: F401
from tenon._convert import Array, convert, convert_any, dtype_number, make_array  # noqa: F401
from tenon._dtypes import BY_NAME, BY_NUMBER, DType, find_dtype
from tenon._errors import DtypeError, OutOfRangeError, ShapeError
from tenon._indexing import assign, get_item, record_item, set_item  # noqa: F401
from tenon.ops import find_operator

_core.set_folder(os.path.dirname(os.path.abspath(__file__)) + os.sep)
_PLACES = {1: "cpu", 2: "cuda", 3: "cuda_host"}


# ------------------------------------------------------------------ for the core

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
        raise OutOfRangeError(f"axis {axis} is outside of an array with {self.ndim} dimensions")
    axes = {each % self.ndim for each in axes}
    if any(self.shape[each] != 1 for each in axes):
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
        raise DtypeError(f"an array of {self.dtype} has no gradient; convert it to a float type")
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
