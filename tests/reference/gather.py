#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/gather_cases.inc: values of gather_elements, tril, triu,
eye, tri and diag of plugins/tensor for test_gather.c.

    gather.py > gather_cases.inc

Results are those of NumPy; gradients are sums by np.add.at, and products with a
mask. Nothing here knows of Tenon. The committed file was made with NumPy 2.4.6,
Python 3.11.
"""

import numpy as np

from operands import plain, show

RANDOM = np.random.default_rng(41)


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def case(op, params, data, indices, out, head=None, gradient=None):
    n_in = (data is not None) + (indices is not None)
    print(f'{{"tensor.{op}", "{params}", {n_in},')
    for each in data, indices, out, head:
        print(f" {show(each, plain)},")
    print(f" {show(gradient, plain)}}},")


def gathered(shape, axis, index_shape):
    data = draw(*shape)
    length = shape[axis]
    indices = RANDOM.integers(-length, length, size=index_shape)
    grid = list(np.meshgrid(*map(np.arange, index_shape), indexing="ij"))
    grid[axis] = indices % length
    out = data[tuple(grid)]
    if all(d == axis or shape[d] == index_shape[d] for d in range(data.ndim)):
        assert (out == np.take_along_axis(data, indices, axis)).all()
    head = draw(*index_shape)
    gradient = np.zeros(shape)
    np.add.at(gradient, tuple(grid), head)
    case("gather_elements", f"axis={axis}", data, indices, out, head, gradient)


def masked(op, shape, k):
    function = getattr(np, op)
    data, head = draw(*shape), draw(*shape)
    case(op, f"k={k}", data, None, function(data, k), head, function(head, k))


def diagonal(shape, k):
    data = draw(*shape)
    out = np.diag(data, k)
    head = draw(*out.shape)
    gradient = np.zeros(shape)
    if data.ndim == 1:
        gradient = np.diag(head, k)
    else:
        rows = np.arange(out.size) + max(0, -k)
        gradient[rows, rows + k] = head
    case("diag", f"k={k}", data, None, out, head, gradient)


print("/* Written by tests/reference/gather.py. */")
gathered((5,), 0, (9,))
gathered((4, 3), 0, (6, 3))
gathered((4, 3), 1, (4, 7))
gathered((4, 3), -1, (2, 5))
gathered((4, 5), 0, (3, 2))
gathered((2, 3, 4), 1, (2, 5, 4))
gathered((3, 3, 4), 1, (2, 6, 3))
gathered((2, 3, 2, 4), -2, (2, 3, 3, 2))
gathered((2, 3, 2, 4), 0, (3, 2, 2, 4))
for name in "tril", "triu":
    for dims, diagonal_at in [((4, 4), 0), ((3, 5), 2), ((5, 3), -2),
                              ((2, 3, 4), 1), ((2, 2, 3, 3), -1),
                              ((3, 3), 7), ((3, 3), -7), ((1, 6), 0)]:
        masked(name, dims, diagonal_at)
for dims, diagonal_at in [((4,), 0), ((3,), 2), ((3,), -3), ((4, 4), 0),
                          ((3, 5), 2), ((5, 3), -2), ((5, 3), 1)]:
    diagonal(dims, diagonal_at)
for n, m, k in [(3, 3, 0), (2, 5, 1), (5, 2, -3), (3, 4, 9), (3, 4, -9)]:
    params = f"n={n} m={m} k={k} dtype=f64"
    case("eye", params, None, None, np.eye(n, m, k))
    case("tri", params, None, None, np.tri(n, m, k))
