# SPDX-License-Identifier: Apache-2.0
"""The live line, on a terminal that the test makes."""

import os
import pathlib
import pty
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import progress  # noqa: E402
import tap  # noqa: E402

NINJA = b"[1/3] Compiling a.c\n[2/3] Compiling b.c\n[3/3] Linking lab.so\n"


def show(text):
    """(the lines on the terminal, the log) while a command prints a text."""
    main, screen = pty.openpty()
    with tempfile.NamedTemporaryFile() as log:
        done = subprocess.run(
            ["python3", HERE / "progress.py", "lab: build", log.name],
            input=text, stderr=screen, stdout=subprocess.PIPE, check=True)
        os.close(screen)
        shown = b""
        try:
            while part := os.read(main, 65536):
                shown += part
        except OSError:  # Linux reports the end of a terminal so
            pass
        os.close(main)
        tap.equal(done.stdout, b"")
        return shown.decode().split(progress.ERASE)[1:], log.read()


def the_line_has_step_count_seconds_and_name():
    lines, _ = show(NINJA)
    tap.equal(lines[-2], "lab: build: step 3 of 3, 0 s: Linking lab.so")


def the_line_is_erased_at_the_end():
    lines, _ = show(NINJA)
    tap.equal(lines[-1], "")


def the_log_has_all_the_output():
    _, log = show(NINJA + b"warning: no newline")
    tap.equal(log, NINJA + b"warning: no newline")


def lines_of_meson_test_are_steps_too():
    found = progress.read_step(b" 12/274 tenon:graph / graph_infer  OK 0.1s",
                               None)
    tap.equal(found, (12, 274, "tenon:graph / graph_infer OK 0.1s"))


def other_output_keeps_the_last_step():
    tap.equal(progress.read_step(b"In file included from a.c:1/2", (1, 2, "a")),
              (1, 2, "a"))


def without_steps_the_line_has_the_seconds():
    tap.equal(progress.write_line("configure", None, 7.9, 80), "configure: 7 s")


def a_long_line_is_cut_to_the_terminal():
    line = progress.write_line("build", (1, 2, "x" * 99), 1, 40)
    tap.equal((len(line), line[-3:]), (39, "..."))


tap.run([the_line_has_step_count_seconds_and_name,
         the_line_is_erased_at_the_end, the_log_has_all_the_output,
         lines_of_meson_test_are_steps_too, other_output_keeps_the_last_step,
         without_steps_the_line_has_the_seconds,
         a_long_line_is_cut_to_the_terminal])
