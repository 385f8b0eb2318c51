# SPDX-License-Identifier: Apache-2.0
"""Converts values of Python for C: parameters as text, element types, shapes, devices.

    format_params({"kernel": (3, 3), "no_bias": True})    # 'kernel=[3,3] no_bias=true'
"""

import ctypes
import math

from tenon import _api
from tenon._binding import encode

_NUMPY_NAMES = {"float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
                "bool_": "bool", **{f"{kind}{bits}": f"{kind[0]}{bits}" for bits in (8, 16, 32, 64)
                                    for kind in ("int", "uint")}}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


# ---------------------------------------------------------------- parameters

def _format_text(value):
    if value and all(each.isalnum() or each in "_.:/@+-" for each in value) and value != "None":
        return value
    return '"' + "".join(_ESCAPES.get(each, each) for each in value) + '"'


def _format_number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return repr(value)


def format_value(value):
    """A value of a parameter in the text form of the core."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # a NumPy array or scalar
        value = value.tolist()
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _format_number(value)
    if isinstance(value, str):
        return _format_text(value)
    if isinstance(value, (list, tuple, range)):
        return "[" + ",".join(format_value(each) for each in value) + "]"
    name = get_dtype_name(value)
    if name is None:
        raise TypeError(f"a parameter cannot be of type {type(value).__name__}: pass a number, a "
                        "text, True, False, None, an element type, or a list of numbers")
    return name


def format_params(params):
    """Parameters as the text `key=value key=value`."""
    return " ".join(f"{key}={format_value(value)}" for key, value in dict(params).items())


# ------------------------------------------------------------- element types

def get_dtype_name(dtype):
    """The library's name of an element type: of "f32", tn.f32, numpy.float32; None if unknown."""
    if not isinstance(dtype, (str, type)) and not hasattr(dtype, "name"):
        return None
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    if not isinstance(name, str):
        name = getattr(dtype, "__name__", "")
        if dtype in (float, int, bool):
            return {float: "f32", int: "i64", bool: "bool"}[dtype]
    return _NUMPY_NAMES.get(name, name)


def get_dtype_code(dtype):
    """The number of an element type in C."""
    name = get_dtype_name(dtype)
    if name is None:
        raise TypeError(f"{dtype!r} is no element type; use a name such as \"f32\"")
    code = _api.tn_dtype()
    _api.tn_dtype_parse(encode(name), ctypes.byref(code))
    return code.value


# -------------------------------------------------------------------- shapes

def is_shape(value):
    """Whether the value is a list of dimensions; an unknown one is None."""
    return isinstance(value, (tuple, list)) and all(
        each is None or (hasattr(each, "__index__") and not isinstance(each, bool))
        for each in value)


def make_sig(shape=None, dtype=None):
    """The tn_sig of a shape, in which None is unknown, and an element type."""
    sig = _api.tn_sig(ndim=-1)
    if dtype is not None:
        sig.dtype = get_dtype_code(dtype)
    if shape is None:
        return sig
    if not is_shape(shape):
        raise TypeError(f"{shape!r} is no shape: pass a tuple of dimensions, None where one is "
                        "unknown")
    if len(shape) > _api.TN_MAX_NDIM:
        raise ValueError(f"a shape has at most {_api.TN_MAX_NDIM} dimensions; "
                         f"this one has {len(shape)}")
    sig.ndim = len(shape)
    for i, each in enumerate(shape):
        size = -1 if each is None else each.__index__()
        if (each is not None and size < 0) or size >= 1 << 63:
            raise ValueError(f"dimension {i} of the shape {tuple(shape)} is {each}; pass a number "
                             "from 0 to 2^63 - 1, or None if it is unknown")
        sig.shape[i] = size
    return sig


def read_shape(sig):
    """The shape of a tn_sig; None if the number of dimensions is unknown."""
    if sig.ndim < 0:
        return None
    return tuple(None if each < 0 else each for each in sig.shape[:sig.ndim])


def read_dtype(sig):
    """The name of the element type of a tn_sig, or None."""
    return _api.tn_dtype_name(sig.dtype) if sig.dtype != _api.TN_DTYPE_UNKNOWN else None


# ------------------------------------------------------------------- devices

def make_place(runtime, place):
    """The tn_place of "cuda(1)", or of an object whose text is that."""
    out = _api.tn_place()
    _api.tn_place_parse(runtime, encode(str(place)), ctypes.byref(out))
    return out


# --------------------------------------------------------------------- lists

def make_texts(values):
    """A C list of texts; None for an empty one."""
    values = [encode(each) for each in values]
    return (ctypes.c_char_p * len(values))(*values) if values else None


def make_list(kind, values):
    """A C list of structs; None for an empty one."""
    return (kind * len(values))(*values) if values else None


def make_attributes(attributes):
    """A C list of attributes of nodes. Values become text; True is "1", False "0"."""
    return make_list(_api.tn_attribute, [
        _api.tn_attribute(key=encode(key), value=encode(
            str(int(value)) if isinstance(value, bool) else str(value)))
        for key, value in attributes.items()])
