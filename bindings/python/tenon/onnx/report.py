# SPDX-License-Identifier: Apache-2.0
"""Lists the features of a model that this importer does not have, without converting it."""

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import onnx
import onnx.shape_inference
from onnx import defs

from . import _tenon, types
from .convert import find_inputs
from .errors import NeedsElements, OnnxError, Unsupported, describe_node
from .interpreter import Scope
from .model import Model, Port
from .plugins import operator_name
from .read import Source, read_model
from .registry import find_converter
from .values import make_constant

_ONNX_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


class Missing:
    """A feature that is missing, and the nodes that need it."""

    def __init__(self, kind: str, operator: str, opset: int) -> None:
        self.kind = kind
        self.operator = operator
        self.opset = opset
        self.nodes: List[str] = []

    def __str__(self) -> str:
        more = f" and {len(self.nodes) - 1} more" if len(self.nodes) > 1 else ""
        version = f" (opset {self.opset})" if self.opset else ""
        return f"node `{self.nodes[0]}`{more}: {self.operator}{version}: {self.kind}"


def report(
    source: Source,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    known: Optional[Mapping[str, Any]] = None,
) -> List[Missing]:
    """Returns one entry for each kind of missing feature; empty if the model can be converted.

    Without the lengths of all inputs, by the model or by `shapes`, only operators and their names
    are compared. With them, each node is converted, and unsupported attributes and types are
    found too. `known` has inputs that are constants.

    >>> for missing in tenon.onnx.report("model.onnx"):
    ...     print(missing)
    node `n7` and 3 more: StringSplit (opset 20): Tenon has no strings
    """
    model = Model(read_model(source))
    found = Findings()
    for node in list_nodes(model.proto):
        if (node.domain, node.op_type) not in model.functions:
            opset = model.opsets.get(node.domain, 1)
            kind = find_missing(node, opset)
            if kind:
                found.add(kind, node, opset)
    try:
        facts, constants = find_inputs(model, shapes or {}, known or {})
    except OnnxError:
        return found.entries
    _try_conversion(model, facts, constants, found)
    return found.entries


class Findings:
    """Missing features by kind."""

    def __init__(self) -> None:
        self.entries: List[Missing] = []
        self._nodes: set = set()

    def add(self, kind: str, node: onnx.NodeProto, opset: int) -> None:
        """Adds a node to the entry of its kind; the first finding of a node counts."""
        name = describe_node(node)
        if name in self._nodes:
            return
        self._nodes.add(name)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        for entry in self.entries:
            if (entry.operator, entry.kind) == (operator, kind):
                entry.nodes.append(name)
                return
        self.entries.append(Missing(kind, operator, opset))
        self.entries[-1].nodes.append(name)


def _try_conversion(model: Model, facts: dict, constants: dict, found: Findings) -> None:
    """Converts all nodes; outputs of those that fail get the types that onnx infers."""
    inferred = _infer_outputs(model, facts)

    def continue_without(error: Unsupported, node: onnx.NodeProto, scope: Scope) -> bool:
        if not isinstance(error, NeedsElements):
            found.add(error.kind, node, error.opset)
        if not all(name in inferred for name in node.output if name):
            return False
        for name in node.output:
            if name:
                dtype, shape = inferred[name]
                scope.values[name] = make_constant(np.zeros(shape, types.numpy_type(dtype)))
        return True

    try:
        model.build_graph(facts, constants, continue_without)
    except OnnxError as error:
        if not isinstance(error, Unsupported):
            found.entries.append(Missing(str(error), "model", 0))
            found.entries[-1].nodes.append(model.proto.graph.name)


def _infer_outputs(model: Model, facts: dict) -> Dict[str, Tuple[str, Tuple[int, ...]]]:
    """Returns type and shape of the values for which onnx infers both."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for info in proto.graph.input:
        if info.name in facts:
            dtype, shape = facts[info.name]
            number = types.number_of_type(dtype)
            info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, number, shape))
    try:
        inferred = onnx.shape_inference.infer_shapes(proto)
    except (RuntimeError, ValueError):
        return {}
    result = {}
    for info in (*inferred.graph.value_info, *inferred.graph.output):
        port = Port(info)
        if port.dtype in (None, types.STRING) or port.shape is None:
            continue
        if all(isinstance(length, int) for length in port.shape):
            result[info.name] = (port.dtype, port.shape)
    return result


def list_nodes(model: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    """Yields all nodes, also those of nested graphs and functions."""
    yield from _list_nodes(model.graph.node)
    for function in model.functions:
        yield from _list_nodes(function.node)


def _list_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _list_nodes(attribute.g.node)
            for graph in attribute.graphs:
                yield from _list_nodes(graph.node)


def find_missing(node: onnx.NodeProto, opset: int) -> str:
    """Returns the reason why a node cannot be converted, or an empty text."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if find_converter(domain, node.op_type, opset):
        return ""
    if domain not in _ONNX_DOMAINS:
        name = operator_name(domain, node.op_type)
        found = _tenon.describe(name)
        if found is None:
            return f"no loaded plugin has the operator `{name}`"
        known = {entry["name"] for entry in found["params"]}
        unknown = sorted(a.name for a in node.attribute if a.name not in known)
        return f"`{name}` has no parameter `{unknown[0]}`" if unknown else ""
    try:
        schema = defs.get_schema(node.op_type, opset, domain)
    except defs.SchemaError:
        return "this version of onnx does not know the operator"
    if schema.has_function or schema.has_context_dependent_function:
        return ""
    return "no operator of the plugins computes it"
