#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/einsum_cases.inc and einsum_second_cases.inc: values of
einsum of plugins/tensor for test_einsum.c.

    einsum.py > einsum_cases.inc
    einsum.py second > einsum_second_cases.inc

Results are those of np.einsum, without its optimisation; gradients are those of
torch.einsum, and second gradients those of the sum of the first ones with
weights. Nothing here knows of Tenon. The committed file was made with
NumPy 1.24.2, torch 1.13.0 and Python 3.11.
"""

import sys

import numpy as np
import torch

from operands import join, plain, show

RANDOM = np.random.default_rng(94)
OPERANDS = 4


def draw(*shape):
    """Few small numbers: sums of their products are exact in f16."""
    return RANDOM.integers(-2, 3, size=shape) / 2


def case(equation, *shapes):
    arrays = [draw(*shape) for shape in shapes]
    out = np.einsum(equation, *arrays)
    head = draw(*out.shape)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    result = torch.einsum(equation, *tensors)
    assert np.allclose(result.detach().numpy(), out)
    found = torch.autograd.grad((result * torch.tensor(head)).sum(), tensors)
    gradients = [g.numpy() for g in found]
    missing = [None] * (OPERANDS - len(arrays))
    print(f'{{"{equation}", {len(arrays)},')
    for name, values in ("in", arrays), ("gradient", gradients):
        print(f" {join(show(each, plain) for each in values + missing)},")
    print(f" {show(out, plain)},\n {show(head, plain)}}},")


def second(equation, *shapes):
    arrays = [draw(*shape) for shape in shapes]
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    result = torch.einsum(equation, *tensors)
    head = draw(*result.shape)
    weights = [draw(*shape) for shape in shapes]
    total = (result * torch.tensor(head)).sum()
    first = torch.autograd.grad(total, tensors, create_graph=True)
    both = sum((g * torch.tensor(w)).sum() for g, w in zip(first, weights))
    found = [torch.zeros_like(t) for t in tensors]
    if both.requires_grad:
        found = torch.autograd.grad(both, tensors)
    missing = [None] * (2 - len(arrays))
    print(f'{{"{equation}", {len(arrays)},')
    for values in arrays, weights, [g.numpy() for g in found]:
        print(f" {join(show(each, plain) for each in values + missing)},")
    print(f" {show(head, plain)}}},")


def write_second():
    second("ij,jk->ik", (3, 4), (4, 2))
    second("ij,kj->ki", (3, 4), (5, 4))
    second("bij,bjk->bik", (2, 3, 2), (2, 2, 3))
    second("ij,ij->", (3, 4), (3, 4))
    second("i,j->ij", (3,), (4,))
    second("iij,j->i", (3, 3, 2), (2,))
    second("ij,k->i", (2, 3), (4,))
    second("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2))
    second("ij,j", (3, 4), (4,))


def write_first():
    case("ij,jk->ik", (3, 4), (4, 5))
    case("ij,jk->ki", (3, 4), (4, 5))
    case("ij,kj", (3, 4), (5, 4))
    case("bij,bjk->bik", (2, 3, 4), (2, 4, 3))
    case("bij,bjk->ikb", (2, 3, 4), (2, 4, 3))
    case("ijb,jbk->bik", (3, 4, 2), (4, 2, 3))
    case("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 4, 4))
    case("ii->i", (4, 4))
    case("ii", (4, 4))
    case("iij->ji", (3, 3, 4))
    case("ij->j", (3, 4))
    case("ij->", (3, 4))
    case("ijk->kij", (2, 3, 4))
    case("ji", (3, 4))
    case("i,j->ij", (5,), (6,))
    case("i,j->ji", (9,), (7,))
    case("i,i->", (5,), (5,))
    case("i,i->i", (5,), (5,))
    case("ij,ij->ij", (3, 4), (3, 4))
    case("ij,j->ij", (3, 4), (4,))
    case("ij,j", (3, 4), (4,))
    case("ij,k->i", (3, 4), (5,))
    case("ii,ij->j", (3, 3), (3, 4))
    case("ij,ij->", (8, 8), (8, 8))
    case("i,ij,j->", (3,), (3, 4), (4,))
    case("ij,jk,kl->il", (2, 5), (5, 3), (3, 4))
    case("ai,bi,ci->abc", (2, 3), (3, 3), (2, 3))
    case("ab,bc,cd,da->", (2, 3), (3, 2), (2, 4), (4, 2))
    case("...ij->...ji", (2, 3, 4))
    case("...ij,...jk->...ik", (2, 3, 4), (2, 4, 2))
    case("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2))
    case("i...,j...->ij...", (2, 3), (4, 3))
    case("...,...->...", (3, 4), (1, 4))
    case("...i,i", (2, 3, 4), (4,))
    case(" i j , j -> i ", (3, 4), (4,))
    case("aB,Bc->ca", (2, 3), (3, 4))
    case("cBa", (2, 3, 4))
    case(",ij->ij", (), (2, 3))
    case("ij,jk->ik", (3, 0), (0, 2))
    case("ij,jk->ik", (8, 8), (8, 8))
    case("ijkl,kjm->iml", (2, 2, 4, 2), (4, 2, 3))


print("/* Written by tests/reference/einsum.py. */")
if len(sys.argv) > 1:
    write_second()
else:
    write_first()
