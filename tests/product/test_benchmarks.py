# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/benchmarks are those of the saved data.

    test_benchmarks.py SOURCE_ROOT
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(SOURCE / "bench"))
sys.dont_write_bytecode = True

import tap  # noqa: E402
import page  # noqa: E402

NAMES = ["ops", "train", "product", "call", "expr", "math", "graph", "engine",
         "load", "data", "comm", "python", "networks"]
DATA = {"bench": "call", "date": "2026-11-29", "commit": "0123456789ab",
        "machine": "Some CPU", "processors": 2, "figures": [],
        "tables": [{"title": "Nanoseconds", "head": ["call", "tenon"],
                    "rows": [["eager|new", "3 / 11"], ["given", "–"]]},
                   {"title": "GB/s", "head": ["floats"], "rows": [["64"]]}]}
PAGE = """# Page

## Calls

Some words.

<!-- bench: call -->

| old | table |
|---|---|

<!-- end -->

More words.

<!-- bench: ops -->
| by hand |
<!-- end -->
"""
FILLED = """# Page

## Calls

Some words.

<!-- bench: call -->

Some CPU, 2 processors, 2026-11-29, commit `0123456789ab`.

Nanoseconds:

| call | tenon |
|---|---|
| eager\\|new | 3 / 11 |
| given | – |

GB/s:

| floats |
|---|
| 64 |

<!-- end -->

More words.

<!-- bench: ops -->
| by hand |
<!-- end -->
"""


def tables_of_the_page_follow_from_the_data():
    page.main(SOURCE / "docs/benchmarks", "--check")


def every_bench_has_a_block_in_the_page():
    text = (SOURCE / "docs/benchmarks/performance.md").read_text()
    tap.equal([name for name, _ in page.BLOCK.findall(text)], NAMES, "blocks")
    tap.equal(text.count("<!-- bench: "), len(NAMES), "begins of blocks")
    tap.equal(text.count("<!-- end -->"), len(NAMES), "ends of blocks")


def data_replaces_the_tables_of_its_bench_alone():
    tap.equal(page.fill_page(PAGE, {"call": DATA}), FILLED, "page")
    tap.equal(page.fill_page(FILLED, {"call": DATA}), FILLED, "second time")


def data_without_a_block_is_refused():
    try:
        page.fill_page(PAGE, {"call": DATA, "load": DATA})
    except page.Problem as problem:
        assert "0 blocks for data/load.json" in str(problem), problem
        assert "<!-- bench: load -->" in str(problem), problem
    else:
        raise AssertionError("was accepted")


def check_names_the_command_that_repairs_a_page():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "data").mkdir()
        (folder / "data/call.json").write_text(json.dumps(DATA))
        (folder / "performance.md").write_text(PAGE)
        command = [sys.executable, "-B", SOURCE / "bench/page.py", folder]
        done = subprocess.run([*command, "--check"], text=True, check=False,
                              capture_output=True)
        tap.equal((done.returncode, done.stderr), (
            1, f"page.py: {folder}/performance.md differs from its data; run: "
               f"python3 bench/page.py {folder}\n"), "refusal")
        tap.equal((folder / "performance.md").read_text(), PAGE, "page")
        tap.output(command)
        tap.equal((folder / "performance.md").read_text(), FILLED, "page")
        tap.output([*command, "--check"])


PROGRAM = """
import samples
samples.say("call.1", 2.34567, "ns", "1.0-3.0")
samples.table("Title", ["a", "b"], [[1, "x, [y]"], [2, "z"]])
samples.save("call")
"""


def saved_data_has_all_that_was_printed():
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(SOURCE / "bench"),
               "PYTHONDONTWRITEBYTECODE": "1"}
        printed = tap.output([sys.executable, "-c", PROGRAM], env=env)
        assert "saved" not in printed, printed
        path = pathlib.Path(folder) / "data" / "call.json"
        env["BENCH_SAVE"] = str(path.parent)
        tap.equal(tap.output([sys.executable, "-c", PROGRAM], env=env),
                  f"{printed}saved {path}\n", "output")
        assert "  1 | x" not in printed and "| 1 | x, [y] |" in printed, printed
        data = json.loads(path.read_text())
        tap.equal(data["figures"], [["call.1", 2.346, "ns", "1.0-3.0"]],
                  "figures")
        tap.equal(data["tables"], [{"title": "Title", "head": ["a", "b"], "rows": [
            ["1", "x, [y]"], ["2", "z"]]}], "tables")
        tap.equal(sorted(set(data) - {"figures", "tables"}), [
            "bench", "commit", "date", "machine", "processors"], "keys")
        assert '["2", "z"]' in path.read_text(), path.read_text()


if __name__ == "__main__":
    tap.run([tables_of_the_page_follow_from_the_data,
             every_bench_has_a_block_in_the_page,
             data_replaces_the_tables_of_its_bench_alone,
             data_without_a_block_is_refused,
             check_names_the_command_that_repairs_a_page,
             saved_data_has_all_that_was_printed])
