# SPDX-License-Identifier: Apache-2.0
"""The completions and manual pages of `tenon` and `opgen`.

    test_pages.py TENON OPGEN PLUGIN PAGES

TENON and OPGEN are the built programs, PLUGIN the built elemwise.so, PAGES the
build folder of tools/pages.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

# Types whose names begin with f.
FLOATS = ["f16", "f32", "f64", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2",
          "f8e5m2fnuz", "f8e8m0", "f4e2m1"]
PROGRAMS = {"tenon": os.path.abspath(sys.argv[1]),
            "opgen": os.path.abspath(sys.argv[2])}
PLUGIN = pathlib.Path(sys.argv[3]).resolve()
PAGES = pathlib.Path(sys.argv[4]).resolve()
SCRATCH = tempfile.TemporaryDirectory()

COMPLETE = """
source "$1"; shift
function=$(complete -p "${1##*/}" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
last=${!#}; [ "$last" != = ] || last=
COMP_CWORD=$(($# - 1)); COMP_WORDS=("$@")
"$function" "$1" "$AT$last"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(name, *words, at=""):
    """The words that bash offers for the last of `words`. Bash passes an `@`
    before it as a word of its own, and with it."""
    said = tap.output(
        ["bash", "--norc", "-c", COMPLETE, "bash", PAGES / name, name, *words],
        cwd=SCRATCH.name,
        env=dict(os.environ, TENON_PLUGIN_PATH=str(PLUGIN.parent),
                 HOME=SCRATCH.name, LC_ALL="C", AT=at,
                 PATH=f"{pathlib.Path(PROGRAMS[name]).parent}:{os.environ['PATH']}"))
    return said.split()


def bash_completes_commands():
    tap.equal(complete("tenon", ""), ["list", "show", "inspect", "run", "graph",
                                      "data", "--help", "--version", "--commands"],
              "tenon")
    tap.equal(complete("tenon", "in"), ["inspect"], "in")
    tap.equal(complete("opgen", "ge"), ["generate"], "ge")


def bash_completes_options_of_the_command():
    tap.equal(complete("tenon", "run", "elemwise.relu", "--pr"), ["--profile"], "run")
    tap.equal(complete("tenon", "list", "--pr"), [], "list")
    tap.equal(complete("tenon", "graph", "run", "--s"),
              ["--seed", "--state", "--shape", "--svg"], "graph")
    tap.equal(complete("opgen", "check", "-W"), ["-W", "-Wno-", "-Wall", "-Werror"],
              "check")


def bash_completes_values():
    tap.equal(complete("tenon", "run", "elemwise.relu", "--dtype", "f"),
              FLOATS, "--dtype f")
    tap.equal(complete("tenon", "run", "elemwise.relu", "--dtype", "=", "f"),
              FLOATS, "--dtype=f")
    tap.equal(complete("tenon", "run", "elemwise.relu", "--dtype", "=")[:2],
              ["f16", "bf16"], "--dtype=")
    tap.equal(complete("opgen", "new", "a.b", "--from", "b"), ["binding"], "--from b")


def bash_completes_words_and_operators():
    tap.equal(complete("tenon", "graph", ""), ["show", "plan", "run"], "graph")
    tap.equal(complete("tenon", "list", "op"), ["operators"], "list")
    tap.equal(complete("tenon", "data", ""), ["pack", "list", "check"], "data")
    for command in ("run", "show"):
        tap.equal(complete("tenon", command, "elemwise.sig"),
                  ["elemwise.sigmoid", "elemwise.sign"], command)


def bash_completes_files_of_arrays():
    for name in ("x y.npy", "x.npz", "z.npy"):
        pathlib.Path(SCRATCH.name, name).touch()
    pathlib.Path(SCRATCH.name, "xs").mkdir(exist_ok=True)
    for words in (["run", "elemwise.relu", "@", "x"],
                  ["graph", "run", "n.json", "a", "=@", "x"]):
        tap.equal(sorted(complete("tenon", *words, at="@")),
                  ["@x.npz", "@x\\", "@xs/", "y.npy"], str(words))


def bash_leaves_file_names_to_the_shell():
    for words in (["run", "elemwise.relu", ""], ["run", "x", "--out", ""],
                  ["inspect", ""], ["graph", "show", ""],
                  ["data", "pack", ""], ["data", "pack", "x", "--out", ""]):
        tap.equal(complete("tenon", *words), [], str(words))


def zsh_reads_its_completions():
    if not shutil.which("zsh"):
        raise tap.Skip("there is no zsh")
    for name in PROGRAMS:
        tap.output(["zsh", "-n", PAGES / f"_{name}"])


def options_of(name):
    """{command: names of its options}, by its own --help."""
    found = {}
    for command in json.loads(tap.output([PROGRAMS[name], "--commands"]))["commands"]:
        text = tap.output([PROGRAMS[name], command["name"], "--help"])
        found[command["name"]] = re.findall(r"^  (-[-\w]+)", text, re.M)
    return found


def every_option_of_the_help_is_in_all_pages():
    for name in PROGRAMS:
        pages = {page: (PAGES / page).read_text()
                 for page in (name, f"_{name}", f"{name}.1")}
        for command, options in options_of(name).items():
            assert options or name == "opgen", command
            for option in options:
                short = re.sub("-NAME$", "-", option)
                assert short in pages[name], (command, option)
                assert f"*{short}" in pages[f"_{name}"], (command, option)
                assert f"\\fB{option}".replace("-", "\\-") in pages[f"{name}.1"], (
                    command, option)


def manual_pages_have_their_sections():
    for name in PROGRAMS:
        text = (PAGES / f"{name}.1").read_text()
        found = re.findall(r"^\.SH (.*)", text, re.M)
        wanted = ["NAME", "SYNOPSIS", "COMMANDS", "FILES", "ENVIRONMENT",
                  "EXIT STATUS", "SEE ALSO"]
        of_tenon = {"FILES", "ENVIRONMENT"}
        tap.equal(found, [each for each in wanted
                          if each not in of_tenon or name == "tenon"], name)
        for line in text.splitlines():
            assert not line.startswith("'"), line
            assert not line.startswith(".") or re.match(
                r"\.(\\\"|TH|SH|SS|PP|TP|B|I|BR|nf|fi|nh|ad)\b|\.\\\"", line), line


def pages_of_the_site_have_every_option_in_a_table():
    maker = pathlib.Path(__file__).resolve().parents[2] / "tools/pages/pages.py"
    for name, program in PROGRAMS.items():
        tables = pathlib.Path(SCRATCH.name) / f"{name}.json"
        tables.write_text(tap.output([program, "--commands"]))
        page = tap.output([sys.executable, maker, "markdown", tables])
        assert page.startswith(f"# {name}\n\n"), page[:60]
        for command in json.loads(tables.read_text())["commands"]:
            part = page.split(f"\n## {name} {command['name']}\n")[1]
            part = part.split("\n## ")[0]
            rows = re.findall(r"^\| `([^` ]+)[^`]*` \| .+ \|$", part, re.M)
            tap.equal(rows, [each["name"] for each in command["options"]],
                      f"{name} {command['name']}")


def groff_has_nothing_to_say():
    if not shutil.which("groff"):
        raise tap.Skip("there is no groff")
    for name in PROGRAMS:
        done = subprocess.run(
            ["groff", "-man", "-Tascii", "-ww", "-rLL=78n", PAGES / f"{name}.1"],
            capture_output=True, text=True, check=False)
        if "can't find macro file" in done.stderr or "an.tmac" in done.stderr:
            raise tap.Skip("this groff has no macros for manual pages")
        tap.equal((done.returncode, done.stderr), (0, ""), name)
        plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
        assert f"{name} COMMAND --help" in plain, plain[:500]


if __name__ == "__main__":
    with SCRATCH:
        tap.run([bash_completes_commands, bash_completes_options_of_the_command,
                 bash_completes_values, bash_completes_words_and_operators,
                 bash_completes_files_of_arrays, bash_leaves_file_names_to_the_shell,
                 zsh_reads_its_completions,
                 every_option_of_the_help_is_in_all_pages,
                 manual_pages_have_their_sections,
                 pages_of_the_site_have_every_option_in_a_table,
                 groff_has_nothing_to_say])
