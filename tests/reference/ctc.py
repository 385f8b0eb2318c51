#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/ctc_cases.inc: values of ctc_loss of plugins/nn for
test_ctc.c.

    ctc.py > ctc_cases.inc

Losses and gradients are those of ctc_loss of torch in double precision, and the
losses are sums over all paths as well. Nothing here knows of Tenon. The
committed file was made with torch 1.13.0, NumPy 1.24.2, Python 3.11.
"""

import itertools

import numpy as np
import torch
from torch.nn import functional

from operands import show_list

RANDOM = np.random.default_rng(13)


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return torch.tensor(RANDOM.integers(-16, 17, size=shape) / 8)


def add_paths(logs, label, blank):
    """The loss as a sum over all paths that collapse to the label."""
    total = 0
    for path in itertools.product(range(logs.shape[1]), repeat=logs.shape[0]):
        symbols = [key for key, _ in itertools.groupby(path) if key != blank]
        if symbols == label:
            total += np.exp(sum(float(logs[t, k]) for t, k in enumerate(path)))
    return -np.log(total)


def case(shape, labels, steps=None, lengths=False, blank="first"):
    """`labels` are lists of symbols; `lengths`: pass their lengths."""
    data, place = draw(*shape), 0 if blank == "first" else shape[2] - 1
    used = steps or [shape[0]] * shape[1]
    moved = data.clone().requires_grad_()
    logs = torch.log_softmax(moved, 2)
    counts = [len(each) for each in labels]
    losses = functional.ctc_loss(
        logs, torch.tensor(sum(labels, []), dtype=torch.long), used, counts,
        blank=place, reduction="none")
    for n, label in enumerate(labels):
        if shape[2]**used[n] <= 5000:
            want = add_paths(logs[:used[n], n].detach(), label, place)
            assert abs(float(losses[n]) - want) < 1e-9, (losses[n], want)
    by_data = torch.autograd.grad(losses.sum(), moved)[0]
    head = draw(shape[1])
    pad = 1 if lengths else 0 if blank == "first" else -1
    most = max(counts)
    table = torch.tensor([each + [pad] * (most - len(each))
                          for each in labels], dtype=torch.double)
    inputs = [data, table.reshape(shape[1], most)]
    words = [f"blank_label={blank}"] if blank != "first" else []
    if steps or lengths:
        inputs.append(torch.tensor(used))
        words += ["use_data_lengths=true"] * bool(steps)
    if lengths:
        inputs.append(torch.tensor(counts))
        words.append("use_label_lengths=true")
    print(f'{{"nn.ctc_loss", "{" ".join(words)}", 0,')
    for each in (inputs, [], [losses, by_data], [], [head],
                 [by_data * head[:, None]]):
        print(f" {show_list(each)},")
    print("},")


print("/* Written by tests/reference/ctc.py. */")
case((5, 2, 4), [[1, 2], [3, 3]])
case((6, 2, 3), [[1, 2, 1], [2]], blank="first")
case((4, 3, 4), [[0, 1], [2, 2], [1]], blank="last")
case((7, 2, 3), [[1, 1, 2], [2, 1]], steps=[7, 4])
case((6, 2, 5), [[3, 2], [4]], lengths=True)
case((5, 2, 4), [[0, 2, 1], [1]], steps=[4, 5], lengths=True, blank="last")
case((12, 1, 5), [[4, 4, 1, 2]])
