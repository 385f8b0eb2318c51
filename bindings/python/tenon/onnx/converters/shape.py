# SPDX-License-Identifier: Apache-2.0
"""Shapes: reshaping, joining, cutting, padding, and constants."""

from typing import List, Optional, Sequence

import numpy as np

from .. import types
from ..node import Node
from ..registry import converter
from ..values import Value, check_size, make_constant


@converter("Identity")
def convert_identity(node: Node, x: object) -> object:
    """The value itself."""
    return (x,)


@converter("Shape")
def convert_shape(node: Node, x: Value) -> Value:
    """Lengths of the dimensions from `start` to `end`."""
    start, end = node.attribute("start", 0), node.attribute("end", x.rank)
    return make_constant(np.array(x.shape[slice(start, end)], np.int64))


@converter("Size")
def convert_size(node: Node, x: Value) -> Value:
    """Number of elements."""
    return make_constant(np.array(x.size, np.int64))


@converter("Reshape", since=5)
def convert_reshape(node: Node, x: Value, shape: Value) -> Value:
    """Another shape: 0 keeps a length, -1 takes the remaining elements."""
    wanted = node.integers(shape, "shape")
    if not node.attribute("allowzero", 0):
        for axis, length in enumerate(wanted):
            if length == 0:
                if axis >= x.rank:
                    raise node.refuse(f"shape {wanted} keeps dimension {axis} of {x.rank}")
                wanted[axis] = x.shape[axis]
    if wanted.count(-1) > 1:
        raise node.refuse(f"shape {wanted} has more than one -1")
    if -1 in wanted:
        rest = int(np.prod([length for length in wanted if length != -1], dtype=np.int64))
        if rest == 0 or x.size % rest:
            raise node.refuse(f"{x.size} elements have no shape {wanted}")
        wanted[wanted.index(-1)] = x.size // rest
    return node.build.reshape(x, wanted)


