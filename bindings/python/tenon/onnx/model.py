# SPDX-License-Identifier: Apache-2.0
"""Models that run: as a program for each set of input shapes, or node by node."""

import collections
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnx

from . import _tenon, types
from .builder import EagerBuilder, GraphBuilder
from .errors import NeedsElements, OnnxError
from .interpreter import Interpreter, Scope, read_tensor
from .read import Source, read_model
from .values import TensorSequence, Value, make_constant

MODES = ("auto", "eager", "graph")
_MOST_PROGRAMS = 64
_MOST_KNOWN = 16  # elements of an input that a graph may have as constants


def _read_length(dim: onnx.TensorShapeProto.Dimension) -> Any:
    """Returns a length, a name, or None; exporters write -1 for unknown lengths."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param or None


class Port:
    """An input or output of a model: name, element type and shape.

    `shape` is None if the rank is unknown; an unknown length is None or a name.
    """

    def __init__(self, info: onnx.ValueInfoProto) -> None:
        self.name = info.name
        self.kind = info.type.WhichOneof("value") or "tensor_type"
        self.dtype: Optional[str] = None
        self.shape: Optional[Tuple[Any, ...]] = None
        if self.kind == "tensor_type":
            tensor = info.type.tensor_type
            self.dtype = types.name_of_type(tensor.elem_type) if tensor.elem_type else None
            if tensor.HasField("shape"):
                self.shape = tuple(_read_length(d) for d in tensor.shape.dim)

    def __repr__(self) -> str:
        shape = "?" if self.shape is None else list(self.shape)
        return f"Port({self.name!r}, {self.dtype or self.kind}, {shape})"


class Model:
    """A model that computes.

    >>> model = tenon.onnx.load("model.onnx")
    >>> model(x=numpy.ones((1, 3), "f4"))
    Array([...])
    """

    def __init__(self, proto: onnx.ModelProto, mode: str = "auto") -> None:
        if mode not in MODES:
            raise ValueError(f"`mode` is {mode!r}; choose one of {', '.join(MODES)}")
        self.proto = proto
        self.mode = mode
        graph = proto.graph
        self.opsets = {
            "" if entry.domain == "ai.onnx" else entry.domain: entry.version
            for entry in proto.opset_import
        }
        self.functions = {(f.domain, f.name): f for f in proto.functions}
        self.weights = {t.name: read_tensor(t) for t in graph.initializer}
        if graph.sparse_initializer:
            raise OnnxError("sparse initializers are not supported")
        self.inputs = [Port(i) for i in graph.input if i.name not in self.weights]
        self.outputs = [Port(o) for o in graph.output]
        self._programs: "collections.OrderedDict[tuple, Any]" = collections.OrderedDict()
        self._lock = threading.RLock()  # one thread at a time makes a program
        self._needs_values = False  # graphs need the elements of small integer inputs
        self._constants: Optional[Dict[str, Value]] = None

    # --------------------------------------------------------------------- run

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Runs the model; returns the output, or a tuple of several.

        >>> model(numpy.ones((1, 3), "f4"))
        """
        if len(arrays) > len(self.inputs):
            raise TypeError(f"the model has {len(self.inputs)} inputs, not {len(arrays)}")
        feeds = {port.name: array for port, array in zip(self.inputs, arrays)}
        for name, array in named.items():
            if name in feeds:
                raise TypeError(f"the input `{name}` was passed twice")
            feeds[name] = array
        results = tuple(self.run(feeds).values())
        return results[0] if len(results) == 1 else results

    def run(self, feeds: Dict[str, Any]) -> Dict[str, Any]:
        """Runs the model with inputs by name; returns the outputs by name.

        >>> model.run({"x": numpy.ones((1, 3), "f4")})["y"]
        """
        feeds = {**self._check_feeds(feeds)}
        if self.mode == "eager" or not all(_is_tensor(value) for value in feeds.values()):
            return self._run_eager(feeds)
        with self._lock:
            program = self._find_program(feeds)
        return self._run_eager(feeds) if program is None else program.run(feeds)

    def _find_program(self, feeds: Dict[str, Any]) -> Optional["BoundModel"]:
        """Returns the program for these shapes; None if shapes depend on elements."""
        known = _read_small(feeds) if self._needs_values else {}
        key = _make_key(feeds, known)
        if key in self._programs:
            self._programs.move_to_end(key)
            return self._programs[key]
        try:
            program = self._make_program(feeds, known)
        except NeedsElements:
            if not self._needs_values and _read_small(feeds):
                self._needs_values = True
                return self._find_program(feeds)
            if self.mode == "graph":
                raise
            program = None
        self._programs[key] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def _make_program(self, feeds: Dict[str, Any], known: Dict[str, Any]) -> "BoundModel":
        return BoundModel(self, {n: v for n, v in feeds.items() if n not in known}, known)

    def _check_feeds(self, feeds: Dict[str, Any]) -> Dict[str, Any]:
        names = [port.name for port in self.inputs]
        known = set(names) | set(self.weights)
        for name in feeds:
            if name not in known:
                raise OnnxError(
                    f"the model has no input `{name}`; it has {', '.join(map(repr, names))}"
                )
        result = {}
        for port in self.inputs:
            if port.name not in feeds:
                if port.kind == "optional_type":
                    result[port.name] = None
                    continue
                raise OnnxError(f"the input `{port.name}` is missing")
        for port in self.inputs:
            if port.name in feeds:
                result[port.name] = self._check_input(port, feeds[port.name])
        for name in feeds:
            result.setdefault(name, feeds[name])
        return result

    def _check_input(self, port: Port, value: Any) -> Any:
        if not _is_tensor(value) or port.dtype is None:
            return value
        dtype, shape = _describe(value)
        if dtype != port.dtype:
            raise OnnxError(f"the input `{port.name}` has elements of {port.dtype}, not {dtype}")
        if port.shape is None:
            return value
        fits = len(shape) == len(port.shape) and all(
            not isinstance(wanted, int) or wanted == length
            for wanted, length in zip(port.shape, shape)
        )
        if not fits:
            raise OnnxError(
                f"the input `{port.name}` has the shape {list(port.shape)}, not {list(shape)}"
            )
        return value

    def _interpreter(self, build: Any) -> Interpreter:
        return Interpreter(build, self.opsets, self.functions)

    def _run_eager(self, feeds: Dict[str, Any]) -> Dict[str, Any]:
        build = EagerBuilder()
        if self._constants is None:
            self._constants = {n: make_constant(a, name=n) for n, a in self.weights.items()}
        scope = Scope()
        scope.values.update(self._constants)
        for name, value in feeds.items():
            scope.values[name] = _wrap(build, value)
        results = self._interpreter(build).run_nodes(self.proto.graph, scope)
        return {port.name: _unwrap(build, v) for port, v in zip(self.outputs, results)}

    # ------------------------------------------------------------------ graphs

    def build_graph(
        self,
        shapes: Dict[str, Tuple[str, Sequence[int]]],
        known: Optional[Dict[str, Any]] = None,
        on_refusal: Optional[Callable[..., bool]] = None,
    ) -> Tuple[GraphBuilder, List[Value], List[str]]:
        """Converts the model for input types and shapes: builder, heads, names of arguments.

        `known` has inputs whose elements become constants of the graph. `on_refusal` sees errors
        of nodes (Interpreter).
        """
        build = GraphBuilder()
        scope = Scope()
        arguments = []
        for name, array in self.weights.items():
            scope.values[name] = make_constant(array, name=name)
        for name, (dtype, shape) in shapes.items():
            value = build.variable(name, dtype, shape)
            scope.values[name] = value
            arguments.append(value.name)
        for name, array in (known or {}).items():
            scope.values[name] = make_constant(array, name=name)
        interpreter = self._interpreter(build)
        interpreter.on_refusal = on_refusal
        heads = interpreter.run_nodes(self.proto.graph, scope)
        for port, value in zip(self.outputs, heads):
            if not isinstance(value, Value):
                raise NeedsElements(f"the output `{port.name}` is not a tensor")
        return build, heads, arguments


