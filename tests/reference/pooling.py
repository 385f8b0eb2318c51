#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/dilated_cases.inc and unpool_cases.inc: values of
plugins/nn for test_max_unpool.c.

    pooling.py TESTS_PLUGINS_FOLDER

Windows with dilation are columns of torch (unfold), of which torch takes the
largest, the mean, the sum or the root of the sum of powers; gradients are
automatic. torch's own functions confirm them where it has some. Indices are
those of torch's max_pool2d. The committed files were made with torch 1.13.0 and
NumPy 1.24.2, Python 3.11.
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F

from windows import RANDOM, case, draw, ints, show, write


def distinct(*shape):
    """Eighths without ties and zeros."""
    return (RANDOM.permutation(int(np.prod(shape))) - 30.5).reshape(shape) / 4


def columns(x, kernel, stride, dilate, pad, fill):
    """Elements of windows (N, C, taps, windows), `fill` in the padding."""
    padded = F.pad(x, (pad[1], pad[1], pad[0], pad[0]), value=fill)
    found = F.unfold(padded, kernel, dilate, 0, stride)
    return found.reshape(x.shape[0], x.shape[1], -1, found.shape[-1])


def pooled(x, kind, kernel, stride, dilate, pad, p, count_pad):
    """The result of all windows."""
    if kind == "max":
        inf = -1e9
        return columns(x, kernel, stride, dilate, pad, inf).amax(2)
    if kind == "lp":
        parts = columns(x, kernel, stride, dilate, pad, 0.0)
        mask = columns(torch.ones_like(x), kernel, stride, dilate, pad, 0.0)
        return torch.where(mask > 0, parts.abs(), torch.ones_like(parts)) \
            .pow(p).mul(mask).sum(2).pow(1 / p)
    parts = columns(x, kernel, stride, dilate, pad, 0.0).sum(2)
    if kind == "sum":
        return parts
    ones = torch.ones_like(x)
    counted = columns(ones, kernel, stride, dilate, pad,
                      1.0 if count_pad else 0.0).sum(2)
    return parts / counted


def pooling(shape, kind, kernel, stride, dilate, pad, p=2.0, count_pad=True):
    """One case in two dimensions, or in one if the first is 1."""
    flat = len(shape) == 3
    data = distinct(*shape)
    x = torch.tensor(data, requires_grad=True)
    full = x.unsqueeze(2) if flat else x
    wide = [(1, *each) if flat else each for each in (kernel, stride, dilate)]
    edge = (0, *pad) if flat else pad
    sizes = [(n + 2 * q - e * (k - 1) - 1) // s + 1 for n, q, e, k, s in
             zip(full.shape[2:], edge, wide[2], wide[0], wide[1])]
    out = pooled(full, kind, wide[0], wide[1], wide[2], edge, p, count_pad)
    out = out.reshape(*shape[:2], *(sizes[1:] if flat else sizes))
    if kind == "max" and not flat and all(
            2 * q <= k for q, k in zip(pad, kernel)):
        again = F.max_pool2d(x, kernel, stride, pad, dilate)
        assert torch.equal(again, out)
    if kind == "lp" and dilate == (1, 1):
        again = F.lp_pool2d(x.abs(), p, kernel, stride[0])
        np.testing.assert_allclose(again.detach(), out.detach())
    head = torch.tensor(draw(*out.shape))
    (slope,) = torch.autograd.grad(out, x, head)
    params = f"kernel={ints(kernel)} stride={ints(stride)} " \
        f"dilate={ints(dilate)} pad={ints(pad)}"
    if kind == "lp":
        return case("lp_pooling", f"{params} p_value={p}", [data],
                    out.detach(), head, [slope])
    params += f" pool_type={kind}" + " count_include_pad=false" * (not count_pad)
    return case("pooling", params, [data], out.detach(), head, [slope])


def poolings():
    """All kinds, with dilation."""
    for kind, count_pad in [("max", True), ("avg", True), ("avg", False),
                            ("sum", True)]:
        yield pooling((2, 2, 9), kind, (3,), (1,), (2,), (2,),
                      count_pad=count_pad)
        yield pooling((1, 2, 6, 7), kind, (2, 3), (2, 1), (3, 2), (1, 1),
                      count_pad=count_pad)
    for p in 1.0, 2.0, 3.0, 2.5:
        yield pooling((1, 2, 5, 6), "lp", (2, 3), (2, 2), (1, 1), (0, 0), p)
    yield pooling((2, 1, 9), "lp", (3,), (2,), (2,), (2,), 3.0)
    yield pooling((1, 2, 6, 7), "lp", (2, 2), (2, 3), (2, 1), (1, 1), 2.0)


def indexed(shape, kernel, stride, dilate, pad, size=None):
    """A case of max_pool_indices and of max_unpool, by torch."""
    data = distinct(*shape)
    x = torch.tensor(data, requires_grad=True)
    out, indices = F.max_pool2d(x, kernel, stride, pad, dilate,
                                return_indices=True)
    head = torch.tensor(draw(*out.shape))
    (slope,) = torch.autograd.grad(out, x, head)
    params = f"kernel={ints(kernel)} stride={ints(stride)} " \
        f"dilate={ints(dilate)} pad={ints(pad)}"
    parts = [data, out.detach(), indices, head, slope]
    yield (f'{{"nn.max_pool_indices", "{params}",\n '
           + ",\n ".join(show(each) for each in parts) + "},\n")
    small = torch.tensor(draw(*out.shape), requires_grad=True)
    size = size or shape[2:]
    large = F.max_unpool2d(small, indices, kernel, stride, pad,
                           (*shape[:2], *size))
    head = torch.tensor(draw(*large.shape))
    (slope,) = torch.autograd.grad(large, small, head)
    parts = [small.detach(), large.detach(), indices, head, slope]
    yield (f'{{"nn.max_unpool", "output_size={ints(size)}",\n '
           + ",\n ".join(show(each) for each in parts) + "},\n")


def unpoolings():
    """Windows that do not overlap, so that indices are not repeated."""
    yield from indexed((2, 2, 4, 6), (2, 2), (2, 2), (1, 1), (0, 0))
    yield from indexed((1, 2, 7, 5), (3, 2), (3, 2), (1, 1), (1, 0))
    yield from indexed((1, 3, 2, 8), (1, 3), (1, 3), (1, 1), (0, 1))


if __name__ == "__main__":
    write(sys.argv[1], "dilated_cases.inc", poolings(), "pooling.py")
    write(sys.argv[1], "unpool_cases.inc", unpoolings(), "pooling.py")
