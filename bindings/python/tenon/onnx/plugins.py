# SPDX-License-Identifier: Apache-2.0
"""Nodes of a custom domain: type `Cube` of domain `acme` is the operator `acme.cube`."""

import re
from typing import Any, Dict, Sequence

from . import _tenon, types
from .errors import Unsupported
from .node import Node


def operator_name(domain: str, op_type: str) -> str:
    """Returns the operator of a node type.

    >>> operator_name("acme", "FullyConnected")
    'acme.fully_connected'
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_type)
    return f"{domain}.{words.lower()}"


def convert_custom(node: Node, inputs: Sequence[Any]) -> Any:
    """Calls the operator of a plugin, with the attributes of the node as parameters."""
    name = operator_name(node.proto.domain, node.proto.op_type)
    found = _tenon.describe(name)
    if found is None:
        raise node.refuse(f"no loaded plugin has the operator `{name}`; load the plugin first")
    return node.build.call(name, *inputs, **_read_parameters(node, name, found))


def _read_parameters(node: Node, operator: str, description: Dict[str, Any]) -> Dict[str, Any]:
    known = {entry["name"]: entry for entry in description["params"]}
    parameters = {}
    for name in node.attributes:
        entry = known.get(name)
        if entry is None:
            names = ", ".join(f"`{key}`" for key in known) or "none"
            raise node.refuse(f"`{operator}` has no parameter `{name}`; it has {names}")
        parameters[name] = _convert_attribute(node, name, entry["type"])
    return parameters


def _convert_attribute(node: Node, name: str, kind: str) -> Any:
    value = node.attribute(name)
    if kind == "bool":
        return bool(value)
    if kind == "dtype" and isinstance(value, int):
        return types.name_of_type(value)
    if isinstance(value, (int, float, str, list)):
        return value
    raise Unsupported(f"attribute `{name}` is neither a number, nor a text, nor a list")
