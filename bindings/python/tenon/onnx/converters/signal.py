# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms."""

from typing import Optional

from ..node import Node
from ..registry import converter
from ..values import Value


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
    if inverse and onesided:
        raise node.refuse("an inverse transform of half of the results")
    known = node.integers(length, "dft_length")
    return node.build.call(
        "tensor.dft",
        x,
        axis=node.axis(axis, x.rank),
        length=known[0] if known else None,
        inverse=inverse,
        onesided=onesided,
    )


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
        *([window] if window is not None else []),
        frame_step=node.integers(step, "frame_step")[0],
        frame_length=known[0] if known else window.shape[0],
        onesided=bool(node.attribute("onesided", 1)),
    )
