# SPDX-License-Identifier: Apache-2.0
"""The help of a message, followed literally, mends the mistake.

    test_mend.py OPGEN

mend/ is a plugin with more than ten mistakes of as many kinds. Each message is
checked for its place; then the helps are applied word for word, until `opgen check`
reports nothing.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tap  # noqa: E402

OPGEN = str(pathlib.Path(sys.argv[1]).resolve())

# Code, line, column and marked text of every mistake, by hand.
MISTAKES = [
    ("E0011", 1, 1, "op"),
    ("E0019", 2, 10, "every element times a factor"),
    ("E0012", 4, 28, "defualt"),
    ("E0020", 5, 62, "exct"),
    ("E0020", 6, 35, "0"),
    ("E0023", 7, 19, "float64"),
    ("E0026", 10, 37, "dat"),
    ("E0025", 12, 49, "dta"),
    ("E0034", 14, 15, "tanhh"),
    ("E0031", 14, 21, "facto"),
    ("E0052", 16, 3, "formula"),
    ("E0063", 19, 26, "b"),
    ("E0063", 19, 63, "ot"),
]


def check(folder):
    result = subprocess.run([OPGEN, "check", "--error-format", "json", "."],
                            cwd=folder, capture_output=True, text=True,
                            check=False)
    found = json.loads(result.stdout + result.stderr)
    return [each for each in found if each["severity"] == "error"]


# How each form of help is followed. `line` is the line's text, `at` where the
# mark begins, `n` its length; the result is the line, or the lines, instead.

def replace(line, at, n, match):
    return line[:at] + match[1] + line[at + n:]


def capital(line, at, _n, _match):
    return line[:at] + line[at].upper() + line[at + 1:]


def add_key(line, _at, _n, match):
    """Before the line, with its indent."""
    indent = line[:len(line) - len(line.lstrip())]
    return f"{indent}{match[1]}\n{line}"


def add_stop(line, _at, _n, match):
    """The text in the braces, next to the marked key."""
    indent = line[:len(line) - len(line.lstrip())]
    return f"{indent}{match[1]}\n{line}"


HELPS = [
    (r"^did you mean `([^`]+)`\?$", replace),
    (r"^known here: ([^,]+)", replace),
    (r"^write `([^`]+)`, or change", replace),
    (r"^begin it with a capital$", capital),
    (r"or list it in `gradient: \{([^`]+)\}`", add_stop),
    (r"^add `([^`.]+)`:", add_key),
]


def follow(lines, message):
    """Applies the help of a message to the lines of its file."""
    assert message["help"], f"no help: {message['message']}"
    for help_ in message["help"]:
        for form, change in HELPS:
            match = re.search(form, help_)
            if match:
                row = message["line"] - 1
                lines[row] = change(lines[row], message["column"] - 1,
                                    message["length"], match)
                return
    raise AssertionError(f"nobody can follow {message['help']}")


def every_mistake_is_reported_where_it_is():
    found = []
    lines = (HERE / "mend/op.yaml").read_text().splitlines()
    for message in check(HERE / "mend"):
        at = message["column"] - 1
        found.append((message["code"], message["line"], message["column"],
                      lines[message["line"] - 1][at:at + message["length"]]))
    tap.equal(found, MISTAKES, "messages")
    assert len({(code, text) for code, _, _, text in found}) > 10


def helps_followed_literally_mend_them():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "mend"
        shutil.copytree(HERE / "mend", folder)
        path = folder / "op.yaml"
        for _ in range(5):
            messages = check(folder)
            if not messages:
                return
            lines = path.read_text().splitlines()
            # From the last to the first, so that places stay what they are.
            for message in reversed(messages):
                follow(lines, message)
            path.write_text("\n".join(lines) + "\n")
        raise AssertionError(f"still wrong:\n{path.read_text()}\n{messages}")


if __name__ == "__main__":
    tap.run([every_mistake_is_reported_where_it_is,
             helps_followed_literally_mend_them])
