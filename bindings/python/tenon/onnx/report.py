# SPDX-License-Identifier: Apache-2.0
"""Lists the features of a model that this importer does not have, without converting it."""

from typing import Dict, Iterable, List, Tuple

import onnx
from onnx import defs

from . import _tenon
from .errors import describe_node
from .plugins import operator_name
from .read import Source, read_model
from .registry import find_converter

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


def report(source: Source) -> List[Missing]:
    """Returns one entry for each kind of missing feature; empty if the model can be converted.

    >>> for missing in tenon.onnx.report("model.onnx"):
    ...     print(missing)
    node `n7` and 3 more: StringSplit (opset 20): no operator of the plugins computes it
    """
    model = read_model(source)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    functions = {(f.domain, f.name) for f in model.functions}
    found: Dict[Tuple[str, str], Missing] = {}
    for node in list_nodes(model):
        if (node.domain, node.op_type) in functions:
            continue
        kind = find_missing(node, opsets.get(node.domain, 1))
        if kind:
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            entry = Missing(kind, operator, opsets.get(node.domain, 1))
            found.setdefault((operator, kind), entry).nodes.append(describe_node(node))
    return list(found.values())


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
