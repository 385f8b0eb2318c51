# SPDX-License-Identifier: Apache-2.0
"""Element-wise arithmetic, comparisons, logic, and conversions of type."""

from typing import Optional


from .. import types
from ..node import Node
from ..registry import ML, converter
from ..values import Value, make_constant

_UNARY = {
    "Abs": "abs",
    "Neg": "negative",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round_even",
    "Sign": "sign",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "arcsin",
    "Acos": "arccos",
    "Atan": "arctan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "arcsinh",
    "Acosh": "arccosh",
    "Atanh": "arctanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "BitwiseNot": "bitwise_not",
}


@converter(*_UNARY, since=6)
def convert_unary(node: Node, x: Value) -> Value:
    """Functions of one element."""
    return node.build.compute("elemwise." + _UNARY[node.proto.op_type], x)


@converter("Add", "Sub", "Mul", "Div", since=7)
def convert_arithmetic(node: Node, x: Value, y: Value) -> Value:
    """Arithmetic with broadcasting."""
    return getattr(node.build, node.proto.op_type.lower())(x, y)


@converter("Sum", "Max", "Min", since=6)
def convert_variadic(node: Node, *inputs: Value) -> Value:
    """Sums and extremes of any number of arrays."""
    name = {"Sum": "add", "Max": "maximum", "Min": "minimum"}[node.proto.op_type]
    result = inputs[0]
    for value in inputs[1:]:
        result = node.build.binary(name, result, value)
    return result


@converter("Mean", since=6)
def convert_mean(node: Node, *inputs: Value) -> Value:
    """Mean of several arrays."""
    return node.build.scale(convert_sum(node, *inputs), 1 / len(inputs))


def convert_sum(node: Node, *inputs: Value) -> Value:
    """Adds several arrays with broadcasting."""
    result = inputs[0]
    for value in inputs[1:]:
        result = node.build.add(result, value)
    return result


@converter("Mod", since=10)
def convert_mod(node: Node, x: Value, y: Value) -> Value:
    """Remainders with the sign of the divisor, or with `fmod` of the dividend."""
    fmod = node.attribute("fmod", 0)
    if not fmod and x.dtype in types.FLOATS and node.opset < 28:
        raise node.refuse("`fmod` is 0, which is for integers only before opset 28")
    build = node.build
    if fmod or x.dtype not in types.FLOATS:
        return build.call("elemwise.fmod" if fmod else "elemwise.broadcast_mod", x, y)
    result = build.call("elemwise.broadcast_mod", x, y)
    by_zero = build.call("elemwise.is_equal", y, build.full((), 0, y.dtype))
    infinite = build.call("elemwise.is_inf", x)
    undefined = build.call("elemwise.logical_or", by_zero, infinite)
    return build.where(undefined, build.full((), float("nan"), x.dtype), result)


@converter("Pow", since=7)
def convert_pow(node: Node, x: Value, y: Value) -> Value:
    """Powers, in the type of the base."""
    build = node.build
    if x.dtype in types.FLOATS:
        return build.binary("power", x, build.cast(y, x.dtype))
    result = build.binary("power", build.cast(x, "f64"), build.cast(y, "f64"))
    return build.cast(result, x.dtype)


