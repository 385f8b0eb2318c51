# SPDX-License-Identifier: Apache-2.0
"""The Python code of the pages runs and prints the text that they show.

`<!-- python -->` above a fence: the code runs, after the fences before it on the page, in an empty
folder. `<!-- prints -->` above a fence: the text that the code since the last such fence prints.
"""

import contextlib
import io
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
FENCE = re.compile(r"^<!-- (python|prints) -->\n```\w*\n(.*?)^```$", re.S | re.M)
PAGES = [each for each in sorted(DOCS.rglob("*.md")) if FENCE.search(each.read_text("utf-8"))]


def strip_lines(text):
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.skipif(not DOCS.exists(), reason="the pages are not here")
def test_there_are_pages_with_python_code():
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.stem)
def test_the_code_of_a_page_prints_the_text_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed, text = {"__name__": "page"}, io.StringIO(), page.read_text("utf-8")
    for each in FENCE.finditer(text):
        if each[1] == "python":
            line = text.count("\n", 0, each.start(2))
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + each[2], str(page), "exec"), names)
        else:
            assert strip_lines(printed.getvalue()) == strip_lines(each[2])
            printed = io.StringIO()
    assert printed.getvalue() == "", "the page does not show this text"
