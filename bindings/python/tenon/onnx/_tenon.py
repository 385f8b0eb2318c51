# SPDX-License-Identifier: Apache-2.0
"""Access of the importer to the rest of the package: arrays, calls, inference and graphs."""

import ctypes
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from tenon import _api, _core, _dtypes, _errors, _operators, _values, files, graph, ops
from tenon._binding import encode
from tenon._objects import Handle, make, read_text

from . import types

CoreError = _errors.TenonError

Facts = Optional[Tuple[str, Sequence[Optional[int]]]]

_ORDINARY = frozenset(types.INTEGERS) | {"f16", "f32", "f64", "bool"}
_descriptions: Dict[str, Dict[str, Any]] = {}


# -------------------------------------------------------------------- arrays


def is_array(value: Any) -> bool:
    """True for an Array."""
    return isinstance(value, _core.Array)


def dtype_of(array: Any) -> str:
    """Name of the element type of an Array."""
    return array.dtype.name


def shape_of(array: Any) -> Tuple[int, ...]:
    """Shape of an Array."""
    return tuple(array.shape)


def empty(dtype: str, shape: Sequence[int]) -> Any:
    """A new Array with undefined elements."""
    return _core.empty(tuple(shape), _dtypes.BY_NAME[dtype].number, None)


def from_numpy(array: np.ndarray) -> Any:
    """Copies an array of NumPy, of any element type, to an Array."""
    name = types.type_of_numpy(array.dtype)
    if name in _ORDINARY:
        return _core.convert(np.asarray(array, order="C"))
    result = empty(name, array.shape)
    _write(result, array)
    return result


def _write(array: Any, elements: np.ndarray) -> None:
    content = _pack(elements, dtype_of(array))
    _api.tn_array_set(array._handle, content, len(content))


def to_numpy(array: Any) -> np.ndarray:
    """Waits for an Array and copies it to NumPy, with types of ml_dtypes where NumPy has none."""
    name, shape = dtype_of(array), shape_of(array)
    if name in _ORDINARY:
        return array.numpy()
    count = int(np.prod(shape, dtype=np.int64))
    bits = types.PACKED.get(name)
    size = -(-count * bits // 8) if bits else count * types.numpy_type(name).itemsize
    content = ctypes.create_string_buffer(max(size, 1))
    _api.tn_array_get(array._handle, content, size)
    return _unpack(content.raw[:size], name, shape)


def _pack(elements: np.ndarray, name: str) -> bytes:
    """Returns the bytes of elements; several of a packed type share one."""
    bits = types.PACKED.get(name)
    if not bits:
        return elements.tobytes()
    per_byte = 8 // bits
    raw = np.frombuffer(elements.tobytes(), np.uint8) & ((1 << bits) - 1)
    raw = np.concatenate([raw, np.zeros(-len(raw) % per_byte, np.uint8)])
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(raw.reshape(-1, per_byte) << shifts, axis=1).tobytes()


def _unpack(content: bytes, name: str, shape: Tuple[int, ...]) -> np.ndarray:
    """Returns elements from their bytes."""
    dtype = types.numpy_type(name)
    bits = types.PACKED.get(name)
    if not bits:
        return np.frombuffer(content, dtype).reshape(shape).copy()
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    raw = np.frombuffer(content, np.uint8)[:, None] >> shifts & np.uint8((1 << bits) - 1)
    raw = raw.reshape(-1)[: int(np.prod(shape, dtype=np.int64))].astype(np.uint8)
    if name == "f4e2m1":
        return raw.view(dtype).reshape(shape)
    if name.startswith("i"):
        raw = np.where(raw >= 1 << (bits - 1), raw.astype(np.int8) - (1 << bits), raw)
    return raw.astype(np.int8).astype(dtype).reshape(shape)


def assign(array: Any, value: Any) -> None:
    """Copies an Array or an array of NumPy into an Array of the same type and shape."""
    source = value if is_array(value) else from_numpy(value)
    _api.tn_array_copy(array._handle, source._handle)  # `source` lives until the call has returned


def copy(array: Any) -> Any:
    """Returns a new Array with the same elements."""
    result = empty(dtype_of(array), shape_of(array))
    assign(result, array)
    return result


def save_arrays(path: str, arrays: Dict[str, np.ndarray]) -> None:
    """Writes a .safetensors file."""
    files.save(path, {name: from_numpy(array) for name, array in arrays.items()})


# ----------------------------------------------------------------- operators


def describe(operator: str) -> Optional[Dict[str, Any]]:
    """Returns the description of an operator (tn_operator_json), or None if there is none."""
    found = _descriptions.get(operator)
    if found is None:
        try:
            address = make("tn_operator_get", _core.runtime_handle(), encode(operator))
        except _errors.NotFoundError:
            return None
        found = _descriptions[operator] = json.loads(read_text("tn_operator_json", address))
    return found


def call(operator: str, inputs: Sequence[Any], parameters: Dict[str, Any]) -> List[Any]:
    """Calls an operator with Arrays; returns its visible outputs."""
    result = ops.find_operator(operator)(*inputs, **parameters)
    return list(result) if isinstance(result, tuple) else [result]


def infer(operator: str, inputs: Sequence[Facts], parameters: Dict[str, Any]) -> List[tuple]:
    """Returns type and shape of each visible output; None where they are unknown."""
    found = _operators.find_operator(operator)
    text = encode(_values.format_params(parameters))
    parsed = Handle(make("tn_params_parse", found.address, text), "tn_params_release")
    n_aux = len(found.states)
    n_in = len(inputs) - n_aux
    n_out, visible = ctypes.c_uint32(), ctypes.c_uint32()
    _api.tn_operator_outputs(
        found.address, parsed.address, n_in, ctypes.byref(n_out), ctypes.byref(visible)
    )
    lists = [(_api.tn_sig * max(1, n))() for n in (n_in, n_out.value, n_aux)]
    for index, facts in enumerate(inputs):
        entry = lists[0][index] if index < n_in else lists[2][index - n_in]
        _set_facts(entry, facts)
    for entry in lists[1]:
        entry.ndim = -1
    io = _api.tn_signature(n_in=n_in, n_out=n_out.value, n_aux=n_aux)
    io.in_, io.out, io.aux = lists
    try:
        _api.tn_operator_infer(found.address, parsed.address, ctypes.byref(io))
    except _errors.IncompleteError:
        pass
    entries = lists[1][: visible.value]
    return [(_values.read_dtype(entry), _values.read_shape(entry)) for entry in entries]


def _set_facts(entry: Any, facts: Facts) -> None:
    if facts is None:
        entry.ndim = -2
        return
    entry.dtype = _dtypes.BY_NAME[facts[0]].number
    entry.ndim = len(facts[1])
    for axis, length in enumerate(facts[1]):
        entry.shape[axis] = -1 if length is None else length


# -------------------------------------------------------------------- graphs


def new_graph() -> Any:
    """A new, empty graph."""
    return graph.Graph()


def graph_of(symbol: Any) -> Any:
    """The graph of a symbol."""
    return symbol._graph


def list_arguments(net: Any) -> List[str]:
    """Names of the variables and states that the heads of a graph depend on."""
    return net.arguments + net.auxiliaries


def bind(net: Any, arrays: Dict[str, Any]) -> Any:
    """Makes a program of a graph."""
    return net.bind(arrays)
