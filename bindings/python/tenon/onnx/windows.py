# SPDX-License-Identifier: Apache-2.0
"""Windows of convolutions and pools: padding by attributes or by rule, lengths of results."""

from typing import Any, Dict, List, Sequence, Tuple

from .node import Node
from .values import Value


class Window:
    """Kernel, strides, dilations and padding of a window in each dimension."""

    def __init__(
        self,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
    ) -> None:
        self.kernel = list(kernel)
        self.strides = list(strides)
        self.dilations = list(dilations)
        self.begins = list(begins)
        self.ends = list(ends)

    @property
    def is_symmetric(self) -> bool:
        """True if as many places are added before as after."""
        return self.begins == self.ends

    @property
    def widths(self) -> List[Tuple[int, int]]:
        """Padding of all axes, those of images and channels included."""
        return [(0, 0), (0, 0)] + list(zip(self.begins, self.ends))

    @property
    def reaches(self) -> List[int]:
        """Elements between the first and the last of a window, both included."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations)]

    def count_windows(self, lengths: Sequence[int], ceil: bool) -> List[int]:
        """Returns the lengths of the result; no window begins in the last padding."""
        counts = []
        for i, reach in enumerate(self.reaches):
            padded = lengths[i] + self.begins[i] + self.ends[i]
            stride = self.strides[i]
            count = (padded - reach + (stride - 1 if ceil else 0)) // stride + 1
            if ceil and (count - 1) * stride >= lengths[i] + self.begins[i]:
                count -= 1
            counts.append(count)
        return counts


def read_window(node: Node, lengths: Sequence[int], kernel: Sequence[int]) -> Window:
    """Reads the attributes of a window over images of these lengths."""
    rank = len(lengths)
    kernel = node.attribute("kernel_shape", list(kernel))
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise node.refuse(f"the window {kernel} does not fit images of {rank} dimensions")
    if rank > 3 or rank == 0:
        raise node.refuse(f"images have 1 to 3 dimensions, not {rank}")
    automatic = node.attribute("auto_pad", "NOTSET")
    pads = node.attribute("pads", [0] * (2 * rank))
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = [], []
        for i in range(rank):
            reach = dilations[i] * (kernel[i] - 1) + 1
            count = -(-lengths[i] // strides[i])
            total = max((count - 1) * strides[i] + reach - lengths[i], 0)
            small = total // 2
            begins.append(small if automatic == "SAME_UPPER" else total - small)
            ends.append(total - begins[i])
        return Window(kernel, strides, dilations, begins, ends)
    if automatic == "VALID":
        pads = [0] * (2 * rank)
    if any(pad < 0 for pad in pads):
        raise node.refuse(f"`pads` {pads} has a negative number")
    return Window(kernel, strides, dilations, pads[:rank], pads[rank:])


def read_convolution(
    node: Node, x: Value, weight: Value, number: int = 0
) -> Tuple[Value, Dict[str, Any]]:
    """Reads the attributes of a convolution. Returns its input, and its parameters. Operators pad
    both sides alike; otherwise the input is padded before, with `number`."""
    window = read_window(node, x.shape[2:], weight.shape[2:])
    pad = window.begins
    if not window.is_symmetric:
        x, pad = node.build.pad(x, window.widths, number), [0] * len(pad)
    return x, {
        "kernel": window.kernel,
        "stride": window.strides,
        "dilate": window.dilations,
        "pad": pad,
        "num_filter": weight.shape[0],
        "num_group": node.attribute("group", 1),
    }
