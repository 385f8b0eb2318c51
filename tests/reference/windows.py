#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/deconv_cases.inc and fold_cases.inc: values of plugins/nn
for test_deconvolution.c and test_fold.c.

    windows.py TESTS_PLUGINS_FOLDER

Inputs are few eighths. Deconvolutions are those of torch in double precision,
with its automatic gradients; a target shape is a part of a result without
padding. Columns are made by loops in NumPy, which torch confirms for images of
two dimensions. The committed files were made with torch 1.13.0 and NumPy
1.24.2, Python 3.11.
"""

import itertools
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

RANDOM = np.random.default_rng(11)
DECONV = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-8, 9, size=shape) / 8


def show(array):
    """A windows_operand; an absent one for None."""
    if array is None:
        return "{0}"
    array = np.asarray(array, dtype=float)
    dims = ", ".join(map(str, array.shape)) or "0"
    values = ", ".join(f"{each:.17g}" for each in array.ravel()) or "0"
    values = values.replace("nan", "NAN").replace("inf", "INFINITY")
    return f"{{{array.ndim}, {{{dims}}}, (const double[]){{{values}}}}}"


def case(op, params, inputs, out, head, gradients):
    """A windows_case."""
    return (f'{{"nn.{op}", "{params}", {len(inputs)},\n'
            " {" + ",\n  ".join(show(each) for each in inputs) + "},\n"
            f" {show(out)},\n {show(head)},\n {len(gradients)},\n"
            " {" + (",\n  ".join(show(each) for each in gradients) or "{0}")
            + "}},\n")


def ints(values):
    """As parameters are written."""
    return "[" + ",".join(map(str, values)) + "]"


def deconvolution(shape, filters, kernel, stride=None, dilate=None, pad=None,
                  adj=None, groups=1, bias=False, target=None):
    """One case by torch."""
    rank = len(kernel)
    stride, dilate = stride or (1,) * rank, dilate or (1,) * rank
    pad, adj = pad or (0,) * rank, adj or (0,) * rank
    data = torch.tensor(draw(*shape), requires_grad=True)
    weight = torch.tensor(draw(shape[1], filters // groups, *kernel),
                          requires_grad=True)
    offset = torch.tensor(draw(filters), requires_grad=True)
    add = offset if bias else None
    params = f"kernel={ints(kernel)} stride={ints(stride)} " \
        f"dilate={ints(dilate)} num_filter={filters} num_group={groups} " \
        f"no_bias={'false' if bias else 'true'} "
    if target:
        out = DECONV[rank - 1](data, weight, add, stride, 0, 0, groups, dilate)
        for d, size in enumerate(target):
            too_many = out.shape[d + 2] - size
            out = out.narrow(d + 2, (too_many + 1) // 2, size)
        params += f"target_shape={ints(target)}"
    else:
        out = DECONV[rank - 1](data, weight, add, stride, pad, adj, groups,
                               dilate)
        params += f"pad={ints(pad)} adj={ints(adj)}"
    head = torch.tensor(draw(*out.shape))
    inputs = [data, weight] + [offset] * bias
    gradients = torch.autograd.grad(out, inputs, head)
    return case("deconvolution", params, [each.detach() for each in inputs],
                out.detach(), head, gradients)


def deconvolutions():
    """All algorithms, in one to three dimensions."""
    yield deconvolution((2, 3, 5), 2, (3,), bias=True)
    yield deconvolution((1, 4, 4), 2, (3,), (2,), (2,), (1,), (1,), groups=2)
    yield deconvolution((2, 2, 3, 4), 3, (2, 2), (2, 2), bias=True)
    yield deconvolution((1, 2, 3, 3), 2, (4, 4), (2, 2), pad=(1, 1))
    yield deconvolution((1, 2, 3, 4), 2, (3, 2), (3, 2), (1, 2), (2, 0), (2, 1),
                        bias=True)
    yield deconvolution((2, 3, 3, 3), 3, (3, 3), (2, 2), pad=(1, 1), adj=(1, 1),
                        groups=3)
    yield deconvolution((1, 4, 2, 3), 6, (1, 1), groups=2, bias=True)
    yield deconvolution((1, 3, 2, 2), 2, (1, 1), (3, 2), adj=(2, 0))
    yield deconvolution((1, 2, 2, 3, 2), 2, (2, 3, 2), (1, 2, 2), pad=(1, 1, 0),
                        adj=(0, 1, 1), bias=True)
    yield deconvolution((1, 2, 4, 3), 2, (3, 3), (2, 2), target=(6, 5))
    yield deconvolution((1, 2, 4, 5), 1, (3, 3), target=(5, 3), bias=True)
    yield deconvolution((1, 2, 6), 2, (5,), (3,), target=(20,))


def windows(sizes, kernel, stride, dilate, pad):
    """Places of the elements of all windows: [tap][window] -> index or None."""
    counts = [(n + 2 * p - e * (k - 1) - 1) // s + 1
              for n, k, s, e, p in zip(sizes, kernel, stride, dilate, pad)]
    table = []
    for tap in itertools.product(*map(range, kernel)):
        row = []
        for window in itertools.product(*map(range, counts)):
            at = tuple(o * s + t * e - p for o, t, s, e, p in
                       zip(window, tap, stride, dilate, pad))
            inside = all(0 <= i < n for i, n in zip(at, sizes))
            row.append(at if inside else None)
        table.append(row)
    return table


def unfold_loops(data, table):
    """Columns of images."""
    n, c = data.shape[:2]
    out = np.zeros((n, c * len(table), len(table[0])))
    for i, k, t in np.ndindex(n, c, len(table)):
        for w, at in enumerate(table[t]):
            if at is not None:
                out[i, k * len(table) + t, w] = data[(i, k) + at]
    return out


def fold_loops(columns, table, channels, sizes):
    """Images of columns."""
    out = np.zeros((columns.shape[0], channels) + tuple(sizes))
    for i, k, t in np.ndindex(columns.shape[0], channels, len(table)):
        for w, at in enumerate(table[t]):
            if at is not None:
                out[(i, k) + at] += columns[i, k * len(table) + t, w]
    return out


def folds():
    """Both directions."""
    for shape, kernel, stride, dilate, pad in [
            ((2, 2, 7), (3,), (1,), (1,), (1,)),
            ((1, 2, 9), (2,), (3,), (2,), (0,)),
            ((2, 2, 4, 3), (2, 2), (1, 1), (1, 1), (0, 0)),
            ((1, 2, 5, 6), (3, 2), (2, 2), (1, 2), (1, 1)),
            ((1, 1, 3, 8), (2, 3), (1, 2), (2, 1), (2, 3)),
            ((1, 2, 3, 3, 4), (2, 1, 3), (1, 2, 1), (1, 1, 1), (0, 1, 1))]:
        sizes = shape[2:]
        table = windows(sizes, kernel, stride, dilate, pad)
        params = f"kernel={ints(kernel)} stride={ints(stride)} " \
            f"dilate={ints(dilate)} pad={ints(pad)}"
        data = draw(*shape)
        out = unfold_loops(data, table)
        head = draw(*out.shape)
        back = fold_loops(head, table, shape[1], sizes)
        if len(sizes) == 2:
            x = torch.tensor(data)
            assert (F.unfold(x, kernel, dilate, pad, stride).numpy()
                    == out).all()
            y = F.fold(torch.tensor(head), sizes, kernel, dilate, pad, stride)
            assert (y.numpy() == back).all()
        yield case("unfold", params, [data], out, head, [back])
        columns, head = draw(*out.shape), draw(*shape)
        yield case("fold", f"output_size={ints(sizes)} {params}", [columns],
                   fold_loops(columns, table, shape[1], sizes), head,
                   [unfold_loops(head, table)])


def write(folder, name, cases, script="windows.py"):
    """One file."""
    text = f"/* Written by tests/reference/{script}. */\n" + "".join(cases)
    (pathlib.Path(folder) / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    write(sys.argv[1], "deconv_cases.inc", deconvolutions())
    write(sys.argv[1], "fold_cases.inc", folds())
