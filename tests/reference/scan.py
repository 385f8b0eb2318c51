#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/scan_cases.inc: values of cumsum, cumprod and logsumexp of
plugins/tensor for test_scan.c.

    scan.py > scan_cases.inc

Sums and products are NumPy's, gradients torch's in f64, and logsumexp that of
SciPy. Nothing here knows of Tenon. The committed file was made with NumPy
1.24.2, SciPy 1.10.1, torch 1.13.0, Python 3.11.
"""

import numpy as np
import scipy.special
import torch

from operands import show

RANDOM = np.random.default_rng(11)


def case(op, params, data, out, head, gradient):
    print(f'{{"tensor.{op}", "{params}",')
    for each in data, out, head:
        print(f" {show(each)},")
    print(f" {show(gradient)}}},")


def shifted(array, axis, none):
    """Each result without its own element."""
    first = np.full_like(np.take(array, [0], axis), none)
    rest = np.take(array, range(array.shape[axis] - 1), axis)
    return np.concatenate([first, rest], axis)


def scan(op, shape, axis, exclusive, reverse):
    small = op == "cumprod"
    data = RANDOM.integers(-2, 3, size=shape) if small else \
        RANDOM.integers(-16, 17, size=shape)
    data = data / (1 if small else 8)
    turned = np.flip(data, axis) if reverse else data
    out = getattr(np, op)(turned, axis)
    if exclusive and data.size > 0:
        out = shifted(out, axis, 1 if small else 0)
    out = np.flip(out, axis) if reverse else out
    head = RANDOM.integers(-4, 5, size=shape).astype(float)
    x = torch.tensor(data, requires_grad=True)
    y = torch.flip(x, [axis]) if reverse else x
    if exclusive and data.size > 0:
        none = torch.full_like(torch.narrow(y, axis, 0, 1), float(small))
        y = torch.cat([none, torch.narrow(y, axis, 0, shape[axis] - 1)], axis)
    y = getattr(torch, op)(y, axis)
    y = torch.flip(y, [axis]) if reverse else y
    np.testing.assert_array_equal(y.detach().numpy(), out)
    y.backward(torch.tensor(head))
    params = f"axis={axis} exclusive={int(exclusive)} reverse={int(reverse)}"
    case(op, params, data, out, head, x.grad.numpy())


def logsumexp(shape, axis, keepdims, low=-3, high=3):
    data = RANDOM.uniform(low, high, size=shape)
    data.flat[RANDOM.integers(data.size)] = -np.inf
    out = scipy.special.logsumexp(data, axis, keepdims=keepdims)
    head = RANDOM.integers(-4, 5, size=np.shape(out)).astype(float)
    wide = out if keepdims else np.expand_dims(
        out, axis if axis is not None else tuple(range(data.ndim)))
    h = head if keepdims else head.reshape(wide.shape)
    gradient = h * np.exp(data - wide)
    named = "None" if axis is None else f"[{','.join(map(str, axis))}]"
    case("logsumexp", f"axis={named} keepdims={int(keepdims)}", data, out, head,
         gradient)


print("/* Written by tests/reference/scan.py. */")
for name in "cumsum", "cumprod":
    for dims, along in [((7,), 0), ((1,), 0), ((3, 5), -1), ((5, 3), 0),
                        ((2, 4, 3), 1), ((4, 10), 0), ((0, 3), 1), ((2, 0), 1)]:
        for without in False, True:
            for turns in False, True:
                scan(name, dims, along, without, turns)
for keep in False, True:
    logsumexp((7,), None, keep)
    logsumexp((3, 5), (1,), keep)
    logsumexp((5, 3), (0,), keep)
    logsumexp((2, 4, 3), (0, 2), keep)
    logsumexp((2, 4, 3), (1,), keep, -3000, 3000)
