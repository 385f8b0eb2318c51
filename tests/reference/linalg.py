#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/linalg_cases.inc: values of plugins/linalg for test_linalg.c.

    linalg.py > linalg_cases.inc

Results and gradients are torch's, in f64: the first gradient of the sum of outputs times
`head`, and the gradient of the sum of first gradients times `turn`. Symmetric operators
get (x + x^T)/2, so that gradients are symmetric without regard to torch. Nothing here
knows of Tenon. The committed file was made with NumPy 1.24.2, torch 1.13.0, Python 3.11.
"""

import numpy as np
import torch

from operands import join, show

RANDOM = np.random.default_rng(47)


def draw(*shape):
    """Numbers with few bits, which both types hold."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def definite(*batch, n):
    """Symmetric positive definite matrices."""
    x = draw(*batch, n, n)
    return x @ np.swapaxes(x, -1, -2) + np.eye(n)


def triangular(*batch, n, lower):
    """Triangles with a clear diagonal; the other triangle must not matter."""
    x = draw(*batch, n, n)
    x[..., np.arange(n), np.arange(n)] = RANDOM.integers(8, 17, size=(*batch, n)) / 8
    return x


def show_list(arrays):
    """Operands, or an absent one."""
    shown = [show(each, lambda x: f"{x:.12g}") for each in arrays or []]
    return join(shown or ["{{-1, {0}}, {0}}"])


def case(op, params, arrays, function, n_turns=None, heads=None):
    """`function` of tensors gives the outputs. The first n_turns gradients are differentiated
    again; by default all."""
    inputs = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in arrays]
    outputs = function(*inputs)
    heads = [draw(*each.shape) for each in outputs] if heads is None else heads
    total = sum((torch.tensor(head) * out).sum() for head, out in zip(heads, outputs))
    grads = torch.autograd.grad(total, inputs, create_graph=True)
    n = len(inputs) if n_turns is None else n_turns
    turns = [draw(*each.shape) for each in grads[:n]]
    seconds = []
    if n > 0:
        total = sum((torch.tensor(turn) * grad).sum() for turn, grad in zip(turns, grads))
        seconds = torch.autograd.grad(total, inputs[:n], allow_unused=True)
        seconds = [torch.zeros_like(x) if each is None else each
                   for each, x in zip(seconds, inputs)]
    print(f'{{"linalg.{op}", "{params}", {len(inputs)}, {len(outputs)}, {n},')
    lists = [arrays, [each.detach() for each in outputs], heads,
             [each.detach() for each in grads], turns, [each.detach() for each in seconds]]
    print(",\n".join(" " + show_list(each) for each in lists) + "},")


def turned(x, is_turned):
    return x.mT if is_turned else x


def triangle(x, lower):
    return x.tril() if lower else x.triu()


def symmetric(x):
    return (x + x.mT) / 2


def lower_case(flag):
    return "true" if flag else "false"


def positive(vectors, *others):
    """The signs for which the largest element of each row is positive."""
    at = vectors.abs().argmax(-1, keepdim=True)
    sign = vectors.gather(-1, at).sign().detach()
    return (vectors * sign, *(each * sign for each in others))


# ------------------------------------------------------------------ products

def products():
    for a, b, batch, m, k, n in [(0, 0, (), 2, 3, 4), (1, 0, (2,), 3, 2, 1), (0, 1, (), 1, 4, 3),
                                 (1, 1, (2, 2), 2, 3, 2)]:
        lhs = draw(*batch, *((k, m) if a else (m, k)))
        rhs = draw(*batch, *((n, k) if b else (k, n)))
        params = f"transpose_a={lower_case(a)} transpose_b={lower_case(b)} alpha=-1.5"
        case("gemm2", params, [lhs, rhs],
             lambda x, y: [-1.5 * turned(x, a) @ turned(y, b)])
        case("gemm", params + " beta=0.5", [lhs, rhs, draw(*batch, m, n)],
             lambda x, y, z: [-1.5 * turned(x, a) @ turned(y, b) + z / 2], n_turns=2)
    for t, shape in [(0, (3, 2)), (1, (3, 2)), (1, (2, 2, 4))]:
        case("syrk", f"transpose={lower_case(t)} alpha=2", [draw(*shape)],
             lambda x: [2 * turned(x, t) @ turned(x, not t)])


