#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/attention_cases.inc: values of nn.attention and nn.rotary
for test_attention.c (tests/plugins/cases.c).

    attention.py > attention_cases.inc

Scores, masks and softmax are composed of torch functions in f64, gradients are
those of its autograd; a case without a cap is also compared with torch's own
scaled dot product attention. Nothing here knows of Tenon. The committed file was
made with torch 1.13.0, NumPy 1.24.2, Python 3.11.
"""

import numpy as np
import torch

from operands import show_list

RANDOM = np.random.default_rng(8)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return torch.tensor(RANDOM.integers(-16, 17, size=shape) / 8,
                        dtype=torch.float64)


def case(op, params, inputs, outputs, gradients, head):
    print(f'{{"nn.{op}", "{params}", 0,')
    for each in inputs, [], outputs, [], [head], gradients:
        print(f" {show_list(each)},")
    print("},")


# ----------------------------------------------------------------- attention

def find_scores(q, k, options):
    """Of every head, with masks; in the order of the operator's page."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scale = options.get("scale", 1 / np.sqrt(q.shape[3]))
    score = scale * q @ k.transpose(2, 3)
    if "softcap" in options:
        score = options["softcap"] * torch.tanh(score / options["softcap"])
    if "mask" in options:
        score = score + options["mask"]
    own = torch.arange(q.shape[2])[:, None] + options.get("causal_offset", 0)
    column = torch.arange(k.shape[2])[None, :]
    hidden = torch.zeros(own.shape[0], column.shape[1], dtype=torch.bool)
    if options.get("causal"):
        hidden = hidden | (column > own)
    if "window" in options:
        hidden = hidden | (column <= own - options["window"])
    return score.masked_fill(hidden, -np.inf)


def attention(heads, key_heads, rows, columns, depth, width, **options):
    batch = options.pop("batch", 1)
    q, k = draw(batch, heads, rows, depth), draw(batch, key_heads, columns, depth)
    v = draw(batch, key_heads, columns, width)
    for each in q, k, v:
        each.requires_grad_(True)
    score = find_scores(q, k, options)
    lse = torch.logsumexp(score, 3)
    weights = torch.softmax(score, 3)
    out = weights @ v.repeat_interleave(heads // key_heads, dim=1)
    if not options and heads == key_heads:
        same = torch._C._nn._scaled_dot_product_attention(q, k, v)[0]
        assert torch.allclose(out, same, atol=1e-14)
    head = draw(*out.shape)
    gradients = torch.autograd.grad(out, (q, k, v), head)
    mask = options.pop("mask", None)
    params = " ".join(f"{name}={str(value).lower()}"
                      for name, value in options.items())
    case("attention", params, [q, k, v] + ([mask] if mask is not None else []),
         [out, lse, torch.zeros(3)], gradients, head)


# -------------------------------------------------------------------- rotary

def rotate(x, cosine, sine, interleaved):
    """Of rows (..., S, D)."""
    pairs = cosine.shape[1]
    if interleaved:
        a, b = x[..., 0:2 * pairs:2], x[..., 1:2 * pairs:2]
    else:
        a, b = x[..., :pairs], x[..., pairs:2 * pairs]
    a, b = a * cosine - b * sine, b * cosine + a * sine
    turned = torch.stack((a, b), -1).flatten(-2) if interleaved else \
        torch.cat((a, b), -1)
    return torch.cat((turned, x[..., 2 * pairs:]), -1)


def rotary(batch, heads, places, depth, params="", pairs=0, flat=False):
    pairs = pairs or depth // 2
    x = draw(batch, places, heads * depth) if flat else \
        draw(batch, heads, places, depth)
    cosine, sine = draw(places + 1, pairs), draw(places + 1, pairs)
    x.requires_grad_(True)
    rows = x.view(batch, places, heads, depth).transpose(1, 2) if flat else x
    out = rotate(rows, cosine[:places], sine[:places], "interleaved" in params)
    if flat:
        out = out.transpose(1, 2).reshape(batch, places, heads * depth)
    head = draw(*out.shape)
    gradients = torch.autograd.grad(out, (x,), head)
    case("rotary", params, [x, cosine, sine], [out], gradients, head)


print("/* Written by tests/reference/attention.py. */")
attention(2, 2, 3, 4, 3, 2)
attention(1, 1, 5, 7, 2, 3, batch=2)
attention(1, 1, 1, 9, 4, 5)
attention(4, 2, 3, 3, 4, 2, scale=0.5)
attention(3, 1, 4, 5, 2, 4, causal=True, causal_offset=1)
attention(1, 1, 8, 8, 3, 2, causal=True, window=3)
attention(2, 1, 3, 6, 2, 2, softcap=1.5, scale=2)
attention(2, 2, 2, 5, 3, 3, mask=draw(2, 2, 5))
attention(2, 1, 3, 4, 2, 2, mask=draw(1, 1, 1, 4), causal=True, softcap=3)
attention(1, 1, 2, 3, 2, 2, mask=draw(2, 1), batch=2)
rotary(1, 2, 3, 4)
rotary(2, 1, 3, 6, "interleaved=true")
rotary(1, 2, 2, 7, "rotary_dim=4", pairs=2)
rotary(2, 3, 2, 4, "num_heads=3", flat=True)
rotary(1, 2, 3, 5, "interleaved=true rotary_dim=2 num_heads=2", pairs=1,
       flat=True)
