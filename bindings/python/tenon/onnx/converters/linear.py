# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from typing import Optional

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value


@converter("MatMul")
def convert_matmul(node: Node, x: Value, y: Value) -> Value:
    """Products with the rules of NumPy."""
    return node.build.dot(x, y)


@converter("Gemm", since=7)
def convert_gemm(node: Node, a: Value, b: Value, c: Optional[Value] = None) -> Value:
    """`alpha*A*B + beta*C`, each of A and B transposed on request."""
    build = node.build
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    turn_a, turn_b = bool(node.attribute("transA", 0)), bool(node.attribute("transB", 0))
    if _is_dense_layer(node, a, b, c):
        return build.call("nn.fully_connected", a, b, c, num_hidden=b.shape[0])
    if a.dtype in types.FLOATS:
        product = build.call("tensor.dot", a, b, transpose_a=turn_a, transpose_b=turn_b)
    else:
        a = build.transpose(a, (1, 0)) if turn_a else a
        b = build.transpose(b, (1, 0)) if turn_b else b
        product = build.dot(a, b)
    product = build.scale(product, alpha)
    return product if c is None or beta == 0 else build.add(product, build.scale(c, beta))


def _is_dense_layer(node: Node, a: Value, b: Value, c: Optional[Value]) -> bool:
    return (
        c is not None
        and a.dtype in types.FLOATS
        and c.shape == (b.shape[0],)
        and node.attribute("alpha", 1.0) == 1
        and node.attribute("beta", 1.0) == 1
        and not node.attribute("transA", 0)
        and bool(node.attribute("transB", 0))
    )


@converter("Einsum", since=12)
def convert_einsum(node: Node, *inputs: Value) -> Value:
    """Products of arrays, summed over the dimensions that a text names."""
    equation = node.attribute("equation").replace(" ", "")
    return node.build.call("tensor.einsum", *inputs, equation=equation)
