#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/sequences_cases.inc: values of sequence_mask,
sequence_last and sequence_reverse of plugins/nn for test_sequences.c.

    sequences.py > sequences_cases.inc

Results are composed of flips and pieces of NumPy arrays, one sequence at a time;
gradients are those of torch. Nothing here knows of Tenon. The committed file was
made with torch 1.13.0, NumPy 1.24.2, Python 3.11.
"""

import numpy as np
import torch

from operands import show_list

RANDOM = np.random.default_rng(12)


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return torch.tensor(RANDOM.integers(-16, 17, size=shape) / 8)


def case(op, words, shape, axis, lengths, function):
    """`function` of the steps and the length of one sequence gives its
    result; `lengths` None: all steps."""
    data = draw(*shape)
    moved = data.clone().requires_grad_()
    count = shape[1 - axis]
    used = [shape[axis]] * count if lengths is None else map(int, lengths)
    parts = [function(moved.select(1 - axis, n), length)
             for n, length in enumerate(used)]
    kept = parts[0].ndim == data.ndim - 1
    out = torch.stack(parts, 1 - axis if kept else 0)
    head = draw(*out.shape)
    gradient = torch.autograd.grad(out, moved, head)[0]
    inputs = [data]
    if lengths is not None:
        inputs.append(torch.tensor(lengths, dtype=torch.double))
        words = ["use_sequence_length=true", *words]
    if axis:
        words = [*words, "axis=1"]
    print(f'{{"nn.{op}", "{" ".join(words)}", 0,')
    for each in inputs, [], [out], [], [head], [gradient]:
        print(f" {show_list(each)},")
    print("},")


def mask(shape, axis, lengths, value=0.0):
    def function(steps, length):
        rest = torch.full_like(steps[length:], value)
        return torch.cat([steps[:length], rest])

    case("sequence_mask", [f"value={value}"] if value else [], shape, axis,
         lengths, function)


def last(shape, axis, lengths):
    case("sequence_last", [], shape, axis, lengths,
         lambda steps, length: steps[length - 1])


def reverse(shape, lengths):
    case("sequence_reverse", [], shape, 0, lengths,
         lambda steps, length: torch.cat(
             [torch.flip(steps[:length], [0]), steps[length:]]))


print("/* Written by tests/reference/sequences.py. */")
mask((5, 3), 0, [2, 5, 0])
mask((4, 2, 3), 0, [1, 3.75], value=1.5)
mask((3, 4, 2, 2), 1, [0, 4, 2], value=-2.0)
mask((3, 4), 1, [1, 0, 3])
mask((3, 2, 2), 0, None)
last((5, 3), 0, [2, 5, 1])
last((4, 2, 3), 0, [1.5, 4])
last((3, 4, 2, 2), 1, [1, 4, 2])
last((3, 4), 1, None)
last((1, 1), 0, [1])
reverse((5, 3), [2, 5, 0])
reverse((4, 2, 3), [1, 3])
reverse((6, 4), [6, 4.25, 3, 1])
reverse((3, 2, 2), None)
