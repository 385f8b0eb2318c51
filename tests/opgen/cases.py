# SPDX-License-Identifier: Apache-2.0
"""Tables of small cases: manifests with a mistake, and commands.

A table is a text file of entries. A base has files without a mistake; each case
after it has the same files, except for its changes.

    === base: WORDS  begins a base
    === NAME         begins a case
    $ ARGUMENTS      of opgen, instead of `check @`; `@` is the case's folder,
                     which a case without files does not have
    +++ FILE         a whole file: the lines up to the next mark
    --- FILE         the case does not have this file
    @@@ FILE         changes of a file, which is empty if the base does not
                     have it: `-LINE` removes the next line that is
                     equal, ` LINE` skips to after it, `+LINE` adds a line,
                     `*COUNT LINE` adds it COUNT times
    >>> stderr       the expected text, or stdout: the lines up to the next mark
    >>> status 2     the expected status, if it is neither 1 after an error with
                     a code nor 0 without one

A line of changes and a `$` may have a backslash before them: then they contain
escapes as in C. Text before the first entry describes the table.

    cases.py TABLES COMMAND...

runs a command. The variable CASES names a folder with a folder for each case,
which has its files, the expected messages as expected.stderr, and a file `args`
if it has arguments of its own.
"""
import codecs
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

MARK = re.compile(r"(===|\+\+\+|---|@@@|>>>) |(\\?\$)(?: |$)")
# The folder of a case, in arguments and in messages about its files.
SELF = re.compile(r"(?<![\w.])@(?=/|\Z)")
CHECK = "check @"
OUTPUTS = ("stdout", "stderr")


def usual_status(stderr):
    return 1 if "error[" in stderr else 0


def unescape(line):
    """The bytes of a line that may begin with a backslash."""
    if not line.startswith("\\"):
        return line.encode()
    return codecs.escape_decode(line[1:].encode())[0]


def change(name, before, lines):
    """The content of a file after changes."""
    old, new, at = before.splitlines(keepends=True), [], 0
    for line in map(unescape, lines):
        mark, text = line[:1], line[1:] + b"\n"
        if mark == b"+":
            new.append(text)
        elif mark == b"*":
            count, text = text.split(b" ", 1)
            new += [text] * int(count)
        elif mark in (b"-", b" "):
            if text not in old[at:]:
                raise ValueError(f"{name} has no further line {text}")
            found = old.index(text, at)
            new += old[at:found] + ([text] if mark == b" " else [])
            at = found + 1
        else:
            raise ValueError(f"{name}: a change begins with {mark}")
    return b"".join(new + old[at:])


class Case:
    """One entry. `input` has the lines that describe it, as they are."""

    def __init__(self, name, before):
        self.name = name
        self.is_base = name.startswith("base:")
        self.input = []
        self.command = CHECK
        self.files = {} if self.is_base else dict(before)
        self.stdout = self.stderr = ""
        self.status = None  # the usual one

    def add(self, mark, rest, lines):
        """Adds a part: a mark and the lines after it."""
        while lines and not lines[-1]:
            lines.pop()
        text = "".join(f"{line}\n" for line in lines)
        if mark == ">>>" and rest in OUTPUTS:
            setattr(self, rest, text)
            return
        if mark == ">>>":
            self.status = int(rest.removeprefix("status "))
            return
        self.input += [f"{mark} {rest}".rstrip(), *lines]
        if mark == "---":
            del self.files[rest]
        elif mark == "+++":
            self.files[rest] = text.encode()
        elif mark == "@@@":
            self.files[rest] = change(f"{self.name}: {rest}",
                                      self.files.get(rest, b""), lines)
        else:
            self.command = unescape(
                mark.replace("$", rest)).decode()

    def expected_status(self):
        return (usual_status(self.stderr) if self.status is None
                else self.status)

    def expect(self, stdout, stderr, status):
        """Sets the expected output."""
        self.stdout, self.stderr = stdout, stderr
        self.status = None if status == usual_status(stderr) else status

    def write(self, folder):
        """Writes its files below a folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def arguments(self, folder):
        return [SELF.sub(lambda _: str(folder), argument)
                for argument in shlex.split(self.command)]

    def lines(self):
        """The entry as lines of a table."""
        yield f"=== {self.name}"
        yield from self.input
        for output in OUTPUTS:
            if getattr(self, output):
                yield f">>> {output}"
                yield from getattr(self, output).split("\n")[:-1]
        if self.status is not None:
            yield f">>> status {self.status}"


class Table:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.cases = []
        self.head, parts = [], []
        for line in self.path.read_text().split("\n"):
            mark = MARK.match(line)
            if mark:
                parts.append((mark[1] or mark[2], line[mark.end():], []))
            elif parts:
                parts[-1][2].append(line)
            else:
                self.head.append(line)
        base = {}
        for mark, rest, lines in parts:
            if mark == "===":
                self.cases.append(Case(rest, base))
                continue
            self.cases[-1].add(mark, rest, lines)
            if self.cases[-1].is_base:
                base = self.cases[-1].files

    def text(self):
        """The table in its normal form."""
        entries = ["\n".join(case.lines()) for case in self.cases]
        return "\n\n".join(["\n".join(self.head).rstrip(), *entries]) + "\n"


def read_tables(folder):
    return [Table(path) for path in sorted(pathlib.Path(folder).glob("*.txt"))]


def write_folders(tables, to):
    """Writes a folder for each case, named as the case."""
    for table in read_tables(tables):
        for case in table.cases:
            if case.is_base:
                continue
            folder = pathlib.Path(to) / case.name
            folder.mkdir()
            case.write(folder)
            (folder / "expected.stderr").write_text(
                SELF.sub(lambda _, path=folder: str(path), case.stderr))
            if case.command != CHECK:
                (folder / "args").write_text(case.command + "\n")


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_folders(sys.argv[1], folder)
        return subprocess.run(sys.argv[2:], check=False, env={
            **os.environ, "CASES": folder}).returncode


if __name__ == "__main__":
    sys.exit(main())
