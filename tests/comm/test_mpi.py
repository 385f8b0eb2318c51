# SPDX-License-Identifier: Apache-2.0
"""The cases of comm_test on processes of mpirun, and the end of a process.

    test_mpi.py COMM_TEST SHIM [MPIRUN]

SHIM is the library for the MPI of this machine. Without it or mpirun the cases
are skipped. TENON_MPI_LIBRARY, if set, is used in place of SHIM.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import tap

PROGRAM = sys.argv[1]
SHIM = sys.argv[2] if len(sys.argv) > 2 else ""
MPIRUN = sys.argv[3] if len(sys.argv) > 3 else ""
# Open MPI keeps memory that it never frees; the local backend finds our leaks.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0",
               "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_btl_base_warn_component_unused": "0"}


def run(n, *arguments, **environment):
    """The output and exit status of n processes."""
    if not MPIRUN:
        raise tap.Skip("there is no mpirun")
    if not SHIM and "TENON_MPI_LIBRARY" not in os.environ:
        raise tap.Skip("plugins/comm was built without MPI")
    done = subprocess.run([MPIRUN, "-n", str(n), PROGRAM, *arguments],
                          env={**ENVIRONMENT, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=200)
    return done.returncode, done.stdout


def expect_all(text, least):
    """Fails unless at least so many cases ran, all with success."""
    lines = text.splitlines()
    if any(line.startswith("not ok") for line in lines):
        raise AssertionError(text)
    if sum(line.startswith("ok ") for line in lines) < least:
        raise AssertionError("too few cases ran:\n" + text)


def runs_all_cases(n):
    status, text = run(n, "mpi")
    expect_all(text, 20)
    tap.equal(status, 0, "status of mpirun:\n" + text)


def breaks_groups(n, *cases):
    """mpirun may report that MPI did not end properly."""
    for case in cases:
        with tempfile.NamedTemporaryFile() as lock:
            _, text = run(n, "mpi-breaks", case, COMM_TEST_LOCK=lock.name)
        expect_all(text, 1)


def survives_a_killed_rank():
    """All other processes end: by the timeout of a second, or by mpirun."""
    begin = time.monotonic()
    status, text = run(3, "mpi-breaks", "killed_rank", COMM_TEST_KILL="1")
    if time.monotonic() - begin > 60:
        raise AssertionError("the processes lived on for a minute:\n" + text)
    if status == 0:
        raise AssertionError("mpirun did not report the killed rank:\n" + text)


def alone(**environment):
    """The result of a process that joins no group."""
    keep = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMI", "MV2_"))}
    return tap.output([PROGRAM, "alone"], env={**keep, **environment})


def has_one_rank_without_a_group():
    total, received = alone().splitlines()
    tap.equal(total.strip(), "0 3", "result")
    if "there is no message of this rank to itself" not in received:
        raise AssertionError(received)


def refuses_processes_that_have_not_joined():
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                       ("PMI_RANK", "PMI_SIZE")):
        text = alone(**{rank: "1", size: "2"})
        if "mpirun started this process as rank 1 of 2" not in text:
            raise AssertionError(text)


tap.run([has_one_rank_without_a_group, refuses_processes_that_have_not_joined,
         ("runs all cases on 2 processes", lambda: runs_all_cases(2)),
         ("runs all cases on 4 processes", lambda: runs_all_cases(4)),
         ("breaks groups of 2 processes", lambda: breaks_groups(
             2, "after_the_timeout", "member_leaves", "failed_inputs",
             "shutdown")),
         ("breaks groups of 4 processes", lambda: breaks_groups(
             4, "failed_inputs")),
         survives_a_killed_rank])
