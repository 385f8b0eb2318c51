# SPDX-License-Identifier: Apache-2.0
"""The counts, and the last lines, of logs that are written here."""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tap  # noqa: E402

PASSES = "TAP version 13\n1..2\nok 1 - adds\nok 2 - multiplies\n"
FAILS = "1..2\nok 1 - adds\nnot ok 2 - divides\n# 1/0 was 0\n"
SKIPS = "1..3\nok 1 - a # SKIP no GPU\nok 2 - b # SKIP no GPU\nok 3 - c\n"


def program(name, stdout, result="OK", code=0, stderr=""):
    """A line of meson's log."""
    return {"name": f"tenon:lab / {name}", "stdout": stdout, "result": result,
            "returncode": code, "stderr": stderr}


def run(*programs):
    """(counts, explanations, the last lines) of a log of these programs."""
    with tempfile.TemporaryDirectory() as folder:
        log, record = (pathlib.Path(folder) / each for each in ("log", "record"))
        log.write_text("".join(json.dumps(each) + "\n" for each in programs))
        script = ["python3", HERE / "count.py"]
        done = subprocess.run([*script, "gcc", log, record], text=True,
                              capture_output=True, check=True)
        return (done.stdout.strip(), done.stderr,
                tap.output([*script, record]).splitlines())


def run_xml(cases):
    """(counts, explanations, the last lines) of a file of pytest with these cases."""
    with tempfile.TemporaryDirectory() as folder:
        log, record = (pathlib.Path(folder) / each for each in ("r.xml", "record"))
        log.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        script = ["python3", HERE / "count.py"]
        done = subprocess.run([*script, "python", log, record], text=True,
                              capture_output=True, check=True)
        return (done.stdout.strip(), done.stderr,
                tap.output([*script, record]).splitlines())


def passed_cases_are_counted_and_not_named():
    tap.equal(run(program("good", PASSES)), ("2 0 0", "", []))


def a_failed_case_is_explained_at_once_and_named_at_the_end():
    counts, said, end = run(program("bad", FAILS, "FAIL", 1),
                            program("good", PASSES))
    tap.equal(counts, "3 1 0")
    assert "# 1/0 was 0" in said, said
    assert "adds" not in said, said
    tap.equal(end, ["FAILED gcc: bad: divides"])


def each_reason_of_a_skip_is_printed_once_with_its_count():
    counts, said, end = run(program("one", SKIPS), program("two", SKIPS))
    tap.equal((counts, said), ("2 0 4", ""))
    tap.equal(end, ["SKIPPED 4 cases: no GPU (gcc: one and 1 more)"])


def a_program_that_skips_all_its_cases_is_one_skip():
    counts, _, end = run(program("none", "1..0 # SKIP no driver\n", "SKIP"))
    tap.equal(counts, "0 0 1")
    tap.equal(end, ["SKIPPED 1 case: no driver (gcc: none)"])


def failures_come_after_the_skips():
    _, _, end = run(program("bad", FAILS, "FAIL", 1), program("one", SKIPS))
    tap.equal([line.split()[0] for line in end], ["SKIPPED", "FAILED"])


def a_program_that_dies_after_its_cases_is_a_failure():
    counts, _, end = run(program("dies", PASSES, "FAIL", -11))
    tap.equal(counts, "2 1 0")
    tap.equal(end, ["FAILED gcc: dies: (the program: fail, exit -11)"])


def a_program_without_cases_counts_as_one():
    counts, _, end = run(program("plain", "learned\n"),
                         program("late", "", "TIMEOUT", None))
    tap.equal(counts, "1 1 0")
    tap.equal(end, ["FAILED gcc: late: the program"])


def a_flood_of_output_and_of_failures_is_cut():
    cases = "".join(f"not ok {n} - case {n}\n" for n in range(1, 301))
    _, said, end = run(program("flood", f"1..300\n{cases}", "FAIL", 1))
    assert "(241 lines before these)" in said, said[:200]
    tap.equal(len(end), 11)
    tap.equal(end[-1], "FAILED gcc: flood: and 290 more cases")


def cases_of_pytest_are_counted_by_file():
    counts, said, end = run_xml(
        '<testcase classname="tests.test_array" name="adds[f32]"/>'
        '<testcase classname="test_array.TestViews" name="slices">'
        '<failure message="no">E assert 1 == 2</failure></testcase>'
        '<testcase classname="test_onnx" name="loads">'
        '<skipped type="pytest.skip" message="no onnx">x.py:3</skipped></testcase>')
    tap.equal(counts, "1 1 1")
    assert "E assert 1 == 2" in said and "adds" not in said, said
    tap.equal(end, ["SKIPPED 1 case: no onnx (python: test_onnx)",
                    "FAILED python: test_array: slices"])


def an_error_in_a_file_of_pytest_is_a_failure():
    counts, _, end = run_xml(
        '<testcase classname="" name="tests.test_bad"><error message="collection '
        'failure">SyntaxError</error></testcase>')
    tap.equal(counts, "0 1 0")
    tap.equal(end, ["FAILED python: test_bad: tests.test_bad"])


tap.run([passed_cases_are_counted_and_not_named,
         a_failed_case_is_explained_at_once_and_named_at_the_end,
         each_reason_of_a_skip_is_printed_once_with_its_count,
         a_program_that_skips_all_its_cases_is_one_skip,
         failures_come_after_the_skips,
         a_program_that_dies_after_its_cases_is_a_failure,
         a_program_without_cases_counts_as_one,
         a_flood_of_output_and_of_failures_is_cut,
         cases_of_pytest_are_counted_by_file,
         an_error_in_a_file_of_pytest_is_a_failure])
