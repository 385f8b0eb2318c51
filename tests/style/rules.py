#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks rules of CONTRIBUTING that a text shows, and prints TAP.

    rules.py [ROOT]

Each rule is a function of the tree that yields its violations. check.py has
the lengths and the licence, words.py the language, and tests/product those
that need built files. test_rules.py plants a violation of each.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from words import C_FILES, COMMENT, Tree  # noqa: E402

PARAMETERS = 5
# Violations that are known, by the title of the rule. A number may only fall.
ALLOWED = {"functions have at most five parameters": 31}
# A type that begins in column one, a name, parameters without parentheses of
# their own or with those of function pointers, and the end of the head.
HEAD = re.compile(
    r"^(?!typedef|return|else|#)((?:[A-Za-z_]\w*[ *]+)+\*?)(\w+)"
    r"\(((?:[^(){};]|\((?:[^(){};]|\([^(){};]*\))*\))*)\)"
    r"\s*((?:TN_\w+(?:\([^)]*\))?\s*)*)([;{])", re.M)
TAG = re.compile(r"\[(?:any|host-thread|job|worker|load)\]\s*(?:\* ?)?\*/$")
STOPS = re.compile(r"(?<![\w.>])(?:abort|exit|_exit|_Exit|quick_exit)\s*\(")
SLEEPS = re.compile(r"\b(?:sleep|usleep|nanosleep|clock_nanosleep)\s*\(")
ASSERTS = re.compile(r"\b(?:assert|cr_assert\w*|cr_expect\w*)\s*\(")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# Children that forked, and programs of tests: they end themselves.
CHILDREN = re.compile(r"core/base/(?:child|contain)\.c|sdk/include/tenon/.*test")
# Macros that define functions, which may return.
DEFINES = re.compile(r"\bstatic\b|\b(?:TN_KERNEL|TN_MATH)_\w+ |__device__")
MACRO = re.compile(r"^#define (\w+)(?:\([^)]*\))?((?:[^\n]*\\\n)*[^\n]*)", re.M)
ENTRY = re.compile(r"^- (?!(?:abi|core|opgen|plugins|tools|bug): )(.{0,40})",
                   re.M)


def code_of(body):
    """A C source without comments; lines keep their numbers."""
    return COMMENT.sub(lambda each: "\n" * each[0].count("\n"), body)


def heads_of(body):
    """(type, name, parameters, attributes, end, line) of each function."""
    code = code_of(body)
    for each in HEAD.finditer(code):
        yield (*each.groups(), code[:each.start()].count("\n") + 1)


