# SPDX-License-Identifier: Apache-2.0
"""Builders: converters call operators through one of these.

`EagerBuilder` computes each call at once. `GraphBuilder` adds it to a graph. Both compute a
call at once if the elements of all its inputs are known.
"""

import re
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _tenon, types
from .errors import NeedsElements, Unsupported
from .values import Value, check_size, make_constant

Result = Union[Value, Tuple[Value, ...]]

_BINARY = {
    "add": ("elemwise.add", "elemwise.broadcast_add"),
    "sub": ("elemwise.sub", "elemwise.broadcast_sub"),
    "mul": ("elemwise.mul", "elemwise.broadcast_mul"),
    "div": ("elemwise.div", "elemwise.broadcast_div"),
    "power": ("elemwise.power", "elemwise.broadcast_power"),
    "maximum": ("elemwise.maximum", "elemwise.broadcast_maximum"),
    "minimum": ("elemwise.minimum", "elemwise.broadcast_minimum"),
}


class Builder:
    """Calls of operators, and short forms of the most frequent ones."""

    def call(self, operator: str, *inputs: Optional[Value], **parameters: Any) -> Result:
        """Calls an operator: `build.call("elemwise.clip", x, a_min=0.0, a_max=1.0)`."""
        raise NotImplementedError

    def find_elements(self, value: Value) -> Optional[np.ndarray]:
        """Returns the elements if they can be read now, otherwise None."""
        raise NotImplementedError

    # ------------------------------------------------------------ conversions

    def cast(self, x: Value, dtype: str, **options: Any) -> Value:
        """Converts elements: `build.cast(x, "f32")`."""
        if x.dtype == dtype:
            return x
        return self.call("elemwise.cast", x, dtype=dtype, **options)

    def compute(self, operator: str, *inputs: Value, **parameters: Any) -> Value:
        """Calls an operator of floats also for integers, by way of f64 or f32."""
        first = inputs[0]
        if first.dtype in allowed_types(operator):
            return self.call(operator, *inputs, **parameters)
        if first.dtype not in types.INTEGERS and first.dtype != "bool":
            raise Unsupported(f"`{operator}` takes no elements of {first.dtype}")
        wide = "f32" if first.dtype in ("i8", "u8", "i16", "u16", "bool") else "f64"
        result = self.call(operator, *[self.cast(x, wide) for x in inputs], **parameters)
        return self.cast(result, first.dtype)

    # ------------------------------------------------------------- arithmetic

    def binary(self, name: str, x: Value, y: Value) -> Value:
        """Calls an arithmetic operator with broadcasting: `build.binary("add", x, y)`."""
        scalar = self._binary_scalar(name, x, y)
        if scalar is not None:
            return scalar
        same, broadcast = _BINARY[name]
        return self.call(same if x.shape == y.shape else broadcast, x, y)

    def _binary_scalar(self, name: str, x: Value, y: Value) -> Optional[Value]:
        """Uses a number in place of a constant of one element."""
        if x.dtype not in ("f32", "f64"):
            return None
        for value, number, form in ((x, y, "{}_scalar"), (y, x, "r{}_scalar")):
            if number.constant is None or number.size != 1 or number.rank > value.rank:
                continue
            if value.constant is not None:
                continue
            if form[0] == "r" and name in ("add", "mul", "maximum", "minimum"):
                form = "{}_scalar"
            scalar = float(number.constant.reshape(-1)[0])
            return self.call("elemwise." + form.format(name), value, scalar=scalar)
        return None

    def add(self, x: Value, y: Value) -> Value:
        """Adds with broadcasting: `build.add(x, y)`."""
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        """Subtracts with broadcasting: `build.sub(x, y)`."""
        return self.binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """Multiplies with broadcasting: `build.mul(x, y)`."""
        return self.binary("mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        """Divides with broadcasting; integers towards zero: `build.div(x, y)`."""
        if x.dtype in types.FLOATS:
            return self.binary("div", x, y)
        return self.call("elemwise.trunc_divide", x, y)

    def scale(self, x: Value, factor: float) -> Value:
        """Multiplies by a number: `build.scale(x, 0.5)`."""
        return x if factor == 1 else self.call("elemwise.mul_scalar", x, scalar=float(factor))

    def shift(self, x: Value, number: float) -> Value:
        """Adds a number: `build.shift(x, 1)`."""
        return x if number == 0 else self.call("elemwise.add_scalar", x, scalar=float(number))

    def scalar(self, number: float, dtype: str) -> Value:
        """Makes a constant of rank 0: `build.scalar(1.5, "f32")`."""
        return make_constant(number, dtype)

    # ------------------------------------------------------------------ shape

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Gives the elements another shape, of known lengths: `build.reshape(x, (2, 3))`."""
        shape = tuple(int(length) for length in shape)
        if shape == x.shape:
            return x
        if int(np.prod(shape, dtype=np.int64)) != x.size:
            raise Unsupported(f"{x.size} elements {list(x.shape)} have no shape {list(shape)}")
        if x.constant is not None:
            return make_constant(x.constant.reshape(shape))
        if x.size == 0:
            return make_constant(np.zeros(shape, types.numpy_type(x.dtype)))
        return self.call("tensor.reshape", x, shape=shape)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Changes the order of the axes: `build.transpose(x, (1, 0))`."""
        axes = tuple(int(axis) for axis in axes)
        if axes == tuple(range(x.rank)):
            return x
        if x.constant is not None:
            return make_constant(np.asarray(x.constant.transpose(axes), order="C"))
        return self.call("tensor.transpose", x, axes=axes)

    def move_axis(self, x: Value, start: int, end: int) -> Value:
        """Moves one axis to another place: `build.move_axis(x, 1, -1)`."""
        axes = list(range(x.rank))
        axes.insert(end % x.rank, axes.pop(start % x.rank))
        return self.transpose(x, axes)

    def broadcast_to(self, x: Value, shape: Sequence[int]) -> Value:
        """Repeats dimensions of length 1: `build.broadcast_to(x, (4, 3))`."""
        shape = tuple(int(length) for length in shape)
        if shape == x.shape:
            return x
        if x.constant is not None:
            check_size(shape)
            return make_constant(np.asarray(np.broadcast_to(x.constant, shape), order="C"))
        if 0 in shape:
            return make_constant(np.zeros(shape, types.numpy_type(x.dtype)))
        return self.call("tensor.broadcast_to", x, shape=shape)

    def slice_axis(self, x: Value, axis: int, begin: int, end: int) -> Value:
        """Takes a part along one axis, with 0 <= begin <= end: `build.slice_axis(x, 0, 2, 5)`."""
        axis %= x.rank
        if (begin, end) == (0, x.shape[axis]):
            return x
        if x.constant is not None:
            index = (slice(None),) * axis + (slice(begin, end),)
            return make_constant(np.asarray(x.constant[index], order="C"))
        if begin == end or x.size == 0:
            shape = x.shape[:axis] + (end - begin,) + x.shape[axis + 1 :]
            return make_constant(np.zeros(shape, types.numpy_type(x.dtype)))
        return self.call("tensor.slice_axis", x, axis=axis, begin=int(begin), end=int(end))

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Puts arrays one after the other: `build.concat([x, y], 1)`."""
        parts = [part for part in parts if part.shape[axis] > 0] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        if all(part.constant is not None for part in parts):
            return make_constant(np.concatenate([part.constant for part in parts], axis))
        return self.call("tensor.concat", *parts, dim=axis % parts[0].rank)

    def pad(self, x: Value, widths: Sequence[Tuple[int, int]], number: float = 0) -> Value:
        """Adds places before and after each axis: `build.pad(x, [(0, 0), (1, 1)])`."""
        if not any(before or after for before, after in widths):
            return x
        flat = [int(width) for pair in widths for width in pair]
        return self.call("tensor.pad", x, pad_width=flat, constant_value=float(number))

    def full(self, shape: Sequence[int], number: float, dtype: str) -> Value:
        """Makes a constant of equal elements: `build.full((2, 3), 0, "f32")`."""
        return make_constant(np.full(check_size(tuple(shape)), number, types.numpy_type(dtype)))

    def take(self, x: Value, places: Sequence[int], axis: int) -> Value:
        """Takes slices at known places: `build.take(x, [2, 0], 1)`."""
        indices = make_constant(np.asarray(places, np.int64))
        return self.call("tensor.take", x, indices, axis=axis % x.rank, mode="clip")

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """Chooses elements by a condition: `build.where(c, x, y)`."""
        return self.call("elemwise.where", condition, x, y)

    def dot(self, x: Value, y: Value) -> Value:
        """Multiplies matrices as NumPy's `matmul`: `build.dot(x, y)`."""
        from .matmul import multiply_matrices

        return multiply_matrices(self, x, y)


def allowed_types(operator: str, position: int = 0) -> Tuple[str, ...]:
    """Returns the element types that an operator takes: `allowed_types("elemwise.exp")`."""
    found = _tenon.describe(operator)
    if found is None:
        raise Unsupported(f"no loaded plugin has the operator `{operator}`")
    inputs = found["inputs"]
    entry = inputs[min(position, len(inputs) - 1)]
    if entry["dtype_var"] is not None:
        return tuple(found["dtype_vars"][entry["dtype_var"]]["allowed"])
    return (entry["dtype"],) if entry["dtype"] else ()


def has_parameter(operator: str, name: str) -> bool:
    """True if an operator has a parameter: `has_parameter("nn.rnn", "mode")`."""
    found = _tenon.describe(operator)
    return found is not None and any(entry["name"] == name for entry in found["params"])


def _is_random(operator: str) -> bool:
    return operator.startswith("random.") or operator == "nn.dropout"


def _check_operator(operator: str) -> None:
    if _tenon.describe(operator) is None:
        raise Unsupported(f"no loaded plugin has the operator `{operator}`")


def _as_result(values: List[Value]) -> Result:
    return values[0] if len(values) == 1 else tuple(values)


class EagerBuilder(Builder):
    """Computes every call at once, with Arrays."""

    def array(self, value: Value) -> Any:
        """Returns the Array of a value."""
        if value.handle is None:
            if value.dtype == types.STRING:
                raise Unsupported("Tenon has no strings")
            value.handle = _tenon.from_numpy(value.constant)
        return value.handle

    def wrap(self, array: Any) -> Value:
        """Makes the value of an Array."""
        return Value(_tenon.dtype_of(array), tuple(_tenon.shape_of(array)), handle=array)

    def call(self, operator: str, *inputs: Optional[Value], **parameters: Any) -> Result:
        """Computes the call."""
        _check_operator(operator)
        arrays = [None if value is None else self.array(value) for value in inputs]
        return _as_result([self.wrap(a) for a in _tenon.call(operator, arrays, parameters)])

    def find_elements(self, value: Value) -> Optional[np.ndarray]:
        """Waits for the elements and returns them."""
        if value.constant is not None:
            return value.constant
        return _tenon.to_numpy(value.handle)


class GraphBuilder(Builder):
    """Adds every call to a graph, except calls of constants, which are computed."""

    def __init__(self) -> None:
        self.graph = _tenon.new_graph()
        self.weights: Dict[str, np.ndarray] = {}
        self.node_name = ""
        self._names: Dict[str, int] = {}
        self._eager = EagerBuilder()

    def unique_name(self, wanted: str) -> str:
        """Returns a name that no node of the graph has: letters, digits and `_./-@'`."""
        name = re.sub(r"[^A-Za-z0-9_./@'-]", "_", wanted)[:180] or "node"
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        if count == 0:
            return name
        return self.unique_name(f"{name}_{count}")

    def variable(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        """Adds an argument of the graph."""
        name = self.unique_name(name)
        symbol = self.graph.variable(name, shape=tuple(shape), dtype=dtype)
        return Value(dtype, tuple(shape), handle=symbol, name=name)

    def symbol(self, value: Value) -> Any:
        """Returns the Symbol of a value; a constant becomes an argument with a weight."""
        if value.handle is None:
            if value.dtype == types.STRING:
                raise Unsupported("Tenon has no strings")
            name = self.unique_name(value.name or f"{self.node_name or 'node'}_constant")
            self.weights[name] = np.asarray(value.constant, order="C")
            value.handle = self.graph.variable(name, shape=value.shape, dtype=value.dtype)
        return value.handle

    def call(self, operator: str, *inputs: Optional[Value], **parameters: Any) -> Result:
        """Adds the call, or computes it if the elements of all inputs are known."""
        _check_operator(operator)
        if not _is_random(operator) and all(v is None or v.constant is not None for v in inputs):
            return self._fold(operator, inputs, parameters)
        facts = [None if v is None else (v.dtype, v.shape) for v in inputs]
        results = _tenon.infer(operator, facts, parameters)
        for dtype, shape in results:
            if dtype is None or shape is None or None in shape:
                raise NeedsElements(f"the shape of `{operator}` depends on elements")
        symbols = self.graph.call(
            operator,
            *[None if v is None else self.symbol(v) for v in inputs],
            name=self.unique_name(self.node_name or operator.split(".")[-1]),
            **parameters,
        )
        symbols = symbols if isinstance(symbols, tuple) else (symbols,)
        return _as_result([Value(d, tuple(s), handle=h) for (d, s), h in zip(results, symbols)])

    def _fold(self, operator: str, inputs: Sequence[Optional[Value]], parameters: dict) -> Result:
        copies = [None if v is None else make_constant(v.constant) for v in inputs]
        results = self._eager.call(operator, *copies, **parameters)
        results = results if isinstance(results, tuple) else (results,)
        return _as_result([make_constant(_tenon.to_numpy(v.handle)) for v in results])

    def find_elements(self, value: Value) -> Optional[np.ndarray]:
        """Returns the elements of a constant."""
        return value.constant
