# SPDX-License-Identifier: Apache-2.0
"""Branches and loops."""

from typing import Any, List, Optional, Sequence

import numpy as np

from .. import types
from ..errors import NeedsElements
from ..loops import Step, can_loop
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant

_MOST_UNROLLED = 1024


@converter("If")
def convert_if(node: Node, condition: Value) -> List[Any]:
    """One of two graphs."""
    chosen = bool(node.elements(condition, "cond").reshape(-1)[0])
    branch = node.attribute("then_branch" if chosen else "else_branch")
    return node.run.run_graph(branch, [], node.scope)


@converter("Loop")
def convert_loop(
    node: Node, trips: Optional[Value], condition: Optional[Value], *states: Any
) -> List[Any]:
    """Runs its body as long as a condition holds."""
    body = node.attribute("body")
    most = None if trips is None else node.integers(trips, "M")[0]
    goes_on = condition is None or bool(node.elements(condition, "cond").reshape(-1)[0])
    if most is not None and goes_on and can_loop(node, most, states):
        looped = _loop_in_graph(node, body, most, states)
        if looped is not None:
            return looped
    current, count = list(states), 0
    n_states = len(current)
    collected: List[List[Value]] = [[] for _ in range(len(body.output) - 1 - n_states)]
    while goes_on and (most is None or count < most):
        _check_unrolled(node, count)
        number = make_constant(np.array(count, np.int64))
        again = make_constant(np.array(True))
        results = node.run.run_graph(body, [number, again] + current, node.scope)
        current = results[1 : 1 + n_states]
        for place, value in zip(collected, results[1 + n_states :]):
            place.append(value)
        count += 1
        goes_on = bool(node.elements(results[0], "cond").reshape(-1)[0])
    infos = body.output[1 + n_states :]
    return current + [_stack(node, values, info, 0) for values, info in zip(collected, infos)]


def _loop_in_graph(
    node: Node, body: Any, steps: int, states: Sequence[Value]
) -> Optional[List[Value]]:
    """Makes one loop of a Loop that runs all of its steps."""
    step = Step(node, states, [make_constant(np.arange(steps, dtype=np.int64))])
    inputs = [step.elements[0], make_constant(np.array(True)), *step.state_variables]
    return step.add_loop() if step.run_body(body, inputs, 1) else None


def _check_unrolled(node: Node, count: int) -> None:
    if hasattr(node.build, "graph") and count >= _MOST_UNROLLED:
        raise NeedsElements(f"a loop of more than {_MOST_UNROLLED} steps", node.name, node.operator)


def _stack(node: Node, values: List[Value], info: Any, axis: int) -> Value:
    """Joins the results of all steps along a new axis."""
    build = node.build
    if not values:
        tensor = info.type.tensor_type
        lengths = [d.dim_value for d in tensor.shape.dim]
        dtype = types.numpy_type(types.name_of_type(tensor.elem_type))
        return make_constant(np.zeros([0] + lengths, dtype))
    rows = []
    for value in values:
        shape = list(value.shape)
        shape.insert(axis, 1)
        rows.append(build.reshape(value, shape))
    return build.concat(rows, axis)


@converter("Scan", since=9)
def convert_scan(node: Node, *inputs: Value) -> List[Value]:
    """Runs its body for each element of sequences."""
    body = node.attribute("body")
    count = node.attribute("num_scan_inputs")
    states, sequences = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    axes = node.attribute("scan_input_axes", [0] * count)
    turned = node.attribute("scan_input_directions", [0] * count)
    n_outputs = len(body.output) - len(states)
    axes = [node.axis(axis, x.rank) for axis, x in zip(axes, sequences)]
    steps = sequences[0].shape[axes[0]] if sequences else 0
    if can_loop(node, steps, inputs):
        rows = [_prepare_sequence(node, *row) for row in zip(sequences, axes, turned)]
        step = Step(node, states, rows)
        if step.run_body(body, [*step.state_variables, *step.elements], 0):
            results = step.add_loop()
            if results is not None:
                return results[: len(states)] + _turn_outputs(node, results[len(states) :])
    collected: List[List[Value]] = [[] for _ in range(n_outputs)]
    for step in range(steps):
        _check_unrolled(node, step)
        parts = []
        for x, axis, backward in zip(sequences, axes, turned):
            place = steps - 1 - step if backward else step
            part = node.build.slice_axis(x, axis, place, place + 1)
            parts.append(node.build.reshape(part, x.shape[:axis] + x.shape[axis + 1 :]))
        results = node.run.run_graph(body, states + parts, node.scope)
        for place, value in zip(collected, results[len(states) :]):
            place.append(value)
        states = results[: len(states)]
    return states + _collect(node, body, len(states), collected)


def _prepare_sequence(node: Node, x: Value, axis: int, backward: int) -> Value:
    """Puts the axis of a sequence first, and its steps in the order of the loop."""
    x = node.build.move_axis(x, axis, 0)
    return node.build.call("tensor.reverse", x, axis=[0]) if backward else x


def _turn_outputs(node: Node, outputs: List[Value]) -> List[Value]:
    """Puts the steps of outputs in their order, and their axis in its place."""
    axes = node.attribute("scan_output_axes", [0] * len(outputs))
    turned = node.attribute("scan_output_directions", [0] * len(outputs))
    results = []
    for x, axis, backward in zip(outputs, axes, turned):
        x = node.build.call("tensor.reverse", x, axis=[0]) if backward else x
        results.append(node.build.move_axis(x, 0, node.axis(axis, x.rank)))
    return results


def _collect(node: Node, body: Any, n_states: int, collected: List[List[Value]]) -> List[Value]:
    count = len(collected)
    axes = node.attribute("scan_output_axes", [0] * count)
    turned = node.attribute("scan_output_directions", [0] * count)
    results = []
    for i, values in enumerate(collected):
        rank = values[0].rank + 1 if values else 1
        ordered = values[::-1] if turned[i] else values
        axis = node.axis(axes[i], rank)
        results.append(_stack(node, ordered, body.output[n_states + i], axis))
    return results


@converter("Scan", since=8)
def convert_scan_8(node: Node, lengths: Optional[Value], *inputs: Value) -> List[Value]:
    """The first form of Scan, which has a batch axis before the steps."""
    build = node.build
    if lengths is not None:
        raise node.refuse("`sequence_lens` of Scan before opset 9")
    if any(node.attribute("directions", [0])):
        raise node.refuse("`directions` of Scan before opset 9")
    body = node.attribute("body")
    count = node.attribute("num_scan_inputs")
    n_states = len(inputs) - count
    batches = []
    for number in range(inputs[0].shape[0]):
        rows = [
            build.reshape(build.slice_axis(x, 0, number, number + 1), x.shape[1:]) for x in inputs
        ]
        states, sequences = rows[:n_states], rows[n_states:]
        collected: List[List[Value]] = [[] for _ in range(len(body.output) - n_states)]
        for step in range(sequences[0].shape[0]):
            _check_unrolled(node, step)
            parts = [
                build.reshape(build.slice_axis(x, 0, step, step + 1), x.shape[1:])
                for x in sequences
            ]
            results = node.run.run_graph(body, states + parts, node.scope)
            states = results[:n_states]
            for place, value in zip(collected, results[n_states:]):
                place.append(value)
        infos = body.output[n_states:]
        batches.append(states + [_stack(node, v, info, 0) for v, info in zip(collected, infos)])
    return [_stack(node, list(column), None, 0) for column in zip(*batches)]


