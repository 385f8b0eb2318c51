# SPDX-License-Identifier: Apache-2.0
"""Activations: functions of one element that networks use."""

import math

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant

_PLAIN = {
    "HardSwish": "hard_swish",
    "Mish": "mish",
    "Softplus": "softplus",
    "Softsign": "softsign",
}


@converter(*_PLAIN)
def convert_plain(node: Node, x: Value) -> Value:
    """Activations without attributes."""
    return node.build.call("elemwise." + _PLAIN[node.proto.op_type], x)


@converter("Relu", since=6)
def convert_relu(node: Node, x: Value) -> Value:
    """Rectifier, also of integers."""
    if x.dtype in types.FLOATS:
        return node.build.call("elemwise.relu", x)
    return node.build.call("elemwise.maximum_scalar", x, scalar=0.0)


@converter("LeakyRelu", since=6)
def convert_leaky_relu(node: Node, x: Value) -> Value:
    """Rectifier with a slope below 0."""
    return _scale_negative(node, x, make_constant(node.attribute("alpha", 0.01), x.dtype))


@converter("PRelu", since=7)
def convert_prelu(node: Node, x: Value, slope: Value) -> Value:
    """Rectifier with slopes that are an input."""
    return _scale_negative(node, x, slope)


def _scale_negative(node: Node, x: Value, slope: Value) -> Value:
    """Returns x, or slope*x where x is negative."""
    build = node.build
    if slope.size == 1 and slope.constant is not None and x.dtype in types.FLOATS:
        number = float(slope.constant.reshape(-1)[0])
        if number >= 0:
            return build.call("nn.leaky_relu", x, act_type="leaky", slope=number)
    negative = build.call("elemwise.is_less", x, build.full((), 0, x.dtype))
    return build.where(negative, build.mul(x, slope), x)


@converter("Elu", since=6)
def convert_elu(node: Node, x: Value) -> Value:
    """Exponential below 0."""
    alpha = node.attribute("alpha", 1.0)
    return node.build.call("nn.leaky_relu", x, act_type="elu", slope=alpha)


@converter("Selu", since=6)
def convert_selu(node: Node, x: Value) -> Value:
    """Scaled exponential below 0."""
    alpha = node.attribute("alpha", 1.67326319217681884765625)
    gamma = node.attribute("gamma", 1.05070102214813232421875)
    elu = node.build.call("nn.leaky_relu", x, act_type="elu", slope=alpha)
    return node.build.scale(elu, gamma)


@converter("Celu", since=12)
def convert_celu(node: Node, x: Value) -> Value:
    """Exponential below 0 with the slope 1 at 0."""
    return node.build.call("elemwise.celu", x, alpha=node.attribute("alpha", 1.0))


@converter("ThresholdedRelu", since=10)
def convert_thresholded_relu(node: Node, x: Value) -> Value:
    """Elements above a bound, elsewhere 0."""
    alpha = node.attribute("alpha", 1.0)
    return node.build.call("elemwise.threshold", x, threshold=alpha, value=0.0)


@converter("HardSigmoid", since=6)
def convert_hard_sigmoid(node: Node, x: Value) -> Value:
    """Line between 0 and 1."""
    return node.build.call(
        "elemwise.hard_sigmoid",
        x,
        alpha=node.attribute("alpha", 0.2),
        beta=node.attribute("beta", 0.5),
    )


@converter("Gelu", since=20)
def convert_gelu(node: Node, x: Value) -> Value:
    """Element times the normal distribution function, or the form with tanh."""
    build = node.build
    if node.attribute("approximate", "none") == "none":
        return build.call("elemwise.gelu", x)
    cube = build.mul(build.call("elemwise.square", x), x)
    inner = build.scale(build.add(x, build.scale(cube, 0.044715)), math.sqrt(2 / math.pi))
    factor = build.shift(build.call("elemwise.tanh", inner), 1)
    return build.mul(build.scale(x, 0.5), factor)


@converter("Swish", since=24)
def convert_swish(node: Node, x: Value) -> Value:
    """Element times the sigmoid of alpha times the element."""
    return node.build.call("elemwise.swish", x, alpha=node.attribute("alpha", 1.0))


@converter("Shrink", since=9)
def convert_shrink(node: Node, x: Value) -> Value:
    """Moves elements towards 0; those near 0 become 0."""
    build = node.build
    wide = x if x.dtype in types.FLOATS else build.cast(x, "f32")
    bound, bias = node.attribute("lambd", 0.5), node.attribute("bias", 0.0)
    return build.cast(build.call("elemwise.shrink", wide, bound=bound, bias=bias), x.dtype)
