#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen new --missing`: the functions that it finds missing and the files that it writes;
and the next steps that `opgen new` prints.

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


def stubs_compile_without_a_warning():
    """The example of `kernels_for` has a function of every kind but links."""
    folder = LAB.write((ROOT / "tests/opgen/ok/kernels_for/convolution.yaml")
                       .read_text().replace("device: cuda", "device: cpu"))
    with (folder / "plugin.yaml").open("a") as file:
        file.write("init: lab_init\nfini: lab_fini\n")
    tap.equal(missing(folder, "lab", "--with", CONVOLUTION).returncode, 0)
    out = folder / "generated"
    tap.output([OPGEN, "generate", folder / "plugin.yaml", "-o", out, "--with",
                CONVOLUTION])
    tap.output([*CC, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                "-I", ROOT / "sdk/include", "-I", out, "-fsyntax-only",
                folder / "op.c"])


def functions_in_folders_are_found():
    for path, found in (("k.c", True), ("src/k.c", True),
                        ("src/deep/k.cu", True), (".git/k.c", False),
                        ("other/k.c", False)):
        folder = LAB.write(RISKY)
        (folder / "other").mkdir()
        (folder / "other/plugin.yaml").write_text("opgen: 1\n")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("int32_t lab_risky(const tn_frame *call) {\n")
        done = missing(folder, "lab")
        tap.equal((done.returncode, done.stderr), (0, ""))
        tap.equal("nothing is missing" in done.stdout, found, path)
        tap.equal((folder / "op.c").exists(), not found, path)


def what_comes_next_is_for_a_shell():
    """The first words go to the folder, with any name."""
    for name in "plain", "two words", "it's; $HOME":
        folder = FOLDER / "next" / name
        folder.parent.mkdir(exist_ok=True)
        text = tap.output([OPGEN, "new", "lab.op", "-o", folder])
        _, _, commands = text.partition("next:\n")
        first, *rest = [line.strip() for line in commands.splitlines()]
        tap.equal(rest, ["meson setup build", "meson compile -C build",
                         "meson test -C build", "tenon inspect build/lab.so"])
        tap.equal(tap.output(["sh", "-c", first + " && pwd"]), f"{folder}\n")


def a_project_for_another_plugin_names_where_that_is():
    """Nothing is installed with the opgen that is tried."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "fast"
    said = tap.output([OPGEN, "new", "fast.conv", "--for",
                       "nn.convolution", "--with", CONVOLUTION, "-o", folder])
    text = (folder / "meson.build").read_text()
    assert "\nothers = []\n" in text, text
    assert f"\nmanifests = ['{CONVOLUTION}']\n" in text, text
    assert "edit others in meson.build: " in said, said


def stubs_explain_absent_operands():
    folder = LAB.write((ROOT / "tests/opgen/ok/kernels_for/convolution.yaml")
                       .read_text().replace("device: cuda", "device: cpu"))
    tap.equal(missing(folder, "lab", "--with", CONVOLUTION).returncode, 0)
    text = " ".join((folder / "op.c").read_text().replace("\n * ", " ").split())
    for words in ("Leave a gradient alone if its request, in call->req, is",
                  "needs have TN_IN_ABSENT in call->in_flags",
                  "An optional input that was not given has TN_IN_ABSENT"):
        assert words in text, text


tap.run([kernels_for_others_are_completed, stubs_compile_without_a_warning,
         stubs_explain_absent_operands,
         functions_in_folders_are_found, what_comes_next_is_for_a_shell,
         a_project_for_another_plugin_names_where_that_is])
