#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A planted violation of each rule of words.py makes it fail."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SCRIPT = pathlib.Path(__file__).with_name("words.py")
HEAD = "/* SPDX-License-Identifier: Apache-2.0\n * part.c: a part. */\n"
CLEAN = {
    "README.md": "# Part\n\nTerms: [glossary](docs/glossary.md).\n",
    "core/base/part.c": HEAD + "int add_one(int value) {\n  return value;\n}\n",
    "sdk/part.c": HEAD + "int add_two(int value) {\n  return value;\n}\n",
}


def commit(folder, subject):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c",
                    "user.email=a@b.example", "commit", "-q", "--allow-empty",
                    "-m", subject], check=True)


def measure(changes, subject=None):
    """The failing titles of a tree of CLEAN with these files changed, and with
    a commit of this subject."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["git", "init", "-q", scratch], check=True)
        for name, text in {**CLEAN, **changes}.items():
            path = pathlib.Path(scratch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        commit(scratch, "first")
        if subject:
            commit(scratch, subject)
        done = subprocess.run(
            [sys.executable, SCRIPT, "--goals", scratch, "HEAD~1" if subject
             else "HEAD"], capture_output=True, text=True, check=False)
        failed = [line.split(" - words: ")[1]
                  for line in done.stdout.splitlines()
                  if line.startswith("not ok")]
        tap.equal(done.returncode, 1 if failed else 0, done.stdout)
        assert done.stdout.startswith("1.."), done.stdout + done.stderr
        return failed


def fails(title, changes):
    return (f"finds: {title}", lambda: tap.equal(measure(changes), [title]))


def a_clean_tree_passes():
    tap.equal(measure({}), [])


TYPE = HEAD + "typedef struct tn__part {\n  int value;\n} tn__part;\n"
ONE_WORD = HEAD + "int run(int value) {\n  return value;\n}\n"

tap.run([
    a_clean_tree_passes,
    fails("relative words in core",
          {"core/base/part.h": HEAD + "/* What is left is for who asks. */\n"}),
    fails("spatial words in sdk",
          {"sdk/part.h": HEAD + "/* It lies behind the others. */\n"}),
    fails("relative words in docs", {"docs/page.md": "# Page\n\nWho reads?\n"}),
    fails("function names of two words", {"sdk/run.c": ONE_WORD}),
    fails("type names are unique",
          {"core/base/one.h": TYPE, "core/engine/two.h": TYPE}),
    fails("file names of core are unique",
          {"core/engine/part.c": HEAD + "int add_six(void) {\n  return 6;\n}\n"}),
    fails("files are short",
          {"core/base/long.c": HEAD + "extern int part;\n" * 600}),
    fails("no private words",
          {"core/base/word.h": HEAD + "/* Wakes the clerk. */\n"}),
    ("finds: commit subjects are short", lambda: tap.equal(
        measure({}, "part: " + "x" * 67), ["commit subjects are short"])),
    fails("READMEs link to the glossary", {"core/README.md": "# core\n"}),
])
