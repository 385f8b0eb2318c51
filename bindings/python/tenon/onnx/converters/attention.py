# SPDX-License-Identifier: Apache-2.0
"""Attention and rotary embeddings."""

from typing import Any, List, Optional, Sequence

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


@converter("Attention", since=23)
def convert_attention(node: Node, *inputs: Optional[Value]) -> List[Any]:
    """Sums of values, weighted by the softmax of products of queries and keys."""
    q, k, v, mask, past_k, past_v, lengths = list(inputs) + [None] * (7 - len(inputs))
    window = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    softcap = node.attribute("softcap", 0.0)
    special = node.has_output(3) or lengths is not None or window != (-1, -1)
    if special or (softcap and mask is not None):
        return node.run.run_schema(node, inputs)
    build = node.build
    is_flat = q.rank == 3
    if is_flat:
        heads = node.attribute("q_num_heads")
        q = _split_heads(node, q, heads)
        k, v = (_split_heads(node, x, node.attribute("kv_num_heads")) for x in (k, v))
    if past_k is not None:
        k, v = build.concat([past_k, k], 2), build.concat([past_v, v], 2)
    operands = [q, k, v]
    if mask is not None:
        operands.append(_fit_mask(node, mask, k.shape[2]))
    result = build.call(
        "nn.attention",
        *operands,
        scale=node.attribute("scale"),
        causal=bool(node.attribute("is_causal", 0)),
        causal_offset=0 if past_k is None else past_k.shape[2],
        softcap=softcap,
    )
    if is_flat:
        result = build.transpose(result, (0, 2, 1, 3))
        result = build.reshape(result, result.shape[:2] + (result.shape[2] * result.shape[3],))
    return [result, k, v]


def _split_heads(node: Node, x: Value, heads: int) -> Value:
    batch, steps, width = x.shape
    parts = node.build.reshape(x, (batch, steps, heads, width // heads))
    return node.build.transpose(parts, (0, 2, 1, 3))


def _fit_mask(node: Node, mask: Value, length: int) -> Value:
    """Masks the keys that a shorter mask does not name."""
    missing = length - mask.shape[-1]
    if missing > 0:
        block = node.build.full(
            mask.shape[:-1] + (missing,), False if mask.dtype == "bool" else -np.inf, mask.dtype
        )
        mask = node.build.concat([mask, block], mask.rank - 1)
    return mask


@converter("LinearAttention", since=27)
def convert_linear_attention(
    node: Node,
    q: Value,
    k: Value,
    v: Value,
    past: Optional[Value] = None,
    decay: Optional[Value] = None,
    beta: Optional[Value] = None,
) -> Sequence[Value]:
    """Attention through a state of fixed size, which each step updates."""
    build = node.build
    heads = node.attribute("kv_num_heads")
    dtype, state_dtype = q.dtype, q.dtype if past is None else past.dtype
    operands = [_split_heads(node, q, node.attribute("q_num_heads"))]
    operands += [_split_heads(node, x, heads) for x in (k, v)]
    operands.append(None if decay is None else _split_heads(node, decay, heads))
    if beta is not None:
        beta = build.broadcast_to(beta, beta.shape[:2] + (heads,))
        beta = build.transpose(beta, (0, 2, 1))
    operands += [beta, past]
    wide = "f32" if dtype in ("f16", "bf16") else dtype
    operands = [None if x is None else build.cast(x, wide) for x in operands]
    scale = node.attribute("scale", 0.0) or None
    result, state = build.call("nn.linear_attention", *operands, scale=scale)
    batch, count, steps, width = result.shape
    result = build.reshape(build.transpose(result, (0, 2, 1, 3)), (batch, steps, count * width))
    return [build.cast(result, dtype), build.cast(state, state_dtype)]