def triangles():
    for number in range(8):
        t, right, lower = number & 1, number >> 1 & 1, number >> 2 & 1
        batch = (2,) if number in (0, 7) else ()
        a = triangular(*batch, n=3, lower=lower)
        b = draw(*batch, *((2, 3) if right else (3, 2)))
        params = (f"transpose={lower_case(t)} rightside={lower_case(right)} "
                  f"lower={lower_case(lower)} alpha=0.5")

        def multiply(x, y):
            x = turned(triangle(x, lower), t)
            return [(y @ x if right else x @ y) / 2]

        def solve(x, y):
            x = turned(triangle(x, lower), t)
            inverse = torch.linalg.inv(x)
            return [(y @ inverse if right else inverse @ y) / 2]

        case("trmm", params, [a, b], multiply)
        case("trsm", params, [a, b], solve)


# -------------------------------------------------------------- factorisations

def choleskys():
    for batch, n in [((), 1), ((2,), 3)]:
        a = definite(*batch, n=n)
        case("cholesky", "", [a], lambda x: [torch.linalg.cholesky(symmetric(x))])
        case("potrf", "", [a], lambda x: [torch.linalg.cholesky(symmetric(x))])
        case("potrf", "lower=false", [a],
             lambda x: [torch.linalg.cholesky(symmetric(x)).mT])
        case("potri", "", [triangular(*batch, n=n, lower=True)],
             lambda x: [torch.linalg.inv(x.tril() @ x.tril().mT)])
        case("potri", "lower=false", [triangular(*batch, n=n, lower=False)],
             lambda x: [torch.linalg.inv(x.triu().mT @ x.triu())])
        case("sumlogdiag", "", [a],
             lambda x: [x.diagonal(dim1=-2, dim2=-1).log().sum(-1)])


def lq(x):
    q, r = torch.linalg.qr(x.mT)
    return [q.mT, r.mT]


def eigen(x):
    values, vectors = torch.linalg.eigh(symmetric(x))
    return [positive(vectors.mT)[0], values]


def singular(x):
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    ut, vt = positive(u.mT, vt)
    return [ut.mT, s, vt]


def spectra():
    for shape in [(1, 1), (3, 3), (2, 4), (2, 2, 3)]:
        case("gelqf", "", [draw(*shape)], lq)
        case("qr", "", [np.swapaxes(draw(*shape), -1, -2).copy()],
             lambda x: list(torch.linalg.qr(x)))
    for shape in [(1, 1), (4, 4), (2, 3, 3)]:
        x = draw(*shape)
        case("syevd", "", [x + np.swapaxes(x, -1, -2)], eigen)
    for shape in [(1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 2)]:
        case("svd", "", [draw(*shape)], singular)


# ------------------------------------------------------------------- equations

def equations():
    for batch, n in [((), 1), ((2,), 3)]:
        a = draw(*batch, n, n) + 3 * np.eye(n)
        case("inverse", "", [a], lambda x: [torch.linalg.inv(x)])
        case("det", "", [a], lambda x: [torch.linalg.det(x)])
        sign, logarithm = np.linalg.slogdet(a)
        head = draw(*batch)
        case("slogdet", "", [a],
             lambda x: [torch.tensor(sign), torch.linalg.slogdet(x)[1]],
             heads=[np.zeros_like(head), head])
        case("solve", "", [a, draw(*batch, n, 2)],
             lambda x, y: [torch.linalg.inv(x) @ y])
        case("solve", "", [a, draw(*batch, n, 1)],
             lambda x, y: [torch.linalg.inv(x) @ y])


def cofactors(a):
    found = np.zeros_like(a)
    for i, j in np.ndindex(*a.shape):
        minor = np.delete(np.delete(a, i, 0), j, 1)
        found[i, j] = (-1)**(i + j) * np.linalg.det(minor)
    return found


def singular_dets():
    """Determinants of 0; by definition their gradients are cofactors."""
    for rank, n in [(3, 4), (2, 4), (1, 2), (0, 1)]:
        a = draw(n, rank) @ draw(rank, n)
        head = draw()
        lists = [[a], [np.array(0.0)], [head], [head * cofactors(a)], None, None]
        print('{"linalg.det", "", 1, 1, 0,')
        print(",\n".join(" " + show_list(each) for each in lists) + "},")


print("/* Written by tests/reference/linalg.py. */")
products()
triangles()
choleskys()
spectra()
equations()
singular_dets()
