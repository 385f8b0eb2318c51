# SPDX-License-Identifier: Apache-2.0
"""The examples of pages print the results that the pages show."""

import doctest
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
PAGES = ["how-to/python.md"]


def read_examples(path):
    """The blocks ```pycon of a page as one text; lines keep their numbers."""
    text, kept, inside = path.read_text(encoding="utf-8"), [], False
    for line in text.splitlines():
        if re.match(r"```", line):
            inside = line.startswith("```pycon")
            line = ""
        kept.append(line if inside else "")
    return "\n".join(kept) + "\n"


@pytest.mark.skipif(not DOCS.exists(), reason="the pages are in the source tree only")
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page(page):
    text = read_examples(DOCS / page)
    assert ">>>" in text
    test = doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
