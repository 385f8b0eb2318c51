#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A planted violation of each rule of rules.py makes it fail."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import rules  # noqa: E402
import tap  # noqa: E402
from words import Tree  # noqa: E402

HEADER = "sdk/include/tenon/part.h"
CLEAN = {
    "CHANGELOG.md": "# Changelog\n\n- core: parts\n",
    "core/base/README.md": "# base\n",
    "core/base/part.c": (
        "static int add_five(int a, int b, int c, int d, int (*e)(int, int)) {\n"
        "  return e(a, b) + c + d; /* exit(1) is not called */\n}\n"),
    HEADER: ("#define TN_PART(x) ((x) + 1)\n"
             "/* Adds a part. [any] */\n"
             "TN_API TN_MUST_USE tn_code tn_part_add(int a);\n\n"
             "/* Frees a part, and all. [host-thread]\n */\n"
             "TN_API void tn_part_free(int a);\n"
             "TN_API void tn_part_clear(void);\n"),
    "tests/README.md": "# tests\n",
    "tests/base/test_part.c": (
        "Test(part, adds_two_numbers) {\n  nanosleep(&latency, NULL);\n}\n"
        "Test(parts, are_added) {\n}\n"),
    "tests/storage/fake.c": "void wait_late(void) { nanosleep(&late, NULL); }\n",
    "bench/README.md": "# bench\n",
    "bench/part.c": "int main(void) { return 0; }\n",
}


def measure(changes):
    """The titles of the rules that a tree of CLEAN with these files breaks."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["git", "init", "-q", scratch], check=True)
        root = pathlib.Path(scratch)
        for name, text in {**CLEAN, **changes}.items():
            if text is None:
                continue
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        tree = Tree(root, "HEAD")
        return [title for title, rule in rules.RULES if list(rule(tree))]


def fails(title, changes):
    return (f"finds: {title}, in {next(iter(changes))}",
            lambda: tap.equal(measure(changes), [title]))


def a_clean_tree_passes():
    tap.equal(measure({}), [])


def each_rule_has_a_planted_violation():
    planted = {name.split("finds: ")[1].split(", in ")[0]
               for name, _ in PLANTED}
    tap.equal(sorted(title for title, _ in rules.RULES
                     if title not in planted), [])


PLANTED = [
    fails("functions have at most five parameters", {
        "core/base/six.c": "int add_six(int a, int b, int c,\n"
                           "            int d, int e, int f) {\n"
                           "  return a + b + c + d + e + f;\n}\n"}),
    fails("codes must be used", {
        HEADER: "/* Adds a part. [any] */\nTN_API tn_code tn_part_add(int a);\n"}),
    fails("nothing ends the process", {
        "core/base/stop.c": "void stop_all(void) {\n  abort();\n}\n"}),
    fails("nothing ends the process", {
        "plugins/nn/stop.c": "void stop_all(void) {\n  exit(1);\n}\n",
        "plugins/nn/README.md": "# nn\n"}),
    fails("static functions have no prefix", {
        "core/base/prefix.c": "static int tn__part_of(int a) {\n"
                              "  return a;\n}\n"}),
    fails("macros hide no control flow", {
        "core/base/leave.h": "#define LEAVE(x) \\\n  if (x) return 1\n"}),
    fails("public functions have a thread tag", {
        HEADER: "/* Adds a part. */\nTN_API void tn_part_add(int a);\n"}),
    fails("public functions have a thread tag", {
        HEADER: "/* A part. [any] */\nint part;\n\n"
                "TN_API void tn_part_add(int a);\n"}),
    fails("tests do not sleep", {
        "tests/base/test_late.c": "void wait(void) {\n  usleep(100);\n}\n"}),
    fails("tests do not sleep", {
        "tests/base/test_late.py": "import time\n\ntime.sleep(1)\n"}),
    fails("names of tests are sentences", {
        "tests/base/test_name.c": "Test(part, add) {\n}\n"}),
    fails("benchmarks assert nothing", {
        "bench/fast.c": "int main(void) {\n  assert(1);\n}\n"}),
    fails("folders have a README", {
        "core/part/part.h": "int part;\n"}),
    fails("generated code is not in the tree", {
        "plugins/nn/part.gen.c": "int part;\n",
        "plugins/nn/README.md": "# nn\n"}),
    fails("lines of the changelog name an audience", {
        "CHANGELOG.md": "# Changelog\n\n- parts are faster\n"}),
]

tap.run([a_clean_tree_passes, *PLANTED, each_rule_has_a_planted_violation])
