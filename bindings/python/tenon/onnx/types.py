# SPDX-License-Identifier: Apache-2.0
"""Element types: the numbers of ONNX, the names of Tenon, and the types of NumPy."""

from typing import Dict, Optional

import ml_dtypes
import numpy as np
from onnx import TensorProto

from .errors import OnnxError

STRING = "string"

_ROWS = (
    ("FLOAT", "f32", np.float32),
    ("UINT8", "u8", np.uint8),
    ("INT8", "i8", np.int8),
    ("UINT16", "u16", np.uint16),
    ("INT16", "i16", np.int16),
    ("INT32", "i32", np.int32),
    ("INT64", "i64", np.int64),
    ("BOOL", "bool", np.bool_),
    ("FLOAT16", "f16", np.float16),
    ("DOUBLE", "f64", np.float64),
    ("UINT32", "u32", np.uint32),
    ("UINT64", "u64", np.uint64),
    ("BFLOAT16", "bf16", ml_dtypes.bfloat16),
    ("FLOAT8E4M3FN", "f8e4m3fn", ml_dtypes.float8_e4m3fn),
    ("FLOAT8E4M3FNUZ", "f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    ("FLOAT8E5M2", "f8e5m2", ml_dtypes.float8_e5m2),
    ("FLOAT8E5M2FNUZ", "f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    ("FLOAT8E8M0", "f8e8m0", getattr(ml_dtypes, "float8_e8m0fnu", None)),
    ("FLOAT4E2M1", "f4e2m1", getattr(ml_dtypes, "float4_e2m1fn", None)),
    ("INT4", "i4", ml_dtypes.int4),
    ("UINT4", "u4", ml_dtypes.uint4),
    ("INT2", "i2", getattr(ml_dtypes, "int2", None)),
    ("UINT2", "u2", getattr(ml_dtypes, "uint2", None)),
)

_NAMES: Dict[int, str] = {}
_NUMBERS: Dict[str, int] = {}
_NUMPY: Dict[str, np.dtype] = {}
_OF_NUMPY: Dict[np.dtype, str] = {}

for _onnx_name, _name, _numpy in _ROWS:
    _number = getattr(TensorProto, _onnx_name, None)
    if _number is not None:
        _NAMES[_number] = _name
        _NUMBERS[_name] = _number
    if _numpy is not None:
        _NUMPY[_name] = np.dtype(_numpy)
        _OF_NUMPY[np.dtype(_numpy)] = _name
_NAMES[TensorProto.STRING] = STRING
_NUMBERS[STRING] = TensorProto.STRING

FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
PACKED = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}
STORAGE = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0") + tuple(PACKED)


def name_of_type(number: int) -> str:
    """Returns Tenon's name of an element type of ONNX: `name_of_type(1)` is "f32"."""
    name = _NAMES.get(number)
    if name is None:
        known = TensorProto.DataType.Name(number) if number in _data_types() else str(number)
        raise OnnxError(f"the element type {known} has no equivalent in Tenon")
    return name


def _data_types() -> list:
    return list(TensorProto.DataType.values())


def number_of_type(name: str) -> int:
    """Returns the number that ONNX has for a type: `number_of_type("f32")` is 1."""
    return _NUMBERS[name]


def numpy_type(name: str) -> np.dtype:
    """Returns the type of NumPy: `numpy_type("i64")` is dtype('int64')."""
    if name == STRING:
        return np.dtype(object)
    found = _NUMPY.get(name)
    if found is None:
        raise OnnxError(f"this version of ml_dtypes has no type for {name}; install a newer one")
    return found


def type_of_numpy(dtype: np.dtype) -> str:
    """Returns Tenon's name of a type of NumPy: `type_of_numpy(np.dtype("f4"))` is "f32"."""
    name: Optional[str] = _OF_NUMPY.get(np.dtype(dtype))
    if name is not None:
        return name
    if np.dtype(dtype).kind in "OUS":
        return STRING
    raise OnnxError(f"arrays of {dtype} have no equivalent in Tenon")
