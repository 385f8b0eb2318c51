# SPDX-License-Identifier: Apache-2.0
"""Counts the cases of a finished `meson test` or pytest and names those that failed.

    count.py NAME LOG RECORD            prints "PASSED FAILED SKIPPED"
    count.py RECORD                     prints the skipped and the failed cases

LOG is meson-logs/testlog.json, or the file of `pytest --junitxml`. The first form explains each failure at once, on stderr, and appends to RECORD
each failed case, and each skipped one with its reason. The second is for the
end of all suites: each reason once, then the failures again, so that they are
the last lines. A TAP program counts as its cases; any other as one. A program
that ends badly although all its cases passed is one more failure.
"""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree

CASE = re.compile(r"^(ok|not ok)\b\s*\d*\s*-?\s*(.*)$", re.M)
NO_CASES = re.compile(r"^1\.\.0\s+# SKIP\s*(.*)$", re.M)
BAD = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT"}
# The end of a failed program's output tells most; testlog.txt has the rest.
LINES = 60
# Failed cases of a program that are named. More hide other programs.
CASES = 10


def count(test):
    """(passed, names of failed cases, reasons of skips) of a line of the log."""
    output = test["stdout"] or ""
    cases = CASE.findall(output)
    bad = test["result"] in BAD
    whole = NO_CASES.search(output)
    if whole and not bad:
        return 0, [], [whole[1]]
    if not re.search(r"^1\.\.\d+", output, re.M):
        cases = [("not ok" if bad else "ok", "the program")]
        if test["result"] == "SKIP":
            return 0, [], [(output.strip().splitlines() or ["no reason"])[-1]]
    skipped = [name.split("# SKIP", 1)[1].strip()
               for _, name in cases if "# SKIP" in name]
    failed = [name for verdict, name in cases if verdict == "not ok"]
    passed = len(cases) - len(skipped) - len(failed)
    if bad and not failed:
        failed = [f"(the program: {test['result'].lower()}, "
                  f"exit {test['returncode']})"]
    return passed, failed, skipped


def explain(test, failed):
    """Prints the failed cases, and the program's output without successes."""
    for name in failed[:CASES]:
        print(f"FAILED {test['name']}: {name}", file=sys.stderr)
    lines = [line for line in (test["stdout"] or "").splitlines()
             if not line.startswith("ok ")]
    lines += (test.get("stderr") or "").splitlines()
    if len(lines) > LINES:
        print(f"  ({len(lines) - LINES} lines before these)", file=sys.stderr)
    for line in lines[-LINES:]:
        print(f"  {line}", file=sys.stderr)


def read_meson(log):
    """The tests of a log of meson: a line of JSON for each program."""
    return [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]


def describe_case(case):
    """Lines of TAP for a case of pytest, which has at most one child that tells."""
    name = case.get("name")
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            text = found.text or found.get("message") or ""
            return [f"not ok - {name}", *(f"# {line}" for line in text.splitlines())]
    if (found := case.find("skipped")) is not None:
        reason = (found.get("message") or found.get("type") or "no reason").splitlines()
        return [f"ok - {name} # SKIP {reason[0]}"]
    return [f"ok - {name}"]


def read_pytest(log):
    """The tests of a file of pytest in the form of meson's: one for each file of cases."""
    files = {}
    for case in xml.etree.ElementTree.parse(log).iter("testcase"):
        file = (case.get("classname") or case.get("name")).split(".Test")[0]
        files.setdefault(file.split(".")[-1], []).append(describe_case(case))
    for name, cases in files.items():
        lines = [line for case in cases for line in case]
        failed = any(case[0].startswith("not ok") for case in cases)
        yield {"name": name, "stdout": "\n".join([f"1..{len(cases)}", *lines]),
               "result": "FAIL" if failed else "OK", "returncode": int(failed)}


def record_log(name, log, record):
    """Sums a log of meson or of pytest."""
    totals = [0, 0, 0]
    with open(record, "a", encoding="utf-8") as out:
        for test in read_pytest(log) if log.endswith(".xml") else read_meson(log):
            passed, failed, skipped = count(test)
            totals = [totals[0] + passed, totals[1] + len(failed),
                      totals[2] + len(skipped)]
            if failed:
                explain(test, failed)
            program = f"{name}: {test['name'].split(' / ')[-1]}"
            out.write(json.dumps({"program": program, "failed": failed,
                                  "skipped": skipped}) + "\n")
    print(*totals)


def list_skips(programs):
    """A line for each reason, with the number of cases and of programs."""
    reasons = {}
    for each in programs:
        for reason in each["skipped"]:
            reasons.setdefault(reason, []).append(each["program"])
    for reason, skipping in reasons.items():
        names = sorted(set(skipping))
        more = f" and {len(names) - 1} more" if names[1:] else ""
        cases = f"{len(skipping)} case{'s' if skipping[1:] else ''}"
        yield f"SKIPPED {cases}: {reason} ({names[0]}{more})"


def list_failures(programs):
    """A line for each failed case, of one program at most ten."""
    for each in programs:
        for name in each["failed"][:CASES]:
            yield f"FAILED {each['program']}: {name}"
        if len(each["failed"]) > CASES:
            yield (f"FAILED {each['program']}: and "
                   f"{len(each['failed']) - CASES} more cases")


def main(arguments):
    if len(arguments) == 3:
        record_log(*arguments)
        return
    programs = [json.loads(line) for line
                in pathlib.Path(arguments[0]).read_text().splitlines()]
    for line in [*list_skips(programs), *list_failures(programs)]:
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
