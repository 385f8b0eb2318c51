# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m tenon.onnx convert|report|conformance`."""

import argparse
import ast
import sys
from typing import Dict, List, Optional, Tuple


def _read_shapes(words: List[str]) -> Dict[str, Tuple[int, ...]]:
    shapes = {}
    for word in words:
        name, equals, lengths = word.partition("=")
        try:
            shapes[name] = tuple(int(length) for length in lengths.split(",") if length)
        except ValueError:
            equals = ""
        if not equals:
            raise SystemExit(f"--shape {word}: write NAME=LENGTH,LENGTH such as x=1,3,224,224")
    return shapes


def _read_values(words: List[str]) -> Dict[str, object]:
    values = {}
    for word in words:
        name, equals, text = word.partition("=")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            equals = ""
        if not equals:
            raise SystemExit(f"--known {word}: write NAME=NUMBER or NAME=[NUMBER,NUMBER]")
    return values


def _load_plugins(paths: List[str]) -> None:
    import tenon

    for path in paths:
        tenon.load(path)


def _run_report(args: argparse.Namespace) -> int:
    from .report import report

    missing = report(args.model, _read_shapes(args.shape), _read_values(args.known))
    for entry in missing:
        print(entry)
    print(f"{args.model}: {len(missing)} missing" if missing else f"{args.model}: can be converted")
    return 1 if missing else 0


def _run_convert(args: argparse.Namespace) -> int:
    from .convert import convert

    if args.report:
        return _run_report(args)
    ports = convert(args.model, args.folder, _read_shapes(args.shape), _read_values(args.known))
    for kind in ("inputs", "outputs"):
        for entry in ports[kind]:
            lengths = ",".join(str(length) for length in entry["shape"])
            name = entry.get("argument", entry["name"])
            print(f"{kind[:-1]} {name} {entry['dtype']}[{lengths}]")
    return 0


def _run_conformance(args: argparse.Namespace) -> int:
    from . import conformance, page

    results = conformance.run_conformance(args.op, args.mode)
    for result in results:
        if result.status == conformance.FAILED or args.verbose and result.text:
            print(f"{result.status} {result.name}: {result.text}")
    for name, *counts in conformance.tabulate(results):
        print(f"{name:40} {counts[0]:5} passed {counts[1]:5} refused {counts[2]:5} failed")
    print(page.format_totals(results))
    if args.page:
        page.write_page(args.page, results)
    if args.json:
        conformance.write_results(args.json, results)
    return 1 if conformance.count_results(results)[conformance.FAILED] else 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tenon.onnx", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser("convert", help="write a graph and its weights for C hosts")
    convert.add_argument("model")
    convert.add_argument("folder", nargs="?", default=".")
    convert.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224")
    convert.add_argument("--known", action="append", default=[], metavar="NAME=VALUE")
    convert.add_argument("--plugin", action="append", default=[], metavar="FILE.so")
    convert.add_argument("--report", action="store_true", help="list missing features only")
    convert.set_defaults(run=_run_convert)
    report = commands.add_parser("report", help="list the features that are missing")
    report.add_argument("model")
    report.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224")
    report.add_argument("--known", action="append", default=[], metavar="NAME=VALUE")
    report.add_argument("--plugin", action="append", default=[], metavar="FILE.so")
    report.set_defaults(run=_run_report)
    tests = commands.add_parser("conformance", help="run the node tests of onnx")
    tests.add_argument("--op", default="", help="of one operator only")
    tests.add_argument("--mode", default="eager", choices=("eager", "auto"))
    tests.add_argument("--page", default="", metavar="FILE.md", help="write the table")
    tests.add_argument("--json", default="", metavar="FILE", help="write all results")
    tests.add_argument("--verbose", action="store_true", help="print why cases are refused")
    tests.set_defaults(run=_run_conformance)
    return parser


def main(words: Optional[List[str]] = None) -> int:
    """Runs the command line; returns the exit status.

    >>> main(["report", "model.onnx"])
    """
    from .errors import OnnxError

    args = _make_parser().parse_args(words)
    try:
        _load_plugins(getattr(args, "plugin", []))
        return args.run(args)
    except (OnnxError, OSError) as error:
        print(f"tenon.onnx: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
