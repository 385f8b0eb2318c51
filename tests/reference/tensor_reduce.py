#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/reduce_cases.inc: values of plugins/tensor for
test_reduce.c and test_dot.c (tests/plugins/cases.c).

    tensor_reduce.py > reduce_cases.inc

Inputs are drawn by NumPy, results and gradients computed by torch in double
precision, after its own formulas: nothing here knows of Tenon. The committed file
was made with NumPy 1.24.2, torch 1.13.0 and Python 3.11.
"""

import numpy as np
import torch

from operands import show_list

RANDOM = np.random.default_rng(7)


def draw(*shape):
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def unlike(*shape):
    """The same without two that are equal, and without 0."""
    n = int(np.prod(shape))
    values = np.concatenate([np.arange(-n, 0), np.arange(1, n + 1)])
    return RANDOM.permutation(values)[:n].reshape(shape) / 8


def case(op, params, inputs, function, n_grads=1):
    """Gradients are those of the first inputs; without any, no heads."""
    tensors = [torch.tensor(each, dtype=torch.float64, requires_grad=i < n_grads)
               for i, each in enumerate(inputs)]
    out = function(*tensors)
    heads, grads = [], []
    if n_grads:
        heads = [draw(*out.shape)]
        grads = torch.autograd.grad(out, tensors[:n_grads],
                                    torch.tensor(heads[0], dtype=torch.float64))
    print(f'{{"tensor.{op}", "{params}", 0,')
    for each in (inputs, [], [out.detach().numpy()], [], heads,
                 [grad.numpy() for grad in grads]):
        print(f" {show_list(each)},")
    print("},")


# ---------------------------------------------------------------- reductions

# Parameters, shape, and the axes that they mean.
AXES = [("", (3, 5), (0, 1)),
        ("axis=[0]", (4, 6), (0,)),
        ("axis=[-1]", (4, 6), (1,)),
        ("axis=[1] keepdims=true", (2, 3, 4), (1,)),
        ("axis=[0,2]", (2, 3, 4), (0, 2)),
        ("axis=[1] exclude=true", (2, 3, 4), (0, 2)),
        ("axis=[-1,0] exclude=true keepdims=true", (2, 2, 3, 2), (1, 2)),
        ("keepdims=true", (7,), (0,)),
        ("axis=[0]", (40,), (0,)),
        ("axis=[0]", (1, 5), (0,)),
        ("", (), ())]


def prod(x, axes, keep):
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def over(function):
    """A function of torch that takes axes; of none it is not asked."""
    return lambda x, axes, keep: function(x, dim=axes, keepdim=keep) \
        if axes else function(x.reshape(1), dim=(0,), keepdim=False)


REDUCTIONS = {
    "sum": (draw, over(torch.sum)),
    "mean": (draw, over(torch.mean)),
    "prod": (lambda *s: unlike(*s) if s else draw(), prod),
    "max": (unlike, over(torch.amax)),
    "min": (unlike, over(torch.amin)),
    "nansum": (draw, over(torch.sum)),
    "nanprod": (draw, prod),
}


def reductions():
    for op, (values, function) in REDUCTIONS.items():
        for params, shape, axes in AXES:
            if "prod" in op and np.prod(shape) > 24:
                continue  # beyond the half types
            case(op, params, [values(*shape)],
                 lambda x: function(x, axes, "keepdims" in params))
    for order in (1, 2):
        for params, shape, axes in AXES[:-1]:
            case("norm", f"{params} ord={order}".strip(), [unlike(*shape)],
                 lambda x: torch.linalg.vector_norm(x, order, axes,
                                                    "keepdims" in params))


def products_of_zeros():
    for zeros in (1, 2, 3):
        data = unlike(3, 4)
        data[1, :zeros] = 0
        case("prod", "axis=[1]", [data], lambda x: torch.prod(x, 1))
        case("nanprod", "", [data], torch.prod)


# -------------------------------------------------------------------- places

def places():
    for op, function in (("argmax", torch.argmax), ("argmin", torch.argmin)):
        case(op, "", [unlike(3, 7)], lambda x: function(x), 0)
        for axis in (0, 1, -1):
            case(op, f"axis={axis}", [unlike(3, 4, 5)],
                 lambda x: function(x, axis), 0)
        case(op, "axis=1 keepdims=true", [unlike(2, 9)],
             lambda x: function(x, 1, keepdim=True), 0)
    for axis in (0, 1, -1):
        shape = [3, 4, 5]
        del shape[axis]
        index = RANDOM.integers(-1, 6, shape)
        length = (3, 4, 5)[axis]
        case("pick", f"axis={axis}", [draw(3, 4, 5), index],
             lambda x, i: torch.gather(
                 x, axis, i.long().clamp(0, length - 1).unsqueeze(axis)
             ).squeeze(axis))
    case("pick", "keepdims=true", [draw(4, 3), RANDOM.integers(0, 3, (4, 1))],
         lambda x, i: torch.gather(x, 1, i.long()))


# ------------------------------------------------------- of several operands

def several():
    case("broadcast_to", "shape=[4,3]", [draw(1, 3)], lambda x: x.expand(4, 3))
    case("broadcast_to", "shape=[2,0,3]", [draw(4, 1)],
         lambda x: x.expand(2, 4, 3))
    case("broadcast_to", "shape=[5,2]", [draw()], lambda x: x.expand(5, 2))
    case("broadcast_axis", "axis=[0,-1] size=[2,3]", [draw(1, 4, 1)],
         lambda x: x.expand(2, 4, 3))
    case("broadcast_like", "", [draw(3, 1), draw(2, 3, 4)],
         lambda x, y: x.expand(2, 3, 4))
    case("where", "", [RANDOM.integers(0, 2, (3, 4)), draw(3, 4), draw(3, 4)],
         lambda c, x, y: torch.where(c != 0, x, y), 0)
    case("where", "", [RANDOM.integers(0, 2, 5), draw(5, 3), draw(5, 3)],
         lambda c, x, y: torch.where((c != 0)[:, None], x, y), 0)
    for n in (1, 2, 5):
        case("add_n", "", [draw(2, 3) for _ in range(n)],
             lambda *all_of: torch.stack(all_of).sum(0), n)


# ------------------------------------------------------------------ products

def dot(a, b):
    for lhs, rhs in [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)),
                     ((4,), (4, 5)), ((2, 3, 2), (2, 4)), ((2, 2, 3), (3, 1, 2)),
                     ((1, 7), (7, 1)), ((9, 1), (1, 7)), ((3,), (3, 2, 2))]:
        lhs = (lhs[-1], *lhs[:-1]) if a else lhs
        rhs = (*rhs[1:], rhs[0]) if b else rhs
        case("dot", f"transpose_a={str(a).lower()} transpose_b={str(b).lower()}",
             [draw(*lhs), draw(*rhs)],
             lambda x, y: torch.tensordot(x, y, ([0 if a else x.ndim - 1],
                                                 [y.ndim - 1 if b else 0])), 2)


def batch_dot(a, b):
    for batch, m, k, n in [((2,), 3, 4, 2), ((3,), 1, 5, 1), ((2, 2), 2, 3, 2),
                           ((), 3, 2, 4), ((4,), 3, 1, 2), ((3,), 4, 3, 1)]:
        lhs = (*batch, k, m) if a else (*batch, m, k)
        rhs = (*batch, n, k) if b else (*batch, k, n)
        case("batch_dot",
             f"transpose_a={str(a).lower()} transpose_b={str(b).lower()}",
             [draw(*lhs), draw(*rhs)],
             lambda x, y: (x.transpose(-1, -2) if a else x) @
             (y.transpose(-1, -2) if b else y), 2)


print("/* Written by tests/reference/tensor_reduce.py. */")
reductions()
products_of_zeros()
places()
several()
for first in (False, True):
    for second in (False, True):
        dot(first, second)
        batch_dot(first, second)
