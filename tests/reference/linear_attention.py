#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/linear_attention_cases.inc: values of
nn.linear_attention for test_linear_attention.c.

    linear_attention.py > linear_attention_cases.inc

The steps are composed of torch functions in f64, gradients are those of its
autograd. Nothing here knows of Tenon. The committed file was made with torch
1.13.0, NumPy 1.24.2, Python 3.11.
"""

import numpy as np
import torch

from operands import ABSENT, join, show

RANDOM = np.random.default_rng(42)


def draw(*shape, least=-16, most=17, steps=16):
    """Numbers with few bits, exact in every type."""
    numbers = RANDOM.integers(least, most, size=shape) / steps
    return torch.tensor(numbers, dtype=torch.float64)


def run_steps(q, k, v, decay, beta, state, scale):
    group = q.shape[1] // k.shape[1]
    out = []
    for t in range(q.shape[2]):
        key, value = k[:, :, t], v[:, :, t]
        if decay is not None:
            state = state * torch.exp(decay[:, :, t])[..., None]
        if beta is not None:
            known = torch.einsum("bhdm,bhd->bhm", state, key)
            value = beta[:, :, t, None] * (value - known)
        state = state + key[..., :, None] * value[..., None, :]
        read = state.repeat_interleave(group, dim=1)
        out.append(scale * torch.einsum("bhd,bhdm->bhm", q[:, :, t], read))
    return torch.stack(out, dim=2), state


def case(batch, heads, key_heads, steps, depth, width, decays=0, beta=False,
         state=False, scale=None):
    q = draw(batch, heads, steps, depth)
    k, v = draw(batch, key_heads, steps, depth), draw(batch, key_heads, steps, width)
    inputs = [
        q, k, v,
        draw(batch, key_heads, steps, decays, most=3) if decays else None,
        draw(batch, key_heads, steps, least=0) if beta else None,
        draw(batch, key_heads, depth, width) if state else None]
    for each in inputs:
        if each is not None:
            each.requires_grad_(True)
    first = inputs[5] if state else \
        torch.zeros(batch, key_heads, depth, width, dtype=torch.float64)
    factor = scale if scale else 1 / np.sqrt(depth)
    results = run_steps(*inputs[:5], first, factor)
    heads = [draw(*each.shape) for each in results]
    loss = sum((head * each).sum() for head, each in zip(heads, results))
    present = [each for each in inputs if each is not None]
    grads = iter(torch.autograd.grad(loss, present))
    shown = [next(grads) if each is not None else None for each in inputs]
    print(f'{{"{f"scale={scale}" if scale else ""}",')
    for each in inputs, results, heads, shown:
        print(f" {join(ABSENT if one is None else show(one) for one in each)},")
    print("},")


print("/* Written by tests/reference/linear_attention.py. */")
case(2, 1, 1, 3, 2, 3)
case(1, 2, 2, 5, 3, 2, decays=1, scale=0.5)
case(1, 1, 1, 7, 3, 2, decays=3, state=True)
case(1, 2, 1, 4, 2, 2, beta=True, state=True)
case(1, 4, 2, 6, 2, 2, decays=1, beta=True, state=True)
case(1, 1, 1, 9, 3, 3, decays=3, beta=True)
case(2, 2, 1, 1, 4, 2, decays=1, beta=True, state=True, scale=1.5)
