# SPDX-License-Identifier: Apache-2.0
"""What the pages say is true: code is a file's, output is a command's.

    test_docs.py SOURCE_ROOT BUILD_ROOT

A comment above a fence says what it is. `<!-- file: PATH -->`: the text stands
in that file, word for word. `<!-- run -->`: a session; each `$ command` is run
by a shell beside a built copy of examples/author, and must print what follows.
"""

import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from installed import Installed  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
TENON = Installed(BUILD, FOLDER)
PROJECT = FOLDER / "author"

PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
FENCE = re.compile(r"^<!-- (file: (\S+)|run) -->\n```\w*\n(.*?)^```$",
                   re.S | re.M)
SESSION = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
PLACE = re.compile(r"`((?:core|sdk|plugins|tools|tests|bench|docs|examples)/"
                   r"[\w/.-]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def is_of_file(name, text):
    assert text in (SOURCE / name).read_text(), (
        f"{name} does not hold these lines:\n{text}")


def is_printed(text):
    for command, expected in SESSION.findall(text):
        tap.equal(TENON.run("bash", "-c", command, cwd=PROJECT), expected,
                  command)


def fences():
    """One case per marked fence of every page."""
    cases = []
    for page in PAGES:
        for kind, name, text in FENCE.findall(page.read_text()):
            title = f"{page.name}: {kind} {text.splitlines()[0]}"
            cases.append((title.replace("#", ""),
                          (lambda n=name, t=text: is_of_file(n, t)) if name
                          else (lambda t=text: is_printed(t))))
    return cases


def links_lead_somewhere():
    for page in PAGES:
        for target in LINK.findall(page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def files_that_pages_name_exist():
    for page in PAGES:
        for place in PLACE.findall(page.read_text()):
            assert (SOURCE / place).exists(), f"{page.name}: {place}"


def the_example_plugin_builds():
    TENON.build_plugin(SOURCE / "examples" / "author", PROJECT)


def every_folder_says_what_it_is():
    for folder in ("core", "sdk", "plugins", "tools"):
        for path in [SOURCE / folder, *(SOURCE / folder).iterdir()]:
            if path.is_dir():
                assert (path / "README.md").exists(), f"{path} has no README"


if __name__ == "__main__":
    with SCRATCH:
        tap.run([the_example_plugin_builds, *fences(), links_lead_somewhere,
                 files_that_pages_name_exist, every_folder_says_what_it_is])
