# SPDX-License-Identifier: Apache-2.0
"""One node of a model, as its converter sees it."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from . import types
from .builder import Builder
from .errors import NeedsElements, Unsupported, describe_node
from .values import Value


def read_attribute(attribute: onnx.AttributeProto) -> Any:
    """Returns an attribute as a value of Python; texts are decoded, tensors are arrays."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [text.decode("utf-8", "replace") for text in value]
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return list(value)
    return value


class Node:
    """Attributes and facts of a node, and the builder that converts it."""

    def __init__(self, proto: onnx.NodeProto, opset: int, build: Builder, run: Any) -> None:
        self.proto = proto
        self.opset = opset
        self.build = build
        self.run = run  # the interpreter, for nested graphs
        self.attributes: Dict[str, Any] = {a.name: a for a in proto.attribute}

    @property
    def name(self) -> str:
        """Name of the node, or of its first output."""
        return describe_node(self.proto)

    @property
    def n_outputs(self) -> int:
        """Number of outputs, omitted ones included."""
        return len(self.proto.output)

    def has_output(self, index: int) -> bool:
        """True if the model uses this output."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    def has(self, name: str) -> bool:
        """True if the node has the attribute."""
        return name in self.attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns an attribute or the default: `node.attribute("alpha", 1.0)`."""
        found = self.attributes.get(name)
        return default if found is None else read_attribute(found)

    def refuse(self, kind: str) -> Unsupported:
        """Makes the error for a feature that is missing: `raise node.refuse("...")`."""
        return Unsupported(kind, self.name, self.operator, self.opset)

    @property
    def operator(self) -> str:
        """Type of the node, with its domain if that is not ONNX's own."""
        domain = self.proto.domain
        return f"{domain}.{self.proto.op_type}" if domain else self.proto.op_type

    def elements(self, value: Value, role: str) -> np.ndarray:
        """Returns the elements of an input that decides shapes, such as `axes`."""
        if value.dtype == types.STRING and value.constant is None:
            raise self.refuse("Tenon has no strings")
        found = self.build.find_elements(value)
        if found is None:
            raise NeedsElements(
                f"`{role}` is computed by the model, and a graph needs it as a constant",
                self.name,
                self.operator,
                self.opset,
            )
        return found

    def integers(self, value: Optional[Value], role: str) -> Optional[List[int]]:
        """Returns the elements of such an input as a list, or None if it is absent."""
        if value is None:
            return None
        return [int(number) for number in self.elements(value, role).reshape(-1)]

    def axes(
        self, value: Optional[Value], rank: int, default: Optional[Sequence[int]] = None
    ) -> Optional[List[int]]:
        """Returns the axes of an input or of the attribute `axes`, all >= 0."""
        axes = self.attribute("axes") if value is None else self.integers(value, "axes")
        if axes is None:
            axes = default
        return None if axes is None else [self.axis(axis, rank) for axis in axes]

    def axis(self, axis: int, rank: int) -> int:
        """Returns an axis counted from the front; refuses one that does not exist."""
        if not -rank <= axis < max(rank, 1):
            raise self.refuse(f"axis {axis} is out of range for {rank} dimensions")
        return axis % rank if rank else 0
