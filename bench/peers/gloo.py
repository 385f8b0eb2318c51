# SPDX-License-Identifier: Apache-2.0
"""all_reduce of torch.distributed with Gloo, for one rank of those that mpirun
started, as ../turns.h requests it ("gloo BYTES"). The argument is the folder of
the pipes."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

SECONDS, BATCH = 0.03, 2e-4
LEAST, MOST, CALLS = 3, 200, 100


def find_greatest(value):
    """The greatest of the values of all ranks."""
    values = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values.item()


def time_batch(x, n):
    """Seconds of one of n calls on the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(n):
        dist.all_reduce(x)
    return find_greatest((time.perf_counter() - begin) / n)


def measure(x):
    """Microseconds; turns.c does the same."""
    time_batch(x, 1)
    first = time_batch(x, 1)
    calls = CALLS if first * CALLS <= BATCH else int(BATCH / first) + 1
    taken = []
    while len(taken) < MOST and (len(taken) < LEAST
                                 or sum(taken) * calls < SECONDS):
        taken.append(time_batch(x, calls))
    return statistics.median(taken) * 1e6


def answer_request(n, size):
    """Microseconds for n floats."""
    x = torch.ones(n)
    dist.all_reduce(x)
    assert (x == size).all(), f"gloo: the sum is not {size}"
    # The sum replaces the operand; zeros remain zeros.
    return measure(x.zero_())


def main():
    """Answers requests."""
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{name}"])
                  for name in ("RANK", "SIZE"))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store",
                            rank=rank, world_size=size)
    with open(f"{sys.argv[1]}/{rank}", encoding="ascii") as pipe:
        for line in pipe:
            us = answer_request(int(line.split()[1]) // 4, size)
            if rank == 0:
                print(f"{us:.3f}", flush=True)


if __name__ == "__main__":
    main()
