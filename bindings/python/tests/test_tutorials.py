# SPDX-License-Identifier: Apache-2.0
"""The tutorials for Python are true: their blocks run in order, and print the text that follows.

A page is one process in an empty folder, which has the data file of the examples:

- ```python runs in Python. The ```text after it is its output.
- ```console has commands for the shell after `$`, each with its output.
- A comment above a fence changes that: `<!-- about -->`: numbers may differ by a tenth;
  `<!-- quiet -->`: the output is not compared; `<!-- write: NAME -->`: the text is a file.

Pictures that a page shows are made by its blocks, and are in docs/tutorials/images.
`python test_tutorials.py --accept` copies them there.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tenon import _prefix

try:
    import pytest
except ImportError:  # try_wheel.py runs the pages without it
    pytest = None

SOURCE = pathlib.Path(__file__).resolve().parents[3]
FOLDER = SOURCE / "docs" / "tutorials"
PAGES = ("python-modeller.md", "python-author.md")
FENCE = re.compile(r"^(?:<!-- ([\w: ./-]+) -->\n)?```(\w+)\n(.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", re.M)
PICTURE = re.compile(r"!\[[^]]*\]\(images/([\w.-]+)\)")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")


def have_close_numbers(found, expected, part, least):
    """Whether two texts are equal but for numbers, which differ by at most this part."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", expected).split():
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(expected))
    return all(abs(float(a) - float(b)) <= max(least, part * abs(float(b))) for a, b in pairs)


def check(found, expected, mark, code):
    """Blanks at the ends of lines do not count."""
    found, expected = (re.sub(r" +$", "", each, flags=re.M) for each in (found, expected))
    if mark == "about" and have_close_numbers(found, expected, 0.1, 0.03):
        return
    assert found == expected, f"{code}\nprints:\n{found}\nbut the page shows:\n{expected}"


class Session:
    """One page in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.names = {"__name__": "__main__"}
        self.printed = None  # by the last block, with its mark and code
        prefix = pathlib.Path(_prefix.find_prefix())
        tools = os.pathsep.join((str(prefix / "bin"), str(pathlib.Path(sys.executable).parent)))
        self.env = {**os.environ, "PATH": tools + os.pathsep + os.environ["PATH"],
                    "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}

    def run(self, mark, kind, text):
        before, self.printed = self.printed, None
        if mark.startswith("write: "):
            path = self.folder / mark[len("write: "):]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif kind == "python":
            self.printed = (self.run_python(text), mark, text)
        elif kind == "console":
            for command, expected in COMMAND.findall(text):
                found = self.run_command(command)
                if mark != "quiet":
                    check(found, expected, mark, command)
        else:
            assert kind == "text" and before, f"this fence follows no block of Python:\n{text}"
            check(before[0], text, *before[1:])
            return
        assert not before or not before[0] or before[1] == "quiet", (
            f"the page does not show the output {before[0]!r} of\n{before[2]}")

    def run_python(self, text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "<page>", "exec"), self.names)  # pylint: disable=exec-used
        return printed.getvalue()

    def run_command(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, text=True, env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


def run_page(page, folder):
    """Runs the blocks of a page in a folder."""
    shutil.copy(SOURCE / "examples" / "data" / "digits.csv.gz", folder)
    os.chdir(folder)
    session = Session(pathlib.Path(folder))
    for mark, kind, block in FENCE.findall((FOLDER / page).read_text(encoding="utf-8")):
        session.run(mark, kind, block)


def need_tools(page):
    """Skips a page whose commands are not there."""
    if "$ meson" not in (FOLDER / page).read_text(encoding="utf-8"):
        return
    for tool in ("cc", "meson", "ninja", "pkg-config"):
        if shutil.which(tool) is None and shutil.which(
                tool, path=str(pathlib.Path(sys.executable).parent)) is None:
            pytest.skip(f"the page builds a plugin, which needs {tool}")


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PAGES)


def test_pages_are_true(page, tmp_path):
    need_tools(page)
    done = subprocess.run([sys.executable, __file__, "--run", page, tmp_path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    for name in PICTURE.findall((FOLDER / page).read_text()):
        found, shown = ((folder / name).read_text() for folder in (tmp_path, FOLDER / "images"))
        assert have_close_numbers(found.replace(",", " "), shown.replace(",", " "), 0.1, 3), (
            f"docs/tutorials/images/{name} is not the picture that the page draws; run: "
            "python3 test_tutorials.py --accept")


def test_every_picture_is_shown():
    shown = {name for page in PAGES for name in PICTURE.findall((FOLDER / page).read_text())}
    assert {each.name for each in (FOLDER / "images").iterdir()} == shown


def test_close_numbers():
    assert have_close_numbers("loss 0.18 of 3", "loss 0.17  of 3", 0.1, 0)
    assert not have_close_numbers("loss 0.25", "loss 0.17", 0.1, 0)
    assert not have_close_numbers("loss 0.17", "less 0.17", 0.1, 0)
    assert not have_close_numbers("1 2", "1", 0.1, 0)


def accept():
    """Copies the pictures of all pages to the place where the pages show them."""
    import tempfile
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, __file__, "--run", page, folder], check=True)
            for name in PICTURE.findall((FOLDER / page).read_text()):
                shutil.copy(pathlib.Path(folder) / name, FOLDER / "images" / name)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run_page(*sys.argv[2:])
    else:
        accept()
