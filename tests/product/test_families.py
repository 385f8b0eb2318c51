# SPDX-License-Identifier: Apache-2.0
"""Every operator for users has a family: `tenon list operators` and the manual
group operators by it.

    test_families.py SOURCE_ROOT
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

PLUGINS = pathlib.Path(sys.argv[1]) / "plugins"


def operators_without_family(text):
    """The operators of a manifest that users call, and that have no family."""
    names = []
    for document in re.split(r"(?m)^---$", text):
        name = re.search(r"(?m)^op: *(\w+)", document)
        if name and not re.search(r"(?m)^(family:|backward_only: *true)",
                                  document):
            names.append(name[1])
    return names


def every_operator_has_a_family():
    missing = [f"{path.relative_to(PLUGINS.parent)}: {name}"
               for path in sorted(PLUGINS.glob("*/*.yaml"))
               for name in operators_without_family(path.read_text())]
    assert not missing, ("add the key `family` after `op` to these operators; "
                         "`tenon list operators` prints the present families:\n"
                         + "\n".join(missing))


def an_operator_without_family_is_found():
    text = ("opgen: 1\nop: one\nfamily: sums\nsince: 2\n---\n"
            "opgen: 1\nop: two\nsince: 2\n---\n"
            "opgen: 1\nop: three\nbackward_only: true\n---\n"
            "opgen: 1\nfamily: sums\neach:\n  - op: four\n---\n"
            "opgen: 1\nkernels_for: nn.five@1\n---\n"
            "opgen: 1\nop: six                     # a comment\n")
    tap.equal(operators_without_family(text), ["two", "six"])


if __name__ == "__main__":
    tap.run([every_operator_has_a_family, an_operator_without_family_is_found])
