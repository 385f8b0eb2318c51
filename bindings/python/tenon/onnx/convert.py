# SPDX-License-Identifier: Apache-2.0
"""Writes a model as files that a C host loads without Python: a graph, and its weights."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _tenon
from .errors import NeedsElements, OnnxError
from .model import Model, Port, load
from .read import Source

GRAPH_FILE = "graph.json"
WEIGHTS_FILE = "weights.safetensors"
PORTS_FILE = "model.json"


def convert(
    source: Union[Source, Model],
    folder: str,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    known: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    """Writes `graph.json`, `weights.safetensors` and `model.json` into a folder.

    `shapes` has the lengths of inputs that the model leaves open. `known` has inputs that
    become constants. Returns the content of `model.json`: inputs and outputs with the names
    that they have in the graph, types and shapes.

    >>> tenon.onnx.convert("model.onnx", "out", shapes={"x": (1, 3, 224, 224)})
    """
    model = source if isinstance(source, Model) else load(source)
    facts, constants = find_inputs(model, shapes or {}, known or {})
    build, heads, arguments = model.build_graph(facts, constants)
    symbols: List[Any] = []
    outputs = []
    for port, value in zip(model.outputs, heads):
        if value.constant is not None:
            value = build.call("elemwise.copy", _as_argument(build, port.name, value))
        symbols.append(value.handle)
        outputs.append({"name": port.name, "dtype": value.dtype, "shape": list(value.shape)})
    build.graph.heads = symbols
    used = set(_tenon.list_arguments(build.graph))
    inputs = [
        {"name": name, "argument": argument, "dtype": fact[0], "shape": list(fact[1])}
        for (name, fact), argument in zip(facts.items(), arguments)
    ]
    for entry in inputs:
        entry["is_used"] = entry["argument"] in used
    ports = {"inputs": inputs, "outputs": outputs}
    _write_files(folder, build, used, ports)
    return ports


def find_inputs(
    model: Model, shapes: Mapping[str, Sequence[int]], known: Mapping[str, Any]
) -> Tuple[Dict[str, Tuple[str, Tuple[int, ...]]], Dict[str, np.ndarray]]:
    """Returns type and shape of each input, and the inputs that are constants.

    OnnxError names an input with an open length.
    """
    constants = _read_known(model, dict(known))
    ports = [port for port in model.inputs if port.name not in constants]
    return {port.name: _find_facts(port, shapes) for port in ports}, constants


def _as_argument(build: Any, name: str, value: Any) -> Any:
    """Makes an argument of a constant, so that a graph can return it."""
    argument = build.variable(f"{name}_constant", value.dtype, value.shape)
    build.weights[argument.name] = value.constant
    return argument


def _write_files(folder: str, build: Any, used: set, ports: Dict[str, Any]) -> None:
    os.makedirs(folder, exist_ok=True)
    build.graph.save(os.path.join(folder, GRAPH_FILE))
    weights = {name: array for name, array in build.weights.items() if name in used}
    _tenon.save_arrays(os.path.join(folder, WEIGHTS_FILE), weights)
    with open(os.path.join(folder, PORTS_FILE), "w", encoding="utf-8") as file:
        json.dump(ports, file, indent=1)
        file.write("\n")


def _read_known(model: Model, known: Dict[str, Any]) -> Dict[str, np.ndarray]:
    ports = {port.name: port for port in model.inputs}
    result = {}
    for name, value in known.items():
        port = ports.get(name)
        if port is None or port.dtype is None:
            raise OnnxError(f"the model has no input `{name}` that can be a constant")
        result[name] = np.asarray(value, _tenon.types.numpy_type(port.dtype))
    return result


def _find_facts(port: Port, shapes: Mapping[str, Sequence[int]]) -> Tuple[str, Tuple[int, ...]]:
    """Returns type and shape of an input; each length must be known."""
    if port.dtype is None:
        raise NeedsElements(f"the input `{port.name}` is not a tensor")
    given = shapes.get(port.name)
    if given is None and port.shape is not None and all(isinstance(n, int) for n in port.shape):
        given = port.shape
    if given is None:
        shape = "?" if port.shape is None else ",".join(str(n or "?") for n in port.shape)
        raise OnnxError(
            f"the input `{port.name}` has the shape [{shape}]; name all lengths, such as "
            f"--shape {port.name}={_example(port)}"
        )
    fits = port.shape is None or (
        len(given) == len(port.shape)
        and all(not isinstance(n, int) or n == g for n, g in zip(port.shape, given))
    )
    if not fits or any(length < 0 for length in given):
        raise OnnxError(f"the input `{port.name}` cannot have the shape {list(given)}")
    return port.dtype, tuple(given)


def _example(port: Port) -> str:
    lengths = port.shape or (1,)
    return ",".join(str(n) if isinstance(n, int) else "1" for n in lengths)
