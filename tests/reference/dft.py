#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/dft_cases.inc: values of dft and stft of plugins/tensor
for test_dft.c.

    dft.py > dft_cases.inc

Results are those of np.fft. Gradients are products with the matrix of the
transform. Nothing here knows of Tenon. The committed file was made with NumPy
1.24.2 and Python 3.11.
"""

import numpy as np

from operands import show

RANDOM = np.random.default_rng(95)


def draw(*shape):
    """Numbers with few bits, exact in every float type."""
    return RANDOM.integers(-16, 17, size=shape) / 8


def rounded(x):
    return f"{x.item() + 0:.12g}"


def case(op, params, data, window, out, head, gradient):
    print(f'{{"tensor.{op}", "{params}", {2 if window is not None else 1},')
    for each in data, window, out, head:
        print(f" {show(each, rounded)},")
    print(f" {show(gradient, rounded)}}},")


def numbers(parts):
    """Complex numbers of an array; its last dimension has their parts."""
    return parts[..., 0] + (1j * parts[..., 1] if parts.shape[-1] == 2 else 0)


def parts(array, count=2):
    return np.stack([array.real, array.imag][:count], axis=-1)


def transformed(shape, axis, length=None, inverse=False, onesided=False):
    data = draw(*shape)
    c = shape[-1]
    real = axis if axis >= 0 else axis + len(shape)
    n = length or shape[real]
    function = np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft
    out = function(numbers(data).real if onesided else numbers(data), n, real)
    head = draw(*out.shape, 2)
    # conj of exp(-+2 pi i k m / n), transposed
    k, m = np.arange(out.shape[real]), np.arange(shape[real])
    matrix = np.exp((-2j if inverse else 2j) * np.pi * np.outer(m, k) / n)
    matrix[m >= n] = 0
    found = np.moveaxis(np.tensordot(matrix, numbers(head), (1, real)), 0, real)
    text = f"axis={axis} inverse={str(inverse).lower()}"
    text += f" onesided={str(onesided).lower()}"
    if length:
        text += f" length={length}"
    case("dft", text, data, None, parts(out), head,
         parts(found / n if inverse else found, c))


def framed(shape, step, length, onesided=True, windowed=False):
    signal = draw(*shape)
    window = draw(length) if windowed else None
    weights = window if windowed else np.ones(length)
    count = (shape[1] - length) // step + 1
    at = np.arange(count)[:, None] * step + np.arange(length)
    function = np.fft.rfft if onesided else np.fft.fft
    x = numbers(signal)[:, at] * weights
    out = function(x.real if onesided else x, axis=-1)
    head = draw(*out.shape, 2)
    k, m = np.arange(out.shape[-1]), np.arange(length)
    matrix = np.exp(2j * np.pi * np.outer(m, k) / length)
    frames = np.einsum("mk,bfk->bfm", matrix, numbers(head)) * weights
    gradient = np.zeros(shape[:2], complex)
    np.add.at(gradient, (slice(None), at), frames)
    text = f"frame_step={step} frame_length={length}"
    case("stft", text + f" onesided={str(onesided).lower()}", signal, window,
         parts(out), head, parts(gradient, shape[-1]))


print("/* Written by tests/reference/dft.py. */")
for n in 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 20, 30, 31, 32:
    transformed((n, 1), -2)
transformed((17, 2), 0)
for inverse in False, True:
    transformed((8, 2), -2, inverse=inverse)
    transformed((5, 2), 0, inverse=inverse)
    transformed((2, 6, 2, 2), 1, inverse=inverse)
    transformed((6, 3, 1), 0, inverse=inverse)
    transformed((3, 4, 2), 1, length=6, inverse=inverse)
    transformed((7, 2), 0, length=4, inverse=inverse)
for n in 1, 2, 5, 6, 8:
    transformed((n, 2, 1), 0, onesided=True)
transformed((3, 5, 1), 1, length=8, onesided=True)
transformed((2, 9, 1), 1, length=5, onesided=True)
transformed((10, 2, 1), 0, length=3)
framed((1, 16, 1), 4, 8)
framed((2, 11, 1), 3, 5)
framed((2, 9, 1), 2, 4, windowed=True)
framed((1, 12, 2), 5, 6, onesided=False)
framed((2, 7, 2), 1, 3, onesided=False, windowed=True)
framed((3, 7, 1), 1, 1)
framed((1, 5, 1), 9, 4, onesided=False)
