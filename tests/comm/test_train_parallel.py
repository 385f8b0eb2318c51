# SPDX-License-Identifier: Apache-2.0
"""examples/train_parallel: any number of ranks learns the same as one rank.

    test_train_parallel.py PROGRAM DIGITS MPIRUN PLUGIN...

MPIRUN is "" where MPI is missing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

PROGRAM, DIGITS, MPIRUN = sys.argv[1:4]
PLUGINS = sys.argv[4:]
EPOCHS = 3
CLOSE = 1e-6
# Open MPI keeps memory that it never frees.
ENV = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0",
       "OMPI_ALLOW_RUN_AS_ROOT": "1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(*options, launcher=()):
    done = subprocess.run(
        [*launcher, PROGRAM, DIGITS, *map(str, options), *PLUGINS], env=ENV,
        text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=240)
    return done.returncode, done.stdout, done.stderr


def losses(*options, launcher=()):
    """The loss of each epoch."""
    status, said, errors = run(*options, launcher=launcher)
    tap.equal(status, 0, errors)
    found = re.findall(r"^epoch +(\d+)  loss ([\d.]+)", said, re.M)
    return {int(epoch): float(loss) for epoch, loss in found}


def mpi(n):
    if not MPIRUN:
        raise tap.Skip("there is no mpirun, or no MPI to compile with")
    return [MPIRUN, "--oversubscribe", "-n", str(n)]


def expect_close(got, wanted, title):
    tap.equal(sorted(got), sorted(wanted), title)
    for epoch, loss in wanted.items():
        assert abs(got[epoch] - loss) <= CLOSE, (
            f"{title}, epoch {epoch}: {got[epoch]}, one rank has {loss}")


ALONE = losses("--epochs", EPOCHS)


def one_rank_learns():
    tap.equal(len(ALONE), EPOCHS, "epochs")
    assert ALONE[EPOCHS] < 0.7 * ALONE[1], ALONE


def threads_learn_the_same():
    for n in 2, 4:
        expect_close(losses("--epochs", EPOCHS, "--ranks", n), ALONE,
                     f"{n} ranks of one process")


def two_processes_learn_the_same():
    expect_close(losses("--epochs", EPOCHS, launcher=mpi(2)), ALONE, "mpirun -n 2")


def four_processes_learn_the_same():
    expect_close(losses("--epochs", EPOCHS, launcher=mpi(4)), ALONE, "mpirun -n 4")


def other_ranks_continue_from_a_file():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "weights.safetensors"
        first = losses("--ranks", 2, "--epochs", 1, "--save", file)
        rest = losses("--ranks", 4, "--epochs", EPOCHS - 1, "--load", file)
        expect_close({**first, **rest}, ALONE, "2 ranks, then 4")


def spans(events):
    """(name, begin, end) of the calls that complete later, and of the others."""
    later, others, begun = [], [], {}
    for event in events:
        key = (event["name"], event.get("id"))
        if event["ph"] == "b":
            begun[key] = event["ts"]
        elif event["ph"] == "e":
            later.append((event["name"], begun.pop(key), event["ts"]))
        elif event["ph"] == "X":
            others.append((event["name"], event["ts"],
                           event["ts"] + event["dur"]))
    return sorted(later, key=lambda each: each[1]), others


def gradients_travel_while_earlier_layers_compute():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "trace.json"
        losses("--ranks", 2, "--epochs", 1, "--trace", file)
        trace = json.loads(file.read_text())
        later, others = spans(trace["traceEvents"] if isinstance(trace, dict)
                              else trace)
        tap.equal([name for name, _, _ in later], ["bucket2", "bucket0"],
                  "order of the buckets")
        began = later[0][1]
        after = [name for name, begin, _ in others
                 if begin > began and name.startswith("fc1_backward")]
        assert after, f"fc1's gradient is not after the begin of {later[0]}"
        assert later[1][1] >= later[0][2], later


def wrong_numbers_of_ranks_are_refused():
    status, _, errors = run("--ranks", 3)
    tap.equal(status, 1, errors)
    assert "3 ranks do not divide a batch of 32 rows" in errors, errors
    for wrong in "0", "17", "two":
        tap.equal(run("--ranks", wrong)[0], 2, wrong)


if __name__ == "__main__":
    tap.run([one_rank_learns, threads_learn_the_same,
             two_processes_learn_the_same, four_processes_learn_the_same,
             other_ranks_continue_from_a_file,
             gradients_travel_while_earlier_layers_compute,
             wrong_numbers_of_ranks_are_refused])