@converter("BitShift", since=11)
def convert_shift(node: Node, x: Value, y: Value) -> Value:
    """Shifts of bits."""
    direction = node.attribute("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.refuse(f"`direction` is {direction!r}, neither LEFT nor RIGHT")
    return node.build.call(f"elemwise.{direction.lower()}_shift", x, y)


_LOGIC = {
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Equal": "is_equal",
    "Greater": "is_greater",
    "GreaterOrEqual": "is_greater_equal",
    "Less": "is_less",
    "LessOrEqual": "is_less_equal",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}


@converter(*_LOGIC, since=7)
def convert_logic(node: Node, x: Value, y: Value) -> Value:
    """Comparisons, logic, and logic of bits."""
    if types.STRING in (x.dtype, y.dtype):
        raise node.refuse("Tenon has no strings")
    return node.build.call("elemwise." + _LOGIC[node.proto.op_type], x, y)


@converter("Not")
def convert_not(node: Node, x: Value) -> Value:
    """Negation."""
    return node.build.call("elemwise.logical_not", x)


@converter("IsNaN", since=9)
def convert_is_nan(node: Node, x: Value) -> Value:
    """Marks NaN."""
    return node.build.call("elemwise.is_nan", x)


@converter("IsInf", since=10)
def convert_is_inf(node: Node, x: Value) -> Value:
    """Marks infinities of one sign or both."""
    return node.build.call(
        "elemwise.is_inf",
        x,
        detect_negative=bool(node.attribute("detect_negative", 1)),
        detect_positive=bool(node.attribute("detect_positive", 1)),
    )


@converter("Where", since=9)
def convert_where(node: Node, condition: Value, x: Value, y: Value) -> Value:
    """Chooses elements by a condition."""
    if x.dtype == types.STRING:
        raise node.refuse("Tenon has no strings")
    return node.build.where(condition, x, y)


@converter("Clip", since=11)
def convert_clip(
    node: Node, x: Value, low: Optional[Value] = None, high: Optional[Value] = None
) -> Value:
    """Bounds that are inputs; where they cross, the upper one wins."""
    if low is not None:
        x = node.build.binary("maximum", x, low)
    if high is not None:
        x = node.build.binary("minimum", x, high)
    return x


@converter("Clip", since=6)
def convert_clip_6(node: Node, x: Value) -> Value:
    """Bounds that are attributes."""
    low = node.attribute("min", -float("inf"))
    high = node.attribute("max", float("inf"))
    return node.build.call("elemwise.clip", x, a_min=low, a_max=high)


@converter("Cast", since=6)
def convert_cast(node: Node, x: Value) -> Value:
    """Conversion to the type `to`."""
    return cast_value(node, x, types.name_of_type(node.attribute("to")))


@converter("CastLike", since=15)
def convert_cast_like(node: Node, x: Value, like: Value) -> Value:
    """Conversion to the type of another value."""
    return cast_value(node, x, like.dtype)


def cast_value(node: Node, x: Value, dtype: str) -> Value:
    """Converts elements with the attributes of `Cast`."""
    if types.STRING in (x.dtype, dtype):
        if x.dtype == dtype:
            return x
        if x.constant is None or dtype == types.STRING:
            raise node.refuse("Tenon has no strings")
        return make_constant(x.constant.astype(types.numpy_type(dtype)))
    build = node.build
    if x.dtype in types.FLOATS and dtype in ("i4", "u4", "i2", "u2"):
        x = build.cast(x, "i32")
    if x.dtype in types.FLOATS and dtype == "f4e2m1":
        x = build.where(build.call("elemwise.is_nan", x), build.full((), -0.0, x.dtype), x)
    options = {}
    if dtype.startswith("f8"):
        options["saturate"] = bool(node.attribute("saturate", 1))
    if dtype == "f8e8m0":
        options["round_mode"] = node.attribute("round_mode", "up")
    return build.cast(x, dtype, **options)


@converter("BitCast", since=26)
def convert_bit_cast(node: Node, x: Value) -> Value:
    """The same bits as another type."""
    dtype = types.name_of_type(node.attribute("to"))
    if types.STRING in (x.dtype, dtype):
        raise node.refuse("Tenon has no strings")
    if dtype == x.dtype:
        return x
    if x.dtype == "bool":
        x = node.build.cast(x, "u8")
    if dtype != "bool":
        return node.build.call("tensor.bit_cast", x, dtype=dtype)
    return node.build.cast(node.build.call("tensor.bit_cast", x, dtype="u8"), "bool")


@converter("Binarizer", domain=ML)
def convert_binarizer(node: Node, x: Value) -> Value:
    """1 where an element is above a threshold, elsewhere 0."""
    threshold = make_constant(node.attribute("threshold", 0.0), x.dtype)
    return node.build.cast(node.build.call("elemwise.is_greater", x, threshold), x.dtype)


@converter("Det", since=11)
def convert_det(node: Node, x: Value) -> Value:
    """Determinants of square matrices."""
    build = node.build
    if x.dtype in ("f32", "f64"):
        return build.call("linalg.det", x)
    return build.cast(build.call("linalg.det", build.cast(x, "f32")), x.dtype)


@converter("CumSum", since=11)
def convert_cumsum(node: Node, x: Value, axis: Value) -> Value:
    """Running sums."""
    return _convert_running(node, "tensor.cumsum", x, axis)


@converter("CumProd", since=26)
def convert_cumprod(node: Node, x: Value, axis: Value) -> Value:
    """Running products."""
    return _convert_running(node, "tensor.cumprod", x, axis)


def _convert_running(node: Node, operator: str, x: Value, axis: Value) -> Value:
    return node.build.call(
        operator,
        x,
        axis=node.axis(node.integers(axis, "axis")[0], x.rank),
        exclusive=bool(node.attribute("exclusive", 0)),
        reverse=bool(node.attribute("reverse", 0)),
    )


