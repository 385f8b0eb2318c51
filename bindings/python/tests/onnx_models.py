# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models for tests. Import it after pytest.importorskip("onnx")."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tenon as tn
import tenon.onnx

RNG = np.random.default_rng(11)


def draw(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def port(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def make_model(nodes, inputs, outputs, weights=(), opset=18, domains=(), functions=()):
    """A model; `weights` is a dict of arrays."""
    graph = helper.make_graph(
        nodes, "net", inputs, outputs,
        [numpy_helper.from_array(array, name) for name, array in dict(weights).items()])
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


def make_dense():
    """y = relu(x*w + b)"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
             helper.make_node("Add", ["p", "b"], ["s"], name="sum"),
             helper.make_node("Relu", ["s"], ["y"], name="relu")]
    weights = {"w": draw(3, 4), "b": draw(4)}
    return make_model(nodes, [port("x", ["N", 3])], [port("y", ["N", 4])], weights), weights


def run_both(model, feeds):
    """Runs eagerly and as a graph, and compares the two; returns the outputs."""
    eager = tn.onnx.load(model, "eager").run(feeds)
    graph = tn.onnx.load(model, "graph").run(feeds)
    assert list(eager) == list(graph)
    for name in eager:
        np.testing.assert_allclose(graph[name].numpy(), eager[name].numpy(), rtol=1e-6, atol=1e-6)
    return {name: array.numpy() for name, array in eager.items()}
