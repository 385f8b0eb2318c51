#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that do harm, and the line with which the generated tests find each.

    test_bad_kernels.py OPGEN CC LIBTENON

Every file of bad_kernels/ is built into one plugin with the same manifest, and
that plugin's tests run it. A comment `expect:` of the file is the line that must
be printed after `not ok N - lab.bad@1 `; the seed decides the part DRAWN. A
file without one must pass.
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402
from lab import PLUGIN  # noqa: E402

OPGEN, LIBRARY = (pathlib.Path(sys.argv[i]).resolve() for i in (1, 3))
CC = shlex.split(sys.argv[2])
KINDS = pathlib.Path(__file__).resolve().parent / "bad_kernels"
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
INCLUDE = ["-I", ROOT / "sdk/include", "-I", FOLDER, "-I", KINDS]


def compiled(source, name):
    """The object file of a source."""
    made = FOLDER / f"{name}.o"
    tap.output([*CC, "-O0", "-w", "-fPIC", "-D_GNU_SOURCE",
                "-fvisibility=hidden", *INCLUDE, "-c", "-o", made, source])
    return made


def prepare():
    """Generates and compiles everything that the kinds have in common."""
    shutil.copy(KINDS / "op.yaml", FOLDER)
    (FOLDER / "plugin.yaml").write_text(PLUGIN)
    for more in [], ["--tests"]:
        tap.output([OPGEN, "generate", *more, FOLDER / "plugin.yaml", "-o",
                    FOLDER])
    tap.output([*CC, "-O0", *INCLUDE, "-o", FOLDER / "lab_test",
                FOLDER / "lab_test.gen.c", LIBRARY,
                f"-Wl,-rpath,{LIBRARY.parent}", "-lm"])
    return [compiled(FOLDER / f"{name}.gen.c", name)
            for name in ("plugin", "op")]


def plugin_of(source, objects):
    """The plugin with the kernels of one file."""
    made = FOLDER / f"{source.stem}.so"
    parts = [compiled(source, source.stem), *objects]
    thrown = source.with_suffix(".cc")
    if thrown.exists():
        compiler = shutil.which("g++") or shutil.which("clang++")
        if not compiler:
            raise tap.Skip("there is no compiler of C++")
        parts.append(FOLDER / f"{source.stem}_thrown.o")
        tap.output([compiler, "-fPIC", "-c", "-o", parts[-1], thrown])
    tap.output([*CC, "-shared", "-o", made, *parts, "-lm",
                *(["-lstdc++"] if thrown.exists() else [])])
    return made


def run(plugin, limit):
    """Exit status and output of the plugin's tests."""
    done = subprocess.run(
        [FOLDER / "lab_test", plugin, "--limit", str(limit)], text=True,
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        errors="replace", timeout=300, cwd=FOLDER)
    return done.returncode, done.stdout


def expected_of(source):
    """Patterns of the lines that the file says must be printed."""
    head = source.read_text().split("*/")[0]
    told = " ".join(re.sub(r"(?m)^ \* ?", "", head).split()).split("expect: ")
    return [r"not ok \d+ - lab\.bad@1 "
            + re.escape(line.strip()).replace("DRAWN", r"\w+, \w+")
            for line in told[1:]]


def check(source, objects):
    expected = expected_of(source)
    limit = 1 if "did\\ not\\ end" in " ".join(expected) else 30
    status, said = run(plugin_of(source, objects), limit)
    plan = re.search(r"(?m)^1\.\.(\d+)$", said)
    lines = re.findall(r"(?m)^(?:not )?ok \d+ - ", said)
    assert plan and int(plan[1]) == len(lines), f"the plan is wrong:\n{said}"
    tap.equal(status, 1 if expected else 0, said)
    if not expected:
        assert "not ok" not in said, said
    for pattern in expected:
        assert re.search(pattern, said), f"no `{pattern}` in\n{said}"


def is_left(source):
    """Whether a process of the kind still runs."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(FOLDER / f"{source.stem}.so") in entry.read_text():
                return True
        except OSError:
            continue
    return False


def checked(source, objects):
    """The failure of a kind, or None."""
    try:
        check(source, objects)
        assert not is_left(source), "a process of it still runs"
    except (AssertionError, tap.Skip, subprocess.TimeoutExpired) as failure:
        return failure
    return None


def cases():
    """A case of each file; they are built and run at the same time."""
    objects = prepare()
    sources = sorted(KINDS.glob("*.c"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda each: checked(each, objects), sources))

    def case(failure):
        def told():
            if failure:
                raise failure
        return told
    return [(source.stem, case(failure))
            for source, failure in zip(sources, found)]


if __name__ == "__main__":
    with SCRATCH:
        tap.run(cases())
