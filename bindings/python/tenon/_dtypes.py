# SPDX-License-Identifier: Apache-2.0
"""Element types: tn.f32, tn.bf16, tn.i64 ..."""

from tenon._errors import DtypeError


class DType:
    """An element type. `name` is Tenon's, as "f32"; `itemsize` its bytes, 0 if several elements
    share a byte. Functions that take a type accept its name, too, and types of NumPy.

        tn.zeros((2, 3), dtype=tn.bf16)
        tn.zeros((2, 3), dtype="bf16")
    """

    __slots__ = ("name", "number", "kind", "bits")

    def __init__(self, name, number):
        self.name = name
        self.number = number
        self.bits = number >> 8 & 0xff
        self.kind = _KINDS.get(number & 0xff, "storage")

    @property
    def itemsize(self):
        return self.bits // 8

    @property
    def is_float(self):
        return self.kind == "float"

    @property
    def can_compute(self):
        """Whether operators compute in it; other types only store elements."""
        return self.kind != "storage" and self.bits >= 8

    @property
    def is_plain(self):
        """Whether NumPy has it without the package ml_dtypes."""
        return self.can_compute and self.name != "bf16"

    @property
    def range(self):
        """The least and the greatest value of an integer type."""
        if self.kind == "int":
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1

    @property
    def numpy(self):
        """The type of NumPy; bf16 and the types of 8 and fewer bits need the package ml_dtypes."""
        return _find_numpy(self)

    def __repr__(self):
        return f"tenon.{self.name}"

    def __str__(self):
        return self.name

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        if isinstance(other, DType):
            return self.number == other.number
        try:
            return self.number == find_dtype(other).number
        except (TypeError, ValueError):
            return NotImplemented

    def __reduce__(self):
        return (find_dtype, (self.name,))


_KINDS = {0: "int", 1: "uint", 2: "float", 4: "float", 6: "bool"}

# The codes of DLPack and the bits, as in tenon/plugin/tensor.h.
_TABLE = {
    "f16": (2, 16), "bf16": (4, 16), "f32": (2, 32), "f64": (2, 64),
    "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64), "bool": (6, 8),
    "f8e4m3fn": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8), "f8e5m2fnuz": (13, 8),
    "f8e8m0": (14, 8), "f4e2m1": (17, 4), "i4": (0, 4), "u4": (1, 4), "i2": (0, 2), "u2": (1, 2),
}
BY_NAME = {name: DType(name, code | bits << 8 | 1 << 16) for name, (code, bits) in _TABLE.items()}
BY_NUMBER = {each.number: each for each in BY_NAME.values()}

# Names of NumPy and of ml_dtypes.
_NUMPY_NAMES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "bool": "bool",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn",
    "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}
_ALIASES = {numpy: BY_NAME[own] for own, numpy in _NUMPY_NAMES.items()}
_ALIASES.update({"bool_": BY_NAME["bool"], "half": BY_NAME["f16"], "single": BY_NAME["f32"],
                 "double": BY_NAME["f64"]})
_PYTHON = {float: BY_NAME["f32"], int: BY_NAME["i64"], bool: BY_NAME["bool"]}


def find_dtype(value):
    """The DType of a DType, a name, a type of NumPy, or `float`, `int` and `bool`."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        found = BY_NAME.get(value) or _ALIASES.get(value)
        if found:
            return found
        import difflib
        near = difflib.get_close_matches(value, [*BY_NAME, *_ALIASES], 1)
        raise ValueError(f"unknown element type {value!r}"
                         + (f"; did you mean {near[0]!r}?" if near else
                            f"; there are {', '.join(BY_NAME)}"))
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in BY_NUMBER:
        return BY_NUMBER[value]
    import numpy
    try:
        if value is None:
            raise TypeError
        name = numpy.dtype(value).name
    except TypeError:
        raise TypeError(f"{value!r} is no element type; pass a name such as 'f32', or a type of "
                        "NumPy") from None
    found = _ALIASES.get(name)
    if found is None:
        raise DtypeError(f"arrays cannot have elements of NumPy's type {name}; convert them with "
                         "astype() first")
    return found


def _find_numpy(dtype):
    import numpy
    name = _NUMPY_NAMES[dtype.name]
    if dtype.is_plain:
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"NumPy has no type for {dtype.name}: install the package ml_dtypes, or "
                        "convert with astype('f32') first") from None
    return numpy.dtype(getattr(ml_dtypes, name))


def promote(a, b):
    """The type of a result of two arrays with these types: NumPy's rules, but an integer beside a
    float gets the type of the float, and bf16 beside f16 is f32.

        promote(tn.i64, tn.f32) is tn.f32
    """
    a, b = find_dtype(a), find_dtype(b)
    if a == b:
        return a
    if "storage" in (a.kind, b.kind) or min(a.bits, b.bits) < 8:
        raise DtypeError(f"{a} and {b} have no common type; nothing computes in storage types, "
                         "convert with tn.ops.elemwise.cast or dequantize first")
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if {a.name, b.name} == {"f16", "bf16"}:
        return BY_NAME["f32"]
    if a.is_float:
        return a if a.bits > b.bits else b
    import numpy
    found = numpy.promote_types(a.numpy, b.numpy).name
    return BY_NAME["f64"] if found == "float64" else _ALIASES[found]


for _each in BY_NAME.values():
    globals()[_each.name] = _each

