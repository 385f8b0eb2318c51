#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five ONNX networks of PyPI's wheels, by Tenon and by ONNX Runtime in the same run.

    networks.py FOLDER [THREADS...]

FOLDER has the unpacked wheels silero-vad, magika and rapidocr-onnxruntime. Needs tenon,
onnx, onnxruntime and pillow. Prints a line `name value unit` for each figure: the median time
of a run, the bytes that a process needs at most beyond those before it loads the library,
the largest difference of an output, and the sizes of the libraries. Each measurement has a
process of its own.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

FILES = {
    "vad": "silero_vad/data/silero_vad.onnx",
    "magika": "magika/models/standard_v3_3/model.onnx",
    "detect": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "classify": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "recognise": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}
SECONDS = 3
BOUND = 1e-4


# --------------------------------------------------------------------- inputs

def make_voice():
    """A window of a vowel: harmonics of 140 Hz, loudest near 700 and 1200 Hz."""
    t = np.arange(576) / 16000
    waves = [np.sin(2 * np.pi * 140 * k * t) / (1 + abs(140 * k - 700) / 200)
             for k in range(1, 20)]
    return (0.2 * np.sum(waves, axis=0) / len(waves))[None].astype(np.float32)


def make_bytes():
    """The first and the last 1024 bytes of this program."""
    content = pathlib.Path(__file__).read_bytes().strip()
    both = content[:1024].ljust(1024, b"\0") + content[-1024:]
    return np.frombuffer(both, np.uint8).astype(np.int32)[None]


def make_image(height, width):
    """A line of text, between -1 and 1."""
    from PIL import Image, ImageDraw, ImageFont
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((8, height // 4), "Tenon runs 5 networks", fill="black",
                               font=ImageFont.load_default(size=height // 2))
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)[None]
    return np.ascontiguousarray(pixels / 127.5 - 1)


def make_inputs(name):
    if name == "vad":
        return {"input": make_voice(), "state": np.zeros((2, 1, 128), np.float32),
                "sr": np.array(16000, np.int64)}
    if name == "magika":
        return {"bytes": make_bytes()}
    sizes = {"detect": (160, 640), "classify": (48, 192), "recognise": (48, 320)}
    return {"x": make_image(*sizes[name])}


# ---------------------------------------------------------------- measurements

def load_tenon(path, threads):
    import tenon
    import tenon.onnx
    tenon.configure(workers=threads)
    model = tenon.onnx.load(path)

    def run(feeds):
        return [array.numpy() for array in model.run(feeds).values()]
    return run


def load_onnxruntime(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def read_peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(engine, name, path, threads, to):
    feeds = make_inputs(name)
    before = read_peak()
    run = {"tenon": load_tenon, "onnxruntime": load_onnxruntime}[engine](path, threads)
    results = run(feeds)
    run(feeds)
    times, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run(feeds)
        times.append(time.perf_counter() - begin)
    np.savez(to, *results)
    print(json.dumps({"ms": 1e3 * float(np.median(times)), "bytes": read_peak() - before}))


def measure_apart(*words):
    done = subprocess.run([sys.executable, __file__, "--measure", *map(str, words)], check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def compare(one, two):
    with np.load(one) as a, np.load(two) as b:
        return max(float(np.abs(a[key].astype(np.float64) - b[key]).max()) for key in a.files)


# ----------------------------------------------------------------------- sizes

def find_sizes():
    import onnxruntime
    from tenon import _prefix
    folder = pathlib.Path(_prefix.library("libtenon.so.0")).parent
    ours = [folder / f"lib{each}.so.0" for each in ("tenon", "tenon-graph", "tenon-files")]
    ours += [folder / "tenon" / f"{each}.so" for each in ("elemwise", "tensor", "nn")]
    theirs = pathlib.Path(onnxruntime.__file__).parent.rglob("*.so*")
    return {"tenon": sum(os.path.getsize(each) for each in ours),
            "onnxruntime": sum(os.path.getsize(each) for each in theirs)}


def main(folder, threads):
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, file in FILES.items():
            path = os.path.join(folder, file)
            for n in threads:
                outputs = {}
                for engine in ("tenon", "onnxruntime"):
                    outputs[engine] = os.path.join(scratch, f"{engine}.npz")
                    found = measure_apart(engine, name, path, n, outputs[engine])
                    for unit, value in found.items():
                        print(f"networks/{name}/{n}/{engine}/{unit} {value:.6g} {unit}", flush=True)
                worst = max(worst, compare(*outputs.values()))
                print(f"networks/{name}/{n}/difference {compare(*outputs.values()):.3g} absolute")
    for engine, size in find_sizes().items():
        print(f"networks/libraries/{engine} {size} bytes")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        measure(*sys.argv[2:5], int(sys.argv[5]), sys.argv[6])
    else:
        sys.exit(main(sys.argv[1], [int(each) for each in sys.argv[2:]] or [1, 2]))
