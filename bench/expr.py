# SPDX-License-Identifier: Apache-2.0
"""GB/s of expressions as opgen compiles them, beside loops of intrinsics,
NumPy, libtorch and the limit of the memory.

    expr.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and tables of the medians. A
program that may use one thread is pinned to one core.
"""

import pathlib
import sys

from samples import CORES, TORCHES, Program, Samples, exists, save, say, table, \
    find_torches

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
SOURCE = pathlib.Path(__file__).resolve().parent
NUMPY = BUILD.parent / "numpy"  # a newer one than the system's
SIZES = {1024: "1 K", 65536: "64 K", 1048576: "1 M", 16777216: "16 M"}
PEERS = {"numpy": "NumPy", "numpy_new": "NumPy, newer", **TORCHES}


def programs(threads):
    """Ours, and the peers that are there."""
    cores = CORES[threads]
    numpy = ["/usr/bin/python3", SOURCE / "peers" / "numpy_expr.py", threads]
    found = [Program("tenon", [BENCH / "expression",
                               BENCH / "expr" / "expr.so", threads], cores)]
    if exists("numpy", pathlib.Path("/usr/lib/python3/dist-packages/numpy"),
              "python3-numpy"):
        found.append(Program("numpy", numpy, CORES[1]))
    if NUMPY.exists():
        found.append(Program("numpy_new", numpy, CORES[1],
                             PYTHONPATH=str(NUMPY)))
    return found + find_torches(BENCH / "peers" / "torch_expr", [threads], threads)


def spread(ratio):
    """A cell: median, lowest and highest of paired rounds."""
    return "–" if ratio is None else \
        f"{ratio[1]:.2f} ({ratio[0]:.2f}–{ratio[2]:.2f})"


def cell(value):
    """A cell."""
    return "–" if value is None else f"{value:.1f}"


def best_peer(samples, name):
    """The ratio to the peer with the highest median, and its name."""
    best = samples.best(name, PEERS, max)
    return (None, "–") if best is None else \
        (samples.ratio(name, "tenon", best), PEERS[best])


def over_limit(samples, name):
    """The ratio to memory with ordinary stores, and to the faster of both."""
    expression, n = name.split("/")
    reads = 2 if expression in ("add", "mul", "axpy", "add_f64", "add_f16",
                                "add_bf16", "add_strided") else 1
    found = []
    for kinds in (["limit"], ["limit", "limit_nt"]):
        limits = zip(*(samples.values["tenon", f"{kind}/{reads}/{n}"]
                       for kind in kinds))
        pairs = zip(samples.values["tenon", name], map(max, limits))
        ratios = sorted(ours / limit for ours, limit in pairs)
        found.append((ratios[0], ratios[len(ratios) // 2], ratios[-1]))
    return found


def over_hand(samples, name):
    """The ratio to the loop of intrinsics, in one process."""
    hands = samples.values.get(("tenon", f"hand/{name}"))
    if not hands:
        return None
    ratios = sorted(ours / hand for ours, hand
                    in zip(samples.values["tenon", name], hands))
    return ratios[0], ratios[len(ratios) // 2], ratios[-1]


def row(samples, name):
    """The results of one expression at one size."""
    against, best = best_peer(samples, name)
    ordinary, any_store = over_limit(samples, name)
    return [name.split("/")[0], cell(samples.median("tenon", name)),
            cell(samples.median("tenon", f"hand/{name}")),
            *(cell(samples.median(peer, name)) for peer in PEERS),
            spread(against), best, spread(over_hand(samples, name)),
            f"{ordinary[1]:.2f} / {any_store[1]:.2f}"]


def measure(threads):
    """Everything that so many threads are measured at."""
    samples = Samples()
    samples.collect(programs(threads), ROUNDS)
    for program, name in samples.values:
        low, high = samples.spread(program, name)
        say(f"expr.{threads}.{name.replace('/', '.')}.{program}",
            samples.median(program, name), "GB/s", f"{low:.1f}-{high:.1f}")
    names = [name for name in samples.names("tenon") if name.count("/") == 1]
    for size, text in SIZES.items():
        here = [name for name in names if name.endswith(f"/{size}")]
        if not here:
            continue
        limits = (cell(samples.median("tenon", f"{kind}/{reads}/{size}"))
                  for reads in (1, 2, "next")
                  for kind in ("limit", "limit_nt"))
        table(f"GB/s, {text} elements, {threads} thread"
              f"{'s' if threads > 1 else ''}; limit, ordinary / non-temporal "
              "stores: one array read {} / {}, two {} / {}, one that has just "
              "been written {} / {}".format(*limits),
              ["expression", "tenon", "by hand", *PEERS.values(),
               "tenon / best peer", "which", "tenon / by hand",
               "tenon / limit, ordinary / any"],
              [row(samples, name) for name in here])


def main():
    """All figures of expressions in docs/benchmarks/performance.md."""
    for threads in CORES:
        measure(threads)
    save("expr")


if __name__ == "__main__":
    main()
