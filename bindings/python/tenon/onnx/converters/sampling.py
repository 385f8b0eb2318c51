# SPDX-License-Identifier: Apache-2.0
"""Images of other sizes, and elements at positions."""

from typing import Any, Dict, Optional

from ..builder import has_parameter
from ..node import Node
from ..registry import converter
from ..values import Value


@converter("Upsample", since=9)
def convert_upsample(node: Node, x: Value, scales: Value) -> Value:
    """Larger images by factors."""
    numbers = [float(s) for s in node.elements(scales, "scales").reshape(-1)]
    return _resize_asymmetric(node, x, numbers)


@converter("Upsample", since=7)
def convert_upsample_7(node: Node, x: Value) -> Value:
    """Factors that are an attribute."""
    return _resize_asymmetric(node, x, [float(s) for s in node.attribute("scales")])


@converter("Resize", since=10)
def convert_resize_10(node: Node, x: Value, scales: Value) -> Value:
    """The first form of Resize."""
    numbers = [float(s) for s in node.elements(scales, "scales").reshape(-1)]
    return _resize_asymmetric(node, x, numbers)


def _resize_asymmetric(node: Node, x: Value, scales: list) -> Value:
    return node.build.call(
        "nn.resize",
        x,
        scales=scales,
        mode=node.attribute("mode", "nearest"),
        coordinates="asymmetric",
        nearest_mode="floor",
    )


@converter("Resize", since=11)
def convert_resize(
    node: Node,
    x: Value,
    roi: Optional[Value] = None,
    scales: Optional[Value] = None,
    sizes: Optional[Value] = None,
) -> Value:
    """Tensors of another size, by interpolation along axes."""
    parameters: Dict[str, Any] = {}
    axes = node.axes(None, x.rank)
    if axes is not None:
        parameters["axes"] = axes
    if sizes is not None and sizes.size:
        parameters["sizes"] = node.integers(sizes, "sizes")
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        parameters["keep_aspect"] = policy
    elif scales is not None and scales.size:
        numbers = node.elements(scales, "scales").reshape(-1)
        parameters["scales"] = [float(number) for number in numbers]
    else:
        raise node.refuse("neither `scales` nor `sizes`")
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    if mode == "tf_half_pixel_for_nn":
        raise node.refuse("`coordinate_transformation_mode` tf_half_pixel_for_nn")
    if mode == "tf_crop_and_resize":
        if roi is None:
            raise node.refuse("tf_crop_and_resize without `roi`")
        parameters["roi"] = [float(n) for n in node.elements(roi, "roi").reshape(-1)]
    if mode == "align_corners" and "scales" in parameters:
        mode = _align_to_scales(x, parameters)
    return node.build.call(
        "nn.resize",
        x,
        mode=node.attribute("mode", "nearest"),
        coordinates=mode,
        nearest_mode=node.attribute("nearest_mode", "round_prefer_floor"),
        cubic_a=node.attribute("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.attribute("exclude_outside", 0)),
        extrapolation_value=node.attribute("extrapolation_value", 0.0),
        antialias=bool(node.attribute("antialias", 0)),
        **parameters,
    )


def _align_to_scales(x: Value, parameters: Dict[str, Any]) -> str:
    """Describes `align_corners` for scales with a fractional length.

    The last element of the result is then before the last corner, at (N - 1)/(S*scale - 1).
    """
    axes = parameters.get("axes", range(x.rank))
    exact = [x.shape[axis] * scale for axis, scale in zip(axes, parameters["scales"])]
    if all(length == int(length) for length in exact):
        return "align_corners"
    sizes = [int(length) for length in exact]
    ends = [(n - 1) / (length - 1) if n > 1 else 0.0 for n, length in zip(sizes, exact)]
    del parameters["scales"]
    parameters["sizes"] = sizes
    parameters["roi"] = [0.0] * len(sizes) + ends
    return "tf_crop_and_resize"


@converter("GridSample", since=16)
def convert_grid_sample(node: Node, x: Value, grid: Value) -> Value:
    """Elements of images at positions of a grid."""
    mode = node.attribute("mode", "linear")
    return node.build.call(
        "nn.grid_sample",
        x,
        node.build.cast(grid, x.dtype),
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding=node.attribute("padding_mode", "zeros"),
        align_corners=bool(node.attribute("align_corners", 0)),
    )


@converter("AffineGrid", since=20)
def convert_affine_grid(node: Node, theta: Value, size: Value) -> Value:
    """Positions of an affine function."""
    return node.build.call(
        "nn.affine_grid",
        theta,
        size=node.integers(size, "size")[2:],
        align_corners=bool(node.attribute("align_corners", 0)),
    )


@converter("RoiAlign", since=10)
def convert_roi_align(node: Node, x: Value, rois: Value, images: Value) -> Value:
    """Means of interpolated elements in bins of regions."""
    build = node.build
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    parameters = {}
    if node.attribute("mode", "avg") == "max":
        if not has_parameter("nn.roi_align", "pool_type"):
            raise node.refuse("`mode` is \"max\"")
        parameters["pool_type"] = "max"
    numbers = build.reshape(build.cast(images, rois.dtype), (rois.shape[0], 1))
    return build.call(
        "nn.roi_align",
        x,
        build.concat([numbers, rois], 1),
        pooled_size=[node.attribute("output_height", 1), node.attribute("output_width", 1)],
        spatial_scale=node.attribute("spatial_scale", 1.0),
        sampling_ratio=node.attribute("sampling_ratio", 0),
        aligned=node.attribute("coordinate_transformation_mode", default) == "half_pixel",
        **parameters,
    )


@converter("MaxRoiPool")
def convert_max_roi_pool(node: Node, x: Value, rois: Value) -> Value:
    """Largest elements in bins of regions."""
    return node.build.call(
        "nn.roi_pooling",
        x,
        rois,
        pooled_size=node.attribute("pooled_shape"),
        spatial_scale=node.attribute("spatial_scale", 1.0),
    )
