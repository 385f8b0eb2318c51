#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/norm_cases.inc: values for tests of plugins/nn that use
tests/plugins/cases.c, such as those of normalisations and of softmax.

    norm.py > norm_cases.inc

NumPy draws the inputs and computes results in double precision by the formulas
of the literature. Nothing here knows of Tenon. The committed file was made with
NumPy 1.24.2, Python 3.11. The script has no formulas of gradients: it moves an
element by 1e-30 off the real axis. Then the imaginary part of the weighted sum
of the outputs, divided by 1e-30, is the derivative, to the last digit.
"""

import numpy as np

from operands import show_list

RANDOM = np.random.default_rng(6)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def slopes(function, inputs, heads, n):
    """Gradients of the first n inputs."""
    found = []
    for k in range(n):
        slope = np.zeros(inputs[k].shape)
        for at in np.ndindex(*inputs[k].shape):
            moved = [each.astype(complex) for each in inputs]
            moved[k][at] += 1e-30j
            outputs = function(*moved)
            slope[at] = sum((head * out).sum().imag for head, out in
                            zip(heads, outputs)) / 1e-30
        found.append(slope)
    return found


def case(op, params, inputs, function, n_grads, aux=(), after=(), hidden=(),
         flags="0"):
    """`function` of the inputs returns the visible outputs. `after` has the new
    states, `hidden` the hidden outputs."""
    outputs = [each.real for each in function(*inputs)]
    heads = [draw(*each.shape) for each in outputs]
    gradients = slopes(function, inputs, heads, n_grads)
    print(f'{{"nn.{op}", "{params}", {flags},')
    for each in ([*inputs], [*aux], [*outputs, *hidden], [*after], heads,
                 gradients):
        print(f" {show_list(each)},")
    print("},")


# ------------------------------------------------------------------- softmax

def softmax(x, axis):
    powers = np.exp(x - x.real.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def softmaxes():
    for params, shape, axis, divisor in [
            ("", (3, 7), 1, 1), ("axis=0", (6, 5), 0, 1),
            ("axis=1 temperature=2.5", (2, 3, 2, 5), 1, 2.5),
            ("axis=-3 temperature=0.5", (2, 2, 4, 3), 1, 0.5),
            ("temperature=4", (1, 61), 1, 4), ("", (1,), 0, 1)]:
        case("softmax", params, [draw(*shape)],
             lambda x: [softmax(x / divisor, axis)], 1)
        case("log_softmax", params, [draw(*shape)],
             lambda x: [np.log(softmax(x / divisor, axis))], 1)


# ------------------------------------------------------------ normalisations

def batch_norm(shape, axis, params="", eps=1e-3, momentum=0.9, fix_gamma=True,
               train=True, fixed_stats=False):
    """The hidden outputs are mean and 1/sqrt(var + eps)."""
    others = tuple(i for i in range(len(shape)) if i != axis % len(shape))
    view = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]
    n = shape[axis]
    data, gamma, beta = draw(*shape), draw(n), draw(n)
    means, variances = draw(n), np.abs(draw(n)) + 0.5

    def stats(x):
        if fixed_stats or not train:
            return means, variances
        mean = x.mean(axis=others)
        return mean, ((x - mean.reshape(view))**2).mean(axis=others)

    def forward(x, factor, shift):
        mean, variance = (each.reshape(view) for each in stats(x))
        scale = 1 if fix_gamma else factor.reshape(view)
        return [(x - mean) / np.sqrt(variance + eps) * scale +
                shift.reshape(view)]

    mean, variance = stats(data)
    moves = train and not fixed_stats
    after = [momentum * old + (1 - momentum) * new if moves else old
             for old, new in ((means, mean), (variances, variance))]
    words = [f"axis={axis}" if axis != 1 else "",
             f"eps={eps}" if eps != 1e-3 else "",
             f"momentum={momentum}" if momentum != 0.9 else "",
             "" if fix_gamma else "fix_gamma=false",
             "use_global_stats=true" if fixed_stats else ""]
    case("batch_norm", " ".join(filter(None, words)), [data, gamma, beta],
         forward, 3, aux=[means, variances], after=after,
         hidden=[mean, 1 / np.sqrt(variance + eps)],
         flags="TN_CALL_TRAIN" if train else "0")


def batch_norms():
    batch_norm((4, 3), 1, fix_gamma=False)
    batch_norm((2, 3, 5), 1, fix_gamma=False, eps=0.125, momentum=0.5)
    batch_norm((2, 2, 3, 4), 1)
    batch_norm((2, 3, 4), -1, fix_gamma=False)
    batch_norm((5, 4), 0, fix_gamma=False, momentum=0.0)
    batch_norm((2, 3, 5), 1, fix_gamma=False, train=False)
    batch_norm((3, 4), 1, fix_gamma=False, fixed_stats=True, eps=0.25)
    batch_norm((60, 1), 1, fix_gamma=False, momentum=1.0)


def layer_norm(shape, axis=-1, eps=1e-5):
    """The hidden outputs are mean and 1/sqrt(var + eps)."""
    view = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]
    data, gamma, beta = draw(*shape), draw(shape[axis]), draw(shape[axis])

    def stats(x):
        mean = x.mean(axis=axis, keepdims=True)
        return mean, ((x - mean)**2).mean(axis=axis, keepdims=True)

    def forward(x, factor, shift):
        mean, variance = stats(x)
        return [(x - mean) / np.sqrt(variance + eps) * factor.reshape(view) +
                shift.reshape(view)]

    mean, variance = stats(data)
    words = [f"axis={axis}" if axis != -1 else "",
             f"eps={eps}" if eps != 1e-5 else ""]
    case("layer_norm", " ".join(filter(None, words)), [data, gamma, beta],
         forward, 3, hidden=[mean, 1 / np.sqrt(variance + eps)])


def layer_norms():
    layer_norm((4, 6))
    layer_norm((2, 3, 5), eps=0.125)
    layer_norm((1, 60))
    layer_norm((2, 5, 4), axis=1)
    layer_norm((5, 6), axis=0)
    layer_norm((2, 3, 2, 3), axis=-3, eps=0.5)


# ----------------------------------------------------------------- rectifiers

def rectifier(params, shape, low, high=1):
    case("leaky_relu", params, [draw(*shape)],
         lambda x: [np.where(x.real > 0, high * x, low(x))], 1)


def prelu(shape, n):
    """The hidden output is a copy of the data."""
    view = [-1 if i == 1 and n > 1 else 1 for i in range(len(shape))]
    data, gamma = draw(*shape), draw(n)
    case("leaky_relu", "act_type=prelu", [data, gamma],
         lambda x, slope: [np.where(x.real > 0, x, slope.reshape(view) * x)],
         2, hidden=[data])


def rectifiers():
    rectifier("", (4, 6), lambda x: 0.25 * x)
    rectifier("slope=0", (3, 5), lambda x: 0 * x)
    rectifier("act_type=elu slope=1.5", (4, 6), lambda x: 1.5 * (np.exp(x) - 1))
    rectifier("act_type=selu", (4, 6),
              lambda x: 1.7580993408473766 * (np.exp(x) - 1),
              1.0507009873554805)
    prelu((4, 6), 6)
    prelu((2, 3, 5), 3)
    prelu((2, 3, 2, 2), 1)
    prelu((7,), 1)


# -------------------------------------------------------------- cross entropy

def cross_entropy(labels, classes):
    """The hidden output has largest elements, then logarithms of sums."""
    labels = np.array(labels)
    counts = (labels >= 0) & (labels < classes)
    data = draw(len(labels), classes)
    safe = np.where(counts, labels, 0)
    rows = np.arange(len(labels))

    def forward(x, _):
        losses = -np.log(softmax(x, 1))[rows, safe]
        return [np.where(counts, losses, 0).sum()]

    top = data.max(axis=1)
    rest = np.log(np.exp(data - top[:, None]).sum(axis=1))
    case("softmax_cross_entropy", "", [data, labels.astype(float)], forward, 1,
         hidden=[np.stack([top, rest], axis=1)])


def losses():
    cross_entropy([3, 0, 5, 2], 6)
    cross_entropy([1, -1, 7, 0, 2], 3)
    cross_entropy([20], 61)


print("/* Written by tests/reference/norm.py. */")
softmaxes()
batch_norms()
layer_norms()
rectifiers()
losses()
