# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: `nn.rnn` where its cells are those of the node, otherwise step by step."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..builder import Builder
from ..loops import Step, can_loop
from ..node import Node
from ..registry import converter
from ..values import Value

_PLAIN = {
    "Sigmoid": "elemwise.sigmoid",
    "Tanh": "elemwise.tanh",
    "Relu": "elemwise.relu",
    "Softsign": "elemwise.softsign",
    "Softplus": "elemwise.softplus",
}

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# The place, among the gates of ONNX, of each gate of `nn.rnn`.
_ORDER = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}


class Layer:
    """Inputs and attributes of one recurrent node."""

    def __init__(self, node: Node, inputs: Sequence[Optional[Value]]) -> None:
        self.node = node
        self.kind = node.proto.op_type
        padded = list(inputs) + [None] * (8 - len(inputs))
        self.x, self.w, self.r, self.b, lengths, self.h, self.c, self.peepholes = padded
        self.is_batch_first = bool(node.attribute("layout", 0))
        if self.is_batch_first:
            self.x = self.build.transpose(self.x, (1, 0, 2))
            self.h = self._swap(self.h)
            self.c = self._swap(self.c)
        self.hidden = self.r.shape[2]
        self.directions = self.w.shape[0]
        self.direction = node.attribute("direction", "forward")
        self.steps, self.batch = self.x.shape[:2]
        self.lengths = self._read_lengths(lengths)
        count = len(_DEFAULTS[self.kind])
        self.activations = node.attribute("activations", _DEFAULTS[self.kind] * self.directions)
        if len(self.activations) != count * self.directions:
            raise node.refuse(f"{len(self.activations)} `activations`")

    @property
    def build(self) -> Builder:
        """The builder of the node, or that of the step of a loop."""
        return self.node.build

    def _swap(self, value: Optional[Value]) -> Optional[Value]:
        return None if value is None else self.build.transpose(value, (1, 0, 2))

    def _read_lengths(self, lengths: Optional[Value]) -> Optional[Value]:
        """Returns the lengths of sequences, or None if all have all steps."""
        if lengths is None:
            return None
        known = self.build.find_elements(lengths)
        if known is not None and np.all(known == self.steps):
            return None
        return lengths

    @property
    def is_plain(self) -> bool:
        """True if `nn.rnn` has the same cells."""
        defaults = _DEFAULTS[self.kind]
        names = self.activations
        is_default = names == defaults * self.directions
        if self.kind == "RNN":
            is_default = len(set(names)) == 1 and names[0] in ("Tanh", "Relu")
        if self.kind == "GRU" and not self.node.attribute("linear_before_reset", 0):
            return False
        return (
            is_default
            and self.lengths is None
            and self.peepholes is None
            and not self.node.has("clip")
            and not self.node.attribute("input_forget", 0)
        )

    def finish(self, y: Value, states: List[Value]) -> List[Value]:
        """Puts the axes of the results in the order of `layout`."""
        if not self.is_batch_first:
            return [y] + states
        states = [self.build.transpose(state, (1, 0, 2)) for state in states]
        return [self.build.transpose(y, (2, 0, 1, 3))] + states

    def part(self, value: Value, direction: int) -> Value:
        """Returns the weights of one direction."""
        chosen = self.build.slice_axis(value, 0, direction, direction + 1)
        return self.build.reshape(chosen, value.shape[1:])

    def start(self, value: Optional[Value], direction: int) -> Value:
        """Returns the state before the first step."""
        if value is None:
            return self.build.full((self.batch, self.hidden), 0, self.x.dtype)
        return self.part(value, direction)


@converter("RNN", "GRU", "LSTM", since=7)
def convert_recurrent(node: Node, *inputs: Optional[Value]) -> List[Value]:
    """Recurrent layers."""
    layer = Layer(node, inputs)
    return _call_rnn(layer) if layer.is_plain else _run_steps(layer)


# ------------------------------------------------------------------ nn.rnn


def _sort_gates(layer: Layer, value: Value) -> Value:
    """Puts blocks of rows in the order of `nn.rnn`."""
    hidden = layer.hidden
    build = layer.build
    order = _ORDER[layer.kind]
    parts = [build.slice_axis(value, 0, i * hidden, (i + 1) * hidden) for i in order]
    return build.concat(parts, 0)


def _pack_parameters(layer: Layer) -> Value:
    build = layer.build
    gates = _GATES[layer.kind]
    weights: List[Value] = []
    biases: List[Value] = []
    for direction in range(layer.directions):
        for value in (layer.w, layer.r):
            rows = _sort_gates(layer, layer.part(value, direction))
            weights.append(build.reshape(rows, (rows.size,)))
        if layer.b is None:
            biases.append(build.full((2 * gates * layer.hidden,), 0, layer.x.dtype))
            continue
        both = layer.part(layer.b, direction)
        for begin in (0, gates * layer.hidden):
            half = build.slice_axis(both, 0, begin, begin + gates * layer.hidden)
            biases.append(_sort_gates(layer, half))
    return build.concat(weights + biases, 0)


