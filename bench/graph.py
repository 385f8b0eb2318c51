# SPDX-License-Identifier: Apache-2.0
"""Programs made of graphs, beside libtorch's calls and loops in C.

    graph.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and tables of the medians.
"""

import pathlib
import sys

from samples import CORES, TORCHES, Program, Samples, save, say, table, \
    find_torches

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
PLUGINS = BUILD / "plugins"
ELEMWISE = PLUGINS / "elemwise" / "elemwise.so"
NN = [PLUGINS / "openblas" / "openblas.so", PLUGINS / "nn" / "nn.so",
      PLUGINS / "optim" / "optim.so"]


def programs(what, threads, plugins, binary="graph"):
    """Ours, and libtorch."""
    return [Program("tenon", [BENCH / binary, what, threads, *plugins],
                    CORES[threads]),
            *find_torches(BENCH / "peers" / f"torch_{binary}", [what, threads],
                     threads)]


def collect(what, threads, plugins, unit, binary="graph"):
    """Samples of one kind of work, each with a line."""
    samples = Samples()
    samples.collect(programs(what, threads, plugins, binary), ROUNDS)
    for program, name in samples.values:
        low, high = samples.spread(program, name)
        say(f"{what}.{threads}.{name.replace('/', '.')}.{program}",
            samples.median(program, name), unit, f"{low:.3f}-{high:.3f}")
    return samples


def number(samples, program, name, digits=2):
    """A cell."""
    median = samples.median(program, name)
    return "–" if median is None else f"{median:.{digits}f}"


def times(samples, name, peer_name, peers=TORCHES):
    """How many times faster than the best peer, by medians of the rounds."""
    ours = samples.median("tenon", name)
    best = samples.best(peer_name, peers)
    return "–" if None in (ours, best) else \
        f"{samples.median(best, peer_name) / ours:.2f}"


def nodes():
    """Tiny calls."""
    samples = collect("nodes", 1, [ELEMWISE], "ns")
    table("Nanoseconds per node of a chain of 20, one thread",
          ["elements", "program", "bare calls", *TORCHES.values()],
          [[n, number(samples, "tenon", f"node/{n}", 1),
            number(samples, "tenon", f"bare/{n}", 1),
            *(number(samples, each, f"node/{n}", 0) for each in TORCHES)]
           for n in (1, 64)])


def chain(threads):
    """Six elementwise calls."""
    samples = collect("chain", threads, [ELEMWISE], "ms")
    tuned = ("torch_tuned", "torch_new")
    table(f"Milliseconds of sigmoid(a x^2 + b x + c) in six calls, {threads} "
          f"thread{'s' if threads > 1 else ''}; the loops in C have one",
          ["floats", "fused", "apart", "loop in C", "rough loop",
           *(TORCHES[each] + given for each in tuned
             for given in ("", ", given")),
           "best torch / fused", "best given / fused", "loop / fused",
           "rough / fused"],
          [[n, *(number(samples, "tenon", f"{each}/{n}", 3)
                 for each in ("fused", "apart", "by_hand", "rough")),
            *(number(samples, each, f"{kind}/{n}", 3) for each in tuned
              for kind in ("eager", "given")),
            times(samples, f"fused/{n}", f"eager/{n}"),
            times(samples, f"fused/{n}", f"given/{n}"),
            times(samples, f"fused/{n}", f"by_hand/{n}", ["tenon"]),
            times(samples, f"fused/{n}", f"rough/{n}", ["tenon"])]
           for n in (65536, 1048576, 16777216)])


def mlp(threads):
    """A training step."""
    samples = collect("mlp", threads, NN, "ms", "train")
    table(f"Milliseconds of a training step of an MLP 784-512-512-10, "
          f"{threads} thread{'s' if threads > 1 else ''}",
          ["batch", "program", *TORCHES.values(), "best torch / program"],
          [[n, *(number(samples, each, f"step/{n}", 3)
                 for each in ("tenon", *TORCHES)),
            times(samples, f"step/{n}", f"step/{n}")]
           for n in (64, 1)])


def deep():
    """How long it takes to make a program."""
    samples = Samples()
    samples.collect([Program("tenon", [BENCH / "graph", "deep", 1, ELEMWISE,
                                       *NN], CORES[1])], 3)
    table("Seconds to make a training program of a net with shortcuts",
          ["layers", "the graph", "the program"],
          [[n, number(samples, "tenon", f"build/{n}", 3),
            number(samples, "tenon", f"bind/{n}", 3)]
           for n in (250, 500, 1000)])


NETS = {"inception_bn": "Inception-BN", "inception_bn_cudnn": "with cuDNN",
        "resnet_50": "ResNet-50", "alexnet": "AlexNet", "vgg_16": "VGG-16",
        "googlenet": "GoogLeNet", "lstm_20": "LSTM 4 x 1024, 20 steps",
        "lstm_200": "200 steps", "resnet_1000": "ResNet, 1000 layers"}


def plans():
    """Bytes of intermediate results."""
    samples = Samples()
    samples.collect([Program("tenon", [BENCH / "plans"], CORES[1])], 3)

    def row(title, net):
        found = {plan: samples.median("tenon", f"{plan}/{net}")
                 for plan in ("none", "inplace", "share", "both", "default",
                              "bound")}
        return [title, *(f"{each / 2**20:.0f}" for each in found.values()),
                f"{found['default'] / found['bound']:.4f}",
                f"{1000 * samples.median('tenon', f'seconds/{net}'):.2f}"]

    table("MB of intermediate results of published nets, by the rules of MXNet "
          "0.12 and by default",
          ["net", "none", "in-place", "sharing", "both", "default",
           "lower bound", "default / bound", "ms to plan"],
          [row(f"{title}, {part}", f"{net}_{part}")
           for net, title in NETS.items() for part in ("train", "forward")])


def main():
    """All figures of graphs in docs/benchmarks/performance.md."""
    nodes()
    for threads in CORES:
        chain(threads)
    for threads in CORES:
        mlp(threads)
    deep()
    plans()
    save("graph")


if __name__ == "__main__":
    main()
