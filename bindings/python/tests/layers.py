# SPDX-License-Identifier: Apache-2.0
"""Arrays and a small graph for the tests of graphs."""

import numpy as np

import tenon as tn

RNG = np.random.default_rng(7)


def draw(*shape):
    return RNG.uniform(0.5, 2, shape).astype(np.float32)


def make_layer():
    g = tn.Graph()
    x = g.variable("data", shape=(None, 3), dtype="f32")
    y = g.call("nn.fully_connected", x, name="fc1", num_hidden=4)
    g.heads = [g.call("elemwise.relu", y, name="relu1")]
    return g


def make_chain(n):
    y = tn.var("x")
    for i in range(n):
        y = tn.ops.elemwise.tanh(tn.ops.nn.fully_connected(
            y, num_hidden=64, no_bias=True, name=f"fc{i}"), name=f"t{i}")
    return tn.Graph(y)
