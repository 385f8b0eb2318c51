# SPDX-License-Identifier: Apache-2.0
"""Reads model files: checks them, and keeps external data inside of the model's folder."""

import os
from typing import Iterable, Union

import onnx
from google.protobuf.message import DecodeError
from onnx import checker, external_data_helper, version_converter

from .errors import OnnxError

OLDEST_OPSET = 7
_MOST_BYTES = 1 << 34

Source = Union[str, "os.PathLike[str]", bytes, onnx.ModelProto]


def read_model(source: Source) -> onnx.ModelProto:
    """Reads a file, bytes, or a ModelProto, and checks the model.

    Models of an opset before 7 are converted to 7. Files with external data must be in the
    folder of the model.

    >>> read_model("model.onnx").graph.name
    'net'
    """
    model, folder = _parse(source)
    try:
        _check_version(model)
        _load_external_data(model, folder)
        _check(model)
        return _convert_version(model)
    except UnicodeDecodeError as error:
        raise OnnxError(f"the model is not valid: a name is not UTF-8 ({error})") from error


def _parse(source: Source) -> tuple:
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        return model, None
    if isinstance(source, (bytes, bytearray)):
        return _decode(bytes(source), "these bytes"), None
    path = os.fspath(source)
    if os.path.getsize(path) > _MOST_BYTES:
        raise OnnxError(f"{path}: the file has more than {_MOST_BYTES} bytes")
    with open(path, "rb") as file:
        return _decode(file.read(), path), os.path.dirname(os.path.abspath(path))


def _decode(content: bytes, name: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise OnnxError(f"{name}: not an ONNX model ({error})") from error
    if not model.HasField("graph"):
        raise OnnxError(f"{name}: not an ONNX model: it has no graph")
    return model


def _check_version(model: onnx.ModelProto) -> None:
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version > newest:
            raise OnnxError(
                f"the model has opset {entry.version}; the installed onnx {onnx.__version__} "
                f"knows versions up to {newest}: install a newer onnx"
            )


def list_tensors(model: onnx.ModelProto) -> Iterable[onnx.TensorProto]:
    """Yields all tensors of a model, those of nested graphs and attributes included.

    >>> [tensor.name for tensor in list_tensors(model)]
    ['weight']
    """
    yield from _list_graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _list_node_tensors(node)


def _list_graph_tensors(graph: onnx.GraphProto) -> Iterable[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _list_node_tensors(node)


def _list_node_tensors(node: onnx.NodeProto) -> Iterable[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from _list_graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from _list_graph_tensors(graph)


def _load_external_data(model: onnx.ModelProto, folder: Union[str, None]) -> None:
    for tensor in list_tensors(model):
        if not external_data_helper.uses_external_data(tensor):
            continue
        if folder is None:
            raise OnnxError(
                f"tensor `{tensor.name}` is in another file; load the model by its file name"
            )
        entries = {entry.key: entry.value for entry in tensor.external_data}
        _read_external(tensor, folder, entries)


def _read_external(tensor: onnx.TensorProto, folder: str, entries: dict) -> None:
    """Copies the bytes of one tensor from its file into the tensor."""
    location = entries.get("location", "")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if not location or os.path.isabs(location) or os.path.commonpath([root, path]) != root:
        raise OnnxError(
            f"tensor `{tensor.name}`: its file `{location}` is not in the folder of the model"
        )
    if not os.path.isfile(path):
        raise OnnxError(f"tensor `{tensor.name}`: the file `{location}` does not exist")
    try:
        offset, size = int(entries.get("offset", 0)), os.path.getsize(path)
        length = int(entries.get("length", size - offset))
    except ValueError as error:
        raise OnnxError(f"tensor `{tensor.name}`: {error}") from error
    if offset < 0 or length < 0 or offset + length > size:
        raise OnnxError(
            f"tensor `{tensor.name}`: bytes {offset} to {offset + length} of `{location}`, "
            f"which has {size}"
        )
    with open(path, "rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _check(model: onnx.ModelProto) -> None:
    try:
        checker.check_model(model)
    except checker.ValidationError as error:
        if "No Op registered" in str(error) or "exceeds maximum protobuf" in str(error):
            return
        raise OnnxError(f"the model is not valid: {error}") from error


def _convert_version(model: onnx.ModelProto) -> onnx.ModelProto:
    versions = {entry.domain: entry.version for entry in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 0))
    uses_onnx = any(node.domain in ("", "ai.onnx") for node in model.graph.node)
    if version >= OLDEST_OPSET or not uses_onnx:
        return model
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except (RuntimeError, ValueError, version_converter.ConvertError) as error:
        raise OnnxError(
            f"the model has opset {version}; onnx cannot convert it to {OLDEST_OPSET}: {error}"
        ) from error
