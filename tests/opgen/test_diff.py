#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen diff`: one case per rule of docs/reference/diff.md, with its place.

    test_diff.py OPGEN PLUGIN_SO PLUGIN_FOLDER

A case of diff_cases.py edits a manifest and lists all rows that must come. A
row's place is found in the new text: the `@` of the snippet.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402
from diff_cases import CASES, OP, OTHER, PLUGIN  # noqa: E402

OPGEN, BUILT, SOURCE = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:4])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)


def opgen(*args, cwd=FOLDER):
    return subprocess.run([OPGEN, "diff", *map(str, args)], cwd=cwd, text=True,
                          capture_output=True, check=False)


def folder_of(plugin, op, other):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    for name, text in (("plugin", plugin), ("op", op), ("other", other)):
        (folder / f"{name}.yaml").write_text(text)
    return folder


def edited(text, edits):
    for before, after in edits:
        assert text.count(before) >= 1, f"{before} is not in\n{text}"
        text = text.replace(before, after, 1)
    return text


def place_of(snippet, texts):
    for name, text in texts.items():
        at = text.find(snippet.replace("@", "", 1))
        if at < 0:
            continue
        at += snippet.index("@")
        return (f"{name}.yaml:{text.count(chr(10), 0, at) + 1}:"
                f"{at - text.rfind(chr(10), 0, at)}")
    raise AssertionError(f"{snippet} is nowhere")


def rows(printed):
    """(operator, kind, text and place) of each row."""
    return [tuple(re.split(r"  +", line, maxsplit=2))
            for line in printed.splitlines()[:-1]]


VERDICTS = {"no change": 0, "compatible": 0, "minor": 3, "major": 4}


def run_case(case):
    old = edited(OP, case.old)
    new = {"op": edited(old, case.edits),
           "other": edited(OTHER, case.files.get("other", [])),
           "plugin": edited(PLUGIN, [
               ("release: 1", f"release: {case.release}"),
               *case.files.get("plugin", [])])}
    before = edited(PLUGIN, case.files.get("old_plugin", []))
    done = opgen(folder_of(before, old, OTHER),
                 folder_of(new["plugin"], new["op"], new["other"]))
    assert not done.stderr, done.stderr
    expected = []
    for op, kind, text, *snippet in case.expected:
        place = "  " + place_of(snippet[0], new) if snippet else ""
        expected.append((op, kind, text + place))
    found = [(op, kind, re.sub(r"  +", "  ", text))
             for op, kind, text in rows(done.stdout)]
    tap.equal(found, expected, done.stdout)
    tap.equal(done.stdout.splitlines()[-1], f"verdict: {case.verdict}")
    tap.equal(done.returncode, VERDICTS[case.verdict], "status")


def git(folder, *args):
    tap.output(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args],
               cwd=folder)


def a_revision_is_read_from_git():
    if not shutil.which("git"):
        raise tap.Skip("git is not installed")
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    work = folder / "plugins"
    shutil.copytree(folder_of(PLUGIN, OP, OTHER), work / "lab")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "v1")
    path = work / "lab/op.yaml"
    path.write_text(OP.replace("default: 3", "default: 4"))
    (work / "lab/plugin.yaml").write_text(
        PLUGIN.replace("release: 1", "release: 2"))
    expected = ("lab.mix  model   default of `n` changed 3 -> 4  "
                "op.yaml:9:35\nverdict: major\n")
    tmp = folder / "tmp"
    tmp.mkdir()
    os.environ["TMPDIR"] = str(tmp)
    try:
        for cwd, old, new in ((folder, "v1:plugins/lab", "plugins/lab"),
                              (work, "v1:lab", "lab"),
                              (work / "lab", "v1:", "."),
                              (work, "v1:lab/plugin.yaml", "lab"),
                              (work, "v1:lab/op.yaml", "lab/op.yaml")):
            done = opgen(old, new, cwd=cwd)
            tap.equal((done.stdout, done.returncode), (expected, 4),
                      f"{old}: {done.stderr}")
        git(folder, "checkout", "-q", "v1", "--", ".")
        git(folder, "rm", "-q", "plugins/lab/plugin.yaml")
        git(folder, "commit", "-q", "-m", "second")
        path.write_text(OP.replace("default: 3", "default: 4"))
        for cwd, name in ((folder, "plugins/lab/op.yaml"),
                          (work / "lab", "op.yaml")):
            done = opgen(f"HEAD:{name}", name, cwd=cwd)
            tap.equal((done.stdout, done.returncode), (expected, 4),
                      f"{name} alone: {done.stderr}")
        done = opgen("v2:plugins/lab", "plugins/lab", cwd=folder)
        tap.equal((done.stdout, done.returncode), ("", 1), done.stderr)
        done = opgen("v1:nothing", "plugins/lab", cwd=folder)
        tap.equal(done.returncode, 1)
        assert "`nothing` is not in revision `v1`" in done.stderr, done.stderr
    finally:
        del os.environ["TMPDIR"]
    tap.equal(list(tmp.iterdir()), [], "temporary folders are removed")


