#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/norms_cases.inc: values of rms_norm, group_norm,
instance_norm, l2_normalization, lrn and softmax_activation of plugins/nn for
test_norms.c.

    norms.py > norms_cases.inc

Results and gradients are those of torch in double precision: group_norm,
instance_norm, local_response_norm and softmax of torch.nn.functional. It has no
rms_norm, and normalize has no eps under the root, so these two are formulas.
Nothing here knows of Tenon. The committed file was made with torch 1.13.0,
NumPy 1.24.2, Python 3.11.
"""

import numpy as np
import torch
from torch.nn import functional

from operands import show_list

RANDOM = np.random.default_rng(9)


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return torch.tensor(RANDOM.integers(-16, 17, size=shape) / 8)


def case(op, params, inputs, function):
    """`function` of the inputs gives the output, then hidden ones."""
    moved = [each.clone().requires_grad_() for each in inputs]
    outputs = function(*moved)
    head = draw(*outputs[0].shape)
    gradients = torch.autograd.grad(outputs[0], moved, head)
    print(f'{{"nn.{op}", "{params}", 0,')
    for each in inputs, [], outputs, [], [head], list(gradients):
        print(f" {show_list(each)},")
    print("},")


def join(*words):
    return " ".join(filter(None, words))


def rms_norm(shape, axis=-1, eps=1e-5):
    view = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]

    def function(x, gamma):
        rstd = torch.rsqrt((x * x).mean(dim=axis, keepdim=True) + eps)
        return [x * rstd * gamma.reshape(view), rstd]

    case("rms_norm", join(f"axis={axis}" if axis != -1 else "",
                          f"eps={eps}" if eps != 1e-5 else ""),
         [draw(*shape), draw(shape[axis])], function)


def moments(x, groups, eps):
    rows = x.reshape(x.shape[0], groups, -1)
    return [rows.mean(dim=2),
            torch.rsqrt(rows.var(dim=2, unbiased=False) + eps)]


def group_norm(shape, groups, eps=1e-5):
    def function(x, gamma, beta):
        out = functional.group_norm(x, groups, gamma, beta, eps)
        return [out, *moments(x, groups, eps)]

    case("group_norm", join(f"num_groups={groups}",
                            f"eps={eps}" if eps != 1e-5 else ""),
         [draw(*shape), draw(shape[1]), draw(shape[1])], function)


def instance_norm(shape, eps=1e-3):
    def function(x, gamma, beta):
        out = functional.instance_norm(x, weight=gamma, bias=beta, eps=eps)
        return [out, *moments(x, shape[1], eps)]

    case("instance_norm", f"eps={eps}" if eps != 1e-3 else "",
         [draw(*shape), draw(shape[1]), draw(shape[1])], function)


def l2_normalization(shape, mode, eps=1e-10):
    last = len(shape)
    dims = {"instance": range(1, last), "channel": [1],
            "spatial": range(2, last)}[mode]

    def function(x):
        norm = torch.sqrt((x * x).sum(dim=tuple(dims), keepdim=True) + eps)
        if len(dims) == 1 and eps < 1e-9:
            near = functional.normalize(x, dim=dims[0])
            assert torch.allclose(near, x / norm, atol=1e-8)
        return [x / norm, norm]

    case("l2_normalization", join(f"mode={mode}" if mode != "instance" else "",
                                  f"eps={eps}" if eps != 1e-10 else ""),
         [draw(*shape)], function)


def lrn(shape, nsize, alpha=1e-4, beta=0.75, knorm=2):
    def function(x):
        flat = x.reshape(*shape[:2], -1)
        out = functional.local_response_norm(flat, nsize, alpha, beta, knorm)
        squares = functional.pad(flat * flat, (0, 0, nsize // 2, nsize // 2))
        base = knorm + alpha / nsize * squares.unfold(1, nsize, 1).sum(-1)
        assert torch.allclose(flat * base**-beta, out)
        return [out.reshape(shape), base.reshape(shape)]

    case("lrn", join(f"nsize={nsize}",
                     f"alpha={alpha}" if alpha != 1e-4 else "",
                     f"beta={beta}" if beta != 0.75 else "",
                     f"knorm={knorm}" if knorm != 2 else ""),
         [draw(*shape)], function)


def softmax_activation(shape, mode):
    def function(x):
        if mode == "channel":
            return [torch.softmax(x, 1)]
        return [torch.softmax(x.reshape(shape[0], -1), 1).reshape(shape)]

    case("softmax_activation", f"mode={mode}" if mode != "instance" else "",
         [draw(*shape)], function)


print("/* Written by tests/reference/norms.py. */")
rms_norm((4, 6))
rms_norm((1, 37))
rms_norm((2, 5, 4), axis=1)
rms_norm((5, 6), axis=0)
rms_norm((2, 3, 2, 3), axis=-3, eps=0.5)
group_norm((2, 4, 5), 2)
group_norm((2, 6, 2, 2), 3, eps=0.125)
group_norm((4, 6), 2)
group_norm((1, 3, 9), 1)
group_norm((2, 4, 3), 4, eps=0.5)
group_norm((34, 1), 1, eps=0.5)
instance_norm((2, 3, 5))
instance_norm((2, 2, 2, 3), eps=0.125)
instance_norm((1, 1, 37))
l2_normalization((3, 7), "instance")
l2_normalization((2, 3, 2, 2), "instance", eps=0.125)
l2_normalization((2, 5, 3), "channel")
l2_normalization((3, 8), "channel", eps=0.5)
l2_normalization((2, 2, 2, 4), "spatial")
l2_normalization((4, 2, 6), "spatial", eps=0.25)
lrn((2, 7, 2), 3)
lrn((1, 6, 2, 2), 5, alpha=1.5, beta=0.5, knorm=1)
lrn((1, 4, 5), 1, alpha=0.5)
lrn((3, 2, 4), 9, alpha=0.25, beta=1.25, knorm=0.5)
lrn((2, 11), 5, alpha=2.0)
softmax_activation((3, 7), "instance")
softmax_activation((2, 3, 2, 2), "instance")
softmax_activation((2, 5, 4), "channel")
softmax_activation((3, 6), "channel")
