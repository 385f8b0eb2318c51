# SPDX-License-Identifier: Apache-2.0
"""Long `Loop` and `Scan` nodes as one loop of a graph, in place of a copy for each step."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _tenon
from .builder import GraphBuilder
from .errors import NeedsElements
from .node import Node
from .values import Shape, Value

LEAST_STEPS = 16  # shorter loops are unrolled


class BodyBuilder(GraphBuilder):
    """Builds the step of a loop; values of the outer graph become arguments of the step."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node_name = node.name
        self.lifted: Dict[int, Tuple[Value, Value]] = {}  # inner and outer one, by id of the outer

    def symbol(self, value: Value) -> Any:
        """Returns the Symbol of a value in the step."""
        if value.handle is not None and _tenon.graph_of(value.handle) is self.graph:
            return value.handle
        found = self.lifted.get(id(value))
        if found is None:
            inner = self.variable(value.name or "outer", value.dtype, value.shape)
            found = self.lifted[id(value)] = (inner, value)
        return found[0].handle


class Step:
    """The step of a loop: its builder, its arguments, and the results of the body."""

    def __init__(self, node: Node, states: Sequence[Value], sequences: Sequence[Value]) -> None:
        self.node = node
        self.build = BodyBuilder(node)
        self.states, self.sequences = list(states), list(sequences)
        self.state_variables = [self._add("state", v.dtype, v.shape) for v in states]
        self.elements = [self._add("element", v.dtype, v.shape[1:]) for v in sequences]
        self.results: List[Value] = []

    def _add(self, name: str, dtype: str, shape: Shape) -> Value:
        return self.build.variable(name, dtype, shape)

    def run_body(self, body: Any, inputs: Sequence[Value], n_conditions: int) -> bool:
        """Builds the step; False if only an unrolled loop has the elements that it needs."""
        runner = self.node.run.with_builder(self.build)
        try:
            results = runner.run_graph(body, inputs, self.node.scope)
        except NeedsElements:
            return False
        conditions, self.results = results[:n_conditions], results[n_conditions:]
        new_states = self.results[: len(self.states)]
        return (
            all(isinstance(value, Value) for value in results)
            and all(v.constant is not None and v.constant.all() for v in conditions)
            and all(_facts(a) == _facts(b) for a, b in zip(new_states, self.states))
        )

    def run_function(self, function: Callable[[List[Value], List[Value]], List[Value]]) -> None:
        """Builds the step by a function of elements and states: the new states, then outputs."""
        outer = self.node.build
        self.node.build = self.build
        try:
            self.results = function(self.elements, self.state_variables)
        finally:
            self.node.build = outer

    def add_loop(self) -> Optional[List[Value]]:
        """Adds the loop to the outer graph: the last states, then the outputs of all steps."""
        outer, inner = self.node.build, self.build
        inner.graph.heads = [inner.symbol(value) for value in self.results]
        used = set(_tenon.list_arguments(inner.graph))
        pairs = zip(self.elements, self.sequences)
        sequences = {v.name: s for v, s in pairs if v.name in used}
        if not sequences or any(v.name not in used for v in self.state_variables):
            return None
        states = {v.name: s for v, s in zip(self.state_variables, self.states)}
        others = {v.name: s for v, s in inner.lifted.values() if v.name in used}
        passed = [
            {name: outer.symbol(value) for name, value in values.items()}
            for values in (sequences, states, others)
        ]
        name = outer.unique_name(self.node.name)
        symbols = outer.graph.loop(inner.graph, *passed, name=name)
        symbols = symbols if isinstance(symbols, tuple) else (symbols,)
        steps, n = self.sequences[0].shape[0], len(self.states)
        shapes = [v.shape if i < n else (steps, *v.shape) for i, v in enumerate(self.results)]
        rows = zip(self.results, shapes, symbols)
        return [Value(v.dtype, shape, handle=symbol) for v, shape, symbol in rows]


def _facts(value: Value) -> Tuple[str, Shape]:
    return value.dtype, value.shape


def can_loop(node: Node, steps: int, states: Sequence[Any]) -> bool:
    """True if a loop of the graph is better than a copy of the body for each step."""
    are_tensors = all(isinstance(value, Value) for value in states)
    return isinstance(node.build, GraphBuilder) and steps >= LEAST_STEPS and are_tensors
