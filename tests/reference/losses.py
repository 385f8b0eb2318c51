#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/losses_cases.inc: values of the regression outputs,
svm_output, make_loss and kl_sparse_reg of plugins/nn for test_losses.c.

    losses.py > losses_cases.inc

Gradients are those that torch computes of the losses in double precision: of
squared and absolute errors, of binary_cross_entropy_with_logits, of hinges, and
of a divergence. Nothing here knows of Tenon. The committed file was made with
torch 1.13.0, NumPy 1.24.2, Python 3.11.
"""

import numpy as np
import torch
from torch.nn import functional

from operands import show_list

RANDOM = np.random.default_rng(10)


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return torch.tensor(RANDOM.integers(-16, 17, size=shape) / 8)


def case(op, params, inputs, outputs, gradient, aux=(), after=(), flags="0",
         head=None):
    """`gradient` is that of the first input."""
    head = draw(*outputs[0].shape) if head is None else head
    print(f'{{"nn.{op}", "{params}", {flags},')
    for each in inputs, aux, outputs, after, [head], [gradient]:
        print(f" {show_list(each)},")
    print("},")


def slope(loss, data):
    moved = data.clone().requires_grad_()
    return torch.autograd.grad(loss(moved), moved)[0]


def regression(name, shape, label_shape=None, grad_scale=1):
    data = draw(*shape)
    label = draw(*(label_shape or shape))
    each = data[0].numel() if data.ndim else 1
    target = label.reshape(shape)
    if name == "logistic":
        label, target = (label + 2) / 4, (target + 2) / 4
    loss = {
        "linear": lambda x: ((x - target)**2).sum() / 2,
        "mae": lambda x: (x - target).abs().sum(),
        "logistic": lambda x: functional.binary_cross_entropy_with_logits(
            x, target, reduction="sum")}[name]
    out = torch.sigmoid(data) if name == "logistic" else data
    case(f"{name}_regression_output",
         f"grad_scale={grad_scale}" if grad_scale != 1 else "",
         [data, label], [out],
         slope(lambda x: loss(x) * grad_scale / each, data))


def svm(shape, labels, margin=1, coefficient=1, linear=False):
    """Hinges: at the class of the label of margin - x, elsewhere of
    margin + x."""
    data = draw(*shape)
    classes = data[0].numel()
    sign = torch.ones(shape[0], classes, dtype=torch.double)
    for row, label in enumerate(labels):
        if 0 <= label < classes:
            sign[row, int(label)] = -1

    def loss(x):
        hinge = functional.relu(margin + sign * x.reshape(shape[0], -1))
        return (hinge if linear else hinge**2).sum() * coefficient

    words = [f"margin={margin}" if margin != 1 else "",
             f"regularization_coefficient={coefficient}"
             if coefficient != 1 else "", "use_linear=true" if linear else ""]
    case("svm_output", " ".join(filter(None, words)),
         [data, torch.tensor(labels, dtype=torch.double)], [data],
         slope(loss, data))


def make_loss(shape, grad_scale=1, thresh=0.0, normalization="null"):
    data = draw(*shape)
    divisor = {"null": 1, "batch": shape[0],
               "valid": max(1, int((data > thresh).sum()))}[normalization]
    words = [f"grad_scale={grad_scale}", f"valid_thresh={thresh}",
             f"normalization={normalization}"]
    case("make_loss", " ".join(words), [data], [data],
         slope(lambda x: x.sum() * grad_scale / divisor, data))


def kl(shape, target=0.1, penalty=0.001, momentum=0.9, train=True):
    """The divergence of a distribution with the average from one with the
    target."""
    data = (draw(*shape) + 2) / 4
    moving = torch.tensor(RANDOM.integers(2, 7, size=shape[1]) / 8)
    used = (momentum * moving + (1 - momentum) * data.mean(0) if train
            else moving)
    added = slope(lambda a: penalty * (
        target * torch.log(target / a) +
        (1 - target) * torch.log((1 - target) / (1 - a))).sum(), used)
    head = draw(*shape)
    case("kl_sparse_reg",
         f"sparseness_target={target} penalty={penalty} momentum={momentum}",
         [data], [data, used], head + added, aux=[moving], after=[used],
         flags="TN_CALL_TRAIN" if train else "0", head=head)


print("/* Written by tests/reference/losses.py. */")
for kind in "linear", "mae", "logistic":
    regression(kind, (5, 3))
    regression(kind, (2, 3, 2, 2), grad_scale=0.5)
    regression(kind, (6, 1), (6,), grad_scale=3)
    regression(kind, (7,))
    regression(kind, (2, 6), (2, 3, 2))
svm((4, 5), [0, 3, 4, 2])
svm((3, 4), [1, -1, 4], margin=0.5, coefficient=0.25)
svm((4, 5), [0, 3.75, 4, 2], linear=True)
svm((2, 2, 3), [5, 1], margin=2, coefficient=3, linear=True)
svm((5, 1), [0, 0, 1, 0, -1])
make_loss((3, 4), grad_scale=0.5)
make_loss((4, 3), grad_scale=3, normalization="batch")
make_loss((3, 5), thresh=0.5, normalization="valid")
make_loss((2, 2), thresh=9.0, normalization="valid")
kl((4, 5))
kl((6, 3), target=0.25, penalty=2.0, momentum=0.5)
kl((2, 7), target=0.5, penalty=0.5, momentum=0.0)
kl((3, 4), penalty=1.0, train=False)
