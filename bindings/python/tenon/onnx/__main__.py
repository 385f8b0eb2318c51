# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m tenon.onnx convert|report|conformance`."""

import argparse
import sys
from typing import List, Optional


def _run_conformance(args: argparse.Namespace) -> int:
    from . import conformance

    results = conformance.run_conformance(args.op, args.mode)
    for result in results:
        if result.status != conformance.PASSED and args.verbose:
            print(f"{result.status} {result.name}: {result.text}")
    for name, *counts in conformance.tabulate(results):
        print(f"{name:32} {counts[0]:5} passed {counts[1]:5} refused {counts[2]:5} failed")
    totals = conformance.count_results(results)
    print(", ".join(f"{totals[status]} {status}" for status in ("passed", "refused", "failed")))
    return 1 if totals[conformance.FAILED] else 0


def main(words: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tenon.onnx")
    commands = parser.add_subparsers(dest="command", required=True)
    tests = commands.add_parser("conformance")
    tests.add_argument("--op", default="")
    tests.add_argument("--mode", default="eager")
    tests.add_argument("--verbose", action="store_true")
    args = parser.parse_args(words)
    return _run_conformance(args)


if __name__ == "__main__":
    sys.exit(main())
