# SPDX-License-Identifier: Apache-2.0
"""Counts the cases of a finished `meson test` and names those that failed.

    count.py meson-logs/testlog.json        prints "PASSED FAILED SKIPPED"

A TAP program counts as its cases; any other as one. A program that ends badly
although all its cases passed is one more failure.
"""

import json
import pathlib
import re
import sys

CASE = re.compile(r"^(ok|not ok)\b\s*\d*\s*-?\s*(.*)$", re.M)
BAD = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT"}


def count(test):
    """(passed, names of failed cases, skipped) of one line of the log."""
    cases = CASE.findall(test["stdout"] or "")
    bad = test["result"] in BAD
    if not re.search(r"^1\.\.\d+", test["stdout"] or "", re.M):
        cases = [("not ok" if bad else "ok", test["name"])]
        if test["result"] == "SKIP":
            return 0, [], 1
    skipped = sum("# SKIP" in name for _, name in cases)
    failed = [name for verdict, name in cases if verdict == "not ok"]
    passed = len(cases) - skipped - len(failed)
    if bad and not failed:
        failed = [f"(the program: {test['result'].lower()}, "
                  f"exit {test['returncode']})"]
    return passed, failed, skipped


def explain(test, failed):
    """Names what failed, with all that the program said but its successes."""
    for name in failed:
        print(f"FAILED {test['name']}: {name}", file=sys.stderr)
    for line in test["stdout"].splitlines():
        if not line.startswith("ok "):
            print(f"  {line}", file=sys.stderr)
    print(test.get("stderr", ""), file=sys.stderr)


def main(log):
    """Sums a log: one JSON object a line, one line a test program."""
    totals = [0, 0, 0]
    for line in pathlib.Path(log).read_text().splitlines():
        test = json.loads(line)
        passed, failed, skipped = count(test)
        totals = [totals[0] + passed, totals[1] + len(failed),
                  totals[2] + skipped]
        for _, name in CASE.findall(test["stdout"] or ""):
            if "# SKIP" in name:
                print(f"SKIPPED {name.replace('# SKIP', 'because')}",
                      file=sys.stderr)
        if failed:
            explain(test, failed)
    print(*totals)


if __name__ == "__main__":
    main(sys.argv[1])