class BoundModel:
    """A program of a model for one set of input shapes."""

    def __init__(self, model: Model, feeds: Dict[str, Any], known: Dict[str, Any]) -> None:
        shapes = {name: _describe(value) for name, value in feeds.items()}
        self._lock = threading.Lock()  # one thread at a time runs the program
        build, heads, arguments = model.build_graph(shapes, known)
        self.names = dict(zip(shapes, arguments))
        self.results: List[Tuple[str, Any]] = []
        symbols: List[Any] = []
        for port, value in zip(model.outputs, heads):
            if value.constant is not None:
                self.results.append((port.name, value.constant))
                continue
            self.results.append((port.name, len(symbols)))
            symbols.append(value.handle)
        self.program = None
        if symbols:
            build.graph.heads = symbols
            self.used = _tenon.list_arguments(build.graph)
            arrays = {n: _tenon.from_numpy(a) for n, a in build.weights.items() if n in self.used}
            self.arrays = {
                name: _tenon.empty(*shapes[name])
                for name, argument in self.names.items()
                if argument in self.used
            }
            arrays.update({self.names[name]: array for name, array in self.arrays.items()})
            self.program = _tenon.bind(build.graph, arrays)

    def run(self, feeds: Dict[str, Any]) -> Dict[str, Any]:
        """Copies the inputs into the program, runs it, and copies the outputs."""
        with self._lock:
            outputs = self._run_program(feeds)
        results = {}
        for name, place in self.results:
            results[name] = outputs[place] if isinstance(place, int) else _tenon.from_numpy(place)
        return results

    def _run_program(self, feeds: Dict[str, Any]) -> List[Any]:
        if self.program is None:
            return []
        for name, array in self.arrays.items():
            _tenon.assign(array, feeds[name])
        return [_tenon.copy(array) for array in self.program.forward()]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS" or _tenon.is_array(value)


