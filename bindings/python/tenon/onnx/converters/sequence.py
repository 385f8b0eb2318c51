# SPDX-License-Identifier: Apache-2.0
"""Sequences and optional values, which exist in the importer only."""

from typing import Any, List, Optional

import numpy as np

from ..node import Node
from ..registry import converter
from ..values import TensorSequence, Value, make_constant
from .shape import cut_parts


@converter("SequenceEmpty", since=11)
def convert_sequence_empty(node: Node) -> TensorSequence:
    """A sequence without elements."""
    return TensorSequence()


@converter("SequenceConstruct", since=11)
def convert_sequence_construct(node: Node, *values: Value) -> TensorSequence:
    """A sequence of tensors."""
    return TensorSequence(values)


@converter("SequenceInsert", since=11)
def convert_sequence_insert(
    node: Node, sequence: TensorSequence, value: Value, position: Optional[Value] = None
) -> TensorSequence:
    """The sequence with one more tensor."""
    place = len(sequence)
    if position is not None:
        place = node.integers(position, "position")[0]
        if not -len(sequence) <= place <= len(sequence):
            raise node.refuse(f"position {place} is out of range for {len(sequence)} tensors")
        place = place + len(sequence) if place < 0 else place
    return TensorSequence(sequence[:place] + [value] + sequence[place:])


def _find_place(node: Node, sequence: TensorSequence, position: Value) -> int:
    place = node.integers(position, "position")[0]
    if not -len(sequence) <= place < len(sequence):
        raise node.refuse(f"position {place} is out of range for {len(sequence)} tensors")
    return place % len(sequence)


@converter("SequenceErase", since=11)
def convert_sequence_erase(
    node: Node, sequence: TensorSequence, position: Optional[Value] = None
) -> TensorSequence:
    """The sequence without one tensor."""
    place = len(sequence) - 1
    if position is not None:
        place = _find_place(node, sequence, position)
    return TensorSequence(sequence[:place] + sequence[place + 1 :])


@converter("SequenceAt", since=11)
def convert_sequence_at(node: Node, sequence: TensorSequence, position: Value) -> Any:
    """One tensor of a sequence."""
    return (sequence[_find_place(node, sequence, position)],)


@converter("SequenceLength", since=11)
def convert_sequence_length(node: Node, sequence: TensorSequence) -> Value:
    """Number of tensors."""
    return make_constant(np.array(len(sequence), np.int64))


@converter("ConcatFromSequence", since=11)
def convert_concat_from_sequence(node: Node, sequence: TensorSequence) -> Value:
    """All tensors of a sequence, joined."""
    build = node.build
    if not sequence:
        raise node.refuse("the sequence is empty")
    parts = list(sequence)
    new_axis = bool(node.attribute("new_axis", 0))
    axis = node.axis(node.attribute("axis"), parts[0].rank + new_axis)
    if new_axis:
        shape = list(parts[0].shape)
        shape.insert(axis, 1)
        parts = [build.reshape(part, shape) for part in parts]
    return build.concat(parts, axis)


@converter("SplitToSequence", since=11)
def convert_split_to_sequence(
    node: Node, x: Value, split: Optional[Value] = None
) -> TensorSequence:
    """Parts of a tensor along an axis."""
    build = node.build
    axis = node.axis(node.attribute("axis", 0), x.rank)
    length = x.shape[axis]
    squeeze = split is None and not node.attribute("keepdims", 1)
    if split is None:
        lengths = [1] * length
    elif split.rank == 0:
        part = node.integers(split, "split")[0]
        lengths = [min(part, length - begin) for begin in range(0, length, part)]
    else:
        lengths = node.integers(split, "split")
    parts: List[Value] = cut_parts(node, x, axis, lengths)
    if squeeze:
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        parts = [build.reshape(part, shape) for part in parts]
    return TensorSequence(parts)


@converter("SequenceMap", since=17)
def convert_sequence_map(node: Node, first: TensorSequence, *others: Any) -> List[Any]:
    """Runs its body for each tensor of a sequence."""
    body = node.attribute("body")
    rows = []
    for index, value in enumerate(first):
        more = [o[index] if isinstance(o, TensorSequence) else o for o in others]
        rows.append(node.run.run_graph(body, [value] + more, node.scope))
    return [TensorSequence(row[i] for row in rows) for i in range(len(body.output))]


@converter("Optional", since=15)
def convert_optional(node: Node, value: Any = None) -> Any:
    """A value that may be absent."""
    return (value,)


@converter("OptionalHasElement", since=15)
def convert_optional_has_element(node: Node, value: Any = None) -> Value:
    """Whether the value is present."""
    return make_constant(np.array(value is not None))


@converter("OptionalGetElement", since=15)
def convert_optional_get_element(node: Node, value: Any) -> Any:
    """The value that is present."""
    if value is None:
        raise node.refuse("the optional value is absent")
    return (value,)