@converter("Flatten")
def convert_flatten(node: Node, x: Value) -> Value:
    """A matrix: the dimensions before an axis, and the rest."""
    axis = node.attribute("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return node.build.reshape(x, (rows, int(np.prod(x.shape[axis:], dtype=np.int64))))


@converter("Squeeze")
def convert_squeeze(node: Node, x: Value, axes: Optional[Value] = None) -> Value:
    """Without dimensions of length 1."""
    ones = [axis for axis, length in enumerate(x.shape) if length == 1]
    dropped = node.axes(axes, x.rank, ones)
    for axis in dropped:
        if x.shape[axis] != 1:
            raise node.refuse(f"dimension {axis} has the length {x.shape[axis]}, not 1")
    return node.build.reshape(x, [n for axis, n in enumerate(x.shape) if axis not in dropped])


@converter("Unsqueeze")
def convert_unsqueeze(node: Node, x: Value, axes: Optional[Value] = None) -> Value:
    """With more dimensions of length 1."""
    given = node.attribute("axes") if axes is None else node.integers(axes, "axes")
    rank = x.rank + len(given)
    places = [node.axis(axis, rank) for axis in given]
    if len(set(places)) != len(places):
        raise node.refuse(f"axes {given} name a dimension twice")
    lengths = iter(x.shape)
    return node.build.reshape(x, [1 if i in places else next(lengths) for i in range(rank)])


@converter("Transpose")
def convert_transpose(node: Node, x: Value) -> Value:
    """Axes in another order."""
    return node.build.transpose(x, node.attribute("perm", list(range(x.rank))[::-1]))


@converter("Concat", since=4)
def convert_concat(node: Node, *parts: Value) -> Value:
    """Arrays one after the other."""
    return node.build.concat(parts, node.axis(node.attribute("axis"), parts[0].rank))


@converter("Split", since=2)
def convert_split(node: Node, x: Value, split: Optional[Value] = None) -> List[Value]:
    """Parts along an axis."""
    axis = node.axis(node.attribute("axis", 0), x.rank)
    lengths = node.attribute("split") if split is None else node.integers(split, "split")
    if lengths is None:
        count = node.attribute("num_outputs", node.n_outputs)
        lengths = split_evenly(x.shape[axis], count)
    if sum(lengths) != x.shape[axis]:
        raise node.refuse(f"parts of {lengths} do not add up to {x.shape[axis]}")
    return cut_parts(node, x, axis, lengths)


def split_evenly(length: int, count: int) -> List[int]:
    """Returns lengths of `count` parts; the last one may be shorter."""
    part = -(-length // count)
    return [max(0, min(part, length - i * part)) for i in range(count)]


def cut_parts(node: Node, x: Value, axis: int, lengths: Sequence[int]) -> List[Value]:
    """Cuts an array into parts of these lengths."""
    if len(set(lengths)) == 1 and len(lengths) > 1 and x.size and x.constant is None:
        return list(node.build.call("tensor.split", x, num_outputs=len(lengths), axis=axis))
    parts, begin = [], 0
    for length in lengths:
        parts.append(node.build.slice_axis(x, axis, begin, begin + length))
        begin += length
    return parts


@converter("Slice", since=10)
def convert_slice(
    node: Node,
    x: Value,
    starts: Value,
    ends: Value,
    axes: Optional[Value] = None,
    steps: Optional[Value] = None,
) -> Value:
    """A box, with bounds that are inputs."""
    first, last = node.integers(starts, "starts"), node.integers(ends, "ends")
    chosen = node.integers(axes, "axes") or list(range(len(first)))
    step = node.integers(steps, "steps") or [1] * len(first)
    return slice_box(node, x, first, last, chosen, step)


@converter("Slice")
def convert_slice_1(node: Node, x: Value) -> Value:
    """A box, with bounds that are attributes."""
    first, last = node.attribute("starts"), node.attribute("ends")
    chosen = node.attribute("axes", list(range(len(first))))
    return slice_box(node, x, first, last, chosen, [1] * len(first))


def slice_box(
    node: Node,
    x: Value,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Value:
    """Takes a box; bounds beyond the array are cut off as in Python."""
    ranges = [(0, length, 1) for length in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if step == 0:
            raise node.refuse("a step is 0")
        axis = node.axis(axis, x.rank)
        ranges[axis] = slice(start, end, step).indices(x.shape[axis])
    shape = tuple(len(range(*bounds)) for bounds in ranges)
    if x.constant is not None:
        index = tuple(slice(b, None if e < 0 else e, s) for b, e, s in ranges)
        return make_constant(np.asarray(x.constant[index], order="C"))
    if 0 in shape:
        return make_constant(np.zeros(shape, types.numpy_type(x.dtype)))
    if shape == x.shape and all(bounds[2] == 1 for bounds in ranges):
        return x
    return node.build.call(
        "tensor.slice",
        x,
        begin=[b for b, _, _ in ranges],
        end=[e if e >= 0 else -n - 1 for (_, e, _), n in zip(ranges, x.shape)],
        step=[s for _, _, s in ranges],
    )


@converter("Expand", since=8)
def convert_expand(node: Node, x: Value, shape: Value) -> Value:
    """Repeats dimensions of length 1, of both shapes."""
    wanted = node.integers(shape, "shape")
    return node.build.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(wanted)))


@converter("Tile", since=6)
def convert_tile(node: Node, x: Value, repeats: Value) -> Value:
    """Copies side by side."""
    counts = node.integers(repeats, "repeats")
    if len(counts) != x.rank or min(counts, default=0) < 0:
        raise node.refuse(f"`repeats` {counts} do not fit {x.rank} dimensions")
    if 0 in counts or x.size == 0 or x.rank == 0:
        shape = tuple(n * count for n, count in zip(x.shape, counts))
        return x if x.rank == 0 else make_constant(np.zeros(shape, types.numpy_type(x.dtype)))
    return node.build.call("tensor.tile", x, reps=counts)


@converter("Pad", since=11)
def convert_pad(
    node: Node,
    x: Value,
    pads: Value,
    constant_value: Optional[Value] = None,
    axes: Optional[Value] = None,
) -> Value:
    """More places around an array, or fewer."""
    flat = node.integers(pads, "pads")
    chosen = node.axes(axes, x.rank, range(x.rank))
    widths = [(0, 0)] * x.rank
    for index, axis in enumerate(chosen):
        widths[axis] = (flat[index], flat[index + len(chosen)])
    number = 0
    if constant_value is not None and constant_value.size:
        number = node.elements(constant_value, "constant_value").reshape(-1)[0]
    return pad_value(node, x, widths, node.attribute("mode", "constant"), number)


@converter("Pad", since=2)
def convert_pad_2(node: Node, x: Value) -> Value:
    """Padding by attributes."""
    flat = node.attribute("pads")
    widths = list(zip(flat[: x.rank], flat[x.rank :]))
    number = node.attribute("value", 0.0)
    return pad_value(node, x, widths, node.attribute("mode", "constant"), number)


def pad_value(node: Node, x: Value, widths: Sequence, mode: str, number: float) -> Value:
    """Pads in a mode of ONNX; negative widths cut places off."""
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            x = node.build.slice_axis(x, axis, max(-before, 0), x.shape[axis] - max(-after, 0))
    widths = [(max(before, 0), max(after, 0)) for before, after in widths]
    if mode == "constant":
        if x.dtype == "bool" or x.size == 0:
            return pad_with_full(node, x, widths, number)
        if abs(int(number)) > 2**53 if x.dtype in types.INTEGERS else False:
            return pad_with_full(node, x, widths, number)
        return node.build.pad(x, widths, number)
    if mode not in ("edge", "reflect", "wrap"):
        raise node.refuse(f"unknown `mode` {mode!r}")
    for axis, (before, after) in enumerate(widths):
        if before or after:
            places = np.pad(np.arange(x.shape[axis]), (before, after), mode=mode)
            x = node.build.take(x, places, axis)
    return x


def pad_with_full(node: Node, x: Value, widths: Sequence, number: float) -> Value:
    """Pads with constants, for elements that no float parameter can hold."""
    for axis, (before, after) in enumerate(widths):
        parts = [x]
        for width, place in ((before, 0), (after, len(parts))):
            if width:
                shape = x.shape[:axis] + (width,) + x.shape[axis + 1 :]
                block = node.build.full(shape, number, x.dtype)
                parts = [block] + parts if place == 0 else parts + [block]
        x = node.build.concat(parts, axis)
    return x


@converter("CenterCropPad", since=18)
def convert_center_crop_pad(node: Node, x: Value, shape: Value) -> Value:
    """Cuts or pads around the centre."""
    wanted = node.integers(shape, "shape")
    widths = [(0, 0)] * x.rank
    for axis, length in zip(node.axes(None, x.rank, range(x.rank)), wanted):
        missing = length - x.shape[axis]
        before = missing // 2 if missing >= 0 else -(-missing // 2)
        widths[axis] = (before, missing - before)
    return pad_value(node, x, widths, "constant", 0)


@converter("DepthToSpace")
def convert_depth_to_space(node: Node, x: Value) -> Value:
    """Channels become blocks of pixels."""
    n, c, h, w = x.shape
    b = node.attribute("blocksize")
    build = node.build
    if node.attribute("mode", "DCR") == "DCR":
        parts = build.reshape(x, (n, b, b, c // (b * b), h, w))
        moved = build.transpose(parts, (0, 3, 4, 1, 5, 2))
    else:
        parts = build.reshape(x, (n, c // (b * b), b, b, h, w))
        moved = build.transpose(parts, (0, 1, 4, 2, 5, 3))
    return build.reshape(moved, (n, c // (b * b), h * b, w * b))


@converter("SpaceToDepth")
def convert_space_to_depth(node: Node, x: Value) -> Value:
    """Blocks of pixels become channels."""
    n, c, h, w = x.shape
    b = node.attribute("blocksize")
    build = node.build
    axes = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = build.reshape(x, (n, c, h // b, b, w // b, b))
    return build.reshape(build.transpose(parts, axes), (n, c * b * b, h // b, w // b))


@converter("Constant")
def convert_constant(node: Node) -> Value:
    """A tensor, number, text or list of the model."""
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if node.has(name):
            value = node.attribute(name)
            dtype = "f32" if "float" in name else "i64" if "int" in name else None
            return make_constant(value, dtype, node.name)
    for name in ("value_string", "value_strings"):
        if node.has(name):
            return make_constant(np.array(node.attribute(name), object))
    raise node.refuse("no `value`; sparse constants are not supported")


@converter("ConstantOfShape", since=9)
def convert_constant_of_shape(node: Node, shape: Value) -> Value:
    """An array of one number."""
    number = node.attribute("value", np.zeros(1, np.float32)).reshape(-1)
    lengths = check_size(tuple(node.integers(shape, "shape")))
    return make_constant(np.full(lengths, number[0], number.dtype))


@converter("Range", since=11)
def convert_range(node: Node, start: Value, limit: Value, delta: Value) -> Value:
    """Numbers that are equally far apart."""
    inputs = {"start": start, "limit": limit, "delta": delta}
    first, last, step = (node.elements(v, name).reshape(-1)[0] for name, v in inputs.items())
    wide = np.float64 if start.dtype in types.FLOATS else np.int64
    count = max(int(np.ceil((wide(last) - wide(first)) / wide(step))), 0)
    check_size((count,))
    numbers = wide(first) + np.arange(count, dtype=wide) * wide(step)
    return make_constant(numbers.astype(types.numpy_type(start.dtype)))


@converter("EyeLike", since=9)
def convert_eye_like(node: Node, x: Value) -> Value:
    """Ones on a diagonal."""
    dtype = types.name_of_type(node.attribute("dtype", types.number_of_type(x.dtype)))
    rows, columns = x.shape
    k = node.attribute("k", 0)
    return node.build.call("tensor.eye", n=rows, m=columns, k=k, dtype=dtype)


@converter("Trilu", since=14)
def convert_trilu(node: Node, x: Value, k: Optional[Value] = None) -> Value:
    """Elements on one side of a diagonal."""
    diagonal = node.integers(k, "k")[0] if k is not None else 0
    limit = max(x.shape[-2:]) + 1
    diagonal = max(-limit, min(limit, diagonal))
    if x.size == 0:
        return x
    operator = "tensor.triu" if node.attribute("upper", 1) else "tensor.tril"
    return node.build.call(operator, x, k=diagonal)
