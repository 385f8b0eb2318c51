# SPDX-License-Identifier: Apache-2.0
"""Random numbers; a `seed` of the model is refused, because the streams are Tenon's own."""

from typing import Sequence

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value


def _draw(node: Node, shape: Sequence[int], dtype: str) -> Value:
    if "Normal" in node.proto.op_type:
        bounds = dict(loc=node.attribute("mean", 0.0), scale=node.attribute("scale", 1.0))
        return node.build.call("random.normal", shape=list(shape), dtype=dtype, **bounds)
    bounds = dict(low=node.attribute("low", 0.0), high=node.attribute("high", 1.0))
    return node.build.call("random.uniform", shape=list(shape), dtype=dtype, **bounds)


@converter("RandomUniform", "RandomNormal")
def convert_random(node: Node) -> Value:
    """Random numbers of a shape that is an attribute."""
    return _draw(node, node.attribute("shape"), types.name_of_type(node.attribute("dtype", 1)))


@converter("RandomUniformLike", "RandomNormalLike")
def convert_random_like(node: Node, x: Value) -> Value:
    """Random numbers in the shape of another array."""
    number = node.attribute("dtype")
    return _draw(node, x.shape, types.name_of_type(number) if number else x.dtype)


@converter("Multinomial", since=7)
def convert_multinomial(node: Node, x: Value) -> Value:
    """Numbers of classes, drawn by logarithms of their probabilities."""
    build = node.build
    chances = build.call("nn.softmax", build.cast(x, "f32"), axis=-1)
    count = node.attribute("sample_size", 1)
    dtype = types.name_of_type(node.attribute("dtype", 6))
    return build.call("random.multinomial", chances, shape=[count], dtype=dtype)[0]


@converter("Bernoulli", since=15)
def convert_bernoulli(node: Node, x: Value) -> Value:
    """Ones with the probability of each element."""
    build = node.build
    drawn = build.call("random.uniform", shape=list(x.shape), dtype="f32")
    number = node.attribute("dtype")
    dtype = types.name_of_type(number) if number else x.dtype
    return build.cast(build.call("elemwise.is_less", drawn, build.cast(x, "f32")), dtype)
