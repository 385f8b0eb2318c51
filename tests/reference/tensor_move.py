#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/move_cases.inc: values for test_move.c, of the operators
of plugins/tensor that move elements.

    tensor_move.py > move_cases.inc

NumPy draws the inputs; torch computes results and gradients in double precision.
Nothing here knows of Tenon. The committed file was made with NumPy 1.24.2 and
torch 1.13.1, Python 3.11.
"""

import numpy as np
import torch

from operands import join, show

RANDOM = np.random.default_rng(11)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def case(op, params, inputs, function, n_grads=None):
    """`function` takes tensors and returns one or several. There are gradients
    of the first n_grads inputs."""
    n_grads = len(inputs) if n_grads is None else n_grads
    tensors = [torch.tensor(each, dtype=torch.float64) for each in inputs]
    for each in tensors[:n_grads]:
        each.requires_grad_(True)
    outputs = function(*tensors)
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else outputs
    heads = [draw(*each.shape) for each in outputs]
    loss = sum((each * torch.tensor(head)).sum()
               for each, head in zip(outputs, heads))
    loss.backward()
    print(f'{{"tensor.{op}", "{params}", {len(inputs)},')
    print(f" {join(map(show, inputs))},")
    print(f" {len(outputs)},")
    print(f" {join(show(each) for each in outputs)},")
    print(f" {join(map(show, heads))},")
    print(f" {n_grads},")
    print(f" {join(show(each.grad) for each in tensors[:n_grads])}}},")


def index(tensor):
    return tensor.detach().long()


print("/* Written by tests/reference/tensor_move.py. */")
for params, shape, to in [
        ("shape=[0,-1]", (2, 3, 4), (2, 12)),
        ("shape=[4,-1,3]", (2, 3, 4), (4, 2, 3)),
        ("shape=[-3,-2]", (2, 3, 2, 4), (6, 2, 4)),
        ("shape=[0,-1] reverse=true", (3, 2, 4), (2, 12)),
        ("shape=[-2,2,-1,-4] reverse=true", (3, 4), (3, 2, 2)),
        ("shape=[]", (1, 1), ())]:
    case("reshape", params, [draw(*shape)], lambda x, to=to: x.reshape(to))
case("flatten", "", [draw(2, 3, 2, 2)], lambda x: x.flatten(1))
case("flatten", "", [draw(3)], lambda x: x[:, None])
case("expand_dims", "axis=1", [draw(2, 3)], lambda x: x.unsqueeze(1))
case("expand_dims", "axis=-1", [draw(2, 3)], lambda x: x.unsqueeze(-1))
case("expand_dims", "axis=0", [draw()], lambda x: x.unsqueeze(0))
case("squeeze", "axis=-2", [draw(2, 1, 3)], lambda x: x.squeeze(-2))
case("reshape_like", "", [draw(2, 6), draw(3, 4)],
     lambda x, like: x.reshape(like.shape), 1)
case("transpose", "", [draw(2, 3, 4)], lambda x: x.permute(2, 1, 0))
case("transpose", "axes=[1,0]", [draw(9, 7)], lambda x: x.permute(1, 0))
case("transpose", "axes=[0,2,3,1]", [draw(2, 3, 2, 4)],
     lambda x: x.permute(0, 2, 3, 1))
case("transpose", "axes=[-1,0,2,1]", [draw(2, 3, 2, 4)],
     lambda x: x.permute(3, 0, 2, 1))
case("transpose_back", "axes=[2,0,1]", [draw(2, 3, 4)],
     lambda x: x.permute(1, 2, 0))
case("swap_axes", "dim1=0 dim2=2", [draw(2, 3, 4)],
     lambda x: x.transpose(0, 2))
case("swap_axes", "dim1=-1 dim2=1", [draw(2, 3, 2, 4)],
     lambda x: x.transpose(-1, 1))
case("swap_axes", "", [draw(2, 3)], lambda x: x.clone())
case("reverse", "axis=[0]", [draw(3, 4)], lambda x: x.flip(0))
case("reverse", "axis=[-1,0]", [draw(2, 3, 4)], lambda x: x.flip(-1, 0))
for dim in range(3):
    parts = [draw(*(n if d == dim else 2 for d in range(3)))
             for n in (1, 3, 2)]
    case("concat", f"dim={dim}", parts, lambda *x, d=dim: torch.cat(x, d))
    case("stack", f"axis={dim}", [draw(2, 3), draw(2, 3)],
         lambda *x, d=dim: torch.stack(x, d))
case("concat", "dim=-1", [draw(2, 0), draw(2, 3)],
     lambda *x: torch.cat(x, -1))
case("concat", "", [draw(2, 3)], lambda x: x.clone())
case("split", "num_outputs=3", [draw(2, 6)], lambda x: x.chunk(3, 1))
case("split", "num_outputs=2 axis=0", [draw(4, 3)], lambda x: x.chunk(2, 0))
case("split", "num_outputs=3 axis=-2 squeeze_axis=true", [draw(2, 3, 4)],
     lambda x: x.unbind(-2))
case("slice", "begin=[1] end=[3]", [draw(4, 3)], lambda x: x[1:3])
case("slice", "begin=[0,-3] end=[100,-1]", [draw(3, 4)], lambda x: x[:, -3:-1])
case("slice", "begin=[1,0,2] end=[4,3,1] step=[2,1,1]", [draw(5, 3, 4)],
     lambda x: x[1:4:2, 0:3, 2:1])
case("slice", "begin=[5,-1] end=[-100,0] step=[-2,-1]", [draw(4, 3)],
     lambda x: x.flip(0)[0::2].flip(1)[:, :2])
case("slice_axis", "axis=1 begin=1 end=3", [draw(2, 4, 3)],
     lambda x: x[:, 1:3])
case("slice_axis", "axis=-1 begin=-2", [draw(2, 4)], lambda x: x[:, -2:])
case("take", "", [draw(5, 3), [3.0, 0.0, 3.0, 4.0]],
     lambda x, i: x[index(i)], 1)
case("take", "axis=1", [draw(2, 4, 3), [[1.0, 0.0], [3.0, 1.0]]],
     lambda x, i: x[:, index(i)], 1)
case("take", "axis=-1 mode=clip", [draw(2, 4), [-7.0, 9.0, 2.75]],
     lambda x, i: x[:, [0, 3, 2]], 1)
case("take", "mode=wrap", [draw(3, 2), [-1.0, 3.0, -4.0, 7.0]],
     lambda x, i: x[torch.remainder(index(i), 3)], 1)
case("take", "mode=raise", [draw(3), 2.0], lambda x, i: x[index(i)], 1)
case("tile", "reps=[2,3]", [draw(2, 2)], lambda x: x.tile(2, 3))
case("tile", "reps=[2]", [draw(2, 3)], lambda x: x.tile(2))
case("tile", "reps=[2,1,3]", [draw(2, 3)], lambda x: x.tile(2, 1, 3))
case("tile", "reps=[2,2]", [draw()], lambda x: x.tile(2, 2))
case("repeat", "repeats=2", [draw(2, 3)], lambda x: x.repeat_interleave(2))
case("repeat", "repeats=3 axis=1", [draw(2, 3)],
     lambda x: x.repeat_interleave(3, 1))
case("repeat", "repeats=2 axis=-3", [draw(2, 3, 2)],
     lambda x: x.repeat_interleave(2, 0))


def padded(widths, mode):
    """Returns a function that pads x with elements of x; NumPy's pad tells their
    places."""
    def function(x):
        for axis, width in enumerate(widths):
            places = torch.tensor(np.pad(np.arange(x.shape[axis]), width, mode))
            x = x.index_select(axis, places)
        return x
    return function


def text(widths):
    return "pad_width=[" + ",".join(str(n) for w in widths for n in w) + "]"


for mode in "edge", "reflect":
    for shape, widths in [((3, 4), [(2, 1), (0, 3)]),
                          ((2, 2, 3), [(1, 1), (0, 0), (2, 0)]),
                          ((5,), [(4, 4)])]:
        case("pad", f"mode={mode} {text(widths)}", [draw(*shape)],
             padded(widths, mode))
case("pad", "pad_width=[1,2,0,1] constant_value=-0.5", [draw(2, 3)],
     lambda x: torch.nn.functional.pad(x, (0, 1, 1, 2), value=-0.5))
case("pad", "pad_width=[0,0,1,1,0,2]", [draw(2, 2, 3)],
     lambda x: torch.nn.functional.pad(x, (0, 2, 1, 1, 0, 0)))
