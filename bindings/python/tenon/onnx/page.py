# SPDX-License-Identifier: Apache-2.0
"""Writes the page docs/reference/onnx.md from the results of the node tests."""

from typing import Dict, List

import onnx

from .conformance import FAILED, PASSED, REFUSED, Result, count_results, tabulate

_HEAD = """# ONNX operators

`./dev python onnx --page docs/reference/onnx.md` wrote this page. It runs all node
tests of onnx {version}, opset {opset}, on the CPU.

**{totals}**

- *passed*: the outputs have the expected types, shapes and elements, within the tolerance of the
  runner of onnx or two units in the last place of the largest element.
- *refused*: the importer says that a feature is missing, and computes nothing.
- *failed*: wrong elements, or an unexpected error.

Cases named `_expanded` count for the operator whose function they contain. Cases with random
numbers pass by types and shapes only.

| operator | passed | refused | failed |
|---|---|---|---|
"""

_REASONS = """
## Why cases are refused

| cases | reason |
|---|---|
"""


def format_totals(results: List[Result]) -> str:
    """Returns the totals as one line.

    >>> format_totals(results)
    '1829 passed, 55 refused, 0 failed of 1884 (97.1 % passed)'
    """
    counts = count_results(results)
    n = len(results)
    share = 100 * counts[PASSED] / n if n else 0.0
    return (
        f"{counts[PASSED]} passed, {counts[REFUSED]} refused, {counts[FAILED]} failed of {n} "
        f"({share:.1f} % passed)"
    )


def _shorten(text: str) -> str:
    text = text.replace("|", "\\|").split(";")[0].split(": its ")[0]
    return text if len(text) <= 120 else text[:117] + "..."


def format_page(results: List[Result]) -> str:
    """Returns the page as text."""
    page = _HEAD.format(
        version=onnx.__version__,
        opset=onnx.defs.onnx_opset_version(),
        totals=format_totals(results),
    )
    for name, passed, refused, failed in tabulate(results):
        page += f"| {name} | {passed} | {refused or ''} | {failed or ''} |\n"
    reasons: Dict[str, int] = {}
    for result in results:
        if result.status == REFUSED:
            text = f"{result.operator}: {_shorten(result.text)}"
            reasons[text] = reasons.get(text, 0) + 1
    if reasons:
        page += _REASONS
        for text, count in sorted(reasons.items(), key=lambda row: (-row[1], row[0])):
            page += f"| {count} | {text} |\n"
    return page


def write_page(path: str, results: List[Result]) -> None:
    """Writes the page to a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(format_page(results))
