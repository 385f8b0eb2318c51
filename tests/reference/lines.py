#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/lines_cases.inc: values of the formulas of
tests/plugins/forms/lines.yaml for test_lines.c (tests/plugins/cases.c).

    lines.py > lines_cases.inc

Inputs are drawn by NumPy, results computed by it in double precision. The
committed file was made with NumPy 1.24.2 and SciPy 1.10.1, Python 3.11.
scipy.special computed softmax and logsumexp of real numbers. Gradients are the
imaginary parts of the weighted sum of the outputs after a step of 1e-30 off the
real axis.
"""

import numpy as np
from scipy import special

from operands import show_list

RANDOM = np.random.default_rng(40)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def draw_distinct(*shape):
    """Numbers without ties."""
    n = int(np.prod(shape))
    return (RANDOM.permutation(n).reshape(shape) - n // 2) / 8


def find_gradients(function, inputs, heads):
    found = []
    for k, each in enumerate(inputs):
        gradient = np.zeros(each.shape)
        for at in np.ndindex(*each.shape):
            moved = [other.astype(complex) for other in inputs]
            moved[k][at] += 1e-30j
            gradient[at] = sum((head * out).sum().imag for head, out in
                               zip(heads, function(*moved))) / 1e-30
        found.append(gradient)
    return found


def case(op, params, inputs, function, hidden=()):
    """`function` of the inputs gives the visible outputs."""
    outputs = [each.real for each in function(*inputs)]
    heads = [draw(*each.shape) for each in outputs]
    gradients = find_gradients(function, inputs, heads)
    print(f'{{"forms.{op}", "{params}", 0,')
    for each in (inputs, [], [*outputs, *hidden], [], heads, gradients):
        print(f" {show_list(each)},")
    print("},")


def view_places(array, shape, axis):
    """An array with one element for each place, as one with all axes."""
    view = [1] * len(shape)
    view[axis % len(shape)] = -1
    return array.reshape(view)


SHAPES = [((3, 7), -1), ((7, 3), 0), ((2, 5, 4), 1), ((2, 3, 2, 4), -2),
          ((5,), 0), ((1, 33), 1)]


def rms_norms():
    for shape, axis in SHAPES:
        data, gamma = draw(*shape), draw(shape[axis])

        def root(x):
            return 1 / np.sqrt((x**2).mean(axis=axis, keepdims=True) + 0.25)

        case("rms_norm", f"axis={axis} eps=0.25", [data, gamma],
             lambda x, g: [x * root(x) * view_places(g, shape, axis)],
             hidden=[root(data)])


def layer_norms():
    for shape, axis in SHAPES:
        data, gamma, beta = (draw(*shape), draw(shape[axis]),
                             draw(shape[axis]))

        def stats(x):
            mean = x.mean(axis=axis, keepdims=True)
            square = ((x - mean)**2).mean(axis=axis, keepdims=True)
            return mean, 1 / np.sqrt(square + 0.125)

        def forward(x, g, b):
            mean, rstd = stats(x)
            return [(x - mean) * rstd * view_places(g, shape, axis) +
                    view_places(b, shape, axis)]

        case("line_layer_norm", f"axis={axis} eps=0.125", [data, gamma, beta],
             forward, hidden=stats(data))


def softmaxes():
    for shape, axis in SHAPES:
        data = draw(*shape)

        def softmax(x):
            powers = np.exp(x - x.real.max(axis=axis, keepdims=True))
            return powers / powers.sum(axis=axis, keepdims=True)

        assert np.allclose(softmax(data), special.softmax(data, axis=axis))
        assert np.allclose(np.log(softmax(data)),
                           special.log_softmax(data, axis=axis))
        case("line_softmax", f"axis={axis}", [data], lambda x: [softmax(x)])
        case("line_log_softmax", f"axis={axis}", [data],
             lambda x: [np.log(softmax(x))])


def standardisations():
    for axes in [(0,), (1, 2), (0, 2), (-1, 0, 1), (-2,)]:
        def forward(x):
            mean = x.mean(axis=axes, keepdims=True)
            square = ((x - mean)**2).mean(axis=axes, keepdims=True)
            return [(x - mean) / np.sqrt(square + 1)]

        case("line_standardise", f"axis={list(axes)}".replace(" ", ""),
             [draw(2, 3, 4)], forward)


def sums():
    for shape, axis in SHAPES[:5]:
        def pick(x, at):
            return np.take_along_axis(x, np.expand_dims(at, axis), axis)

        def forward(x):
            most = pick(x, x.real.argmax(axis=axis))
            least = pick(x, x.real.argmin(axis=axis))
            return [x.sum(axis=axis, keepdims=True), most, least, most - x]

        case("line_sum", f"axis={axis}", [draw_distinct(*shape)], forward)


def l2_norms():
    for shape, axis in SHAPES[:3]:
        data = draw(*shape)

        def norm(x):
            return np.sqrt((x**2).sum(axis=axis, keepdims=True) + 0.5)

        case("line_l2_norm", f"axis={axis} eps=0.5", [data],
             lambda x: [x / norm(x)], hidden=[norm(data)])


def main():
    print("/* Written by tests/reference/lines.py. */")
    rms_norms()
    layer_norms()
    softmaxes()
    standardisations()
    sums()
    l2_norms()


if __name__ == "__main__":
    main()
