# SPDX-License-Identifier: Apache-2.0
"""The line of progress."""

import io

import pytest

from tenon import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_written_elsewhere():
    file = io.StringIO()
    assert list(progress.show(range(3), "epoch", file=file)) == [0, 1, 2]
    assert file.getvalue() == ""


def test_a_terminal_shows_steps_and_notes():
    file = Terminal()
    bar = progress.Progress(range(4), "epoch 1", file=file, interval=0)
    for i in bar:
        bar.note(loss=1 / (i + 3), step=i)
    lines = file.getvalue().split("\r")
    assert lines[1].startswith("epoch 1  [............................]  0/4")
    assert "[#######.....................]  1/4" in lines[2]
    assert "loss 0.3333  step 0" in lines[2] and "left" in lines[2]
    assert lines[-1].startswith("epoch 1  [############################]  4/4")
    assert lines[-1].endswith("\n") and len(bar) == 4


def test_a_loop_of_unknown_length_and_one_that_ends_early():
    file = Terminal()
    with pytest.raises(TypeError, match="total="):
        len(progress.show(iter(())))
    for i in progress.show(iter(range(9)), file=file):
        if i == 2:
            break
    assert "2 steps" in file.getvalue() and file.getvalue().endswith("\n")


@pytest.mark.parametrize("seconds, text", [(0.4, "0:00"), (65, "1:05"), (3661, "1:01:01")])
def test_times(seconds, text):
    assert progress.format_seconds(seconds) == text
