#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/places_cases.inc: values of the operators of scatter.yaml,
gather_nd.yaml, roll.yaml and by_row.yaml of plugins/tensor for test_places.c.

    places.py > places_cases.inc

A scatter is computed number by number with scalars of torch, in the order of
the updates: so its gradients are those of torch's autograd for assignments,
sums, products and choices. Results are compared with NumPy's assignment,
np.add.at, np.multiply.at, np.maximum.at and np.minimum.at. Others are indexing
of NumPy and np.roll, and their gradients sums by np.add.at. Nothing here knows
of Tenon. The committed file was made with NumPy 1.24.2, torch 1.13.0 and
Python 3.11.
"""

import numpy as np
import torch

from operands import plain, show

RANDOM = np.random.default_rng(93)
CHANGES = {
    "set": lambda x, u: u,
    "add": lambda x, u: x + u,
    "mul": lambda x, u: x * u,
    "max": lambda x, u: u if u > x else x,
    "min": lambda x, u: u if u < x else x,
}


def set_at(array, at, values):
    array[at] = values


NUMPY = {"set": set_at, "add": np.add.at, "mul": np.multiply.at,
         "max": np.maximum.at, "min": np.minimum.at}


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def draw_factors(*shape):
    """Powers of two and some zeros, so that products are exact."""
    return RANDOM.choice([1, -1, 2, 0.5, -2, 1, 1, 0], size=shape)


def case(op, params, inputs, out, head=None, gradients=()):
    """inputs: of numbers first, then indices; gradients of those of numbers."""
    names = ["data", "indices", "updates"]
    given = [name for name in names if name in inputs]
    print(f'{{"tensor.{op}", "{params}", {len(given)}, {len(gradients)},')
    for name in names:
        print(f" {show(inputs.get(name), plain)},")
    print(f" {show(out, plain)}, {show(head, plain)},")
    both = list(gradients) + [None] * (2 - len(gradients))
    print(f" {{{show(both[0], plain)},\n {show(both[1], plain)}}}}},")


def scattered(op, params, change, whole, at, slices, indices, has_data=True):
    """whole[at] = change(whole[at], slices), where `at` indexes NumPy arrays."""
    numbers = np.arange(whole.size).reshape(whole.shape)
    targets = np.broadcast_to(numbers[at], slices.shape).ravel()
    data = [torch.tensor(v, dtype=torch.float64, requires_grad=True)
            for v in whole.ravel().tolist()]
    updates = [torch.tensor(v, dtype=torch.float64, requires_grad=True)
               for v in slices.ravel().tolist()]
    out = list(data)
    for target, update in zip(targets, updates):
        out[target] = CHANGES[change](out[target], update)
    values = np.array([v.item() for v in out]).reshape(whole.shape)
    expected = whole.copy()
    NUMPY[change](expected, at, slices)
    assert (values == expected).all(), (op, params)
    head = draw(*whole.shape)
    total = sum(h * v for h, v in zip(head.ravel().tolist(), out))
    found = torch.autograd.grad(total, data + updates, allow_unused=True)
    found = np.array([0.0 if g is None else g.item() for g in found])
    data_gradient = found[:whole.size].reshape(whole.shape)
    update_gradient = found[whole.size:].reshape(slices.shape)
    if has_data:
        case(op, params, {"data": whole, "indices": indices, "updates": slices},
             values, head, (data_gradient, update_gradient))
    else:
        case(op, params, {"data": slices, "indices": indices}, values, head,
             (update_gradient,))


def names_of(change, nd):
    if change == "set":
        return ("scatter_nd_update" if nd else "scatter_elements"), ""
    if change == "add":
        return ("scatter_nd_add" if nd else "scatter_add"), ""
    return ("scatter_nd_reduce" if nd else "scatter_reduce",
            f" reduction={change}")


def elements(change, shape, axis, index_shape):
    length = shape[axis]
    numbers = draw_factors if change == "mul" else draw
    indices = RANDOM.integers(-length, length, size=index_shape)
    grid = list(np.meshgrid(*map(np.arange, index_shape), indexing="ij"))
    grid[axis] = indices % length
    op, more = names_of(change, False)
    scattered(op, f"axis={axis}{more}", change, numbers(*shape), tuple(grid),
              numbers(*index_shape), indices)


def tuples(change, shape, depth, count, axis=-1):
    """Tuples of `depth` indices in an array of shape `count`."""
    numbers = draw_factors if change == "mul" else draw
    columns = [RANDOM.integers(-n, n, size=count) for n in shape[:depth]]
    indices = np.stack(columns, axis=0 if axis == 0 else -1)
    slices = numbers(*count, *shape[depth:])
    op, more = names_of(change, True)
    scattered(op, f"index_axis={axis}{more}", change, numbers(*shape),
              tuple(columns), slices, indices)


def zeros_with(shape, depth, count, axis):
    columns = [RANDOM.integers(-n, n, size=count) for n in shape[:depth]]
    indices = np.stack(columns, axis=0 if axis == 0 else -1)
    text = ",".join(map(str, shape))
    scattered("scatter_nd", f"shape=[{text}] index_axis={axis}", "set",
              np.zeros(shape), tuple(columns), draw(*count, *shape[depth:]),
              indices, has_data=False)


def gathered(shape, depth, count, axis, batch_dims=0):
    data = draw(*shape)
    columns = [RANDOM.integers(-n, n, size=count)
               for n in shape[batch_dims:batch_dims + depth]]
    indices = np.stack(columns, axis=0 if axis == 0 else -1)
    batches = [np.arange(n).reshape(n, *[1] * (len(count) - d - 1))
               for d, n in enumerate(shape[:batch_dims])]
    at = tuple(batches) + tuple(columns)
    out = data[at]
    head = draw(*out.shape)
    gradient = np.zeros(shape)
    np.add.at(gradient, at, head)
    case("gather_nd", f"index_axis={axis} batch_dims={batch_dims}",
         {"data": data, "indices": indices}, out, head, (gradient,))


def rolled(shape, shift, axes):
    data, head = draw(*shape), draw(*shape)
    text = "shift=[" + ",".join(map(str, shift)) + "]"
    if axes is not None:
        text += " axes=[" + ",".join(map(str, axes)) + "]"
    back = tuple(-s for s in shift)
    case("roll", text, {"data": data}, np.roll(data, shift, axes), head,
         (np.roll(head, back, axes),))


def cropped(shape, offset, sides, center=False):
    data = draw(*shape)
    y, x = offset
    if center:
        y, x = (shape[2] - sides[0]) // 2, (shape[3] - sides[1]) // 2
    window = np.s_[:, :, y:y + sides[0], x:x + sides[1]]
    head = draw(*data[window].shape)
    gradient = np.zeros(shape)
    gradient[window] = head
    text = f"h_w=[{sides[0]},{sides[1]}] offset=[{offset[0]},{offset[1]}]"
    case("crop", text + f" center_crop={str(center).lower()}", {"data": data},
         data[window], head, (gradient,))


def by_row(n, k):
    data = draw(n, k)
    indices = RANDOM.integers(-2, k + 2, size=n)
    at = np.arange(n), np.clip(indices, 0, k - 1)
    head = draw(n)
    gradient = np.zeros((n, k))
    gradient[at] = head
    case("batch_take", "", {"data": data, "indices": indices}, data[at], head,
         (gradient,))


def channels(*shape):
    data = draw(*shape)
    case("argmax_channel", "", {"data": data}, np.argmax(data, axis=1))


print("/* Written by tests/reference/places.py. */")
for each in CHANGES:
    elements(each, (5,), 0, (9,))
    elements(each, (4, 3), 0, (6, 3))
    elements(each, (4, 3), -1, (2, 5))
    elements(each, (2, 3, 4), 1, (2, 6, 3))
    tuples(each, (6,), 1, (9,))
    tuples(each, (3, 4), 1, (5,))
    tuples(each, (3, 2, 2), 2, (2, 3))
    tuples(each, (3, 2, 2), 2, (4,), axis=0)
    tuples(each, (2, 2, 2), 3, (2, 2, 2))
zeros_with((5,), 1, (7,), 0)
zeros_with((3, 4), 2, (9,), 0)
zeros_with((3, 4), 1, (2, 2), 0)
zeros_with((3, 2, 4), 2, (4,), -1)
gathered((5,), 1, (7,), 0)
gathered((3, 4), 2, (2, 5), 0)
gathered((3, 4), 1, (6,), 0)
gathered((3, 2, 4), 2, (2, 3), -1)
gathered((3, 2, 4), 1, (3,), -1)
gathered((2, 3, 4), 1, (2, 3), -1, batch_dims=1)
gathered((2, 3, 4), 2, (2, 5), -1, batch_dims=1)
gathered((2, 3, 2, 3), 1, (2, 3, 2), -1, batch_dims=2)
rolled((7,), (3,), None)
rolled((3, 4), (5,), None)
rolled((3, 4), (-2, -3), None)
rolled((3, 4), (1,), (0,))
rolled((3, 4), (-1, 2), (0, -1))
rolled((2, 3, 4), (1, 1, -1), (0, 1, 2))
rolled((2, 3, 4), (100, -100), (-1, 1))
rolled((3, 4), (1, 1), (1, 1))
cropped((1, 2, 4, 5), (1, 2), (2, 3))
cropped((2, 1, 5, 4), (9, 9), (2, 3), center=True)
cropped((1, 1, 3, 3), (0, 0), (3, 3))
by_row(6, 4)
by_row(3, 1)
channels(3, 4)
channels(2, 3, 4)
channels(1, 3, 2, 2)
