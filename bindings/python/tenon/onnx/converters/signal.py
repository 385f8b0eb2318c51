# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms."""

from typing import Optional

import numpy as np

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, make_constant


@converter("DFT", since=20)
def convert_dft(
    node: Node, x: Value, length: Optional[Value] = None, axis: Optional[Value] = None
) -> Value:
    """Fourier transform along an axis that is an input."""
    chosen = -2 if axis is None else node.integers(axis, "axis")[0]
    return _transform(node, x, length, chosen)


@converter("DFT", since=17)
def convert_dft_17(node: Node, x: Value, length: Optional[Value] = None) -> Value:
    """Fourier transform along an axis that is an attribute."""
    return _transform(node, x, length, node.attribute("axis", 1))


def _transform(node: Node, x: Value, length: Optional[Value], axis: int) -> Value:
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    known = node.integers(length, "dft_length")
    count = known[0] if known else None
    axis = node.axis(axis, x.rank)
    if inverse and onesided:
        return _transform_half(node, x, count, axis)
    return node.build.call(
        "tensor.dft", x, axis=axis, length=count, inverse=inverse, onesided=onesided
    )


def _transform_half(node: Node, x: Value, length: Optional[int], axis: int) -> Value:
    """Inverse transform of the first half of the results, to real numbers."""
    build = node.build
    count = 2 * (x.shape[axis] - 1) if length is None else length
    half = count // 2 + 1
    if x.shape[axis] < half:
        widths = [(0, half - x.shape[axis] if a == axis else 0) for a in range(x.rank)]
        x = build.pad(x, widths)
    x = build.slice_axis(x, axis, 0, half)
    mirrored = build.slice_axis(x, axis, 1, count - half + 1)
    mirrored = build.call("tensor.reverse", mirrored, axis=[axis])
    signs = make_constant([1, -1], x.dtype)
    whole = build.concat([x, build.mul(mirrored, signs)], axis)
    result = build.call("tensor.dft", whole, axis=axis, inverse=True)
    return build.slice_axis(result, x.rank - 1, 0, 1)


@converter("MelWeightMatrix", since=17)
def convert_mel_weights(
    node: Node, n_bins: Value, length: Value, rate: Value, lower: Value, upper: Value
) -> Value:
    """Weights of triangular filters on the mel scale, as a constant."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    inputs = (n_bins, length, rate, lower, upper)
    bins, size, hertz, low, high = (
        node.elements(v, name).reshape(-1)[0] for v, name in zip(inputs, names)
    )
    edges = 2595 * np.log10(1 + np.array([low, high], np.float64) / 700)
    mels = edges[0] + np.arange(int(bins) + 2) * ((edges[1] - edges[0]) / (int(bins) + 2))
    places = np.floor((int(size) + 1) * (700 * (10 ** (mels / 2595) - 1)) / float(hertz))
    places = places.astype(np.int64)
    weights = np.zeros((int(size) // 2 + 1, int(bins)))
    for index in range(int(bins)):
        first, middle, last = places[index : index + 3]
        if middle == first:
            weights[middle, index] = 1
        else:
            rise = np.arange(first, middle + 1)
            weights[rise, index] = (rise - first) / (middle - first)
        if last > middle:
            fall = np.arange(middle, last)
            weights[fall, index] = (last - fall) / (last - middle)
    return make_constant(weights, types.name_of_type(node.attribute("output_datatype", 1)))


@converter("STFT", since=17)
def convert_stft(
    node: Node,
    signal: Value,
    step: Value,
    window: Optional[Value] = None,
    length: Optional[Value] = None,
) -> Value:
    """Fourier transforms of the frames of signals."""
    known = node.integers(length, "frame_length")
    if not known and window is None:
        raise node.refuse("neither `window` nor `frame_length`")
    return node.build.call(
        "tensor.stft",
        signal,
        window,
        frame_step=node.integers(step, "frame_step")[0],
        frame_length=known[0] if known else window.shape[0],
        onesided=bool(node.attribute("onesided", 1)),
    )
