#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen new --missing`: which functions it finds missing, and what it writes.

    test_missing.py OPGEN CC
"""

import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402
from lab import RISKY, Lab  # noqa: E402

OPGEN = str(pathlib.Path(sys.argv[1]).resolve())
CC = shlex.split(sys.argv[2])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
CONVOLUTION = ROOT / "tests/opgen/ok/convolution"

LAB = Lab([OPGEN], CC, FOLDER)


def missing(folder, *args):
    return subprocess.run([OPGEN, "new", *map(str, args), "--missing", "-o",
                           str(folder)], text=True, capture_output=True,
                          check=False)


def kernels_for_others_are_completed():
    """`--with` says where their operators are."""
    folder = LAB.write((ROOT / "tests/opgen/ok/kernels_for/convolution.yaml")
                       .read_text().replace("device: cuda", "device: cpu"))
    done = missing(folder, "lab")
    tap.equal(done.returncode, 1)
    assert "add `--with`" in done.stderr, done.stderr
    done = missing(folder, "lab", "--with", CONVOLUTION)
    tap.equal((done.returncode, done.stderr), (0, ""))
    text = (folder / "op.c").read_text()
    for symbol in "", "_backward", "_state_create", "_state_destroy", \
            "_workspace":
        assert f"cudnn_convolution{symbol}(" in text, text


tap.run([kernels_for_others_are_completed])
