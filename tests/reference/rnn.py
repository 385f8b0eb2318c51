#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/rnn_cases.inc: values of nn.rnn for test_rnn.c.

    rnn.py > rnn_cases.inc

Results are those of torch.nn.RNN, LSTM and GRU in f64, gradients those of
torch's autograd. Nothing here knows of Tenon. The committed file was made with
torch 1.13.0, NumPy 1.24.2, Python 3.11.
"""

import numpy as np
import torch

from operands import join, show

RANDOM = np.random.default_rng(14)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return torch.tensor(RANDOM.integers(-16, 17, size=shape) / 16,
                        dtype=torch.float64)


def order_parameters(layer):
    """One vector: all weights, then all biases."""
    names = [f"_l{k}{end}" for k in range(layer.num_layers)
             for end in (("", "_reverse") if layer.bidirectional else ("",))]
    weights = [f"weight_{kind}{name}" for name in names for kind in ("ih", "hh")]
    biases = [f"bias_{kind}{name}" for name in names for kind in ("ih", "hh")]
    return [getattr(layer, name) for name in weights + biases]


def case(mode, steps, batch, inputs, units, layers=1, bidirectional=False):
    make = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU,
            "rnn_relu": torch.nn.RNN, "rnn_tanh": torch.nn.RNN}[mode]
    more = {"nonlinearity": mode[4:]} if mode.startswith("rnn") else {}
    layer = make(inputs, units, layers, bidirectional=bidirectional,
                 dtype=torch.float64, **more)
    parts = order_parameters(layer)
    for each in parts:
        each.data = draw(*each.shape)
    directions = layers * (2 if bidirectional else 1)
    data, state = draw(steps, batch, inputs), draw(directions, batch, units)
    cell = draw(directions, batch, units)
    given = [data, state] + ([cell] if mode == "lstm" else [])
    for each in given:
        each.requires_grad_(True)
    out, last = layer(data, (state, cell) if mode == "lstm" else state)
    results = [out, *last] if mode == "lstm" else [out, last]
    heads = [draw(*each.shape) for each in results]
    loss = sum((head * each).sum() for head, each in zip(heads, results))
    grads = torch.autograd.grad(loss, given + parts)
    flat = torch.cat([each.flatten() for each in parts])
    flat_grad = torch.cat([each.flatten() for each in grads[len(given):]])
    words = [f"state_size={units} mode={mode}",
             f"num_layers={layers}" if layers > 1 else "",
             "bidirectional=true" if bidirectional else ""]
    print(f'{{"{" ".join(filter(None, words))}", {len(given) + 1}, '
          f'{len(results)},')
    for each in ([data, flat, *given[1:]], results, heads,
                 [grads[0], flat_grad, *grads[1:len(given)]]):
        print(f" {join(show(one, most=96) for one in each)},")
    print("},")


print("/* Written by tests/reference/rnn.py. */")
for each in "rnn_relu", "rnn_tanh":
    case(each, 4, 2, 3, 2)
    case(each, 3, 2, 1, 2, layers=2, bidirectional=True)
case("rnn_tanh", 2, 3, 2, 2, layers=3)
case("lstm", 4, 2, 2, 2)
case("lstm", 1, 3, 1, 1, layers=2, bidirectional=True)
case("lstm", 3, 2, 1, 1, layers=4)
case("gru", 4, 2, 2, 2)
case("gru", 3, 2, 1, 1, layers=2, bidirectional=True)
case("gru", 2, 1, 1, 1, layers=3)
