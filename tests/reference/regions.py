#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/region_cases.inc: values of plugins/nn for test_regions.c.

    regions.py TESTS_PLUGINS_FOLDER

torch has none of these functions, so loops over windows, bins and samples
compute the results, after the definitions of MXNet (ROIPooling, Correlation)
and of torchvision (roi_align); gradients are torch's automatic ones, in double
precision. The committed file was made with torch 1.13.0 and NumPy 1.24.2,
Python 3.11.
"""

import itertools
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

from windows import RANDOM, case, draw, ints, write


def image(*shape):
    """A drawn input without ties."""
    values = RANDOM.permutation(int(np.prod(shape))) - 20.5
    return torch.tensor(values.reshape(shape) / 4, requires_grad=True)


def finish(op, params, inputs, out, n_grads):
    """A case with gradients of the first inputs."""
    head = torch.tensor(draw(*out.shape))
    gradients = torch.autograd.grad(out, inputs[:n_grads], head)
    return case(op, params, [each.detach() for each in inputs], out.detach(),
                head, gradients)


def half_up(x):
    """As round of C."""
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def roi_pooling(shape, rois, bins, scale):
    """By the definition of MXNet."""
    data = image(*shape)
    found = []
    for batch, x1, y1, x2, y2 in rois:
        left, top, right, bottom = (half_up(each * scale)
                                    for each in (x1, y1, x2, y2))
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for c in range(shape[1]):
            for p, q in itertools.product(*map(range, bins)):
                ys = range(max(top + p * height // bins[0], 0),
                           min(top - -(p + 1) * height // bins[0], shape[2]))
                xs = range(max(left + q * width // bins[1], 0),
                           min(left - -(q + 1) * width // bins[1], shape[3]))
                cells = [data[batch, c, y, x] for y in ys for x in xs]
                found.append(torch.stack(cells).amax() if cells
                             else torch.tensor(0.0).double())
    out = torch.stack(found).reshape(len(rois), shape[1], *bins)
    return finish("roi_pooling", f"pooled_size={ints(bins)} "
                  f"spatial_scale={scale}",
                  [data, torch.tensor(rois).double()], out, 1)


def corners(x, n):
    """Elements and weights of a sample along one dimension."""
    if x < -1 or x > n:
        return []
    x = max(x, 0)
    low = int(x)
    if low >= n - 1:
        return [(n - 1, 1.0)]
    return [(low, 1 - (x - low)), (low + 1, x - low)]


def roi_align(shape, rois, bins, scale, ratio, aligned):
    """By the definition of torchvision."""
    data = image(*shape)
    found = []
    offset = 0.5 if aligned else 0.0
    for batch, *box in rois:
        left, top, right, bottom = (each * scale - offset for each in box)
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        down, across = height / bins[0], width / bins[1]
        rows, columns = (ratio or math.ceil(each) for each in (down, across))
        for c in range(shape[1]):
            for p, q in itertools.product(*map(range, bins)):
                total = torch.tensor(0.0).double()
                for i, j in itertools.product(range(rows), range(columns)):
                    y = top + p * down + (i + 0.5) * down / rows
                    x = left + q * across + (j + 0.5) * across / columns
                    for (a, w), (b, u) in itertools.product(
                            corners(y, shape[2]), corners(x, shape[3])):
                        total = total + w * u * data[batch, c, a, b]
                found.append(total / max(rows * columns, 1))
    out = torch.stack(found).reshape(len(rois), shape[1], *bins)
    return finish("roi_align", f"pooled_size={ints(bins)} "
                  f"spatial_scale={scale} sampling_ratio={ratio} "
                  f"aligned={str(aligned).lower()}",
                  [data, torch.tensor(rois).double()], out, 1)


def correlation(shape, kernel, reach, stride1, stride2, pad, multiply):
    """By the definition of MXNet."""
    first, second = image(*shape), image(*shape)
    a, b = (F.pad(each, (pad,) * 4) for each in (first, second))
    border = reach + (kernel - 1) // 2
    size = [math.ceil((n + 2 * pad - 2 * border) / stride1)
            for n in shape[2:]]
    steps = reach // stride2
    planes = []
    for i, j in itertools.product(range(-steps, steps + 1), repeat=2):
        for y, x in itertools.product(*map(range, size)):
            top, left = y * stride1 + reach, x * stride1 + reach
            one = a[:, :, top:top + kernel, left:left + kernel]
            top, left = top + i * stride2, left + j * stride2
            two = b[:, :, top:top + kernel, left:left + kernel]
            compared = one * two if multiply else (one - two).abs()
            planes.append(compared.mean((1, 2, 3)))
    out = torch.stack(planes, 1).reshape(shape[0], (2 * steps + 1)**2, *size)
    return finish("correlation", f"kernel_size={kernel} "
                  f"max_displacement={reach} stride1={stride1} "
                  f"stride2={stride2} pad_size={pad} "
                  f"is_multiply={str(multiply).lower()}", [first, second], out,
                  2)


def regions():
    """All operators."""
    rois = [[0, 0, 0, 3, 2], [1, 1, 2, 6, 9], [0, 4, 4, 2, 1], [1, -3, 1, 1, 3]]
    yield roi_pooling((2, 2, 5, 6), rois, (2, 3), 1.0)
    yield roi_pooling((2, 1, 5, 6), rois, (3, 2), 0.5)
    for ratio, aligned in [(2, True), (0, False), (0, True), (1, False)]:
        yield roi_align((2, 1, 5, 6), rois, (2, 2), 0.75, ratio, aligned)
    yield roi_align((2, 2, 3, 4), [[0, 0, 0, 6, 1], [1, 1, 1, 3, 9]], (1, 3),
                    1.0, 0, False)
    yield correlation((2, 2, 4, 5), 1, 1, 1, 1, 1, True)
    yield correlation((1, 2, 6, 7), 3, 2, 2, 1, 2, True)
    yield correlation((1, 1, 7, 6), 1, 3, 2, 2, 2, True)
    yield correlation((1, 2, 5, 4), 3, 1, 1, 1, 2, False)


if __name__ == "__main__":
    write(sys.argv[1], "region_cases.inc", regions(), "regions.py")
