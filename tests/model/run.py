# SPDX-License-Identifier: Apache-2.0
"""Checks the models with spin, and that spin finds seeded faults.

    run.py [FAULT]      all checks, as TAP; or the steps to one fault, as spin
                        prints them
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tap  # noqa: E402

# Properties that hold: name, the model, and its options.
SOUND = {
    "three operations on two variables": ("order", ["FAST_PATH"]),
    "errors travel as if all ran one after the other":
        ("order", ["FAST_PATH", "ERRORS"]),
    "a wait that gives up disturbs nothing": ("order", ["FAST_PATH", "WAITS"]),
    "an asynchronous job of a host is completed once": ("token", []),
}
# The properties of the models, and a part of spin's message, without blanks, if
# one is violated.
PROPERTIES = {
    "grants": "(word[v]>=32)",
    "leaving": "(other>=n_along[v])",
    "order": "older[op]&",
    "errors": "assertionviolated(bad==spoiled[op])",
    "readers together": "n_queued[v]>0",
    "no use after free": "freed[",
    "no operation waits for ever": "invalidendstate(",
    "one completion": "violatedlisted",
    "no use of a freed token": "!(freed)",
    "jobs end": "(returned&&(completed",
}
# Seeded faults: the mistake, the options that show it, and the property that
# is violated first.
FAULTS = {
    "FAULT_HANDED_ON_TO_READER":
        ("a writer hands on to a reader", [], "grants"),
    "FAULT_LEAVING_IGNORED":
        ("a writer takes a claim along that may leave", ["WAITS"], "leaving"),
    "FAULT_QUEUE_JUMPED":
        ("acquire ignores QUEUED", [], "order"),
    "FAULT_LOCK_IGNORED_BY_RELEASE":
        ("release ignores LOCK", [], "no operation waits for ever"),
    "FAULT_LOCK_IGNORED_BY_ERRORS":
        ("an error is put on in spite of LOCK", ["ERRORS"], "errors"),
    "FAULT_ONE_READER_LET_IN":
        ("release grants the first reader only", [], "readers together"),
    "FAULT_COUNTED_AS_IT_GOES":
        ("the counter of a token has no extra count", [],
         "no operation waits for ever"),
    "FAULT_GATE_LEFT_OPEN":
        ("two threads push at the same time", [], "order"),
    "FAULT_CANCEL_HANDS_NOTHING_OVER":
        ("a wait that gives up grants no claim", ["WAITS"],
         "readers together"),
    "FAULT_CANCEL_FORGETS_GRANT":
        ("a wait that gives up ignores its grant",
         ["WAITS"], "no use after free"),
}
# The same of the model of asynchronous jobs.
TOKEN_FAULTS = {
    "FAULT_CLAIMED_IN_TWO_STEPS":
        ("two threads complete a job", [], "one completion"),
    "FAULT_LISTED_BEFORE_HELD":
        ("a shutdown sees a token that `begin` does not hold yet", [],
         "no use of a freed token"),
    "FAULT_CLOSED_RUNTIME_BEGINS":
        ("a job begins after the shutdown has searched", [],
         "no operation waits for ever"),
    "FAULT_LAST_OWNER_COMPLETES_NOTHING":
        ("a token is released without completion", [], "jobs end"),
    "FAULT_RUNTIME_RELEASED_BEFORE_TOKEN":
        ("an owner releases the runtime before the token", [],
         "no use of a freed token"),
}
MODEL_OF = {**dict.fromkeys(FAULTS, "order"),
            **dict.fromkeys(TOKEN_FAULTS, "token")}
FAULTS.update(TOKEN_FAULTS)


def need_spin():
    if not shutil.which("spin") or not shutil.which("gcc"):
        raise tap.Skip("spin and gcc are not installed; ./dev installs them")


def explore(model, options, folder, optimise="-O2"):
    """Output of the search; the steps to a mistake stay in the folder."""
    file = f"{model}.pml"
    (folder / file).write_text((HERE / file).read_text())
    defines = [f"-D{each}" for each in options]
    tap.output(["spin", "-a", *defines, file], cwd=folder)
    tap.output(["gcc", optimise, "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan",
                "pan.c"], cwd=folder)
    return tap.output(["./pan", "-m10000", "-n"], cwd=folder)


def holds(model, options):
    need_spin()
    with tempfile.TemporaryDirectory() as folder:
        output = explore(model, options, pathlib.Path(folder))
    complete = ("Search not completed" not in output and
                "too small" not in output)
    if "errors: 0" not in output or not complete:
        raise AssertionError(output)


def is_found(fault):
    _, options, rule = FAULTS[fault]
    need_spin()
    with tempfile.TemporaryDirectory() as folder:
        output = explore(MODEL_OF[fault], [fault] + options,
                         pathlib.Path(folder), "-O1")
    if ("errors: 1" not in output or
            PROPERTIES[rule] not in output.replace(" ", "")):
        raise AssertionError(output)


def show(fault):
    """The steps that lead to a fault, with the values they change."""
    with tempfile.TemporaryDirectory() as folder:
        explore(MODEL_OF[fault], [fault] + FAULTS[fault][1],
                pathlib.Path(folder))
        defines = [f"-D{each}" for each in [fault] + FAULTS[fault][1]]
        print(tap.output(["spin", "-t", "-p", "-g", *defines,
                          f"{MODEL_OF[fault]}.pml"], cwd=folder))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        tap.run([(name, lambda m=model, o=options: holds(m, o))
                 for name, (model, options) in SOUND.items()] +
                [(f"{rule}: {mistake}", lambda f=fault: is_found(f))
                 for fault, (mistake, _, rule) in FAULTS.items()])
