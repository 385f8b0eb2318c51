# SPDX-License-Identifier: Apache-2.0
"""Checks order.pml with spin, and that seeded faults of it are found.

    run.py [FAULT]      all of it, as TAP; or the way to one fault, as spin
                        prints it
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tap  # noqa: E402

# What must hold: name, and the options of the model.
SOUND = {
    "three operations on two variables": ["SHORT_WAY"],
    "errors travel as if all ran one after the other":
        ["SHORT_WAY", "ERRORS"],
    "a wait that gives up disturbs nothing": ["SHORT_WAY", "WAITS"],
}
# The properties of the model, and a part of what spin says, blanks aside, when
# one is violated.
PROPERTIES = {
    "grants": "(word[v]>=32)",
    "who may leave": "(other>=n_along[v])",
    "order": "older[op]&",
    "errors": "assertionviolated(bad==spoiled[op])",
    "readers together": "n_queued[v]>0",
    "no use after free": "freed[",
    "nothing waits for ever": "invalidendstate(",
}
# Seeded faults: what is wrong, the options that show it, and the property that
# is violated first.
FAULTS = {
    "FAULT_HANDED_ON_TO_READER":
        ("a writer hands on to a reader", [], "grants"),
    "FAULT_LEAVING_IGNORED":
        ("a writer takes along who may leave", ["WAITS"], "who may leave"),
    "FAULT_QUEUE_JUMPED":
        ("acquire does not look at QUEUED", [], "order"),
    "FAULT_LOCK_IGNORED_BY_RELEASE":
        ("release does not look at LOCK", [], "nothing waits for ever"),
    "FAULT_LOCK_IGNORED_BY_ERRORS":
        ("an error is put on without a look at LOCK", ["ERRORS"], "errors"),
    "FAULT_ONE_READER_LET_IN":
        ("release lets in the first reader only", [], "readers together"),
    "FAULT_COUNTED_AS_IT_GOES":
        ("the counter of a token has no extra count", [],
         "nothing waits for ever"),
    "FAULT_GATE_LEFT_OPEN":
        ("two threads push at the same time", [], "order"),
    "FAULT_CANCEL_HANDS_NOTHING_OVER":
        ("a wait that gives up lets nobody in", ["WAITS"],
         "readers together"),
    "FAULT_CANCEL_FORGETS_GRANT":
        ("a wait that gives up does not look whether it was granted",
         ["WAITS"], "no use after free"),
}


def need_spin():
    if not shutil.which("spin") or not shutil.which("gcc"):
        raise tap.Skip("spin and gcc are not here: ./dev installs them")


def explore(options, folder, optimise="-O2"):
    """What the search prints; the way to a mistake stays in the folder."""
    (folder / "order.pml").write_text((HERE / "order.pml").read_text())
    defines = [f"-D{each}" for each in options]
    tap.output(["spin", "-a", *defines, "order.pml"], cwd=folder)
    tap.output(["gcc", optimise, "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan",
                "pan.c"], cwd=folder)
    return tap.output(["./pan", "-m10000", "-n"], cwd=folder)


def holds(options):
    need_spin()
    with tempfile.TemporaryDirectory() as folder:
        said = explore(options, pathlib.Path(folder))
    complete = "Search not completed" not in said and "too small" not in said
    if "errors: 0" not in said or not complete:
        raise AssertionError(said)


def is_found(fault):
    _, options, rule = FAULTS[fault]
    need_spin()
    with tempfile.TemporaryDirectory() as folder:
        said = explore([fault] + options, pathlib.Path(folder), "-O1")
    if "errors: 1" not in said or PROPERTIES[rule] not in said.replace(" ", ""):
        raise AssertionError(said)


def show(fault):
    """The steps that lead to a fault, with the values they change."""
    with tempfile.TemporaryDirectory() as folder:
        explore([fault] + FAULTS[fault][1], pathlib.Path(folder))
        defines = [f"-D{each}" for each in [fault] + FAULTS[fault][1]]
        print(tap.output(["spin", "-t", "-p", "-g", *defines, "order.pml"],
                         cwd=folder))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        tap.run([(name, lambda o=options: holds(o))
                 for name, options in SOUND.items()] +
                [(f"{rule}: {what}", lambda f=fault: is_found(f))
                 for fault, (what, _, rule) in FAULTS.items()])