def _call_rnn(layer: Layer) -> List[Value]:
    build = layer.build
    mode = {"RNN": f"rnn_{layer.activations[0].lower()}", "GRU": "gru", "LSTM": "lstm"}[layer.kind]
    is_reverse = layer.direction == "reverse"
    x = build.call("tensor.reverse", layer.x, axis=[0]) if is_reverse else layer.x
    shape = (layer.directions, layer.batch, layer.hidden)
    start = layer.h if layer.h is not None else build.full(shape, 0, layer.x.dtype)
    inputs = [x, _pack_parameters(layer), start]
    if layer.kind == "LSTM":
        inputs.append(layer.c if layer.c is not None else build.full(shape, 0, layer.x.dtype))
    y, h, c = build.call(
        "nn.rnn",
        *inputs,
        state_size=layer.hidden,
        bidirectional=layer.directions == 2,
        mode=mode,
    )
    if is_reverse:
        y = build.call("tensor.reverse", y, axis=[0])
    y = build.reshape(y, (layer.steps, layer.batch, layer.directions, layer.hidden))
    y = build.transpose(y, (0, 2, 1, 3))
    return layer.finish(y, [h, c] if layer.kind == "LSTM" else [h])


# ------------------------------------------------------------ step by step


def _run_steps(layer: Layer) -> List[Value]:
    build = layer.build
    outputs, hs, cs = [], [], []
    for direction in range(layer.directions):
        backward = layer.direction == "reverse" or direction == 1
        y, h, c = _run_direction(layer, direction, backward)
        outputs.append(build.reshape(y, (layer.steps, 1, layer.batch, layer.hidden)))
        hs.append(build.reshape(h, (1, layer.batch, layer.hidden)))
        cs.append(build.reshape(c, (1, layer.batch, layer.hidden)))
    states = [build.concat(hs, 0)]
    if layer.kind == "LSTM":
        states.append(build.concat(cs, 0))
    return layer.finish(build.concat(outputs, 1), states)


def _run_direction(layer: Layer, direction: int, backward: bool) -> Tuple[Value, Value, Value]:
    build = layer.build
    cell = Cell(layer, direction)
    h, c = layer.start(layer.h, direction), layer.start(layer.c, direction)
    if layer.lengths is None and can_loop(layer.node, layer.steps, [h, c]):
        return _loop_direction(layer, cell, [h, c], backward)
    order = range(layer.steps)
    outputs: Dict[int, Value] = {}
    for step in reversed(order) if backward else order:
        x = build.reshape(build.slice_axis(layer.x, 0, step, step + 1), layer.x.shape[1:])
        new_h, new_c = cell.compute(x, h, c)
        if layer.lengths is None:
            h, c, outputs[step] = new_h, new_c, new_h
            continue
        number = build.full((), step, layer.lengths.dtype)
        active = build.call("elemwise.is_greater", layer.lengths, number)
        active = build.reshape(active, (layer.batch, 1))
        h, c = build.where(active, new_h, h), build.where(active, new_c, c)
        outputs[step] = build.where(active, new_h, build.full((), 0, new_h.dtype))
    rows = [build.reshape(outputs[i], (1,) + outputs[i].shape) for i in order]
    return build.concat(rows, 0), h, c


def _loop_direction(
    layer: Layer, cell: "Cell", states: List[Value], backward: bool
) -> Tuple[Value, Value, Value]:
    """Runs the steps as one loop of the graph."""
    build = layer.build
    n_states = 2 if layer.kind == "LSTM" else 1
    x = build.call("tensor.reverse", layer.x, axis=[0]) if backward else layer.x
    step = Step(layer.node, states[:n_states], [x])

    def compute_step(elements: List[Value], variables: List[Value]) -> List[Value]:
        h, c = (variables + states[1:])[:2]
        h, c = cell.compute(elements[0], h, c)
        return [h, c, h] if n_states == 2 else [h, h]

    step.run_function(compute_step)
    results = step.add_loop()
    y = build.call("tensor.reverse", results[-1], axis=[0]) if backward else results[-1]
    return y, results[0], results[1] if n_states == 2 else states[1]