def split_parameters(text):
    """Parameters at the first level of parentheses."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [] if text.strip() in ("", "void") else parts


def many_parameters(tree):
    for path, body in tree.sources("core", "sdk", "plugins", "tools"):
        for _, name, parameters, _, end, line in heads_of(body):
            n = len(split_parameters(parameters))
            if n > PARAMETERS and end == "{":
                yield f"{path}:{line}: {name} has {n}, at most {PARAMETERS}"


def ignorable_codes(tree):
    for path, body in tree.sources("sdk"):
        if path.suffix != ".h" or path.parts[1] != "include":
            continue
        for kind, name, _, attributes, end, line in heads_of(body):
            if (kind.split() in (["tn_code"], ["TN_API", "tn_code"])
                    and end == ";" and "TN_MUST_USE" not in attributes
                    and not name.endswith("_fail")):  # which return theirs
                yield f"{path}:{line}: {name}"


def calls_that_end_the_process(tree):
    for path, body in tree.sources("core", "sdk", "plugins"):
        if CHILDREN.search(str(path)):
            continue
        code = STRING.sub('""', code_of(body))
        for number, line in enumerate(code.splitlines(), 1):
            if STOPS.search(line):
                yield f"{path}:{number}: {line.strip()}"


def prefixed_static_functions(tree):
    for path, body in tree.sources("core", "tools"):
        for kind, name, _, _, _, line in heads_of(body):
            if (path.suffix == ".c" and "static" in kind.split()
                    and name.startswith(("tn_", "tnm_"))):
                yield f"{path}:{line}: {name}"


def macros_that_hide_control_flow(tree):
    for path, body in tree.sources("core", "sdk", "tools"):
        for name, text in MACRO.findall(code_of(body)):
            if (re.search(r"\b(?:return|goto)\b", text)
                    and not DEFINES.search(text) and name != "TN__TRY"):
                yield f"{path}: {name}"


def untagged_public_functions(tree):
    for path, body in tree.sources("sdk"):
        if path.suffix != ".h":
            continue
        # A comment is that of the functions that follow without a blank line.
        for comment, group in re.findall(
                r"((?:/\*(?:(?!\*/).)*\*/\n)?)(?:struct \w+;\n)*"
                r"((?:TN_API\b[^;]*;\n)+)", body, re.S):
            for name in re.findall(r"^TN_API\b[^;]*?\b(\w+)\(", group, re.M):
                if not TAG.search(comment.rstrip()):
                    yield f"{path}: {name}"


def sleeping_tests(tree):
    """A thread that simulates a slow device may sleep for its `latency`."""
    for path, body in tree.bodies.items():
        if path.parts[0] != "tests" or path.parts[:2] == ("tests", "style"):
            continue
        if path.name.startswith("fake"):  # simulated devices take time
            continue
        code = code_of(body) if path.suffix in C_FILES else body
        for number, line in enumerate(code.splitlines(), 1):
            if SLEEPS.search(line) and "latency" not in line:
                yield f"{path}:{number}: {line.strip()}"


def short_test_names(tree):
    for path, body in tree.sources("tests"):
        for suite, name in re.findall(r"^(?:Parameterized)?Test\((\w+),\s*(\w+)",
                                      body, re.M):
            if (suite + "_" + name).count("_") < 2:
                yield f"{path}: {suite}, {name}"


def asserting_benches(tree):
    for path, body in tree.sources("bench"):
        for number, line in enumerate(code_of(body).splitlines(), 1):
            if ASSERTS.search(line):
                yield f"{path}:{number}: {line.strip()}"


def folders_without_readme(tree):
    names = set(tree.bodies)
    for path in sorted({path.parent for path in names
                        if path.suffix in C_FILES}):
        parts = path.parts
        depth = 1 if parts[0] in ("tests", "bench", "examples") else 2
        folder = pathlib.PurePosixPath(*parts[:depth])
        if parts[:2] != ("sdk", "include") and folder / "README.md" not in names:
            yield str(folder)


def tracked_generated_files(tree):
    for path in tree.bodies:
        if ".gen." in path.name and path.parts[0] != "tests":
            yield str(path)


def changes_without_audience(tree):
    for path, body in tree.bodies.items():
        if str(path) == "CHANGELOG.md":
            for text in ENTRY.findall(body):
                yield f"{path}: - {text}"


RULES = (
    ("functions have at most five parameters", many_parameters),
    ("codes must be used", ignorable_codes),
    ("nothing ends the process", calls_that_end_the_process),
    ("static functions have no prefix", prefixed_static_functions),
    ("macros hide no control flow", macros_that_hide_control_flow),
    ("public functions have a thread tag", untagged_public_functions),
    ("tests do not sleep", sleeping_tests),
    ("names of tests are sentences", short_test_names),
    ("benchmarks assert nothing", asserting_benches),
    ("folders have a README", folders_without_readme),
    ("generated code is not in the tree", tracked_generated_files),
    ("lines of the changelog name an audience", changes_without_audience),
)


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else
                        pathlib.Path(__file__).parents[2]).resolve()
    tree = Tree(root, "HEAD")
    if not tree.bodies:
        print("1..0 # SKIP this is no git checkout, which names the sources")
        return 0
    results = [(title, faults if len(faults) > ALLOWED.get(title, 0) else [])
               for title, faults in ((title, list(rule(tree)))
                                     for title, rule in RULES)]
    print(f"1..{len(results)}")
    for number, (title, faults) in enumerate(results, 1):
        print(f"{'not ok' if faults else 'ok'} {number} - rules: {title}")
        for fault in faults:
            print(f"# {fault}")
    return 1 if any(faults for _, faults in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
