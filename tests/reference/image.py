#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes values for the tests of plugins/image.

    image.py cases > tests/plugins/image_cases.inc     operators on arrays
    image.py files > tests/plugins/image_files.inc     decoders

Bytes are Pillow's, floats are torch's and torchvision's. Nothing here knows of
Tenon but the random words of Philox and the order in which they are used, which
the manual describes. The committed files were made with Pillow 10.4.0, torch
1.13.0, torchvision 0.14.1, NumPy 1.24.2, Python 3.11.
"""

import io
import math
import sys

import numpy as np
import torch
import torchvision.transforms.functional as tv
from PIL import Image

from operands import show

RANDOM = np.random.default_rng(11)
FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR,
           "bicubic": Image.BICUBIC}
ITEMS = {"u8": "TN_U8", "f32": "TN_F32"}


def draw(dtype, shape):
    if dtype == "u8":
        return RANDOM.integers(0, 256, size=shape, dtype=np.uint8)
    return (RANDOM.integers(0, 257, size=shape) / 256).astype(np.float32)


def digits(x):
    return f"{float(x):.9g}"


def case(op, params, dtype, data, out, tolerance=0.0, head=None, gradient=None):
    print(f'{{"image.{op}", "{params}", {ITEMS[dtype]}, {tolerance},')
    print(",\n".join(f" {show(each, digits)}"
                     for each in (data, out, head, gradient)) + "},")


def planes(image):
    """A torch tensor (1, channels, height, width)."""
    return torch.tensor(image).permute(2, 0, 1)[None]


def pixels(tensor):
    return tensor[0].permute(1, 2, 0)


# ------------------------------------------------------------------- operators


def pillow_resize(image, size, filter):
    """Each channel alone, as Pillow resizes bytes."""
    return np.stack([np.asarray(Image.fromarray(image[:, :, c]).resize(
        (size[1], size[0]), FILTERS[filter]))
        for c in range(image.shape[2])], -1)


def resize(dtype, shape, size, filter, antialias):
    data = draw(dtype, shape)
    params = (f"height={size[0]} width={size[1]} filter={filter} "
              f"antialias={int(antialias)}")
    if dtype == "u8" and antialias:
        case("resize", params, dtype, data, pillow_resize(data, size, filter))
        return
    mode = "nearest-exact" if filter == "nearest" else filter
    x = planes(data.astype(np.float32)).requires_grad_(dtype == "f32")
    options = {} if filter == "nearest" else {"align_corners": False,
                                              "antialias": antialias}
    if dtype == "u8":  # rows become bytes before columns are computed
        between = torch.nn.functional.interpolate(
            x, (shape[0], size[1]), mode=mode, **options)
        y = torch.nn.functional.interpolate(
            between.round().clamp(0, 255), size, mode=mode, **options)
        case("resize", params, dtype, data,
             pixels(y).round().clamp(0, 255), 1.0)
        return
    y = torch.nn.functional.interpolate(x, size, mode=mode, **options)
    head = draw(dtype, size + shape[2:])
    y.backward(planes(head))
    case("resize", params, dtype, data, pixels(y), 1e-5, head, pixels(x.grad))


def crop(dtype):
    data, head = draw(dtype, (4, 5, 2)), draw(dtype, (2, 3, 2))
    gradient = np.zeros_like(data)
    gradient[1:3, 2:5] = head
    floats = dtype == "f32"
    case("crop", "top=1 left=2 height=2 width=3", dtype, data, data[1:3, 2:5],
         0.0, head if floats else None, gradient if floats else None)


def flip(dtype, across, down):
    data = draw(dtype, (2, 3, 3, 2))
    out = data[:, ::-1] if down else data
    out = out[:, :, ::-1] if across else out
    case("flip", f"horizontal={across} vertical={down}", dtype, data, out)


def rotate(dtype, angle, filter, fill):
    data = draw(dtype, (4, 4, 1) if fill is None or len(fill) < 3 else (4, 4, 3))
    mode = tv.InterpolationMode(filter)
    y = tv.rotate(planes(data), angle, interpolation=mode, fill=fill)
    text = f"angle={angle} filter={filter}"
    if fill is not None:
        text += f" fill={fill}".replace(" ", "")
        text = text.replace("fill=", " fill=")
    case("rotate", text, dtype, data, pixels(y), 1e-5 if dtype == "f32" else 0.0)


def jitter(dtype, change, factor, channels=3):
    data = draw(dtype, (2, 3, channels))
    y = getattr(tv, f"adjust_{change}")(planes(data), factor)
    case("color_jitter", f"{change}=[{factor},{factor}]", dtype, data, pixels(y),
         1e-5 if dtype == "f32" else 1.0)


def normalize(dtype):
    data = draw(dtype, (3, 2, 3))
    mean, std = [0.5, 0.25, 0.125], [0.5, 2.0, 0.25]
    x = torch.tensor(data.astype(np.float32), requires_grad=True)
    y = tv.normalize(x, mean, std)
    head = draw("f32", (3, 2, 3))
    y.backward(torch.tensor(head))
    text = f"mean={mean} std={std}".replace(", ", ",")
    floats = dtype == "f32"
    case("normalize", text, dtype, data, y, 1e-5, head if floats else None,
         x.grad if floats else None)


def to_chw(dtype):
    data = draw(dtype, (3, 4, 2))
    case("to_chw", "", dtype, data, tv.to_tensor(data), 1e-6)


def write_cases():
    print("/* Written by tests/reference/image.py. */")
    for dtype in "u8", "f32":
        for shape, size in [((5, 4, 3), (2, 3)), ((2, 3, 1), (5, 4)),
                            ((1, 20, 1), (1, 3)), ((3, 3, 2), (4, 2))]:
            for filter in "bilinear", "bicubic":
                resize(dtype, shape, size, filter, True)
                resize(dtype, shape, size, filter, False)
            resize(dtype, shape, size, "nearest", True)
        crop(dtype)
        for across, down in (1, 0), (0, 1), (1, 1):
            flip(dtype, across, down)
        for angle in 90, 180, -30, 67.5:
            rotate(dtype, angle, "nearest", None)
            rotate(dtype, angle, "bilinear", None)
        rotate(dtype, 30, "nearest", [1.0] if dtype == "f32" else [200.0])
        rotate(dtype, -20, "nearest", [0.0, 0.5, 1.0])
        for change, factors in (("brightness", (0, 0.5, 1.75)),
                                ("contrast", (0, 0.5, 1.75)),
                                ("saturation", (0, 0.5, 1.75)),
                                ("hue", (-0.5, -0.125, 0.375))):
            for factor in factors:
                jitter(dtype, change, factor)
        jitter(dtype, "contrast", 0.5, 1)
        jitter(dtype, "saturation", 0.5, 1)
        normalize(dtype)
        to_chw(dtype)


# -------------------------------------------------------------------- decoders


def picture(height, width, channels):
    """Smooth, so that its files are small, and different everywhere."""
    y, x = np.mgrid[0:height, 0:width] / 9.0
    waves = [128 + 70 * np.sin(x + k) + 50 * np.cos(y * (1 + k / 3) - k)
             for k in range(channels)]
    return np.clip(np.stack(waves, -1), 0, 255).astype(np.uint8)


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, optimize=True, **options)
    return buffer.getvalue()


def jpeg(image, mode=None, **options):
    image = Image.fromarray(image.squeeze())
    return encode(image.convert(mode) if mode else image, "JPEG",
                  **{"quality": 60, **options})


def png(image, mode=None, **options):
    image = Image.fromarray(image.squeeze())
    if mode == "P":
        return encode(image.quantize(8), "PNG", **options)
    return encode(image.convert(mode) if mode else image, "PNG", **options)


def grey_by_libjpeg(file):
    image = Image.open(io.BytesIO(file))
    image.draft("L", image.size)
    return np.asarray(image)


def decode(file, channels):
    """Pillow's pixels."""
    image = Image.open(io.BytesIO(file))
    if channels == 1 and image.format == "JPEG" and image.mode == "RGB":
        return grey_by_libjpeg(file)[:, :, None]
    if channels == 0:
        mode = {"CMYK": "RGB", "P": "RGB", "1": "L", "I;16": "L"}
        image = image.convert(mode.get(image.mode, image.mode))
    else:
        image = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    out = np.asarray(image)
    return out.reshape(out.shape[0], out.shape[1], -1)


