# SPDX-License-Identifier: Apache-2.0
"""Attention and rotary embeddings."""

from typing import Optional

import numpy as np

from ..node import Node
from ..registry import converter
from ..values import Value, make_constant


@converter("RotaryEmbedding", since=23)
def convert_rotary(
    node: Node, x: Value, cos: Value, sin: Value, positions: Optional[Value] = None
) -> Value:
    """Rotates pairs of elements by angles that belong to positions."""
    build = node.build
    heads = node.attribute("num_heads", 0)
    if positions is None:
        batch, steps, pairs = cos.shape
        cos, sin = (build.reshape(v, (batch * steps, pairs)) for v in (cos, sin))
        positions = make_constant(np.arange(batch * steps, dtype=np.int64).reshape(batch, steps))
    return build.call(
        "nn.rotary",
        x,
        cos,
        sin,
        positions,
        interleaved=bool(node.attribute("interleaved", 0)),
        rotary_dim=node.attribute("rotary_embedding_dim", 0),
        num_heads=heads if x.rank == 3 else 0,
    )
