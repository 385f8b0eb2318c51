# SPDX-License-Identifier: Apache-2.0
"""Microseconds of an all_reduce of floats between processes of this machine, beside
MPI called directly and Gloo, and the share of its time that training steps hide.

    comm.py BUILD_FOLDER [ROUNDS]

mpirun starts all programs once for each number of processes. They wait for
requests, and take turns for each size. A time is that of the slowest process, the
median of the calls of a turn; a ratio is the median of those of the rounds.
"""

import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import tempfile

from samples import Program, exists, imports, save, say, table

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
SOURCE = pathlib.Path(__file__).resolve().parent
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
RANKS = (2, 4)
MESSAGES = (8, 64 << 20)  # for latency and bandwidth
SIZES = [1 << power for power in range(10, 27, 2)]  # 1 KB to 64 MB
NAMES = {"tenon": "tenon", "direct": "MPI_Allreduce",
         "later": "MPI_Iallreduce", "gloo": "Gloo"}
NETS = {("mlp", 64): "MLP 784-512-512-10", ("resnet", 1): "ResNet-18, 224 x 224",
        ("resnet", 8): "ResNet-18, 224 x 224"}
BUCKETS_KB = (1 << 10, 10 << 10)
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
# mpirun refuses to start as root without these. Gloo uses the loopback device.
ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
PATIENCE = 60  # seconds until a program counts as hanging


class Team:
    """The processes of one program."""

    def __init__(self, program, ranks, folder):
        self.name = program.name
        folder.mkdir()
        for rank in range(ranks):
            os.mkfifo(folder / str(rank))
        self.process = subprocess.Popen(
            [*MPIRUN, "-n", str(ranks), *program.command, str(folder)], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env={**program.env, **ENV})
        # Opened to read as well, so that this does not wait for the program.
        self.pipes = [os.fdopen(os.open(folder / str(rank), os.O_RDWR), "w")
                      for rank in range(ranks)]

    def ask(self, variant, size):
        """Microseconds of one call."""
        for pipe in self.pipes:
            print(variant, size, file=pipe, flush=True)
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.close()
            sys.exit(f"comm.py: {self.name} did not answer '{variant} {size}' "
                     f"within {PATIENCE} seconds")
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"comm.py: {self.name} ended with {self.process.wait()}")
        return float(line)

    def close(self):
        """Ends the processes."""
        self.process.terminate()
        self.process.wait()
        for pipe in self.pipes:
            pipe.close()


def find_plugin(name):
    """The file of a plugin."""
    return BUILD / "plugins" / name / f"{name}.so"


def programs():
    """(program, variants), ours first."""
    found = []
    if not shutil.which("mpirun"):
        print("SKIPPED comm: package openmpi-bin not installed")
        return found
    found.append((Program("tenon", [BENCH / "comm", find_plugin("comm")]),
                  ["tenon"]))
    if exists("MPI", BENCH / "peers" / "mpi", "libopenmpi-dev"):
        found.append((Program("mpi", [BENCH / "peers" / "mpi"]),
                      ["direct", "later"]))
    if imports("torch.distributed"):
        found.append((Program("gloo", ["/usr/bin/python3",
                                       SOURCE / "peers" / "gloo.py"]), ["gloo"]))
    else:
        print("SKIPPED gloo: package python3-torch not installed")
    return found


def collect(ranks):
    """{(variant, size): [microseconds, round by round]}, and the same of messages
    that two processes send each other by MPI, as "message"."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        teams = [(Team(program, ranks, pathlib.Path(folder) / program.name),
                  variants) for program, variants in programs()]
        for _ in range(ROUNDS):
            for size in SIZES:
                for team, variants in teams:
                    for variant in variants:
                        found.setdefault((variant, size), []).append(
                            team.ask(variant, size))
            for team, _ in teams:
                for size in MESSAGES if team.name == "mpi" else ():
                    found.setdefault(("message", size), []).append(
                        team.ask("message", size))
        for team, _ in teams:
            team.close()
    return found


def size_name(size):
    """Bytes in KB or MB."""
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def ratio(found, peer, size):
    """Peer / tenon, the median of the rounds."""
    pairs = zip(found.get((peer, size), []), found.get(("tenon", size), []))
    ratios = [theirs / ours for theirs, ours in pairs]
    return f"{statistics.median(ratios):.2f}" if ratios else "–"


def report(found, ranks):
    """Lines and a row for each size."""
    for (variant, size), values in found.items():
        say(f"all_reduce.{ranks}.{size}.{variant}" if variant != "message"
            else f"message.{ranks}.{size}.mpi", statistics.median(values), "us",
            f"{min(values):.1f}-{max(values):.1f}")
    for size in SIZES:
        times = [found.get((variant, size)) for variant in NAMES]
        yield [str(ranks), size_name(size),
               *(f"{statistics.median(each):.1f}" if each else "–"
                 for each in times),
               *(ratio(found, peer, size) for peer in ("direct", "later", "gloo"))]


def fit_messages(found):
    """Prints the latency of MPI's messages, and the bandwidth of large ones, which
    two processes send each other: constants of scaling.py."""
    if ("message", MESSAGES[0]) in found:
        small, large = (statistics.median(found["message", size])
                        for size in MESSAGES)
        say("message.latency", small, "us")
        say("message.bandwidth",
            (MESSAGES[1] - MESSAGES[0]) / (large - small) / 1e3, "GB/s")


def measure_overlap():
    """Rows of the share of all_reduce that the gradients of a net hide."""
    plugins = [find_plugin(name)
               for name in ("openblas", "elemwise", "nn", "comm")]
    for (net, batch), title in NETS.items():
        for bucket in BUCKETS_KB:
            lines = Program("overlap", [BENCH / "overlap", net, batch, bucket,
                                        *plugins]).run()
            values = {name: float(value) for name, value in lines}
            for name, value in values.items():
                say(f"overlap.{net}.{batch}.{bucket}.{name}", value,
                    "" if name == "hidden" else "ms")
            yield [f"{title}, batch {batch}", size_name(bucket << 10),
                   *(f"{values[name]:.1f}"
                     for name in ("gradients", "both", "all_reduce")),
                   f"{values['hidden']:.2f}"]


def main():
    """All figures of comm in docs/benchmarks/performance.md."""
    rows = []
    for ranks in RANKS:
        found = collect(ranks)
        rows += report(found, ranks)
        if ranks == 2:
            fit_messages(found)
    table("Microseconds of an all_reduce of floats between processes of one machine",
          ["processes", "size", *NAMES.values(), "MPI_Allreduce / tenon",
           "MPI_Iallreduce / tenon", "Gloo / tenon"], rows)
    table("Milliseconds of gradients in two runtimes of one process, backend local",
          ["net", "bucket", "gradients", "with all_reduce", "all_reduce alone",
           "hidden"], list(measure_overlap()))
    save("comm")


if __name__ == "__main__":
    main()
