#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/sort_cases.inc: values of sort, argsort, topk and
topk_mask of plugins/tensor for test_sort.c.

    sort.py > sort_cases.inc

Orders are NumPy's stable ones; a descending one is that of ranks with a minus.
Results of topk are compared with torch.topk as well. Nothing here knows of
Tenon. The committed file was made with NumPy 1.24.2, torch 1.13.0, Python 3.11.
"""

import numpy as np
import torch

from operands import show

RANDOM = np.random.default_rng(7)


def draw(*shape):
    """Numbers with few bits, of which many are equal; some are special."""
    array = RANDOM.integers(-6, 7, size=shape) / 4
    special = RANDOM.integers(0, 12, size=shape)
    array[special == 0] = np.nan
    array[special == 1] = np.inf
    array[special == 2] = -np.inf
    array[special == 3] = -0.0
    return array


def order(data, axis, ascending):
    """Stable in both directions: NaN has the greatest rank."""
    ranks = np.unique(data, return_inverse=True)[1].reshape(data.shape)
    return np.argsort(ranks if ascending else -ranks, axis, kind="stable")


def case(shape, axis, k, ascending):
    data = draw(*shape)
    lines = data.ravel() if axis is None else data
    at = -1 if axis is None else axis
    n = lines.shape[at]
    places = order(lines, at, ascending)
    if ascending and k == 0:
        assert (places == np.argsort(lines, at, kind="stable")).all()
    places = np.take(places, range(k or n), at)
    values = np.take_along_axis(lines, places, at)
    torch_values = torch.topk(torch.from_numpy(lines), k or n, at,
                              largest=not ascending)[0].numpy()
    np.testing.assert_array_equal(values, torch_values)
    head = RANDOM.integers(-16, 17, size=values.shape) / 8
    gradient, mask = np.zeros(lines.shape), np.zeros(lines.shape)
    np.put_along_axis(gradient, places, head, at)
    np.put_along_axis(mask, places, 1, at)
    print(f'{{"axis={axis}", {k}, {int(ascending)},')
    for each in data, values, places, head, gradient.reshape(shape):
        print(f" {show(each)},")
    print(f" {show(mask.reshape(shape))}}},")


print("/* Written by tests/reference/sort.py. */")
for dims, along in [((9,), 0), ((1,), 0), ((40,), -1), ((3, 7), -1),
                    ((7, 5), 0), ((2, 5, 3), 1), ((2, 3, 2, 4), -2),
                    ((3, 5), None), ((0, 3), 1), ((2, 0), -1), ((2, 0, 3), 0)]:
    for up in True, False:
        case(dims, along, 0, up)
        length = np.prod(dims) if along is None else dims[along]
        for some in 1, 3, 5:
            if some <= length:
                case(dims, along, some, up)
