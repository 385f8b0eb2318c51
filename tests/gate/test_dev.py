# SPDX-License-Identifier: Apache-2.0
"""Functions of `dev` that show progress, and the list of its subcommands.

    test_dev.py SOURCE_ROOT
"""

import os
import pathlib
import pty
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

DEV = pathlib.Path(sys.argv[1]).resolve() / "dev"
STEPS = "printf '[1/2] Compiling a.c\\n[2/2] Linking a\\n'"


def run(script, screen=subprocess.PIPE):
    """(status, stdout, stderr) of a script after the functions of `dev`."""
    done = subprocess.run(
        ["bash", "-c", f"set -- help; . {DEV} >/dev/null; set +e; {script}"],
        text=True, stdout=subprocess.PIPE, stderr=screen, check=False)
    return done.returncode, done.stdout, done.stderr


def run_on_terminal(script):
    """(status, stdout, the bytes on the terminal) with stderr on one."""
    main, screen = pty.openpty()
    status, out, _ = run(script, screen)
    os.close(screen)
    shown = b""
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # Linux reports the end of a terminal so
        pass
    os.close(main)
    return status, out, shown.decode()


def a_command_that_succeeds_is_silent_without_a_terminal():
    tap.equal(run(f'quiet bash -c "{STEPS}"'), (0, "", ""))


def a_command_that_fails_shows_its_output_and_keeps_its_status():
    status, out, said = run('quiet bash -c "echo broken; exit 3"')
    tap.equal((status, out), (3, ""))
    assert "dev: failed: bash" in said and "\nbroken\n" in said, said


def a_stage_without_a_terminal_is_one_line():
    status, out, said = run(f'during "build" quiet bash -c "{STEPS}"')
    tap.equal((status, said), (0, ""))
    assert re.fullmatch(r"build +\d+ s\n", out), out


def a_terminal_shows_title_step_and_seconds():
    status, _, shown = run_on_terminal(
        f'during "build" quiet bash -c "{STEPS}"')
    tap.equal(status, 0)
    assert "build: step 2 of 2, 0 s: Linking a" in shown, shown
    assert shown.endswith("\r\033[K"), shown


def a_failure_on_a_terminal_keeps_its_status():
    status, _, shown = run_on_terminal('quiet bash -c "echo broken; exit 3"')
    tap.equal(status, 3)
    assert "broken" in shown.split("\033[K")[-1], shown


def failures_are_the_last_lines_before_the_sum():
    status, out, _ = run(
        'begin_record; stage "first" false; stage "second" true; finish')
    tap.equal(status, 1)
    tap.equal(out.splitlines()[-2:],
              ["FAILED first: the stage", "1 passed, 1 failed"])


def a_stage_that_cannot_run_is_skipped_with_its_reason():
    status, out, _ = run('begin_record; skip "python" "no \\"network\\"" 0; finish')
    tap.equal(status, 0)
    tap.equal(out.splitlines()[1:],
              ['SKIPPED 1 case: no "network" (python)', "1 skipped",
               "0 passed, 0 failed"])


def every_subcommand_is_in_the_help():
    text = DEV.read_text()
    cases = text.split("case $command in")[1]
    names = re.findall(r"[\w-]+(?= \||\))", "".join(
        re.findall(r"^  ([\w |-]+\))", cases, re.M)))
    help_text = tap.output([DEV, "help"])
    listed = re.findall(r"^\./dev ([\w-]+)", help_text, re.M)
    tap.equal(sorted(set(names) - {"help", "h", "-h", "--help"}),
              sorted(listed))


def an_unknown_subcommand_is_refused():
    done = subprocess.run([DEV, "tset"], text=True, capture_output=True,
                          check=False)
    tap.equal(done.returncode, 1)
    assert "there is no 'tset'; './dev help' lists" in done.stderr, done.stderr


tap.run([a_command_that_succeeds_is_silent_without_a_terminal,
         a_command_that_fails_shows_its_output_and_keeps_its_status,
         a_stage_without_a_terminal_is_one_line,
         a_terminal_shows_title_step_and_seconds,
         a_failure_on_a_terminal_keeps_its_status,
         failures_are_the_last_lines_before_the_sum,
         a_stage_that_cannot_run_is_skipped_with_its_reason,
         every_subcommand_is_in_the_help, an_unknown_subcommand_is_refused])
