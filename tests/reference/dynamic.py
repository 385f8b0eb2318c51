#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/dynamic_cases.inc: values of nonzero, unique, compress and
masked_select of plugins/tensor for test_dynamic.c.

    dynamic.py > dynamic_cases.inc

Results are NumPy's. Nothing here knows of Tenon. The committed file was made
with NumPy 1.24.2, Python 3.11.
"""

import numpy as np

from operands import join, show

RANDOM = np.random.default_rng(5)


def case(op, params, data, second, outputs, head=None, gradient=None):
    outputs = list(outputs) + [None] * (4 - len(outputs))
    n_in = 1 + (second is not None)
    n_out = len([each for each in outputs if each is not None])
    print(f'{{"tensor.{op}", "{params}", {n_in}, {n_out},')
    print(f" {show(data)},\n {show(second)},")
    print(f" {join(map(show, outputs))},")
    print(f" {show(head)},\n {show(gradient)}}},")


def draw(shape, special=True):
    data = RANDOM.integers(-2, 3, size=shape) / 2
    if special and data.size > 4:
        data.flat[RANDOM.integers(data.size, size=2)] = np.nan
        data.flat[RANDOM.integers(data.size)] = -0.0
    return data


def nonzero(shape):
    data = draw(shape)
    case("nonzero", "", data, None, [np.argwhere(data).T])


def unique(shape, axis, ascending):
    data = draw(shape, special=axis is None)
    out, first, inverse, counts = np.unique(data, True, True, True, axis=axis)
    if not ascending:
        order = np.argsort(first)
        out = np.take(out, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    case("unique", f"axis={axis} sorted={int(ascending)}", data, None,
         [out, first, inverse, counts])


def select(op, params, data, mask, out, places):
    head = RANDOM.integers(-8, 9, size=out.shape) / 4
    gradient = np.zeros(data.shape)
    gradient.flat[places.ravel()] = head.ravel()
    case(op, params, data, mask, [out], head, gradient)


def compress(shape, axis, length):
    data = draw(shape)
    mask = RANDOM.integers(0, 2, size=length)
    numbers = np.arange(data.size).reshape(shape)
    select("compress", f"axis={axis}", data, mask,
           np.compress(mask, data, axis), np.compress(mask, numbers, axis))


def masked(shape, mask_shape):
    data = draw(shape)
    mask = RANDOM.integers(0, 2, size=mask_shape)
    wide = np.broadcast_to(mask, shape).astype(bool)
    numbers = np.arange(data.size).reshape(shape)
    select("masked_select", "", data, mask, data[wide], numbers[wide])


print("/* Written by tests/reference/dynamic.py. */")
for dims in [(7,), (3, 5), (2, 3, 3), (0,), (2, 0), (1,)]:
    nonzero(dims)
for up in True, False:
    for dims in [(20,), (3, 5), (2, 3, 4), (0,), (1,)]:
        unique(dims, None, up)
    for dims, along in [((9, 2), 0), ((2, 9), 1), ((2, 8, 2), -2), ((4,), 0),
                        ((12, 1), 0)]:
        unique(dims, along, up)
for dims, along, n in [((7,), 0, 7), ((3, 5), 0, 3), ((3, 5), 1, 4),
                       ((3, 5), None, 15), ((2, 4, 3), -2, 4), ((3, 5), 0, 0),
                       ((0, 3), 1, 3), ((2, 3), None, 2)]:
    compress(dims, along, n)
for dims, shape in [((7,), (7,)), ((3, 5), (3, 5)), ((3, 5), (1, 5)),
                    ((3, 5), (3, 1)), ((2, 3, 4), (1, 3, 1)), ((3, 5), (1, 1)),
                    ((0, 3), (0, 3)), ((2, 0), (1, 1))]:
    masked(dims, shape)