def an_option_is_no_revision():
    done = opgen("--output=x:lab", ".")
    tap.equal(done.returncode, 2)
    done = opgen("./-x:lab", ".")
    tap.equal(done.returncode, 1)


def a_built_plugin_is_its_manifest():
    for pair in ((BUILT, SOURCE), (SOURCE, BUILT), (BUILT, BUILT)):
        done = opgen(*pair)
        tap.equal((done.stdout, done.returncode), ("verdict: no change\n", 0),
                  done.stderr)


def a_side_with_mistakes_is_said():
    folder = folder_of(PLUGIN, OP.replace("op: mix", "op: Mix"), OTHER)
    done = opgen(folder, folder)
    tap.equal((done.stdout, done.returncode), ("", 1))
    assert "error[E0015]" in done.stderr, done.stderr


def kernels_for_others_are_compared():
    """`--with` says where their operators are, for both sides."""
    with_it = ("--with", ROOT / "tests/opgen/ok/convolution")
    old = ROOT / "tests/opgen/ok/kernels_for"
    tap.equal(opgen(old, old).returncode, 1, "without --with")
    done = opgen(old, old, *with_it)
    tap.equal((done.stdout, done.stderr, done.returncode),
              ("verdict: no change\n", "", 0))
    new = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    for path in old.glob("*.yaml"):
        text = path.read_text().replace("[f16, bf16, f32, f64]", "[f32]")
        (new / path.name).write_text(text.replace("release: 1", "release: 2"))
    done = opgen(old, new, *with_it)
    tap.equal([(op, kind) for op, kind, _ in rows(done.stdout)],
              [("nn.convolution", "source")] * 2, done.stderr)
    assert "takes fewer types  convolution.yaml:3:1" in done.stdout, done.stdout
    tap.equal(done.returncode, 4)


def every_rule_has_a_case():
    """Each format of a row in the sources is in an expected row."""
    sources = "".join((ROOT / "tools/opgen" / name).read_text() for name in (
        "diff_params.c", "diff_operands.c", "diff_op.c", "diff_match.c"))
    texts = [text for case in CASES for _, _, text, *_ in case.expected]
    missing = []
    calls = re.findall(r"diff_add\(.*?\);|flag_rules\[\] = .*?};", sources,
                       re.S)
    for literal in re.findall(r'(?:"[^"]*"\s*)+', "\n".join(calls)):
        words = "".join(re.findall(r'"([^"]*)"', literal))
        pattern = re.sub(r"%\w", ".*", re.escape(words).rstrip("%"))
        if " " in words and not any(re.search(pattern, t) for t in texts):
            missing.append(words)
    tap.equal(missing, [], "formats without a case")


tap.run([(case.name, lambda c=case: run_case(c)) for case in CASES] + [
    a_revision_is_read_from_git, an_option_is_no_revision,
    a_built_plugin_is_its_manifest, a_side_with_mistakes_is_said,
    kernels_for_others_are_compared, every_rule_has_a_case])
