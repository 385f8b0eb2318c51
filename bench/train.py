# SPDX-License-Identifier: Apache-2.0
"""Training steps of whole nets, beside libtorch.

    train.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and a table of the medians.
"""

import pathlib
import sys

from samples import CORES, TORCHES, Program, Samples, save, say, table, \
    find_torches

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
PLUGINS = [BUILD / "plugins" / name / f"{name}.so"
           for name in ("openblas", "elemwise", "nn", "optim")]
NETS = {"mlp": "MLP 784-512-512-10", "lenet": "LeNet-5, 28 x 28",
        "resnet": "ResNet-18, 224 x 224"}
NHWC = {f"{each}_nhwc": f"{TORCHES[each]}, NHWC"
        for each in ("torch_tuned", "torch_new")}
PEERS = {**TORCHES, **NHWC}


def programs(net, threads):
    """Ours, and libtorch, tuned with channels last, too."""
    torch = BENCH / "peers" / "torch_train"
    found = [Program("tenon", [BENCH / "train", net, threads, *PLUGINS],
                     CORES[threads]), *find_torches(torch, [net, threads], threads)]
    if net != "mlp":
        found += [each for each in find_torches(torch, [net, threads, "nhwc"],
                                           threads, "_nhwc")
                  if each.name in NHWC]
    return found


def cell(value, digits=2):
    """A number, or that there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def rows(net, threads):
    """Measures a net; a row for each of its batches."""
    samples = Samples()
    samples.collect(programs(net, threads), ROUNDS)
    for name in samples.names("tenon"):
        ours = samples.median("tenon", name)
        best = samples.best(name, PEERS)
        for program in ("tenon", *PEERS):
            if samples.median(program, name) is None:
                continue
            low, high = samples.spread(program, name)
            say(f"{net}.{threads}.{name.replace('/', '.')}.{program}",
                samples.median(program, name), "ms", f"{low:.3f}-{high:.3f}")
        yield [f"{NETS[net]}, batch {name.split('/')[1]}", cell(ours),
               *(cell(samples.median(peer, name)) for peer in PEERS),
               cell(best and samples.median(best, name) / ours)]


def main():
    """All training steps in docs/benchmarks/performance.md."""
    for threads in CORES:
        found = [row for net in NETS for row in rows(net, threads)]
        table(f"Milliseconds of a training step, {threads} "
              f"thread{'s' if threads > 1 else ''}",
              ["net", "program", *PEERS.values(), "best torch / program"],
              found)
    save("train")


if __name__ == "__main__":
    main()