class Cell:
    """One step of one direction."""

    def __init__(self, layer: Layer, direction: int) -> None:
        self.layer = layer
        count = len(_DEFAULTS[layer.kind])
        self.names = layer.activations[direction * count : (direction + 1) * count]
        self.numbers = _read_numbers(layer.node, layer.activations, direction * count, count)
        self.w = self.build.transpose(layer.part(layer.w, direction), (1, 0))
        self.r = self.build.transpose(layer.part(layer.r, direction), (1, 0))
        gates = _GATES[layer.kind] * layer.hidden
        self.wb = self.rb = None
        if layer.b is not None:
            both = layer.part(layer.b, direction)
            self.wb = self.build.slice_axis(both, 0, 0, gates)
            self.rb = self.build.slice_axis(both, 0, gates, 2 * gates)
        self.peepholes = None
        if layer.peepholes is not None:
            self.peepholes = layer.part(layer.peepholes, direction)

    @property
    def build(self) -> Builder:
        """The builder of the layer."""
        return self.layer.build

    def compute(self, x: Value, h: Value, c: Value) -> Tuple[Value, Value]:
        """Returns the states after the step."""
        inner = self._affine(x, self.w, self.wb)
        if self.layer.kind == "RNN":
            return self._apply(0, self.build.add(inner, self._affine(h, self.r, self.rb))), c
        if self.layer.kind == "GRU":
            return self._compute_gru(inner, h), c
        return self._compute_lstm(self.build.add(inner, self._affine(h, self.r, self.rb)), c)

    def _affine(self, x: Value, weight: Value, bias: Optional[Value]) -> Value:
        product = self.build.call("tensor.dot", x, weight)
        return product if bias is None else self.build.add(product, bias)

    def _apply(self, index: int, x: Value) -> Value:
        clip = self.layer.node.attribute("clip")
        if clip is not None:
            x = self.build.call("elemwise.clip", x, a_min=-clip, a_max=clip)
        return _activate(self.layer.node, self.names[index], self.numbers[index], x)

    def _gate(self, x: Value, index: int) -> Value:
        hidden = self.layer.hidden
        return self.build.slice_axis(x, x.rank - 1, index * hidden, (index + 1) * hidden)

    def _gate_of(self, value: Optional[Value], index: int) -> Optional[Value]:
        return None if value is None else self._gate(value, index)

    def _compute_gru(self, inner: Value, h: Value) -> Value:
        build = self.build
        gates = []
        for index in (0, 1):
            state = self._affine(h, self._gate(self.r, index), self._gate_of(self.rb, index))
            gates.append(self._apply(0, build.add(self._gate(inner, index), state)))
        z, r = gates
        weight, bias = self._gate(self.r, 2), self._gate_of(self.rb, 2)
        if self.layer.node.attribute("linear_before_reset", 0):
            state = build.mul(r, self._affine(h, weight, bias))
        else:
            state = self._affine(build.mul(r, h), weight, bias)
        n = self._apply(1, build.add(self._gate(inner, 2), state))
        kept = build.mul(z, h)
        rest = build.call("elemwise.rsub_scalar", z, scalar=1.0)
        return build.add(build.mul(rest, n), kept)

    def _compute_lstm(self, gates: Value, c: Value) -> Tuple[Value, Value]:
        build = self.build
        i, o, f, g = (self._gate(gates, index) for index in range(4))
        peep_i, peep_o, peep_f = (self._gate_of(self.peepholes, index) for index in range(3))
        if peep_i is not None:
            i = build.add(i, build.mul(peep_i, c))
            f = build.add(f, build.mul(peep_f, c))
        i = self._apply(0, i)
        if self.layer.node.attribute("input_forget", 0):
            f = build.call("elemwise.rsub_scalar", i, scalar=1.0)
        else:
            f = self._apply(0, f)
        new = build.add(build.mul(f, c), build.mul(i, self._apply(1, g)))
        if peep_o is not None:
            o = build.add(o, build.mul(peep_o, new))
        o = self._apply(0, o)
        return build.mul(o, self._apply(2, new)), new


_NUMBERS = {
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
    "Affine": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0),
}


def _read_numbers(node: Node, names: List[str], first: int, count: int) -> List[tuple]:
    """Returns alpha and beta of each activation; only those with numbers take some."""
    alphas = list(node.attribute("activation_alpha", []))
    betas = list(node.attribute("activation_beta", []))
    numbers: List[Tuple[Any, Any]] = []
    for name in names:
        alpha, beta = _NUMBERS.get(name, (None, None))
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        numbers.append((alpha, beta))
    return numbers[first : first + count]


def _activate(node: Node, name: str, numbers: tuple, x: Value) -> Value:
    build = node.build
    alpha, beta = numbers
    if name in _PLAIN:
        return build.call(_PLAIN[name], x)
    if name == "HardSigmoid":
        return build.call("elemwise.hard_sigmoid", x, alpha=alpha, beta=beta)
    if name in ("LeakyRelu", "Elu"):
        kind = "elu" if name == "Elu" else "leaky"
        return build.call("nn.leaky_relu", x, act_type=kind, slope=alpha)
    if name == "ThresholdedRelu":
        return build.call("elemwise.threshold", x, threshold=alpha, value=0.0)
    if name == "Affine":
        return build.shift(build.scale(x, alpha), beta)
    if name == "ScaledTanh":
        return build.scale(build.call("elemwise.tanh", build.scale(x, beta)), alpha)
    raise node.refuse(f"the activation {name!r}")
