# SPDX-License-Identifier: Apache-2.0
"""Images per second of one thread, decoded and augmented, beside libjpeg-turbo
alone and beside Pillow.

    data.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and a table of the medians. The files
are made for the run: JPEGs like photographs, of two sizes.
"""

import pathlib
import subprocess
import sys
import tempfile

from samples import CORES, Program, Samples, exists, imports, save, say, table

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
PLUGIN = BUILD / "plugins" / "image" / "image.so"
RAW = BENCH / "peers" / "images_jpeg"
PILLOW = pathlib.Path(__file__).parent / "peers" / "images_pillow.py"
SIZES = [(375, 500, 32), (1080, 1620, 8)]  # height, width, files
KINDS = {"decode": "one by one", "batch": "one call",
         "augment": "random part, 224 x 224, f32",
         "draft": "the same with `draft`"}


def programs(folder, height, width):
    found = [Program("tenon", [BENCH / "images", PLUGIN, folder, height, width],
                     CORES[1]),
             Program("libjpeg", [RAW, "read", folder], CORES[1])]
    if imports("PIL, numpy"):
        found.append(Program("pillow", ["/usr/bin/python3", PILLOW, folder],
                             CORES[1]))
    else:
        print("SKIPPED Pillow: packages python3-pil and python3-numpy are not "
              "installed", flush=True)
    return found


def cell(value, digits=0):
    return "–" if value is None else f"{value:.{digits}f}"


def rows(height, width, n):
    """Measures files of one size; a row for each kind of call."""
    samples = Samples()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([RAW, "write", folder, str(height), str(width), str(n)],
                       check=True)
        samples.collect(programs(folder, height, width), ROUNDS)
    for kind, title in KINDS.items():
        for program in "tenon", "libjpeg", "pillow":
            value = samples.median(program, kind)
            if value is None:
                continue
            low, high = samples.spread(program, kind)
            say(f"images.{width}x{height}.{kind}.{program}", value, "images/s",
                f"{low:.0f}-{high:.0f}")
        ours = samples.median("tenon", kind)
        raw = samples.median("libjpeg", "decode")
        pillow = samples.median("pillow", "decode" if kind == "batch" else kind)
        yield [f"{width} x {height}, {title}", cell(ours), cell(raw),
               cell(pillow), cell(ours / raw, 2)]


def main():
    if not exists("images", RAW, "libjpeg-dev"):
        return
    every = [row for size in SIZES for row in rows(*size)]
    table("Images a second of one thread", [
        "files", "tenon", "libjpeg-turbo, decoding", "Pillow",
        "tenon : libjpeg-turbo"], every)
    save("data")


main()
