#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/resize_cases.inc: values of plugins/nn for test_resize.c.

    resize.py TESTS_PLUGINS_FOLDER

A matrix for each axis is made by the algorithm of ONNX's specification (Resize,
release 19): the nearest elements by distance, and their coefficients. torch
confirms the modes that it has: nearest, linear and cubic with half pixels or
corners, and antialias without elements outside. Gradients are products with the
transposed matrices. Upsampling is checked by torch as well. The committed file
was made with torch 1.13.0 and NumPy 1.24.2, Python 3.11.
"""

import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

from windows import case, draw, ints, write


def position(o, n_in, n_out, scale, kind, crop):
    """Of element o in the input."""
    if kind == "half_pixel":
        return (o + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        adjustment = n_out / (scale * n_in)
        return n_in / 2 * (1 - adjustment) + (o + 0.5) / scale - 0.5
    if kind == "pytorch_half_pixel":
        return (o + 0.5) / scale - 0.5 if n_out > 1 else 0.0
    if kind == "align_corners":
        return o * (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0
    if kind == "asymmetric":
        return o / scale
    start, end = crop
    if n_out == 1:
        return 0.5 * (start + end) * (n_in - 1)
    return start * (n_in - 1) + o * (end - start) * (n_in - 1) / (n_out - 1)


def cubic(x, a):
    """The weight of an element at distance x."""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def coefficients(ratio, scale, mode, a, antialias):
    """Of the neighbours, from left to right."""
    scale = min(scale, 1.0) if antialias else 1.0
    width = 1 if mode == "linear" else 2
    start = int(np.floor(-width / scale) + 1)
    steps = [(i - ratio) * scale for i in range(start, 2 - start)]
    if mode == "linear":
        found = np.clip(1 - np.abs(steps), 0, 1)
    else:
        found = np.array([cubic(step, a) for step in steps])
    return found / found.sum() if antialias else found


ROUND = {"round_prefer_floor": lambda x: math.ceil(x - 0.5),
         "round_prefer_ceil": lambda x: math.floor(x + 0.5),
         "floor": math.floor, "ceil": math.ceil}


def matrix(n_in, n_out, scale, mode, kind, nearest, a, exclude, antialias,
           crop):
    """Weights (n_out, n_in), and which elements are outside of a crop."""
    weights, outside = np.zeros((n_out, n_in)), np.zeros(n_out, bool)
    for o in range(n_out):
        x = position(o, n_in, n_out, scale, kind, crop)
        if kind == "tf_crop_and_resize" and not 0 <= x <= n_in - 1:
            outside[o] = True
            continue
        if mode == "nearest":
            weights[o, min(max(ROUND[nearest](x), 0), n_in - 1)] = 1
            continue
        left = math.ceil(x) - 1  # the ratio is in (0, 1]
        found = coefficients(x - left, scale, mode, a, antialias)
        first = left - (len(found) // 2 - 1)
        at = np.arange(first, first + len(found))
        if exclude:
            found = np.where((at < 0) | (at >= n_in), 0, found)
            found = found / found.sum()
        np.add.at(weights[o], np.clip(at, 0, n_in - 1), found)
    return weights, outside


def resize(shape, axes, lengths, scales=None, mode="nearest",
           kind="half_pixel", nearest="round_prefer_floor", a=-0.75,
           exclude=False, antialias=False, crop=None, value=0.0, torch_args=None,
           aspect=None, sizes=None):
    """One case: `lengths` are those of the result."""
    data = draw(*shape)
    out, tables = data, []
    hidden = np.zeros(shape, bool)
    for k, axis in enumerate(axes):
        n_in, n_out = shape[axis], lengths[k]
        scale = scales[k] if scales else n_out / n_in
        table, outside = matrix(n_in, n_out, scale, mode, kind, nearest, a,
                                exclude, antialias,
                                crop and (crop[k], crop[k + len(axes)]))
        tables.append(table)
        out = np.moveaxis(np.tensordot(table, out, (1, axis)), 0, axis)
        hidden = np.take(hidden, np.zeros(n_out, int), axis)
        hidden = hidden | outside.reshape([-1 if d == axis else 1
                                           for d in range(len(shape))])
    out = np.where(hidden, value, out)
    head = draw(*out.shape)
    back = head
    for table, axis in zip(tables, axes):
        back = np.moveaxis(np.tensordot(table.T, back, (1, axis)), 0, axis)
    if torch_args:
        x = torch.tensor(data, requires_grad=True)
        y = F.interpolate(x, **torch_args)
        np.testing.assert_allclose(y.detach().numpy(), out, rtol=1e-12,
                                   atol=1e-12)
        (slope,) = torch.autograd.grad(y, x, torch.tensor(head))
        np.testing.assert_allclose(slope.numpy(), back, rtol=1e-12, atol=1e-12)
    params = f"mode={mode} coordinates={kind} axes={ints(axes)}"
    if sizes or not scales:
        params += f" sizes={ints(sizes or lengths)}"
    else:
        params += f" scales={ints(scales)}"
    if nearest != "round_prefer_floor":
        params += f" nearest_mode={nearest}"
    if a != -0.75:
        params += f" cubic_a={a}"
    params += " exclude_outside=true" * exclude + " antialias=true" * antialias
    if crop:
        params += f" roi={ints(crop)} extrapolation_value={value}"
    if aspect:
        params += f" keep_aspect={aspect}"
    return case("resize", params, [data], out, head, [back])


def torch_of(size, mode, corners=None, antialias=False):
    """Arguments of interpolate."""
    return {"size": size, "mode": mode, "align_corners": corners,
            "antialias": antialias}


def resizes():
    """All modes."""
    yield resize((2, 2, 3, 4), [2, 3], [6, 8], scales=[2, 2], kind="asymmetric",
                 nearest="floor", torch_args={"scale_factor": 2})
    yield resize((1, 2, 5, 4), [2, 3], [3, 9], kind="asymmetric",
                 nearest="floor", torch_args=torch_of((3, 9), "nearest"))
    yield resize((1, 1, 5, 7), [2, 3], [8, 4],
                 torch_args=torch_of((8, 4), "nearest-exact"))
    for nearest in ROUND:
        yield resize((9,), [0], [5], nearest=nearest)
        yield resize((4,), [0], [10], scales=[2.5], kind="asymmetric",
                     nearest=nearest)
    yield resize((2, 1, 5), [2], [9], mode="linear",
                 torch_args=torch_of(9, "linear", False))
    yield resize((1, 2, 3, 4), [2, 3], [6, 8], mode="linear",
                 torch_args=torch_of((6, 8), "bilinear", False))
    yield resize((1, 2, 3, 4), [2, 3], [5, 2], mode="linear",
                 kind="align_corners",
                 torch_args=torch_of((5, 2), "bilinear", True))
    yield resize((1, 1, 2, 3, 2), [2, 3, 4], [3, 4, 3], mode="linear",
                 torch_args=torch_of((3, 4, 3), "trilinear", False))
    yield resize((1, 1, 5, 4), [2, 3], [8, 7], mode="cubic",
                 torch_args=torch_of((8, 7), "bicubic", False))
    yield resize((1, 1, 5, 4), [2, 3], [9, 3], mode="cubic",
                 kind="align_corners",
                 torch_args=torch_of((9, 3), "bicubic", True))
    yield resize((1, 1, 9, 7), [2, 3], [4, 3], mode="linear", exclude=True,
                 antialias=True,
                 torch_args=torch_of((4, 3), "bilinear", False, True))
    yield resize((1, 1, 9, 7), [2, 3], [4, 10], mode="cubic", a=-0.5,
                 exclude=True, antialias=True,
                 torch_args=torch_of((4, 10), "bicubic", False, True))
    yield resize((3, 8), [1], [4], scales=[0.6], mode="linear")
    yield resize((3, 8), [1], [4], scales=[0.6], mode="cubic", exclude=True)
    yield resize((3, 8), [1], [4], scales=[0.6], mode="linear", antialias=True)
    yield resize((7, 3), [0], [3], scales=[0.5], mode="cubic", antialias=True)
    yield resize((20, 3), [0], [8], scales=[0.4375], mode="linear",
                 kind="half_pixel_symmetric")
    yield resize((2, 4), [1], [1], mode="linear", kind="pytorch_half_pixel")
    yield resize((2, 4), [1], [1], mode="linear", kind="align_corners")
    yield resize((4, 4), [0, 1], [3, 3], mode="linear",
                 kind="tf_crop_and_resize", crop=[0.4, 0.6, 0.6, 0.8])
    yield resize((4, 4), [0, 1], [4, 3], mode="linear", value=10.0,
                 kind="tf_crop_and_resize", crop=[0.4, 0.6, 1.2, 1.7])
    yield resize((5, 2), [0], [4], mode="cubic", value=-1.0,
                 kind="tf_crop_and_resize", crop=[1.1, 0])
    yield resize((4, 6), [0, 1], [5, 8], scales=[8 / 6, 8 / 6], mode="linear",
                 aspect="not_larger", sizes=[7, 8])
    yield resize((4, 6), [0, 1], [7, 11], scales=[7 / 4, 7 / 4],
                 aspect="not_smaller", sizes=[7, 8])
    yield resize((3, 2, 4), [0, 2], [3, 4], mode="cubic")


def upsampling(shape, scale, filters=None, others=(), sums=False):
    """One case by torch."""
    inputs = [torch.tensor(draw(*each), requires_grad=True)
              for each in (shape, *others)]
    params = f"scale={scale}"
    if filters:
        side = 2 * scale - scale % 2
        inputs.append(torch.tensor(draw(filters, 1, side, side),
                                   requires_grad=True))
        out = F.conv_transpose2d(*inputs, None, scale, scale // 2,
                                 groups=filters)
        params += f" sample_type=bilinear num_filter={filters}"
    else:
        size = (shape[2] * scale, shape[3] * scale)
        large = [F.interpolate(each, size) for each in inputs]
        out = sum(large) if sums else torch.cat(large, 1)
        params += " multi_input_mode=sum" * sums
    head = torch.tensor(draw(*out.shape))
    gradients = torch.autograd.grad(out, inputs, head)
    return case("upsampling", params, [each.detach() for each in inputs],
                out.detach(), head, gradients)


def upsamplings():
    """Both types."""
    yield upsampling((2, 2, 2, 3), 2)
    yield upsampling((1, 2, 3, 2), 3)
    yield upsampling((1, 2, 2, 1), 2, others=[(1, 1, 4, 2), (1, 3, 1, 1)])
    yield upsampling((2, 1, 2, 3), 4, others=[(2, 1, 4, 6)], sums=True)
    for scale in 1, 2, 3:
        yield upsampling((1, 2, 2, 3), scale, filters=2)


if __name__ == "__main__":
    write(sys.argv[1], "resize_cases.inc", [*resizes(), *upsamplings()],
          "resize.py")