def listed(values):
    values = [str(each) for each in values]
    return ",\n  ".join(",".join(values[i:i + 28])
                        for i in range(0, len(values), 28))


def show_file(name, file):
    print(f"static const unsigned char {name}[] = {{\n  {listed(file)}}};")


def interlaced_png():
    """Pillow reads interlaced files but writes none: the filter bytes and the
    seven passes of Adam7 are written by hand."""
    import struct
    import zlib
    image = picture(7, 6, 3)
    raw = b""
    for y0, x0, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4),
                           (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
                           (1, 0, 2, 1)):
        part = image[y0::dy, x0::dx]
        if part.size:
            raw += b"".join(b"\0" + row.tobytes() for row in part)

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(
            ">I", zlib.crc32(body))
    head = struct.pack(">IIBBBBB", 6, 7, 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
            chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def deep_png():
    """16 bits of grey: 257*x, so that every scaling to 8 bits is exact."""
    grey = picture(3, 5, 1)[:, :, 0].astype(np.uint16) * 257
    return encode(Image.fromarray(grey), "PNG"), (grey // 257)[:, :, None]


def write_decoded():
    files = [("420", jpeg(picture(11, 9, 3)), (0, 1, 3, 4)),
             ("444", jpeg(picture(9, 10, 3), subsampling=0), (0,)),
             ("422", jpeg(picture(9, 18, 3), subsampling=1), (0,)),
             ("progressive", jpeg(picture(17, 9, 3), progressive=True), (0,)),
             ("grey", jpeg(picture(9, 8, 1)), (0, 3)),
             ("cmyk", jpeg(picture(8, 8, 3), "CMYK", quality=90), (0,)),
             ("rgb", png(picture(5, 6, 3)), (0, 1, 3, 4)),
             ("rgba", png(picture(4, 5, 4)), (0, 3)),
             ("grey_png", png(picture(5, 7, 1)), (0, 3)),
             ("grey_alpha", png(picture(4, 5, 3), "LA"), (0, 1)),
             ("bits", png(picture(5, 9, 1), "1"), (0,)),
             ("palette", png(picture(6, 5, 3), "P"), (0,)),
             ("interlaced", interlaced_png(), (0,))]
    for name, file, _ in files:
        show_file(f"file_{name}", file)
    deep, grey = deep_png()
    show_file("file_deep", deep)
    print("static const file_case file_cases[] = {")
    for name, file, all_channels in files:
        for channels in all_channels:
            out = decode(file, channels)
            print(f'{{"{name}", file_{name}, sizeof file_{name}, {channels}, '
                  f"{{{out.shape[0]}, {out.shape[1]}, {out.shape[2]}}},\n "
                  f"(const unsigned char[]){{{listed(out.ravel())}}}}},")
    print('{"deep", file_deep, sizeof file_deep, 0, {3, 5, 1},\n '
          f"(const unsigned char[]){{{listed(grey.ravel())}}}}},")
    print("};")


M = 0xffffffff


def philox(key, choice):
    """Random words of one choice."""
    c, k = [0, 0, choice, 0], [key & M, key >> 32 & M]
    for _ in range(10):
        a, b = 0xd2511f53 * c[0], 0xcd9e8d57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M, (a >> 32) ^ c[3] ^ k[1], a & M]
        k = [(k[0] + 0x9e3779b9) & M, (k[1] + 0xbb67ae85) & M]
    return c


def random_box(seed, height, width, area, ratio):
    """torchvision's RandomResizedCrop.get_params with these random words."""
    for choice in range(1, 11):
        w = [each / 2**32 for each in philox(seed, choice)]
        part = height * width * (area[0] + (area[1] - area[0]) * w[0])
        low, high = map(math.log, ratio)
        aspect = math.exp(low + (high - low) * w[1])
        across, down = round(math.sqrt(part * aspect)), round(
            math.sqrt(part / aspect))
        if 0 < across <= width and 0 < down <= height:
            top, left = int(w[2] * (height - down + 1)), int(
                w[3] * (width - across + 1))
            return left, top, left + across, top + down
    own = width / height
    across, down = width, height
    if own < ratio[0]:
        down = round(width / ratio[0])
    elif own > ratio[1]:
        across = round(height * ratio[1])
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def center(image, height, width, short):
    if short:
        image = tv.resize(image, short)
    else:
        w, h = image.size
        size = ((height, round(height * w / h)) if h * width <= w * height
                else (round(width * h / w), width))
        image = tv.resize(image, size)
    return tv.center_crop(image, (height, width))


def write_batches():
    files = [jpeg(picture(96, 110, 3), quality=40),
             jpeg(picture(40, 83, 3), quality=40, progressive=True),
             png(picture(21, 12, 3)),
             jpeg(picture(70, 52, 1), quality=40)]
    for i, file in enumerate(files):
        show_file(f"batch_{i}", file)
    seeds = [3, 1 << 40, 77, 900]
    height, width = 4, 5
    print("static const batch_case batch_cases[] = {")
    for filter in FILTERS:
        batch(f"mode=resize filter={filter}", files, lambda image, seed:
              image.resize((width, height), FILTERS[filter]))
    batch("mode=resize channels=1 mirror=1", files, lambda image, seed:
          image.resize((width, height), Image.BILINEAR)
          .transpose(Image.FLIP_LEFT_RIGHT), 1)
    batch("mode=center", files,
          lambda image, seed: center(image, height, width, 0))
    batch("mode=center short_side=9", files,
          lambda image, seed: center(image, height, width, 9))
    for area, ratio, mirror in (((0.08, 1), (3 / 4, 4 / 3), 0.5),
                                ((0.05, 0.1), (0.5, 2), 0.0),
                                ((0.9, 1), (5, 6), 0.25)):
        def make(image, seed):
            box = random_box(seed, image.height, image.width, area, ratio)
            out = image.crop(box).resize((width, height), Image.BILINEAR)
            flip = philox(seed, 0)[0] < mirror * 2**32
            return out.transpose(Image.FLIP_LEFT_RIGHT) if flip else out
        batch(f"mode=random area=[{area[0]},{area[1]}] "
              f"ratio=[{ratio[0]!r},{ratio[1]!r}] mirror={mirror}", files, make,
              seeds=seeds)
    print("};")


def batch(params, files, make, channels=3, seeds=(3, 1 << 40, 77, 900)):
    out = []
    for file, seed in zip(files, seeds):
        array = decode(file, channels)
        image = Image.fromarray(array.squeeze())
        out.append(np.asarray(make(image, seed)).ravel())
    out = np.concatenate(out)
    print(f'{{"height=4 width=5 {params}", {channels}, '
          f"(const unsigned char[]){{{listed(out)}}}}},")


if sys.argv[1:] == ["cases"]:
    write_cases()
elif sys.argv[1:] == ["files"]:
    print("/* Written by tests/reference/image.py. */")
    write_decoded()
    write_batches()
else:
    sys.exit(__doc__)
