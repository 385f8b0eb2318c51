#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/sample_cases.inc: values of plugins/nn for
test_grid_sample.c.

    sampling.py TESTS_PLUGINS_FOLDER

Inputs are few eighths. Results are those of torch in double precision,
grid_sample and affine_grid, and its automatic gradients; a grid of planes is a
transposed one. The committed file was made with torch 1.13.0 and NumPy 1.24.2,
Python 3.11.
"""

import sys

import torch
import torch.nn.functional as F

from windows import RANDOM, case, draw, ints, write

MODES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


def positions(*shape):
    """Beyond both ends, and not at elements, where gradients jump."""
    return torch.tensor(RANDOM.integers(-21, 22, size=shape) / 16 + 1 / 64,
                        requires_grad=True)


def finish(op, params, inputs, out):
    """A case with automatic gradients."""
    head = torch.tensor(draw(*out.shape))
    gradients = torch.autograd.grad(out, inputs, head)
    return case(op, params, [each.detach() for each in inputs], out.detach(),
                head, gradients)


def image(*shape):
    """A drawn input."""
    return torch.tensor(draw(*shape), requires_grad=True)


def sample(shape, points, mode, padding, corners):
    """One case of grid_sample."""
    data = image(*shape)
    grid = positions(shape[0], *points, len(shape) - 2)
    out = F.grid_sample(data, grid, MODES[mode], padding, corners)
    return finish("grid_sample", f"mode={mode} padding={padding} align_corners="
                  f"{str(corners).lower()}", [data, grid], out)


def samples():
    """All operators."""
    for padding in "zeros", "border", "reflection":
        for corners in False, True:
            for mode in MODES:
                yield sample((1, 2, 4, 5), (2, 3), mode, padding, corners)
        yield sample((2, 1, 3, 2, 4), (2, 1, 3), "linear", padding, False)
        yield sample((1, 2, 1, 3), (1, 4), "linear", padding, False)
    data, grid = image(2, 2, 3, 4), positions(2, 2, 2, 3)
    out = F.grid_sample(data, grid.permute(0, 2, 3, 1), align_corners=True)
    yield finish("bilinear_sampler", "", [data, grid], out)
    data, loc = image(2, 2, 4, 3), image(2, 6)
    grid = F.affine_grid(loc.reshape(2, 2, 3), (2, 2, 3, 5), True)
    yield finish("spatial_transformer", "target_shape=[3,5]", [data, loc],
                 F.grid_sample(data, grid, align_corners=True))
    for corners in False, True:
        for size in (3, 4), (2, 1, 3):
            rank = len(size)
            theta = image(2, rank, rank + 1)
            out = F.affine_grid(theta, (2, 1, *size), corners)
            yield finish("affine_grid", f"size={ints(size)} align_corners="
                         f"{str(corners).lower()}", [theta], out)
    data = image(2, 6)
    out = F.affine_grid(data.reshape(2, 2, 3), (2, 1, 3, 4), True)
    yield finish("grid_generator", "target_shape=[3,4]", [data],
                 out.permute(0, 3, 1, 2))
    flow = image(2, 2, 3, 4)
    at = torch.stack(torch.meshgrid(torch.arange(3.), torch.arange(4.),
                                    indexing="ij")[::-1])
    scale = torch.tensor([3., 2.]).reshape(2, 1, 1)
    yield finish("grid_generator", "transform_type=warp", [flow],
                 (flow + at) * 2 / scale - 1)


if __name__ == "__main__":
    write(sys.argv[1], "sample_cases.inc", samples(), "sampling.py")
