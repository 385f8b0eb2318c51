#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of opgen. Prints TAP.

  ok/<case>/    a plugin; out/ holds the files that `opgen generate` writes,
                with `--tests` and without, each as NAME.expected; `args` holds further arguments, with
                paths relative to it.
  err/*.txt     tables of plugins with mistakes, and the messages of
                `opgen check`; cases.py describes their form.
  cmd/*.txt     tables of commands, run from the root of the repository.

  run.py --opgen PATH [--accept] [CASE...]

--accept writes the present output into the expected files and tables; read the
difference before you commit it. With --write-only no written file is compiled.
"""
import argparse
import filecmp
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cases

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
INCLUDES = ["-I", str(ROOT / "sdk/include")]


class Failure(Exception):
    """A description of the faults of a case."""


def run(command, cwd=ROOT):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "NO_COLOR": "1", "LC_ALL": "C"})


def must(command, cwd=ROOT):
    result = run(command, cwd)
    if result.returncode != 0:
        raise Failure(f"{shlex.join(map(str, command))} gave "
                      f"{result.returncode}\n{result.stdout}{result.stderr}")
    return result


class Tests:
    def __init__(self, options):
        self.opgen = str(Path(options.opgen).resolve())
        self.accept = options.accept
        self.only = options.cases
        self.cc = shlex.split(options.cc)
        self.cxx = shlex.split(options.cxx) if options.cxx else []
        self.compiles = not options.write_only
        self.nvcc = options.nvcc
        self.count = 0
        self.failed = 0

    def test(self, name, function, *args):
        if self.only and not any(only in name for only in self.only):
            return
        self.count += 1
        try:
            skipped = function(*args)
        except Failure as failure:
            self.failed += 1
            print(f"not ok {self.count} - {name}")
            for line in str(failure).splitlines():
                print(f"# {line}")
            return
        print(f"ok {self.count} - {name}"
              + (f" # SKIP {skipped}" if skipped else ""))

    def expect(self, path, text):
        """Compares with an expected file, or writes it."""
        if self.accept:
            if text or path.name != "stdout" and path.name != "stderr":
                path.write_text(text)
            elif path.exists():
                path.unlink()
            return
        expected = path.read_text() if path.exists() else ""
        if expected != text:
            raise Failure(f"{path.relative_to(ROOT)}: expected\n{expected}"
                          f"but came\n{text}")

    # ------------------------------------------------------------- generate

    def generate(self, case, out, depfile=None):
        """Runs opgen in the case's folder, as a build file would: for the
        plugin, then for its companion."""
        args = case / "args"
        extra = shlex.split(args.read_text()) if args.exists() else []
        command = [self.opgen, "generate", "plugin.yaml", "-o", str(out)]
        for other in [], ["--cuda"], ["--tests"]:
            depend = []
            if depfile:
                depend = ["--depfile", str(depfile) + "".join(other)]
            result = must(command + depend + other + extra, case)
            if result.stdout or result.stderr:
                raise Failure(f"not silent:\n{result.stdout}{result.stderr}")

    def ok_files(self, case, out):
        self.generate(case, out, out.parent / "depfile")
        expected = case / "out"
        if self.accept:
            shutil.rmtree(expected, ignore_errors=True)
            expected.mkdir()
        names = sorted(p.name for p in out.iterdir())
        for name in names:
            self.expect(expected / f"{name}.expected",
                        (out / name).read_text())
        if [f"{name}.expected" for name in names] != sorted(
                p.name for p in expected.iterdir()):
            raise Failure(f"{names} were written")

    def ok_outputs(self, case, out):
        args = case / "args"
        extra = shlex.split(args.read_text()) if args.exists() else []
        command = [self.opgen, "outputs", "plugin.yaml"] + extra
        listed = "".join(must(command + other, case).stdout
                         for other in ([], ["--cuda"], ["--tests"]))
        if sorted(listed.split()) != sorted(os.listdir(out)):
            raise Failure(f"`opgen outputs` lists\n{listed}")

    def ok_depfile(self, case, out):
        text = (out.parent / "depfile").read_text()
        targets, _, sources = text.partition(":")
        sources = sources.replace("\\\n", " ").split()
        for source in ["plugin.yaml"] + sorted(
                p.name for p in case.glob("*.yaml") if p.name != "plugin.yaml"):
            if source not in sources:
                raise Failure(f"{source} is missing in\n{text}")
        for source in sources:
            if not (case / source).exists():
                raise Failure(f"{source} does not exist")
        for other in "--cuda", "--tests":
            text = (out.parent / f"depfile{other}").read_text()
            targets += " " + text.partition(":")[0]
        if len(targets.split()) != len(os.listdir(out)):
            raise Failure(f"targets are {targets}")

    def copy(self, case, other):
        """The case in another folder, with those that it refers to."""
        for folder in HERE.joinpath("ok").iterdir():
            shutil.copytree(folder, Path(other) / folder.name,
                            ignore=shutil.ignore_patterns("out"))
        return Path(other) / case.name

    def ok_texts(self, case, out):
        """An edited `doc` or `summary` changes tables, and no file that takes
        long to compile."""
        with tempfile.TemporaryDirectory() as other:
            copy = self.copy(case, other)
            for manifest in copy.glob("*.yaml"):
                text = re.sub(r"(doc: \|\n)( +)", r"\1\2Another line.\n\2",
                              manifest.read_text())
                manifest.write_text(re.sub(
                    r"((?:doc|summary): [\"']?)(?=[A-Z])", r"\1Edited ", text))
            target = Path(other) / "generated"
            self.generate(copy, target)
            changed = filecmp.dircmp(out, target).diff_files
            slow = [name for name in changed if not name.endswith(".gen.c")
                    or name.endswith((".kernel.gen.c", "_test.gen.c"))]
            if slow or "plugin.gen.c" not in changed:
                raise Failure(f"{changed} changed")

    def ok_again(self, case, out):
        """Another folder gives the same bytes, and neither a second run nor
        the edit of a comment writes anything."""
        with tempfile.TemporaryDirectory() as other:
            copy = self.copy(case, other)
            target = Path(other) / "generated"
            self.generate(copy, target)
            same = filecmp.dircmp(out, target)
            if same.diff_files or same.left_only or same.right_only:
                raise Failure(f"another folder changes {same.diff_files}")
            before = {p: p.stat().st_mtime_ns for p in target.iterdir()}
            for manifest in copy.glob("*.yaml"):
                with manifest.open("a") as file:
                    file.write("# Another comment.\n")
            self.generate(copy, target)
            after = {p: p.stat().st_mtime_ns for p in target.iterdir()}
            if before != after:
                raise Failure("the edit of a comment writes a file")

    def ok_c(self, out):
        for how in ["-O1"], ["-DTN_STATIC_PLUGINS", "-fsyntax-only"]:
            for source in sorted(out.glob("*.c")):
                must(self.cc + ["-std=c11", *WARNINGS, *how, *INCLUDES, "-I",
                                str(out), "-c", "-o", os.devnull, str(source)])

    def ok_cxx(self, out):
        if not self.cxx:
            return "no C++ compiler"
        source = out.parent / "headers.cc"
        source.write_text("".join(f'#include "{header.name}"\n'
                                  for header in sorted(out.glob("*.h"))))
        must(self.cxx + ["-std=c++17", *WARNINGS, *INCLUDES, "-I", str(out),
                         "-fsyntax-only", str(source)])
        return None

    def ok_format(self, out):
        formatter = (shutil.which("clang-format-14")
                     or shutil.which("clang-format"))
        if not formatter:
            return "clang-format is not installed"
        shutil.copy(ROOT / ".clang-format", out.parent)
        must([formatter, "--dry-run", "--Werror"]
             + sorted(str(p) for p in out.iterdir()
                      if p.suffix in (".c", ".h", ".cu")))
        return None

    def ok_nvcc(self, out):
        if not self.nvcc:
            return "the CUDA toolkit is not installed, or -Dcuda=disabled"
        for source in sorted(out.glob("*.cu")):
            must([self.nvcc, "-arch=sm_80", "-std=c++17", "-Xcicc", "-O0",
                  "-Xptxas", "-O0", "-Werror",
                  "all-warnings", *INCLUDES, "-I", str(out), "-c", "-o",
                  str(out.parent / "kernels.o"), str(source)])
        return None

    def run_ok(self, case):
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "out"
            name = f"ok/{case.name}"
            self.test(f"{name} writes the expected files",
                      self.ok_files, case, out)
            if not out.is_dir():
                return
            self.test(f"{name} lists its outputs", self.ok_outputs, case, out)
            self.test(f"{name} lists what it read", self.ok_depfile, case, out)
            self.test(f"{name} is reproducible", self.ok_again, case, out)
            self.test(f"{name} keeps kernels when a text is edited",
                      self.ok_texts, case, out)
            if not self.compiles:
                return
            self.test(f"{name} compiles as C11", self.ok_c, out)
            self.test(f"{name} has C++17 headers", self.ok_cxx, out)
            self.test(f"{name} is formatted", self.ok_format, out)
            if list(out.glob("*.cu")):
                self.test(f"{name} compiles as CUDA C++", self.ok_nvcc, out)

    # --------------------------------------------------------------- tables

    def run_entry(self, case):
        """Compares the output for an entry of a table, or accepts it. A base
        has no mistakes; its warnings are not compared."""
        with tempfile.TemporaryDirectory() as folder:
            case.write(Path(folder))
            result = run([self.opgen] + case.arguments(folder))
        found = (result.stdout.replace(folder, "@"),
                 result.stderr.replace(folder, "@"), result.returncode)
        if case.is_base:
            if result.returncode != 0:
                raise Failure(found[1])
            return
        expected = case.stdout, case.stderr, case.expected_status()
        if self.accept:
            case.expect(*found)
        elif found != expected:
            raise Failure("expected\n{}{}status {}\n".format(*expected)
                          + "but came\n{}{}status {}".format(*found))

    def run_tables(self, folder):
        for table in cases.read_tables(HERE / folder):
            before = table.path.read_text()
            for case in table.cases:
                name = (f"{table.path.stem}, {case.name}" if case.is_base
                        else case.name)
                self.test(f"{folder}/{name}", self.run_entry, case)
            if self.accept and table.text() != before:
                table.path.write_text(table.text())

    def every_code(self):
        """Each code that can be explained is shown by a case; those of built
        plugins, by test_check.py and bad_plugins/."""
        seen = "".join(p.read_text() for p in [
            *sorted(HERE.glob("err/*.txt")),
            *sorted(HERE.glob("bad_plugins/*.c")), HERE / "test_check.py"])
        missing = [code for code in self.codes() if f"[{code}]" not in seen]
        if missing:
            raise Failure("no case in err/ gives " + ", ".join(missing))

    def codes(self):
        result = must([self.opgen, "explain"])
        return result.stdout.split()

    def run_all(self):
        for case in sorted(HERE.glob("ok/*/plugin.yaml")):
            self.run_ok(case.parent)
        self.run_tables("err")
        self.run_tables("cmd")
        self.test("every code has a case", self.every_code)
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def main():
    parser = argparse.ArgumentParser(description="Golden tests of opgen.")
    parser.add_argument("--opgen", required=True)
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default=shutil.which("c++"))
    parser.add_argument("--nvcc")
    parser.add_argument("--write-only", action="store_true")
    parser.add_argument("cases", nargs="*")
    sys.exit(Tests(parser.parse_args()).run_all())


if __name__ == "__main__":
    main()
