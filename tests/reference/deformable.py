#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/deformable_cases.inc: values of nn.deformable_convolution
for test_deformable.c.

    deformable.py TESTS_PLUGINS_FOLDER

Inputs are small multiples of 1/8. Offsets are not whole, because gradients jump
at elements. Results and gradients are those of deform_conv2d of torchvision in
double precision. The committed file was made with torchvision
0.14.1, torch 1.13.0 and NumPy 1.24.2, Python 3.11.
"""

import sys

import torch
from torchvision.ops import deform_conv2d

from windows import RANDOM, case, draw, ints, write


def positions(*shape):
    """Up to two and a half elements away, and not at elements."""
    return RANDOM.integers(-20, 21, size=shape) / 8 + 1 / 64


def deformable(shape, filters, kernel, stride=(1, 1), dilate=(1, 1),
               pad=(0, 0), groups=1, offset_groups=1, bias=False, mask=False):
    """One case."""
    taps = offset_groups * kernel[0] * kernel[1]
    sizes = [(n + 2 * p - e * (k - 1) - 1) // s + 1 for n, k, s, e, p in
             zip(shape[2:], kernel, stride, dilate, pad)]
    data = draw(*shape), draw(filters, shape[1] // groups, *kernel), \
        positions(shape[0], 2 * taps, *sizes), \
        draw(filters) if bias else None, \
        draw(shape[0], taps, *sizes) if mask else None
    inputs = [None if each is None else torch.tensor(each, requires_grad=True)
              for each in data]
    if not mask:
        inputs.pop()
        if not bias:
            inputs.pop()
    x, weight, offset = inputs[:3]
    out = deform_conv2d(x, offset, weight, inputs[3] if bias else None, stride,
                        pad, dilate, inputs[4] if mask else None)
    head = torch.tensor(draw(*out.shape))
    present = [each for each in inputs if each is not None]
    found = iter(torch.autograd.grad(out, present, head))
    params = f"kernel={ints(kernel)} stride={ints(stride)} " \
        f"dilate={ints(dilate)} pad={ints(pad)} num_filter={filters} " \
        f"num_group={groups} num_deformable_group={offset_groups} " \
        f"no_bias={'false' if bias else 'true'}"
    return case("deformable_convolution", params,
                [None if each is None else each.detach() for each in inputs],
                out.detach(), head,
                [None if each is None else next(found) for each in inputs])


def cases():
    """Groups of both kinds, with and without bias and mask."""
    yield deformable((2, 2, 3, 4), 3, (3, 2), pad=(1, 0), bias=True, mask=True)
    yield deformable((1, 4, 5, 4), 4, (3, 3), (2, 1), (1, 2), (2, 1), groups=2,
                     bias=True)
    yield deformable((1, 4, 3, 4), 2, (2, 2), offset_groups=2, mask=True)
    yield deformable((1, 4, 4, 3), 6, (1, 3), pad=(0, 1), groups=2,
                     offset_groups=4, bias=True, mask=True)
    yield deformable((2, 6, 3, 3), 3, (2, 1), groups=3, offset_groups=2)
    yield deformable((1, 1, 2, 2), 1, (1, 1), pad=(2, 1), mask=True)


if __name__ == "__main__":
    write(sys.argv[1], "deformable_cases.inc", cases(), "deformable.py")
