# SPDX-License-Identifier: Apache-2.0
"""Errors of the ONNX importer."""

from typing import Optional


class OnnxError(ValueError):
    """A model that cannot be read, or a call that does not fit the model."""


class Unsupported(OnnxError, NotImplementedError):
    """A node that this importer cannot convert.

    `kind` is the same text for all nodes with the same cause, so that a report shows
    each cause once. `node`, `operator` and `opset` say which node it is.
    """

    def __init__(self, kind: str, node: str = "", operator: str = "", opset: int = 0) -> None:
        where = f"node `{node}`: " if node else ""
        version = f"{operator} (opset {opset})" if operator else ""
        super().__init__(f"{where}{version + ': ' if version else ''}{kind}")
        self.kind = kind
        self.node = node
        self.operator = operator
        self.opset = opset


class NeedsElements(Unsupported):
    """A graph cannot contain the node: a shape or a choice depends on elements.

    Eager execution can compute it.
    """


def describe_node(node: object) -> str:
    """Returns the name of a NodeProto, or that of its first output.

    >>> describe_node(onnx.helper.make_node("Relu", ["x"], ["y"]))
    'y'
    """
    name: Optional[str] = getattr(node, "name", "")
    if name:
        return name
    outputs = [output for output in getattr(node, "output", ()) if output]
    return outputs[0] if outputs else getattr(node, "op_type", "?")