def _describe(value: Any) -> Tuple[str, Tuple[int, ...]]:
    if _tenon.is_array(value):
        return _tenon.dtype_of(value), tuple(_tenon.shape_of(value))
    return types.type_of_numpy(value.dtype), tuple(value.shape)


def _read_small(feeds: Dict[str, Any]) -> Dict[str, np.ndarray]:
    """Returns the small inputs of integers or bools, which may decide shapes and branches."""
    found = {}
    for name, value in feeds.items():
        dtype, shape = _describe(value)
        if dtype not in ("i32", "i64", "bool") or np.prod(shape, dtype=np.int64) > _MOST_KNOWN:
            continue
        found[name] = _tenon.to_numpy(value) if _tenon.is_array(value) else value
    return found


def _make_key(feeds: Dict[str, Any], known: Dict[str, np.ndarray]) -> tuple:
    """Returns the key of a program: types, shapes, and the elements that it has as constants."""
    return tuple(
        (name, *_describe(feeds[name]), known[name].tobytes() if name in known else None)
        for name in sorted(feeds)
    )


def _wrap(build: EagerBuilder, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return TensorSequence(_wrap(build, item) for item in value)
    if _tenon.is_array(value):
        return build.wrap(value)
    if not isinstance(value, np.ndarray):
        value = np.asarray(value)
    if value.dtype.kind in "OUS":
        return make_constant(value)
    return build.wrap(_tenon.from_numpy(value))


def _unwrap(build: EagerBuilder, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, TensorSequence):
        return [_unwrap(build, item) for item in value]
    if value.dtype == types.STRING:
        return value.constant
    return build.array(value)


def load(source: Source, mode: str = "auto") -> Model:
    """Loads a model file.

    `mode` "auto" runs programs and falls back to eager execution where shapes depend on
    elements; "eager" and "graph" allow only one of the two.

    >>> model = tenon.onnx.load("model.onnx")
    >>> model.inputs
    [Port('x', f32, ['N', 3])]
    """
    return Model(read_model(source), mode)
