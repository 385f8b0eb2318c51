# SPDX-License-Identifier: Apache-2.0
"""Shows one live line for a command whose output it reads from stdin.

    COMMAND 2>&1 | progress.py TITLE LOG

The line has the title, the step and how many there are, the seconds since the
start, and the step's name: ninja and `meson test` print the steps. It is on
stderr, which is a terminal. All that the command prints goes to LOG.
"""

import os
import re
import select
import shutil
import signal
import sys
import time

STEP = re.compile(rb"^\s*\[?\s*(\d+)/(\d+)\]?\s+(.*)$", re.M)
ERASE = "\r\033[K"


def read_step(text, before):
    """The last step that a text names, as (step, of, name), or `before`."""
    found = STEP.findall(text)
    if not found:
        return before
    step, steps, name = found[-1]
    return int(step), int(steps), " ".join(name.decode(errors="replace").split())


def write_line(title, step, seconds, width):
    """The live line, cut to the width of the terminal."""
    line = f"{title}: {int(seconds)} s"
    if step:
        line = f"{title}: step {step[0]} of {step[1]}, {int(seconds)} s: {step[2]}"
    return line if len(line) < width else line[:width - 4] + "..."


def chunks(source):
    """Bytes of a file descriptor as they come; b"" after a second without."""
    while True:
        ready, _, _ = select.select([source], [], [], 1.0)
        part = os.read(source, 65536) if ready else b""
        if ready and not part:
            return
        yield part


def show(title, source, log, screen):
    """Copies the source to the log, and keeps the line on the screen."""
    step, rest, start = None, b"", time.monotonic()
    for part in chunks(source):
        log.write(part)
        lines = (rest + part).split(b"\n")
        rest = lines.pop()
        step = read_step(b"\n".join(lines), step)
        width = shutil.get_terminal_size().columns
        screen.write(ERASE + write_line(title, step,
                                        time.monotonic() - start, width))
        screen.flush()
    screen.write(ERASE)
    screen.flush()


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ends when the command does
    title, name = sys.argv[1:]
    with open(name, "wb") as log:
        show(title, sys.stdin.fileno(), log, sys.stderr)


if __name__ == "__main__":
    main()
