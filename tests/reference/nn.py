#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/nn_cases.inc: values of plugins/nn for test_nn.c.

    nn.py > nn_cases.inc

NumPy draws the inputs and computes results in double precision by the formulas
of the literature. Nothing here knows of Tenon. The committed file was made with
NumPy 1.24.2, Python 3.11. The derivative of an activation is the imaginary part
of the function 1e-30 off the real axis, divided by 1e-30, so the script has no
formula of it.
"""

import numpy as np

from operands import join, show

RANDOM = np.random.default_rng(5)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def case(op, params, inputs, out, head, gradients):
    print(f'{{"nn.{op}", "{params}", {len(inputs)},')
    print(f" {join(map(show, inputs))},")
    print(f" {show(out)},")
    print(f" {show(head)},")
    print(f" {len(gradients)},")
    print(f" {join(map(show, gradients))}}},")


def fully_connected(shape, hidden, bias, flatten):
    data = draw(*shape)
    rows = data.reshape(shape[0], -1) if flatten else data.reshape(-1, shape[-1])
    weight, offset = draw(hidden, rows.shape[1]), draw(hidden)
    out = np.einsum("nk,hk->nh", rows, weight) + (offset if bias else 0)
    head = draw(*out.shape)
    gradients = [np.einsum("nh,hk->nk", head, weight).reshape(shape),
                 np.einsum("nh,nk->hk", head, rows)]
    full = (shape[0], hidden) if flatten else (*shape[:-1], hidden)
    params = f"num_hidden={hidden}"
    params += "" if bias else " no_bias=true"
    params += "" if flatten else " flatten=false"
    case("fully_connected", params, [data, weight] + [offset] * bias,
         out.reshape(full), head.reshape(full),
         gradients + [head.sum(axis=0)] * bias)


FUNCTIONS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softrelu": lambda x: np.log(1 + np.exp(x)),
    "softsign": lambda x: x / (1 + np.where(x.real < 0, -x, x)),
    "relu": lambda x: np.where(x.real > 0, x, 0),
}


def activation(name):
    data, head = draw(4, 6) * 3, draw(4, 6)
    slope = FUNCTIONS[name](data + 1e-30j).imag / 1e-30
    case("activation", f"act_type={name}", [data],
         FUNCTIONS[name](data.astype(complex)).real, head, [head * slope])


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def wanted(label, classes, alpha):
    """The probabilities of a label, along a new last axis."""
    hit = label[..., None] == np.arange(classes)
    return np.where(hit, 1 - alpha, alpha / (classes - 1))


def softmax_output(params, shape, axis, label, divisor, alpha=0.0, factor=1.0,
                   ignored=None, with_head=False):
    """Classes are along `axis`; a label has class numbers or probabilities."""
    data, head = draw(*shape), draw(*shape)
    out = softmax(data, axis)
    if label.shape == tuple(shape):
        slope = out - label
    else:
        want = wanted(label, shape[axis], alpha)
        slope = out - np.moveaxis(want, -1, axis)
        if ignored is not None:
            slope = slope * np.expand_dims(label != ignored, axis)
    slope = slope * factor / divisor
    case("softmax_output", params, [data, label], out, head,
         [slope * head if with_head else slope])


print("/* Written by tests/reference/nn.py. */")
fully_connected((3, 5), 4, True, True)
fully_connected((2, 3, 2, 2), 3, True, True)
fully_connected((2, 3, 4), 2, False, False)
fully_connected((1, 7), 8, True, True)
fully_connected((5,), 3, True, False)
for each in FUNCTIONS:
    activation(each)
labels = np.array([3, 0, 5, 2])
softmax_output("", (4, 6), 1, labels, 1)
softmax_output("grad_scale=3 normalization=batch", (4, 6), 1, labels, 4,
               factor=3)
softmax_output("use_ignore=true ignore_label=5 normalization=valid", (4, 6), 1,
               labels, 3, ignored=5)
softmax_output("ignore_label=0 normalization=valid", (4, 6), 1, labels, 3)
softmax_output("smooth_alpha=0.125 out_grad=true", (4, 6), 1, labels, 1,
               alpha=0.125, with_head=True)
softmax_output("", (4, 6), 1, RANDOM.dirichlet(np.ones(6), 4), 1)
softmax_output("normalization=batch", (4, 6), 1,
               RANDOM.dirichlet(np.ones(6), 4), 4)
places = RANDOM.integers(0, 4, (2, 3, 2))
softmax_output("multi_output=true", (2, 4, 3, 2), 1, places, 6)
softmax_output("multi_output=true normalization=batch smooth_alpha=0.5",
               (2, 4, 3, 2), 1, places, 6 * 2, alpha=0.5)
softmax_output("multi_output=true normalization=valid use_ignore=true "
               "ignore_label=1 out_grad=true", (2, 4, 3, 2), 1, places,
               (places != 1).sum(), ignored=1, with_head=True)
softmax_output("preserve_shape=true normalization=batch", (2, 3, 5), 2,
               RANDOM.integers(0, 5, (2, 3)), 6)
