# SPDX-License-Identifier: Apache-2.0
"""Steps of optimisers, and losses."""

from typing import List, Optional

from ..node import Node
from ..registry import TRAINING, converter
from ..values import Value


def _groups(node: Node, values: List[Value], n: int) -> List[List[Value]]:
    """Divides a list of n kinds of arrays into one list for each parameter."""
    count = len(values) // n
    return [list(values[i::count]) for i in range(count)]


def _ungroup(rows: List[List[Value]]) -> List[Value]:
    return [row[i] for i in range(len(rows[0])) for row in rows]


@converter("Momentum", domain=TRAINING)
def convert_momentum(node: Node, rate: Value, step: Value, *values: Value) -> List[Value]:
    """Gradient descent with momentum, standard or Nesterov's."""
    build = node.build
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    decay = node.attribute("norm_coefficient", 0.0)
    first = int(node.elements(step, "T").reshape(-1)[0]) == 0
    share = 1.0 if first else beta
    rows = []
    for x, gradient, velocity in _groups(node, list(values), 3):
        gradient = build.add(gradient, build.scale(x, decay))
        velocity = build.add(build.scale(velocity, alpha), build.scale(gradient, share))
        move = velocity
        if node.attribute("mode") == "nesterov":
            move = build.add(gradient, build.scale(velocity, alpha))
        rows.append([build.sub(x, build.mul(move, rate)), velocity])
    return _ungroup(rows)


@converter("Adagrad", domain=TRAINING)
def convert_adagrad(node: Node, rate: Value, step: Value, *values: Value) -> List[Value]:
    """Gradient descent with the sums of squares of gradients."""
    build = node.build
    count = float(node.elements(step, "T").reshape(-1)[0])
    eps, decay = node.attribute("epsilon", 1e-6), node.attribute("norm_coefficient", 0.0)
    rate = build.scale(rate, 1 / (1 + count * node.attribute("decay_factor", 0.0)))
    rows = []
    for x, gradient, squares in _groups(node, list(values), 3):
        gradient = build.add(gradient, build.scale(x, decay))
        squares = build.add(squares, build.call("elemwise.square", gradient))
        divisor = build.shift(build.call("elemwise.sqrt", squares), eps)
        rows.append([build.sub(x, build.div(build.mul(gradient, rate), divisor)), squares])
    return _ungroup(rows)


@converter("Adam", domain=TRAINING)
def convert_adam(node: Node, rate: Value, step: Value, *values: Value) -> List[Value]:
    """Gradient descent with averages of gradients and of their squares."""
    build = node.build
    count = int(node.elements(step, "T").reshape(-1)[0])
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    eps, decay = node.attribute("epsilon", 1e-6), node.attribute("norm_coefficient", 0.0)
    after = node.attribute("norm_coefficient_post", 0.0)
    if count > 0:
        rate = build.scale(rate, (1 - beta**count) ** 0.5 / (1 - alpha**count))
    rows = []
    for x, gradient, mean, square in _groups(node, list(values), 4):
        gradient = build.add(gradient, build.scale(x, decay))
        mean = build.add(build.scale(mean, alpha), build.scale(gradient, 1 - alpha))
        squared = build.call("elemwise.square", gradient)
        square = build.add(build.scale(square, beta), build.scale(squared, 1 - beta))
        divisor = build.shift(build.call("elemwise.sqrt", square), eps)
        new = build.sub(x, build.div(build.mul(mean, rate), divisor))
        rows.append([build.scale(new, 1 - after), mean, square])
    return _ungroup(rows)


@converter("NegativeLogLikelihoodLoss", since=12)
def convert_nll(node: Node, x: Value, target: Value, weight: Optional[Value] = None) -> Value:
    """Negative logarithms of the probability of classes."""
    return compute_nll(node, x, target, weight)


@converter("SoftmaxCrossEntropyLoss", since=12)
def convert_cross_entropy(
    node: Node, scores: Value, target: Value, weight: Optional[Value] = None
) -> List[Value]:
    """Cross entropies of a softmax."""
    logs = node.build.call("nn.log_softmax", scores, axis=1)
    return [compute_nll(node, logs, target, weight), logs]


def compute_nll(node: Node, x: Value, target: Value, weight: Optional[Value]) -> Value:
    """Picks the classes, weights them, and reduces."""
    build = node.build
    reduction = node.attribute("reduction", "mean")
    ignored = node.attribute("ignore_index")
    active = None
    if ignored is not None:
        number = build.full((), ignored, target.dtype)
        active = build.call("elemwise.is_not_equal", target, number)
        target = build.where(active, target, build.full((), 0, target.dtype))
    loss = build.call("elemwise.negative", build.call("tensor.pick", x, target, axis=1))
    factor = None
    if weight is not None:
        factor = build.call("tensor.take", weight, target, axis=0, mode="clip")
    if active is not None:
        mask = build.cast(active, x.dtype)
        factor = mask if factor is None else build.mul(factor, mask)
    if factor is not None:
        loss = build.mul(loss, factor)
    if reduction == "none":
        return loss
    if reduction == "mean" and factor is None:
        return build.call("tensor.mean", loss)
    total = build.call("tensor.sum", loss)
    return total if reduction == "sum" else build.div(total, build.call("tensor.sum", factor))
