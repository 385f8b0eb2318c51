# SPDX-License-Identifier: Apache-2.0
"""Empty tasks per second, ours and the peers', and memory of the engine.

    engine.py BUILD_FOLDER [ROUNDS [SHRINK]]

Prints lines `name value unit lowest-highest share`, where share is the part of
the tasks that the pushing thread ran, and tables of the medians. Names are
pattern.workers.program.variant.
"""

import functools
import pathlib
import subprocess
import sys

from samples import Program, Samples, exists, save, say, table

BENCH = pathlib.Path(sys.argv[1]).resolve() / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
SHRINK = sys.argv[3] if len(sys.argv) > 3 else "1"
WORKERS = (1, 2)
PATTERNS = ("chain", "independent", "wavefront", "fan", "random")
MXNET = [BENCH / "peers" / "mxnet",
         BENCH.parents[1] / "mxnet" / "mxnet" / "libmxnet.so"]
MXNET_ENGINES = ("device", "pooled")
PEERS = (("tbb", "libtbb-dev"), ("libgomp", "g++"), ("libomp", "libomp-dev"))


@functools.lru_cache
def mxnet_works():
    """Whether MXNet is there and keeps the order; says so if not."""
    if not MXNET[1].exists():
        print("SKIPPED mxnet: its wheel could not be fetched", flush=True)
        return False
    for engine in MXNET_ENGINES:
        tried = subprocess.run([*MXNET, engine, "2", "1000"], text=True,
                               capture_output=True, check=False)
        if tried.returncode:
            why = (tried.stderr.splitlines() or [tried.returncode])[-1]
            print(f"SKIPPED mxnet: {why}", flush=True)
            return False
    return True


def programs(workers):
    """Ours in three ways, and every peer that was built."""
    found = [Program(name, [BENCH / "engine", "tasks", workers, name, SHRINK])
             for name in ("inline", "forced", "tokens")]
    for name, package in PEERS:
        path = BENCH / "peers" / name
        if exists(name, path, package):
            found.append(Program(name, [path, workers, SHRINK]))
    if mxnet_works():
        found += [Program("mxnet", [*MXNET, engine, workers, SHRINK])
                  for engine in MXNET_ENGINES]
    return found


def on_caller(samples, program, name):
    """Which part of the tasks the pushing thread ran, in percent."""
    counts = [int(n) for n in samples.more[program, name][0].split("+")]
    return round(100 * counts[0] / sum(counts))


def report(samples, workers):
    """A line per program, pattern and variant."""
    for program, name in samples.values:
        pattern, variant = name.split("/")
        low, high = samples.spread(program, name)
        say(f"{pattern}.{workers}.{program}.{variant}",
            samples.median(program, name), "Mtasks/s",
            f"{low:.2f}-{high:.2f} "
            f"caller {on_caller(samples, program, name)}%")


def cell(samples, program, name):
    """Median, followed by the caller's share."""
    median = samples.median(program, name)
    if median is None:
        return "–"
    return f"{median:.3g} ({on_caller(samples, program, name)})"


def variants(samples):
    """Every (program, variant) that there is, ours first."""
    return list(dict.fromkeys((program, name.split("/")[1])
                              for program, name in samples.values))


def tabulate(every):
    """One table per number of workers: variants down, patterns across."""
    for workers, samples in every.items():
        table(f"Million empty tasks per second, {workers} worker"
              f"{'s' if workers > 1 else ''}; in brackets the percentage that "
              "the pushing thread ran",
              ["program", "variant", *PATTERNS],
              [[program, variant,
                *(cell(samples, program, f"{pattern}/{variant}")
                  for pattern in PATTERNS)]
               for program, variant in variants(samples)])


def main():
    """All figures of the engine in docs/benchmarks/performance.md."""
    every = {}
    for workers in WORKERS:
        every[workers] = Samples()
        every[workers].collect(programs(workers), ROUNDS)
        report(every[workers], workers)
    print("SKIPPED taskflow: Debian 12 has no package of it (13 has "
          "libtaskflow-cpp-dev); not measured here")
    memory = Samples()
    memory.collect([Program("memory", [BENCH / "engine", "memory"])], ROUNDS)
    for program, name in memory.values:
        say(name, memory.median(program, name),
            memory.more[program, name][0])
    tabulate(every)
    save("engine")


if __name__ == "__main__":
    main()
