# SPDX-License-Identifier: Apache-2.0
"""Arrays of any object: numbers, lists, arrays of NumPy and of other packages."""

from tenon import _core
from tenon._dtypes import find_dtype
from tenon.ops import find_operator

Array = _core.Array


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
