#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen check` with built plugins that misbehave.

    test_judge.py OPGEN CC [NAME...]

Each file in bad_plugins/ is one plugin. Its first comment lists the lines that
`opgen check` prints, and no others are allowed. No process may be left.
"""

import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402

OPGEN = str(pathlib.Path(sys.argv[1]).resolve())
CC = shlex.split(sys.argv[2])
BAD = ROOT / "tests/opgen/bad_plugins"
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
# Seconds for the code of a plugin that never ends. It must come that far within
# them, also on a slow machine.
LIMIT = "3"
# Instructions of one processor, and messages that only it can give.
X86 = re.compile(r"_ia32_|E0202|__asm__")
# Marks the processes of this test, for the search of those that are left.
MARK = f"TENON_JUDGE={os.getpid()}"


def compile_tables():
    """Generated files are the same for all; they are compiled once."""
    out = FOLDER / "generated"
    tap.output([OPGEN, "generate", BAD / "plugin.yaml", "-o", out])
    for source in out.glob("*.c"):
        tap.output([*CC, "-c", "-O0", "-fPIC", "-fvisibility=hidden", "-I",
                    ROOT / "sdk/include", "-I", out, "-o",
                    source.with_suffix(".o"), source])
    return out


def build(source, out, name=None):
    folder = FOLDER / (name or source.stem)
    folder.mkdir()
    tap.output([*CC, "-shared", "-O0", "-fPIC", "-fvisibility=hidden",
                "-D_GNU_SOURCE", "-w", "-I", ROOT / "sdk/include", "-I", out,
                "-I", BAD, "-o", folder / "bad.so", source,
                *sorted(out.glob("*.o")), "-lm", "-lpthread"])
    return folder / "bad.so"


def expected_lines(source):
    """The lines after `says:`; a comment is wrapped, a message is not."""
    comment = source.read_text().partition("says:")[2].partition("*/")[0]
    text = " ".join(line.strip(" *") for line in comment.splitlines())
    lines = re.split(r" (?=op\.yaml:|bad\.so:)", " " + text.strip())
    return [line.strip() for line in lines if line.strip() not in ("", "nothing")]


def left_processes():
    """Processes of this test that still run, after some time: one that was
    killed may take a moment to end."""
    deadline = time.monotonic() + 60
    while find_processes() and time.monotonic() < deadline:
        os.sched_yield()
    return find_processes()


def find_processes():
    left = []
    for each in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if MARK.encode() in each.read_bytes():
                left.append(each.parent.name)
        except OSError:
            continue
    return left


def check(library, limit):
    name, _, value = MARK.partition("=")
    done = subprocess.run(
        [OPGEN, "check", "--limit", limit, "--error-format=short",
         BAD / "plugin.yaml", library], cwd=ROOT, text=True,
        capture_output=True, check=False, timeout=300, env={
            **{k: v for k, v in os.environ.items() if k != "NO_COLOR"},
            name: value})
    places = re.compile(r"^.*/((?:op\.yaml|bad\.so):)")
    lines = [places.sub(r"\1", line) for line in done.stderr.splitlines()]
    tap.equal(done.stdout, "")
    return done.returncode, [line for line in lines
                             if not line.startswith("opgen: ")]


def case_of(source, out):
    def case():
        expected = expected_lines(source)
        if platform.machine() != "x86_64" and X86.search(source.read_text()):
            raise tap.Skip("its statements or its message are those of x86-64")
        ends = "did not end" not in " ".join(expected)
        status, lines = check(build(source, out), "60" if ends else LIMIT)
        tap.equal(lines, expected)
        tap.equal(status, 1 if expected else 0)
        tap.equal(left_processes(), [])
    return f"bad_plugins/{source.name}", case


def a_manual_runs_a_plugin_that_it_finds_in_the_same_way():
    """`opgen docs DIR` looks for NAME.so in DIR."""
    folder = FOLDER / "manual"
    folder.mkdir()
    for name in ("plugin.yaml", "op.yaml"):
        (folder / name).write_text((BAD / name).read_text())
    library = build(BAD / "stop_init.c", FOLDER / "generated", "for_manual")
    library.rename(folder / "bad.so")
    done = subprocess.run([OPGEN, "docs", "--limit", LIMIT, folder], text=True,
                          capture_output=True, check=False, timeout=300)
    tap.equal((done.returncode, done.stderr), (0, ""))
    assert f"it did not end within {LIMIT} seconds" in done.stdout, done.stdout


def limits_are_checked():
    for limit in ("0", "x", "1x", "-1", "86401"):
        done = subprocess.run([OPGEN, "check", f"--limit={limit}", "none.so"],
                              text=True, capture_output=True, check=False)
        tap.equal(done.returncode, 2)
        assert "is a number of seconds, 1 to 86400, not" in done.stderr, limit


def main():
    sources = [source for source in sorted(BAD.glob("*.c"))
               if not sys.argv[3:] or source.stem in sys.argv[3:]]
    out = compile_tables()
    tap.run([limits_are_checked,
             a_manual_runs_a_plugin_that_it_finds_in_the_same_way, *(case_of(source, out) for source in sources)])


main()
