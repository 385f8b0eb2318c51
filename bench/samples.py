# SPDX-License-Identifier: Apache-2.0
"""Runs measuring programs in turns, keeps and prints their output.

Each program prints lines `NAME VALUE [MORE]` and measures everything once. The
rounds go through all programs, so that a disturbance of the machine affects all
of them. `./dev bench X --save` sets BENCH_SAVE to a folder: save() then writes
the printed figures and tables there, and page.py makes tables of a page of them.
"""

import collections
import ctypes.util
import datetime
import functools
import json
import os
import pathlib
import re
import statistics
import subprocess

# OpenBLAS chooses its loops and blocks by the processor, for ours and for
# libtorch; a setting that the user made for another purpose would overrule it.
for _name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[_name]

# The cores that a program with so many threads may use.
CORES = {threads: set(sorted(os.sched_getaffinity(0))[-threads:])
         for threads in (1, 2)}

# Versions that find_torches() may find, and their names in tables.
TORCHES = {"torch": "torch", "torch_tuned": "torch tuned",
           "torch_new": "torch 2.15"}  # of peers/torch.txt


class Program:
    """One program of the comparison, with its arguments and surroundings."""

    def __init__(self, name, command, cores=None, **env):
        self.name = name
        self.command = [str(word) for word in command]
        self.cores = cores  # the only ones that it may use
        self.env = {**os.environ, **env}

    def run(self):
        """The lines of one run, split into words."""
        pin = (lambda: os.sched_setaffinity(0, self.cores)) \
            if self.cores else None
        done = subprocess.run(self.command, check=True, text=True,
                              stdout=subprocess.PIPE, env=self.env,
                              preexec_fn=pin)
        return [line.split() for line in done.stdout.splitlines()]


class Samples:
    """Values by (program, name), in order of the rounds."""

    def __init__(self):
        self.values = collections.defaultdict(list)
        self.more = {}  # the rest of the last line

    def collect(self, programs, rounds):
        """Runs every program once in each round."""
        for _ in range(rounds):
            for program in programs:
                for name, value, *rest in program.run():
                    self.values[program.name, name].append(float(value))
                    self.more[program.name, name] = rest

    def names(self, program):
        """The figures of a program, in its order."""
        return [name for who, name in self.values if who == program]

    def median(self, program, name):
        """None if there is no such sample."""
        values = self.values.get((program, name))
        return statistics.median(values) if values else None

    def best(self, name, programs, choose=min):
        """The program with the least median, or with the greatest; or None."""
        medians = {program: self.median(program, name) for program in programs}
        medians = {program: value for program, value in medians.items()
                   if value is not None}
        return choose(medians, key=medians.get, default=None)

    def spread(self, program, name):
        """Lowest and highest of the rounds."""
        values = self.values[program, name]
        return min(values), max(values)

    def ratio(self, name, program, peer):
        """Lowest, median and highest of program / peer, round by round."""
        pairs = zip(self.values[program, name], self.values[peer, name])
        ratios = [a / b for a, b in pairs]
        return (min(ratios), statistics.median(ratios), max(ratios)) \
            if ratios else None


@functools.lru_cache
def exists(name, path, package):
    """Whether a peer was built; says so if not."""
    if path.exists():
        return True
    print(f"SKIPPED {name}: package {package} not installed", flush=True)
    return False


@functools.lru_cache
def tuned():
    """Environment under which libtorch does best."""
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii").split()
    wide = "avx512f" in flags
    env = {"ATEN_CPU_CAPABILITY": "avx512" if wide else "avx2"}
    if wide:
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
    if ctypes.util.find_library("jemalloc"):
        env["LD_PRELOAD"] = "libjemalloc.so.2"
        env["MALLOC_CONF"] = ("thp:always,metadata_thp:always,"
                              "dirty_decay_ms:-1,muzzy_decay_ms:-1")
    else:
        print("SKIPPED jemalloc: package libjemalloc2 not installed")
    return env


def find_torches(path, arguments, threads, suffix=""):
    """The program of a path by libtorch as installed and tuned, and by a newer
    one, tuned, as far as they are there; names end in the suffix."""
    new = path.with_name(path.name + "_new")
    found = []

    def add(name, program, env):
        found.append(Program(name + suffix, [program, *arguments],
                             CORES[threads], OMP_NUM_THREADS=str(threads),
                             **env))
    if exists(path.name, path, "libtorch-dev"):
        add("torch", path, {})
        add("torch_tuned", path, tuned())
    if exists(new.name, new, "torch of PyPI"):
        add("torch_new", new, tuned())
    return found


def imports(modules, **env):
    """Whether Debian's Python, which peers run by, has these modules."""
    done = subprocess.run(["/usr/bin/python3", "-c", f"import {modules}"],
                          env={**os.environ, **env}, check=False,
                          stderr=subprocess.DEVNULL)
    return done.returncode == 0


# Everything that this run printed.
PRINTED = {"figures": [], "tables": []}


def say(name, value, unit, more=""):
    """One figure."""
    PRINTED["figures"].append([name, round(value, 3), unit, more])
    print(f"{name:44} {value:12.3f} {unit} {more}".rstrip(), flush=True)


def table(title, head, rows):
    """Rows of words under a title and a head, as Markdown."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    PRINTED["tables"].append(
        {"title": title, "head": rows[0], "rows": rows[1:]})
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width
                               in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print(title + "\n\n" + "\n".join(lines) + "\n", flush=True)


def processor():
    """The name of this machine's processor, as the system reports it."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(
            encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return os.uname().machine


def ask_git(*words):
    """The output of a git command in the tree of this file."""
    done = subprocess.run(
        ["git", "-C", pathlib.Path(__file__).resolve().parents[1], *words],
        check=False, text=True, capture_output=True)
    return done.stdout.strip()


def describe_commit():
    """The commit of the sources; it ends in -dirty if they were changed since.
    Changes in docs/ do not count: each bench that is saved makes one."""
    commit = ask_git("rev-parse", "--short=12", "HEAD")
    changes = ask_git("status", "--porcelain", "--untracked-files=no", "--",
                      ".", ":!docs")
    return (commit or "unknown") + ("-dirty" if changes else "")


def save(bench):
    """Writes NAME.json into the folder BENCH_SAVE, if there is such a variable:
    the machine, the date, the commit, and everything that was printed."""
    if "BENCH_SAVE" not in os.environ:
        return
    data = {"bench": bench, "date": datetime.date.today().isoformat(),
            "commit": describe_commit(), "machine": processor(),
            "processors": len(os.sched_getaffinity(0)), **PRINTED}
    path = pathlib.Path(os.environ["BENCH_SAVE"]) / f"{bench}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(data, ensure_ascii=False, indent=1)
    # A row on a line, so that a difference shows rows.
    lines = re.sub(r"\[\n +([^][{}]*?)\n +\]", lambda row: "[" + re.sub(
        r",\n +", ", ", row[1]) + "]", lines)
    path.write_text(lines + "\n", encoding="utf-8")
    print(f"saved {path}", flush=True)
