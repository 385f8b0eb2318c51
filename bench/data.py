# SPDX-License-Identifier: Apache-2.0
"""Records and images per second of one thread: records beside MXNet's reader,
images, decoded and augmented, beside libjpeg-turbo alone and beside Pillow.

    data.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and tables of the medians. The files
are made for the run: records of random bytes, and JPEGs like photographs, of two
sizes each.
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
MXNET = BUILD.parent / "mxnet" / "mxnet" / "libmxnet.so"
SCRIPT = pathlib.Path(__file__).resolve().parent / "peers" / "images_pillow.py"
# A newer Pillow than the system's, and the NumPy that its arrays need.
WHEELS = [BUILD.parent / "pillow", BUILD.parent / "numpy"]
RECORDS = [("1 KB", 1 << 10, 40000), ("64 KB", 64 << 10, 1000)]
ORDERS = {"read": "in order", "find": "in a random order, by their keys",
          "batch": "batches of 64", "shuffle": "batches of 64, shuffled"}
SIZES = [(375, 500, 32), (1080, 1620, 8)]  # height, width, files
KINDS = {"decode": "one by one", "batch": "one call",
         "resize": "224 x 224",
         "augment": "random part, 224 x 224, f32",
         "draft": "the same with `draft`",
         "loaded": "random part, from a file of records"}
# The work of a peer that is compared, if it has another name.
SAME = {"batch": "decode", "loaded": "augment"}


def cell(value, digits=0):
    return "–" if value is None else f"{value:.{digits}f}"


def say_all(samples, names, prefix, unit):
    """A line for each figure of each program."""
    for name in names:
        for program in sorted({who for who, _ in samples.values}):
            value = samples.median(program, name)
            if value is None:
                continue
            low, high = samples.spread(program, name)
            say(f"{prefix}.{name}.{program}", value, unit,
                f"{low:.0f}-{high:.0f}")


# -------------------------------------------------------------------- records

def record_rows(title, size, n):
    """Measures records of one size; a row for each order."""
    samples = Samples()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BENCH / "records", "write", folder, str(size), str(n)],
                       check=True)
        programs = [Program("tenon", [BENCH / "records", "read", folder],
                            CORES[1])]
        if exists("MXNet", MXNET, "mxnet of PyPI"):
            programs.append(Program(
                "mxnet", [BENCH / "peers" / "records_mxnet", MXNET, folder],
                CORES[1], OMP_NUM_THREADS="1"))
        samples.collect(programs, ROUNDS)
    say_all(samples, ORDERS, f"records.{size}", "records/s")
    for order, words in ORDERS.items():
        ours = samples.median("tenon", order)
        theirs = samples.median("mxnet", order)
        yield [f"{title}, {words}", cell(ours / 1000),
               cell(theirs and theirs / 1000),
               cell(theirs and ours / theirs, 2)]


# --------------------------------------------------------------------- images

def find_pillows(folder):
    """Debian's Pillow and a newer one, as far as they are there."""
    command = ["/usr/bin/python3", SCRIPT, folder]
    if imports("PIL, numpy"):
        yield Program("pillow", command, CORES[1])
    else:
        print("SKIPPED Pillow: packages python3-pil and python3-numpy are not "
              "installed", flush=True)
    path = ":".join(map(str, WHEELS))
    if imports("PIL, numpy", PYTHONPATH=path) and all(
            each.exists() for each in WHEELS):
        yield Program("pillow_new", command, CORES[1], PYTHONPATH=path)
    else:
        print("SKIPPED Pillow, newer: its wheels could not be fetched",
              flush=True)


def image_rows(height, width, n):
    """Measures files of one size; a row for each kind of call."""
    samples = Samples()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([RAW, "write", folder, str(height), str(width), str(n)],
                       check=True)
        samples.collect(
            [Program("tenon", [BENCH / "images", PLUGIN, folder, height, width],
                     CORES[1]),
             Program("libjpeg", [RAW, "read", folder], CORES[1]),
             *find_pillows(folder)], ROUNDS)
    say_all(samples, KINDS, f"images.{width}x{height}", "images/s")
    raw = samples.median("libjpeg", "decode")
    for kind, title in KINDS.items():
        ours = samples.median("tenon", kind)
        yield [f"{width} x {height}, {title}", cell(ours), cell(raw),
               *(cell(samples.median(each, SAME.get(kind, kind)))
                 for each in ("pillow", "pillow_new")), cell(ours / raw, 2)]


def main():
    table("Thousands of records a second of one thread", [
        "records", "tenon", "MXNet", "tenon : MXNet"],
        [row for each in RECORDS for row in record_rows(*each)])
    if exists("images", RAW, "libjpeg-dev"):
        table("Images a second of one thread", [
            "files", "tenon", "libjpeg-turbo, decoding", "Pillow of Debian",
            "Pillow 13", "tenon : libjpeg-turbo"],
            [row for each in SIZES for row in image_rows(*each)])
    save("data")


main()
