#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/conv_cases.inc and pool_cases.inc: values of plugins/nn
for test_convolution.c and test_pooling.c.

    conv.py TESTS_PLUGINS_FOLDER

Inputs are few eighths; results are those of torch in double precision, and its
automatic gradients. What torch does not have (the conventions `full` with
windows outside of the image, `same`, gradients of ties) is computed by loops in
NumPy. The committed files were made with torch 1.13.1 and NumPy 1.24.2, Python
3.11.
"""

import itertools
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(sys.argv[1])
RANDOM = np.random.default_rng(6)
CONV = [F.conv1d, F.conv2d, F.conv3d]
MAX = [F.max_pool1d, F.max_pool2d, F.max_pool3d]


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-8, 9, size=shape) / 8


def show(array):
    """A cases_operand."""
    array = np.asarray(array, dtype=float)
    dims = ", ".join(map(str, array.shape))
    values = ", ".join(repr(float(each)) for each in array.ravel())
    values = values.replace("nan", "NAN").replace("inf", "INFINITY")
    return f"{{{array.ndim}, {{{dims}}}, (const double[]){{{values}}}}}"


def case(op, params, inputs, out, head, gradients):
    """A cases_case."""
    return (f'{{"nn.{op}", "{params}", {len(inputs)},\n'
            " {" + ",\n  ".join(show(each) for each in inputs) + "},\n"
            f" {show(out)},\n {show(head)},\n {len(gradients)},\n"
            " {" + ",\n  ".join(show(each) for each in gradients) + "}},\n")


def ints(values):
    """As parameters are written."""
    return "[" + ",".join(map(str, values)) + "]"


def convolution(shape, filters, kernel, stride, dilate, pad, groups, bias):
    """One case by torch."""
    rank = len(kernel)
    data = torch.tensor(draw(*shape), requires_grad=True)
    weight = torch.tensor(draw(filters, shape[1] // groups, *kernel),
                          requires_grad=True)
    offset = torch.tensor(draw(filters), requires_grad=True)
    out = CONV[rank - 1](data, weight, offset if bias else None, stride, pad,
                         dilate, groups)
    head = torch.tensor(draw(*out.shape))
    inputs = [data, weight] + [offset] * bias
    gradients = torch.autograd.grad(out, inputs, head)
    params = (f"kernel={ints(kernel)} stride={ints(stride)} "
              f"dilate={ints(dilate)} pad={ints(pad)} num_filter={filters} "
              f"num_group={groups}" + ("" if bias else " no_bias=true"))
    return case("convolution", params, [each.detach() for each in inputs],
                out.detach(), head, gradients)


def convolutions():
    """All ways to compute one, in one to three dimensions."""
    yield convolution((2, 3, 9), 4, (3,), (1,), (1,), (0,), 1, True)
    yield convolution((2, 4, 11), 6, (3,), (2,), (2,), (3,), 2, False)
    yield convolution((2, 3, 5, 6), 4, (3, 3), (1, 1), (1, 1), (1, 1), 1, True)
    yield convolution((1, 2, 7, 5), 3, (3, 2), (2, 3), (1, 2), (2, 1), 1, True)
    yield convolution((2, 4, 4, 3), 6, (1, 1), (1, 1), (1, 1), (0, 0), 2, True)
    yield convolution((1, 3, 5, 5), 2, (1, 1), (2, 2), (1, 1), (0, 0), 1, False)
    yield convolution((2, 3, 5, 5), 3, (3, 3), (1, 1), (1, 1), (1, 1), 3, True)
    yield convolution((1, 2, 6, 7), 4, (3, 3), (2, 2), (1, 1), (1, 1), 2, False)
    yield convolution((1, 2, 6, 19), 2, (2, 5), (1, 3), (2, 2), (1, 4), 2, True)
    yield convolution((2, 3, 20), 3, (5,), (1,), (1,), (2,), 3, False)
    yield convolution((1, 2, 3, 4, 5), 2, (2, 3, 2), (1, 1, 2), (1, 1, 1),
                      (1, 1, 0), 1, True)
    yield convolution((1, 2, 4, 3, 3), 2, (2, 2, 2), (2, 1, 1), (2, 1, 1),
                      (1, 0, 1), 2, False)


def out_length(size, kernel, stride, pad, convention):
    """Windows along one dimension, and the padding before them."""
    if convention == "same":
        n = -(-size // stride)
        return n, max((n - 1) * stride + kernel - size, 0) // 2
    room = size + 2 * pad - kernel
    return (-(-room // stride) if convention == "full" else room // stride) + 1, \
        pad


def pooling_loops(data, head, kernel, stride, pad, kind, convention, count_pad):
    """Out and the gradient, window by window."""
    lengths = [out_length(*each, convention)
               for each in zip(data.shape[2:], kernel, stride, pad)]
    out = np.zeros(data.shape[:2] + tuple(n for n, _ in lengths))
    gradient = np.zeros(data.shape)
    head = draw(*out.shape) if head is None else head
    for at in itertools.product(*map(range, out.shape)):
        begin = [o * s - p for o, s, (_, p) in zip(at[2:], stride, lengths)]
        cells = [range(max(b, 0), min(b + k, n))
                 for b, k, n in zip(begin, kernel, data.shape[2:])]
        spots = [at[:2] + spot for spot in itertools.product(*cells)]
        values = [data[spot] for spot in spots]
        if kind == "max":
            best = max(range(len(values)), default=None,
                       key=lambda i: (np.isnan(values[i]), values[i], -i))
            out[at] = -np.inf if best is None else values[best]
            if best is not None:
                gradient[spots[best]] += head[at]
            continue
        divisor = 1
        if kind == "avg" and convention == "same":
            divisor = len(values) if not count_pad else int(np.prod(kernel))
        elif kind == "avg":
            ends = [max(min(b + k, n + p) - b, 0) for b, k, n, p in
                    zip(begin, kernel, data.shape[2:], pad)]
            divisor = int(np.prod(ends)) if count_pad else len(values)
        out[at] = sum(values) / max(divisor, 1)
        for spot in spots:
            gradient[spot] += head[at] / max(divisor, 1)
    return out, head, gradient


def pooling(shape, kernel, stride, pad, kind, convention="valid",
            count_pad=True, data=None, check=True):
    """One case by loops, which torch confirms where it can."""
    data = draw(*shape) if data is None else data
    out, head, gradient = pooling_loops(data, None, kernel, stride, pad, kind,
                                        convention, count_pad)
    if check:
        confirm(data, out, head, gradient, kernel, stride, pad, kind,
                convention, count_pad)
    params = f"kernel={ints(kernel)} stride={ints(stride)} pool_type={kind} " \
        f"pooling_convention={convention} pad={ints(pad)}" \
        + ("" if count_pad else " count_include_pad=false")
    return case("pooling", params, [data], out, head, [gradient])


def confirm(data, out, head, gradient, kernel, stride, pad, kind, convention,
            count_pad):
    """The same by torch."""
    rank = len(kernel)
    x = torch.tensor(data, requires_grad=True)
    full = convention == "full"
    if kind == "max":
        y = MAX[rank - 1](x, kernel, stride, pad, ceil_mode=full)
    else:
        average = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][rank - 1]
        y = average(x, kernel, stride, pad, full, count_pad)
        if kind == "sum":
            y = y * np.prod(kernel)
    np.testing.assert_allclose(y.detach().numpy(), out, rtol=1e-14)
    (slope,) = torch.autograd.grad(y, x, torch.tensor(head))
    np.testing.assert_allclose(slope.numpy(), gradient, rtol=1e-13, atol=1e-14)


def whole(shape, kind):
    """Windows of a whole image."""
    data = draw(*shape)
    axes = tuple(range(2, len(shape)))
    size = np.prod(shape[2:])
    out = {"max": data.max, "avg": data.mean, "sum": data.sum}[kind](
        axis=axes, keepdims=True)
    head = draw(*out.shape)
    gradient = np.zeros(shape)
    for n, c in np.ndindex(*shape[:2]):
        plane = gradient[n, c].reshape(-1)
        if kind == "max":
            plane[np.argmax(data[n, c])] = head[n, c].item()
        else:
            plane[:] = head[n, c].item() / (size if kind == "avg" else 1)
    return case("pooling", f"global_pool=true pool_type={kind}", [data], out,
                head, [gradient])


def distinct(*shape):
    """Without ties, of which torch takes another than we do."""
    return (RANDOM.permutation(int(np.prod(shape))) - 30).reshape(shape) / 4


def poolings():
    """All kinds and conventions, in one to three dimensions."""
    yield pooling((2, 2, 9), (3,), (2,), (1,), "max",
                  data=distinct(2, 2, 9))
    yield pooling((2, 2, 7, 6), (3, 3), (2, 2), (1, 1), "max",
                  data=distinct(2, 2, 7, 6))
    yield pooling((1, 2, 6, 8), (2, 3), (1, 1), (0, 1), "max", "full",
                  data=distinct(1, 2, 6, 8))
    yield pooling((1, 2, 3, 4, 5), (2, 2, 3), (1, 2, 2), (1, 0, 1), "max",
                  data=distinct(1, 2, 3, 4, 5))
    # Ties: eighths from -1 to 1 in many windows.
    yield pooling((1, 2, 9, 9), (3, 3), (2, 2), (1, 1), "max", check=False)
    yield pooling((1, 1, 5, 21), (3, 5), (1, 1), (0, 0), "max", check=False,
                  data=draw(1, 1, 5, 21).round())
    for kind, count in (("avg", True), ("avg", False), ("sum", True)):
        yield pooling((2, 2, 8), (3,), (2,), (1,), kind, count_pad=count)
        yield pooling((1, 2, 6, 6), (2, 2), (2, 2), (0, 0), kind,
                      count_pad=count)
        yield pooling((1, 2, 7, 5), (3, 3), (2, 1), (1, 1), kind,
                      count_pad=count)
        yield pooling((1, 1, 4, 3, 5), (2, 2, 3), (2, 1, 2), (1, 0, 1), kind,
                      count_pad=count)
        # Windows that reach over the padded end are clipped.
        yield pooling((1, 2, 6, 8), (3, 3), (2, 2), (0, 1), kind, "full",
                      count, check=kind != "sum")
        yield pooling((1, 2, 7, 6), (3, 2), (2, 2), (0, 0), kind, "same",
                      count, check=False)
    # The last window of `full` is outside of the image.
    yield pooling((1, 1, 4), (1,), (2,), (0,), "max", "full", check=False)
    yield pooling((1, 1, 4), (1,), (2,), (0,), "avg", "full", check=False)
    yield pooling((1, 2, 7, 6), (3, 2), (2, 3), (0, 0), "max", "same",
                  check=False)
    odd = draw(1, 1, 4, 6)
    odd[0, 0, 1, 2] = odd[0, 0, 1, 3] = np.nan
    odd[0, 0, 2:, 0] = odd[0, 0, 3, 1] = odd[0, 0, 2, 1] = -np.inf
    yield pooling((1, 1, 4, 6), (2, 2), (2, 2), (0, 0), "max", data=odd,
                  check=False)
    for kind in ("max", "avg", "sum"):
        yield whole((2, 3, 4, 5), kind)
        yield whole((2, 2, 7), kind)


def write(name, cases):
    """One file."""
    text = "/* Written by tests/reference/conv.py. */\n" + "".join(cases)
    (FOLDER / name).write_text(text, encoding="ascii")


write("conv_cases.inc", convolutions())
write("pool_cases.inc", poolings())
