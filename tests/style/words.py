#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how plainly a tree is written, and prints TAP.

    words.py [--goals [ROOT [COMMIT]]]

Per top-level folder, in comments and pages, per 1000 words: "what", "who" and
"whose" (RELATIVE), and words of place used for order or membership (SPATIAL).
For the whole tree: function names of one word, type names that are defined
twice in one library, file names that occur twice in core/, long files, private
words that docs/glossary.md does not explain, READMEs without a link to the
glossary, and long commit subjects.

A limit in ALLOWED is higher than its goal: the folder is not rewritten yet. A
limit may only fall. With --goals there are none. Subjects of commits after
COMMIT are measured.
"""
import collections
import pathlib
import re
import subprocess
import sys

RELATIVE = re.compile(r"\b(?:what(?:ever)?|who(?:ever|m)?|whose)\b", re.I)
SPATIAL = re.compile(
    r"\b(?:stands?|stood|standing|lies?|lay|lying|behind|in front of)\b", re.I)
GOALS = {"relative": 1.5, "spatial": 0.3}
ALLOWED = {}
ONE_WORD_PERCENT = 2.0
LINES, TEST_LINES = 600, 800
# Words of this project's past; each has a standard term in the glossary.
PRIVATE = re.compile(
    r"\b(?:clerks?|seats?|tenanc(?:y|ies)|doubts?|bells?|shelf|shelves|"
    r"played|threes|guests?)\b", re.I)
SUBJECT = 72
FIRST_COMMIT = "238c12b4"  # subjects after this one are measured

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
FUNCTION = re.compile(r"^(?:[A-Za-z_][\w \*]*?[ \*])([a-z_]\w*)\([^;{]*\)\s*"
                      r"(?:TN_\w+(?:\([^)]*\))?\s*)*\{", re.M)
TYPE = re.compile(r"^typedef (?:struct|enum|union)\b[^;{]*(?:\{.*?^\})?\s*"
                  r"(\w+);", re.M | re.S)
C_FILES = {".c", ".h", ".cu", ".cuh", ".cpp"}
LIBRARIES = {"core": "libtenon", "sdk": "libtenon", "tools": "opgen"}


def files_of(root):
    """Tracked files and new ones, without those of golden output."""
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached",
                           "--others", "--exclude-standard"],
                          capture_output=True, check=False)
    if done.returncode != 0:
        return []
    names = (name for name in done.stdout.decode().split("\0") if name)
    return [pathlib.PurePosixPath(name) for name in names
            if "golden" not in name and (root / name).is_file()]


def prose(path, body):
    """Comments of sources, text of pages without code; "" for other files."""
    if path.suffix in C_FILES:
        return "\n".join(COMMENT.findall(body))
    if path.suffix == ".py":
        return "\n".join(re.findall(r"#[^\n]*", body) +
                         re.findall(r'"""(.*?)"""', body, re.S))
    if path.suffix == ".md":
        body = re.sub(r"```.*?```", "", body, flags=re.S)
        return re.sub(r"`[^`]*`", "x", body)
    return ""


def folder_of(path):
    return path.parts[0] if len(path.parts) > 1 else "."


class Tree:
    def __init__(self, root, first_commit):
        self.root = root
        self.first_commit = first_commit
        self.bodies = {}
        for path in files_of(root):
            if path.suffix in C_FILES | {".py", ".md"}:
                self.bodies[path] = (root / path).read_text(errors="replace")

    def rates(self):
        """Folder -> {rate: per 1000 words}."""
        texts = collections.defaultdict(list)
        for path, body in self.bodies.items():
            if path.parts[:2] != ("tests", "style"):  # these name the words
                texts[folder_of(path)].append(prose(path, body))
        found = {}
        for folder, parts in texts.items():
            text = "\n".join(parts)
            words = max(len(re.findall(r"[A-Za-z']+", text)), 1)
            found[folder] = {
                name: 1000 * len(pattern.findall(text)) / words
                for name, pattern in (("relative", RELATIVE),
                                      ("spatial", SPATIAL))}
        return found

    def sources(self, *folders):
        return ((path, body) for path, body in self.bodies.items()
                if path.suffix in C_FILES and path.parts[0] in folders)

    def one_word_functions(self):
        """(names of one word, number of functions)."""
        names, n = [], 0
        for _, body in self.sources("core", "sdk", "plugins", "tools"):
            for name in FUNCTION.findall(COMMENT.sub("", body)):
                if name == "main":
                    continue
                n += 1
                if "_" not in name.strip("_"):
                    names.append(name)
        return names, n

    def types_defined_twice(self):
        where = collections.defaultdict(set)
        for path, body in self.sources("core", "sdk", "tools"):
            library = LIBRARIES[path.parts[0]]
            if path.parts[:2] in (("tools", "tenon"), ("tools", "probe")):
                continue
            for name in TYPE.findall(COMMENT.sub("", body)):
                if name.startswith(("tn", "tnm", "opgen")):
                    where[library, name].add(str(path))
        return [f"{name}: {', '.join(sorted(paths))}"
                for (_, name), paths in sorted(where.items()) if len(paths) > 1]

    def file_names_twice(self):
        where = collections.defaultdict(list)
        for path in self.bodies:
            if path.parts[0] == "core" and path.suffix in C_FILES:
                where[path.name].append(str(path))
        return [", ".join(paths) for _, paths in sorted(where.items())
                if len(paths) > 1]

    def long_files(self):
        for path, body in self.bodies.items():
            limit = TEST_LINES if path.parts[0] == "tests" else LINES
            lines = body.count("\n")
            if path.suffix in C_FILES and lines > limit:
                yield f"{path}: {lines} lines, at most {limit}"

    def private_words(self):
        for path, body in self.bodies.items():
            if path.parts[:2] == ("tests", "style"):
                continue
            found = set(PRIVATE.findall(prose(path, body)))
            if found:
                yield f"{path}: {', '.join(sorted(found))}"

    def pages_without_glossary(self):
        for path, body in self.bodies.items():
            # Examples are installed in another place than the glossary.
            if (path.name == "README.md" and path.parts[0] != "examples"
                    and "glossary.md" not in body):
                yield str(path)

    def long_subjects(self):
        done = subprocess.run(
            ["git", "-C", str(self.root), "log", "--no-merges", "--format=%s",
             f"{self.first_commit}..HEAD"], capture_output=True, text=True,
            check=False)
        return [line for line in done.stdout.splitlines() if len(line) > SUBJECT]


def over_limit(folder, name, rate):
    limit = ALLOWED.get((folder, name), GOALS[name])
    if rate > limit:
        yield f"{rate:.2f} per 1000 words, at most {limit}"


def checks(tree):
    """(title, faults) of every rule."""
    for folder, rates in sorted(tree.rates().items()):
        for name, rate in rates.items():
            yield (f"{name} words in {folder}",
                   list(over_limit(folder, name, rate)))
    names, n = tree.one_word_functions()
    limit = ALLOWED.get("one word", ONE_WORD_PERCENT)
    percent = 100 * len(names) / max(n, 1)
    yield ("function names of two words", [] if percent <= limit else [
        f"{percent:.1f} % of {n} have one word, at most {limit}: "
        f"{collections.Counter(names).most_common(20)}"])
    for title, found in (
            ("type names are unique", tree.types_defined_twice()),
            ("file names of core are unique", tree.file_names_twice()),
            ("files are short", tree.long_files()),
            ("no private words", tree.private_words()),
            ("READMEs link to the glossary", tree.pages_without_glossary()),
            ("commit subjects are short", tree.long_subjects())):
        found = list(found)
        limit = ALLOWED.get(title, 0)
        yield (title, found if len(found) > limit else [])


def main(arguments):
    if arguments[:1] == ["--goals"]:
        ALLOWED.clear()
        arguments = arguments[1:]
    root = pathlib.Path(arguments[0] if arguments else
                        pathlib.Path(__file__).parents[2]).resolve()
    tree = Tree(root, arguments[1] if len(arguments) > 1 else FIRST_COMMIT)
    if not tree.bodies:
        print("1..0 # SKIP this is no git checkout, which names the sources")
        return 0
    results = list(checks(tree))
    print(f"1..{len(results)}")
    for number, (title, faults) in enumerate(results, 1):
        print(f"{'not ok' if faults else 'ok'} {number} - words: {title}")
        for fault in faults:
            print(f"# {fault}")
    return 1 if any(faults for _, faults in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
