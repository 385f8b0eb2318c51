# SPDX-License-Identifier: Apache-2.0
"""Five ONNX networks of PyPI's wheels, by Tenon and by ONNX Runtime in the same run.

    networks.py BUILD_FOLDER [ROUNDS]

Each measurement has a process of its own; the two engines take turns. Ends with status 1 if
an output of the two differs by more than 1e-4.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
except ImportError:  # main() needs none
    np = None

FILES = {
    "vad": "silero_vad/data/silero_vad.onnx",
    "magika": "magika/models/standard_v3_3/model.onnx",
    "detect": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "classify": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "recognise": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}
TITLES = {"vad": "silero-vad", "magika": "magika", "detect": "rapidocr, detection",
          "classify": "rapidocr, direction", "recognise": "rapidocr, recognition"}
THREADS = (1, 2)
SECONDS = 1
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


def compare(one, two):
    with np.load(one) as a, np.load(two) as b:
        print(max(float(np.abs(a[key].astype(np.float64) - b[key]).max()) for key in a.files))


def measure_sizes():
    """Bytes of the libraries that are needed to run a network."""
    import onnxruntime
    from tenon import _prefix
    folder = pathlib.Path(_prefix.library("libtenon.so.0")).parent
    ours = [folder / f"lib{each}.so.0" for each in ("tenon", "tenon-graph", "tenon-files")]
    ours += [folder / "tenon" / f"{each}.so" for each in ("elemwise", "tensor", "nn", "openblas")]
    theirs = pathlib.Path(onnxruntime.__file__).parent.rglob("*.so*")
    print(json.dumps({"tenon": sum(os.path.getsize(each) for each in ours),
                      "onnxruntime": sum(os.path.getsize(each) for each in theirs)}))


# ------------------------------------------------------------------------ main

def start(build, *words):
    """The last line that this program prints in a process with both engines."""
    build = pathlib.Path(build).resolve().parent
    folders = [build / "python" / "package",
               *(build / each for each in ("numpy", "onnxruntime", "pillow"))]
    done = subprocess.run([sys.executable, __file__, *map(str, words)], check=True,
                          stdout=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))})
    return done.stdout.splitlines()[-1]


def measure_network(build, name, threads, rounds, scratch):
    """{(engine, "ms" or "bytes"): values by round}, and the largest difference."""
    path = pathlib.Path(build).resolve().parent / "networks" / FILES[name]
    found, difference = {}, 0.0
    for _ in range(rounds):
        outputs = {}
        for engine in ("tenon", "onnxruntime"):
            outputs[engine] = os.path.join(scratch, f"{engine}.npz")
            figures = json.loads(start(build, "--measure", engine, name, path, threads,
                                       outputs[engine]))
            for unit, value in figures.items():
                found.setdefault((engine, unit), []).append(value)
        difference = max(difference, float(start(build, "--compare", *outputs.values())))
    return found, difference


def main(build, rounds):
    """All figures of networks in docs/benchmarks/performance.md."""
    from samples import save, say, table
    folder = pathlib.Path(build).resolve().parent
    for need in ("python/package/tenon", "onnxruntime", "networks"):
        if not (folder / need).exists():
            print(f"SKIPPED networks: {folder / need} is missing")
            return 0
    rows, worst = [], 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for name in FILES:
            for threads in THREADS:
                found, difference = measure_network(build, name, threads, rounds, scratch)
                for (engine, unit), values in found.items():
                    say(f"networks.{name}.{threads}.{engine}.{unit}", statistics.median(values),
                        unit)
                ratios = [theirs / ours for ours, theirs in zip(found["tenon", "ms"],
                                                                found["onnxruntime", "ms"])]
                cells = [statistics.median(found[key]) for key in (
                    ("tenon", "ms"), ("onnxruntime", "ms"), ("tenon", "bytes"),
                    ("onnxruntime", "bytes"))]
                rows.append([TITLES[name], str(threads), f"{cells[0]:.2f}", f"{cells[1]:.2f}",
                             f"{statistics.median(ratios):.2f}", f"{cells[2] / 2**20:.0f}",
                             f"{cells[3] / 2**20:.0f}", f"{difference:.0e}"])
                worst = max(worst, difference)
    sizes = json.loads(start(build, "--sizes"))
    table(f"ONNX networks; the libraries have {sizes['tenon'] / 2**20:.1f} MiB, those of ONNX "
          f"Runtime {sizes['onnxruntime'] / 2**20:.1f}",
          ["network", "threads", "tenon ms", "ONNX Runtime ms", "ONNX Runtime / tenon",
           "tenon MiB", "ONNX Runtime MiB", "largest difference"], rows)
    save("networks")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        measure(*sys.argv[2:5], int(sys.argv[5]), sys.argv[6])
    elif sys.argv[1] == "--compare":
        compare(*sys.argv[2:4])
    elif sys.argv[1] == "--sizes":
        measure_sizes()
    else:
        sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3))
