# SPDX-License-Identifier: Apache-2.0
"""Images per second by Pillow and NumPy, in processor time of one thread.

    images_pillow.py FOLDER

Prints `decode`, `resize` and `augment`, as bench/images.c does: all pixels of each
file as an array, the image as 224 x 224, and a part of it as 224 x 224 planes of
floats. The parts are half of the area, which is about the mean of the random parts
of ours. torchvision's transforms of such images call the same functions.
"""

import io
import pathlib
import sys
import time

import numpy as np
from PIL import Image

FILES = [path.read_bytes()
         for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jpg"))]
MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]


def open_image(file):
    return Image.open(io.BytesIO(file)).convert("RGB")


def decode(file):
    return np.asarray(open_image(file))


def resize(file):
    return np.asarray(open_image(file).resize((224, 224), Image.BILINEAR))


def augment(file):
    image = open_image(file)
    width, height = image.size
    part = image.crop((width // 7, height // 7, width - width // 7,
                       height - height // 7))
    part = part.resize((224, 224), Image.BILINEAR)
    part = part.transpose(Image.FLIP_LEFT_RIGHT)
    planes = np.asarray(part, np.float32).transpose(2, 0, 1) / 255
    return np.ascontiguousarray((planes - MEAN) / STD)


def measure(work):
    """The least of five rounds."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        for file in FILES:
            work(file)
        times.append(time.process_time() - begin)
    return len(FILES) / min(times)


for name, each in ("decode", decode), ("resize", resize), ("augment", augment):
    print(name, f"{measure(each):.1f}")
