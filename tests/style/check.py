#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the sources against the house style and prints TAP.

    check.py [ROOT]

Checked: the licence line on top of every file, no tabs, lines of 80 columns,
functions of at most 80 lines, no unfinished-work markers, and the distribution
that CONTRIBUTING asks for (median under 12 lines, nine in ten under 40).
words.py measures the lengths of files.
"""
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTION = re.compile(r"^[A-Za-z_][^;{}#=]*\)\s*(?:TN_\w+(?:\([^)]*\))?\s*)*\{$")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def sources(root):
    """Every C source of the checkout, tracked or new, that is not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others",
               "--exclude-standard", "--", "*.c", "*.h", "*.cu"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True)
    names = [n for n in listed.stdout.decode().split("\0") if n]
    return [n for n in names if "/out/" not in n and (root / n).is_file()]


def functions(lines):
    """(name, length) of every function whose head ends in `{` in column one's
    indentation, as clang-format leaves it."""
    found, start, head = [], None, ""
    for number, line in enumerate(lines):
        if start is None:
            if line and not line[0].isspace() and line[0] not in "#/*}":
                head = line
                first = number
            elif line.startswith("    ") and head and not head.endswith((";", "{")):
                head += " " + line.strip()
            else:
                head = ""
            if head and FUNCTION.match(head) and not head.startswith(
                    ("struct", "enum", "typedef", "union")):
                start, name = first, head.split("(")[0].split()[-1]
        elif line == "}":
            found.append((name, number - start + 1))
            start, head = None, ""
    return found


def faults_of(lines, lengths):
    if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
        yield "the first line does not state the licence"
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield f"line {number}: a tab"
        if len(line) > 80 and '"' not in line and "http" not in line:
            yield f"line {number}: {len(line)} columns"
        if UNFINISHED.search(line):
            yield f"line {number}: unfinished: {line.strip()}"
    for function, length in lengths:
        if length > 80:
            yield f"{function}: {length} lines, more than 80"


def main(root):
    names, all_lengths, results = sources(root), [], []
    for name in names:
        lines = (root / name).read_text(encoding="utf-8").splitlines()
        lengths = functions(lines)
        if not name.startswith("tests/"):
            all_lengths += [length for _, length in lengths]
        results.append((name, list(faults_of(lines, lengths))))
    ordered = sorted(all_lengths)
    median = statistics.median(ordered)
    ninth = ordered[len(ordered) * 9 // 10]
    shape = [] if median <= 12 and ninth <= 40 else [
        f"median {median} lines, nine in ten {ninth}"]
    results.append((f"function lengths ({len(ordered)} functions, median "
                    f"{median}, nine in ten under {ninth})", shape))
    print(f"1..{len(results)}")
    for number, (name, faults) in enumerate(results, 1):
        print(f"{'not ok' if faults else 'ok'} {number} - style: {name}")
        for fault in faults:
            print(f"# {name}: {fault}")
    return 1 if any(faults for _, faults in results) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
