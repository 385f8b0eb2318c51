# SPDX-License-Identifier: Apache-2.0
"""The cases of stores with ranks, on processes of mpirun.

    test_mpi_ranks.py MPI_RANKS SHIM [MPIRUN]

SHIM is the library of plugins/comm for the MPI of this machine. Without it or
mpirun the cases are skipped.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

PROGRAM, SHIM, MPIRUN = (sys.argv[1:] + ["", ""])[:3]
# Open MPI keeps memory that it never frees; the local backend finds our leaks.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0",
               "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_btl_base_warn_component_unused": "0"}


def run_processes(n):
    if not MPIRUN:
        raise tap.Skip("there is no mpirun")
    if not SHIM and "TENON_MPI_LIBRARY" not in os.environ:
        raise tap.Skip("plugins/comm was built without MPI")
    done = subprocess.run([MPIRUN, "-n", str(n), PROGRAM], env=ENVIRONMENT,
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=200, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert sum(line.startswith("ok ") for line in lines) >= 11, done.stdout


tap.run([("stores hold on 2 processes", lambda: run_processes(2)),
         ("stores hold on 4 processes", lambda: run_processes(4))])
