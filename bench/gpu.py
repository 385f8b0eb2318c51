# SPDX-License-Identifier: Apache-2.0
"""A CUDA device: copies, operators, products and training steps, beside torch.

    gpu.py BUILD_FOLDER [ROUNDS]

Prints a table of medians. The limit of rows that are bound by the device's
memory is the copy on the device in the same run. torch is that of PYTHON
(python3), eager, if it sees a GPU, in f32 without TF32 as we are.
"""

import os
import pathlib
import subprocess
import sys

from samples import Program, Samples, table

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
DEVICE = "cuda(0)"
NETS = ["mlp", "lenet", "resnet", "resnet50"]
PEER = pathlib.Path(__file__).resolve().parent / "peers" / "gpu_torch.py"
PYTHON = os.environ.get("PYTHON", "python3")
LIMIT = "copy.on_device"
# A part of a row's name, and the goal of such rows: a multiple of the peer's
# figure, or a fraction of the limit.
OF_LIMIT = {"elemwise.": 0.9}
OF_PEER = {"fully_connected": 0.97, "captured": 5.0, "small": 1.0, "step": 1.0}


def plugin(name):
    """A plugin and its companion, if it has one."""
    folder = BUILD / "plugins" / name
    files = [folder / f"{name}.so", folder / f"{name}.cuda.so"]
    return [file for file in files if file.exists()]


class Net(Program):
    """A net's training step; its output lines begin with its name."""

    def __init__(self, net, files):
        super().__init__("tenon", [BUILD / "bench" / "train", net, DEVICE,
                                   *files])
        self.net = net

    def run(self):
        return [[f"{self.net}.{name}", value]
                for name, value, *_ in super().run()]


def ours():
    """All that measures, or why nothing can be measured."""
    files = [file for name in ("cuda", "elemwise", "nn", "optim", "cublaslt",
                               "cudnn") for file in plugin(name)]
    first = Program("tenon", [BUILD / "bench" / "gpu", *files])
    said = subprocess.run(first.command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    if said.startswith("SKIPPED"):
        print(said.strip())
        return []
    kernels = Program("tenon", [BUILD / "bench" / "gpu_nn", "64", *files])
    return [first, kernels, *(Net(net, files) for net in NETS)]


def peers():
    """torch, if there is one with a GPU."""
    said = subprocess.run(
        [PYTHON, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"],
        check=False, capture_output=True, text=True)
    if said.returncode == 0:
        return [Program("torch", [PYTHON, PEER, "cuda", *NETS])]
    print(f"SKIPPED torch: {PYTHON} has none that sees a GPU")
    return []


def is_time(name):
    """Whether less is better."""
    return "step/" in name or "captured" in name or name.endswith(".small")


def goal(name, goals):
    """The goal of a name, or None."""
    return next((value for part, value in goals.items() if part in name), None)


def row(samples, name):
    """One line of the table."""
    value = samples.median("tenon", name)
    # A program that is launched as one is compared with the peer's eager
    # calls.
    eager = name.replace("captured/", "step/").replace(".captured", ".small")
    peer = samples.median("torch", eager)
    limit = samples.median("tenon", LIMIT)
    ratio = part = "–"
    if peer:
        ratio = f"{peer / value if is_time(name) else value / peer:.2f}"
    if goal(name, OF_LIMIT) and not is_time(name):
        part = f"{value / limit:.2f} ({goal(name, OF_LIMIT)})"
    if name.endswith((".forward", ".backward")):
        part = f"{value / limit:.2f}"
    return [name, f"{value:.2f}", f"{peer:.2f}" if peer else "–", ratio,
            goal(name, OF_PEER) or "–", part]


def main():
    """Everything that can be measured here."""
    programs = ours()
    if not programs:
        return
    samples = Samples()
    samples.collect([*programs, *peers()], ROUNDS)
    table("Figures of a CUDA device, medians",
          ["what", "tenon", "torch", "ratio", "goal", "of the copy (goal)"],
          [row(samples, name) for name in samples.names("tenon")])


if __name__ == "__main__":
    main()
