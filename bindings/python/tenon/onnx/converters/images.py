# SPDX-License-Identifier: Apache-2.0
"""Files of images."""

from ..node import Node
from ..registry import converter
from ..values import Value, make_constant


@converter("ImageDecoder", since=20)
def convert_image_decoder(node: Node, stream: Value) -> Value:
    """Pixels of a file; its first bytes are those of its format."""
    layout = node.attribute("pixel_format", "RGB")
    if layout not in ("RGB", "BGR", "Grayscale"):
        raise node.refuse(f"`pixel_format` is {layout!r}")
    build = node.build
    pixels = build.call("image.decode", stream, channels=3)
    if layout == "BGR":
        return build.call("tensor.reverse", pixels, axis=[2])
    return _make_grey(node, pixels) if layout == "Grayscale" else pixels


def _make_grey(node: Node, pixels: Value) -> Value:
    """Weights red, green and blue with the numbers of Pillow."""
    build = node.build
    weights = make_constant([19595, 38470, 7471], "i32")
    products = build.mul(build.cast(pixels, "i32"), weights)
    sums = build.call("tensor.sum", products, axis=[2], keepdims=True)
    rounded = build.add(sums, build.full((), 32768, "i32"))
    return build.cast(build.call("elemwise.right_shift", rounded, build.full((), 16, "i32")), "u8")
