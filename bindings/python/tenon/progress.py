# SPDX-License-Identifier: Apache-2.0
"""A line that shows the progress of a loop on a terminal, and nothing elsewhere.

    for batch in tn.progress.show(examples, "epoch 1"):
        ...
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

_WIDTH = 28


def format_seconds(seconds: float) -> str:
    """"1:05" of 65 seconds."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress:
    """The line of one loop; `show` makes it. `note` adds values to the line:

        bar = tn.progress.show(examples, "epoch 1")
        for batch in bar:
            bar.note(loss=0.25)
    """

    def __init__(self, items, title="", total=None, file=None, interval=0.1):
        self._items, self._title = items, title
        if total is None and hasattr(items, "__len__"):
            total = len(items)
        self._total, self._interval = total, interval
        self._file = sys.stderr if file is None else file
        self._is_shown = bool(getattr(self._file, "isatty", bool)())
        self._notes, self._drawn, self._length = {}, float("-inf"), 0

    def note(self, **values) -> None:
        """Shows these values at the end of the line."""
        self._notes.update(values)

    def __len__(self):
        if self._total is None:
            raise TypeError("the number of steps is unknown; pass total=")
        return self._total

    def __iter__(self):
        self._begin, done = time.monotonic(), 0
        self._draw(done)
        try:
            for each in self._items:
                yield each
                done += 1
                if time.monotonic() - self._drawn >= self._interval:
                    self._draw(done)
        finally:
            self._draw(done)
            if self._is_shown:
                self._file.write("\n")
                self._file.flush()

    def _format(self, done):
        passed = time.monotonic() - self._begin
        parts = [self._title] if self._title else []
        if self._total:
            full = min(_WIDTH, _WIDTH * done // self._total)
            parts += ["[" + "#" * full + "." * (_WIDTH - full) + "]", f"{done}/{self._total}"]
            if 0 < done < self._total:
                parts.append(f"{format_seconds(passed / done * (self._total - done))} left")
        else:
            parts.append(f"{done} steps")
        parts.append(format_seconds(passed))
        parts += [f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                  for key, value in self._notes.items()]
        return "  ".join(parts)

    def _draw(self, done):
        self._drawn = time.monotonic()
        if not self._is_shown:
            return
        line = self._format(done)
        self._file.write("\r" + line.ljust(self._length))
        self._file.flush()
        self._length = len(line)


def show(items: Iterable, title: str = "", total: int | None = None, file=None) -> Progress:
    """Loops over `items` and shows the progress on the terminal of `file` (standard error).

        for batch in tn.progress.show(examples, "epoch 1"): ...
    """
    return Progress(items, title, total, file)
