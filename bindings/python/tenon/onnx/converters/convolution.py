# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from typing import Optional, Sequence, Tuple

from ..node import Node
from ..registry import converter
from ..values import Value
from ..windows import read_convolution


@converter("Conv")
def convert_conv(node: Node, x: Value, weight: Value, bias: Optional[Value] = None) -> Value:
    """Convolution in one to three dimensions."""
    x, parameters = read_convolution(node, x, weight)
    inputs = [x, weight] + ([bias] if bias is not None else [])
    return node.build.call("nn.convolution", *inputs, no_bias=bias is None, **parameters)


@converter("ConvTranspose")
def convert_conv_transpose(
    node: Node, x: Value, weight: Value, bias: Optional[Value] = None
) -> Value:
    """Transposed convolution: computed in full, then cut to the wanted size."""
    build = node.build
    rank = x.rank - 2
    kernel = list(weight.shape[2:])
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    group = node.attribute("group", 1)
    begins, lengths = _plan_transposed(node, x.shape[2:], kernel, strides, dilations)
    result = build.call(
        "nn.deconvolution",
        x,
        weight,
        kernel=kernel,
        stride=strides,
        dilate=dilations,
        pad=[0] * rank,
        num_filter=weight.shape[1] * group,
        num_group=group,
        no_bias=True,
    )
    for axis, (begin, length) in enumerate(zip(begins, lengths), 2):
        end = min(begin + length, result.shape[axis])
        result = build.slice_axis(result, axis, begin, end)
        missing = length - (end - begin)
        if missing > 0:
            widths = [(0, missing if a == axis else 0) for a in range(result.rank)]
            result = build.pad(result, widths)
    if bias is None:
        return result
    return build.add(result, build.reshape(bias, (1, bias.size) + (1,) * rank))


def _plan_transposed(
    node: Node,
    lengths: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Tuple[list, list]:
    """Returns where the result begins in the full one, and its lengths."""
    rank = len(kernel)
    extra = node.attribute("output_padding", [0] * rank)
    pads = node.attribute("pads", [0] * (2 * rank))
    wanted = node.attribute("output_shape")
    automatic = node.attribute("auto_pad", "NOTSET")
    begins, sizes = [], []
    for i in range(rank):
        full = strides[i] * (lengths[i] - 1) + (kernel[i] - 1) * dilations[i] + 1 + extra[i]
        if wanted is None and automatic in ("NOTSET", "VALID"):
            used = (pads[i], pads[i + rank]) if automatic == "NOTSET" else (0, 0)
            begins.append(used[0])
            sizes.append(full - used[0] - used[1])
            continue
        size = lengths[i] * strides[i] if wanted is None else wanted[-rank:][i]
        total = max(full - size, 0)
        half = total // 2
        begins.append(half if automatic == "SAME_UPPER" else total - half)
        sizes.append(size)
    return begins, sizes


@converter("DeformConv", since=19)
def convert_deform_conv(
    node: Node,
    x: Value,
    weight: Value,
    offset: Value,
    bias: Optional[Value] = None,
    mask: Optional[Value] = None,
) -> Value:
    """Convolution that reads its windows at moved positions."""
    build = node.build
    x, parameters = read_convolution(node, x, weight)
    if bias is None and mask is not None:
        bias = build.full((weight.shape[0],), 0, x.dtype)
    inputs = [x, weight, offset] + ([bias] if bias is not None else [])
    return build.call(
        "nn.deformable_convolution",
        *(inputs + ([mask] if mask is not None else [])),
        num_deformable_group=node.attribute("offset_group", 1),
        no_bias=bias is None,
        **parameters,
    )


@converter("Col2Im", since=18)
def convert_col2im(node: Node, x: Value, image_shape: Value, block_shape: Value) -> Value:
    """Adds columns at the places of their windows."""
    size = node.integers(image_shape, "image_shape")
    kernel = node.integers(block_shape, "block_shape")
    rank = len(kernel)
    pads = node.attribute("pads", [0] * (2 * rank))
    result = node.build.call(
        "nn.fold",
        x,
        output_size=[n + pads[i] + pads[i + rank] for i, n in enumerate(size)],
        kernel=kernel,
        stride=node.attribute("strides", [1] * rank),
        dilate=node.attribute("dilations", [1] * rank),
    )
    for axis, length in enumerate(size):
        result = node.build.slice_axis(result, axis + 2, pads[axis], pads[axis] + length)
    return result


