# SPDX-License-Identifier: Apache-2.0
"""Step times of data-parallel training on 8 to 1024 ranks, by models of networks.

    scaling.py [PAGE [--check]]

Prints the tables of docs/decisions/116-scaling.md, or writes them into PAGE between
`<!-- scaling -->` and `<!-- end -->`. --check changes nothing, and fails if PAGE has
other tables. Nothing is measured here; the constants name their sources.

A message of n bytes takes alpha + n beta on a link, in both directions at once. A
rank adds n received bytes in n gamma. Seconds and bytes everywhere.
"""

import math
import pathlib
import re
import sys
from typing import NamedTuple

RANKS = (8, 16, 32, 64, 128, 256, 512, 1024)
BUCKETS = (1e6, 4e6, 10e6, 25e6, 50e6, 100e6)


# ---------------------------------------------------------------- networks

class Link(NamedTuple):
    """The cost of a message."""
    alpha: float
    beta: float


class Network(NamedTuple):
    """Nodes of `node` ranks, with links inside and between them. The ranks of a
    node share its link to other nodes, or each rank has one."""
    name: str
    node: int
    inner: Link
    outer: Link
    shared: bool
    gamma: float


# MPI: two processes of this machine that send each other 8 bytes, and 64 MB, by
# `./dev bench comm` (2026-11-29, Xeon, 2 processors, next to other load).
MPI = Link(0.4e-6, 1 / 1.6e9)
# 25 GbE: 94 % of the line rate is payload (1448 of 1538 bytes of a frame). The
# latency is assumed: TCP through the kernel takes 5.4 us over the loopback device of
# this machine, by the same program; interrupts, two adapters and a switch add to it.
ETHERNET = Link(25e-6, 8 / (0.94 * 25e9))
# HDR: 1.2 us and 192 Gb/s between two machines of Azure's HBv3 series
# (learn.microsoft.com, "HBv3-series virtual machine performance").
INFINIBAND = Link(1.2e-6, 8 / 192e9)
# Links of an A100 in a node: 300 GB/s each way, of which a ring reaches three
# quarters; 3.4 us is the latency of NVLink in NCCL 2.19's src/graph/tuning.cc.
NVLINK = Link(3.4e-6, 1 / 225e9)
# PCI express 4.0 with 16 lanes: 32 GB/s, of which 24 are reached; 5.7 us, ibid.
PCIE = Link(5.7e-6, 1 / 24e9)
# Two reads and a write of memory: 1.5 TB/s of an A100; 10 GB/s of a core here.
GPU_ADD, CORE_ADD = 3 / 1.5e12, 3 / 10e9

NETWORKS = (
    Network("MPI of this machine", 1, MPI, MPI, False, CORE_ADD),
    Network("25 GbE", 8, PCIE, ETHERNET, True, GPU_ADD),
    Network("200 Gb InfiniBand", 8, NVLINK, INFINIBAND, False, GPU_ADD))


# -------------------------------------------------------------- algorithms

def is_inside(net, p):
    """Whether p ranks are in one node."""
    return p <= net.node


def ring(net, p, n):
    """Parts go around a ring twice, first to be added. One flow of each direction
    crosses the link of a node."""
    link = net.inner if is_inside(net, p) else net.outer
    part = n / p
    return (p - 1) * (2 * (link.alpha + part * link.beta) + part * net.gamma)


def halving(net, p, n):
    """Recursive halving, then doubling (Rabenseifner). Ranks exchange the largest
    parts with neighbours, so that most bytes remain within a node."""
    total, part, distance = 0, n / 2, 1
    while distance < p:
        link, flows = net.inner, 1
        if distance >= net.node:
            link, flows = net.outer, net.node if net.shared else 1
        total += 2 * (link.alpha + part * flows * link.beta) + part * net.gamma
        part, distance = part / 2, distance * 2
    return total


def tree(net, p, n):
    """Two binary trees, each of half of the bytes (Sanders, Speck and Träff), up and
    then down in blocks; a node has at most two flows of each direction on its link.
    The number of blocks is the best one."""
    link, flows = net.inner, 1
    if not is_inside(net, p):
        link, flows = net.outer, 2 if net.shared else 1
    height = math.ceil(math.log2(p))
    byte = flows * link.beta + net.gamma / 2  # a block is added on its way up only
    best = math.sqrt(2 * height * n * byte / link.alpha)
    return min((2 * k + 4 * height) * (link.alpha + n / k * byte)
               for k in (max(1, math.floor(best)), math.ceil(best) or 1))


def hierarchical(net, p, n):
    """Rings within the nodes, the best algorithm between them for a part of the
    bytes on each rank, and rings within the nodes again."""
    if is_inside(net, p) or net.node == 1:
        return ring(net, p, n)
    part = n / net.node
    inside = (net.node - 1) * (2 * (net.inner.alpha + part * net.inner.beta)
                               + part * net.gamma)
    outer = Link(net.outer.alpha,
                 net.outer.beta * (net.node if net.shared else 1))
    flat = net._replace(node=1, inner=outer, outer=outer, shared=False)
    return inside + min(each(flat, p // net.node, part)
                        for each in (ring, halving, tree))


ALGORITHMS = {"ring": ring, "halving": halving, "tree": tree,
              "hierarchical": hierarchical}


def fastest(net, p, n):
    """The name and the time of the fastest algorithm; the simplest of equals."""
    name = min(ALGORITHMS, key=lambda each: ALGORITHMS[each](net, p, n))
    return name, ALGORITHMS[name](net, p, n)


# ------------------------------------------------------------------ models

class Layer(NamedTuple):
    """One array of weights, and the operations that its forward pass needs for a
    sample. A layer without weights only takes time."""
    weights: int
    work: float


class Model(NamedTuple):
    """Layers in forward order; samples of a rank in a step; samples of all ranks if
    these are divided; samples a second of a rank; bytes of a gradient's element.
    The last arrays to be ready are those of `layers[0]`."""
    name: str
    layers: tuple
    samples: int
    divided: int
    rate: float
    element: int


def resnet50():
    """Convolutions and the product of ResNet-50 on 224 x 224, each with its batch
    norm or bias; operations are multiply-adds."""
    layers = []

    def add(kernel, inputs, outputs, side):
        layers.append(Layer(kernel * kernel * inputs * outputs + 2 * outputs,
                            kernel * kernel * inputs * outputs * side * side))
    add(7, 3, 64, 112)
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, side = 64 << stage, 56 >> stage
        for block in range(blocks):
            before = side * 2 if block == 0 and stage else side
            add(1, inputs, width, before)
            add(3, width, width, side)
            add(1, width, 4 * width, side)
            if block == 0:
                add(1, inputs, 4 * width, side)
            inputs = 4 * width
    layers.append(Layer(2048 * 1000 + 1000, 2048 * 1000))
    return tuple(layers)


WIDTH, BLOCKS, WORDS, LENGTH = 2048, 18, 50304, 1024


def transformer():
    """A decoder of 18 blocks of width 2048; sequences of 1024. The embedding is also
    the matrix of the output, so that its gradient is ready last."""
    layers = [Layer(WORDS * WIDTH + LENGTH * WIDTH, 0)]
    for _ in range(BLOCKS):
        square = WIDTH * WIDTH
        layers += [Layer(3 * square + 3 * WIDTH, 3 * square + LENGTH * WIDTH),
                   Layer(square + 3 * WIDTH, square),
                   Layer(4 * square + 4 * WIDTH, 4 * square),
                   Layer(4 * square + 3 * WIDTH, 4 * square)]
    return (*layers, Layer(2 * WIDTH, WORDS * WIDTH))


def rate_of(layers, operations):
    """Samples a second at so many operations: a product and a sum for each
    multiply-add, forward once and backward twice."""
    return operations / (6 * sum(layer.work for layer in layers))


# ResNet-50: 9488 images a second on eight A100 in mixed precision
# (NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/README.md).
RESNET = Model("ResNet-50", resnet50(), 64, 8192, 9488.39 / 8, 4)
# 137 TFLOP/s of an A100 with 1.7 B weights (Narayanan et al. 2021, "Efficient
# Large-Scale Language Model Training on GPU Clusters", table 1). A sample is a word.
TRANSFORMER = Model("transformer", transformer(), 8 * LENGTH, 1 << 20,
                    rate_of(transformer(), 137e12), 2)
# One core of this machine: docs/benchmarks/data/train.json, 829.7 ms for 8 images of
# ResNet-18, which needs 1.82 of the 4.09 G multiply-adds of ResNet-50.
ON_CORE = Model("ResNet-50, cores", resnet50(), 8, 8192,
                8 / 0.8297 * 1.82 / 4.09, 4)
# The subjects of the tables.
CASES = ((ON_CORE, NETWORKS[0]), *((model, net) for model in (RESNET, TRANSFORMER)
                                   for net in NETWORKS))


def pass_times(model, samples):
    """Seconds forward, and backward by layer in the order of the backward pass.
    A backward pass takes twice as long as a forward pass."""
    forward = samples / model.rate / 3
    work = sum(layer.work for layer in model.layers)
    return forward, [2 * forward * layer.work / work
                     for layer in reversed(model.layers)]


# -------------------------------------------------------------- simulation

def fill_buckets(model, backward, most):
    """(when it is ready, bytes) of each message, in the order of the backward pass.
    Arrays share messages of at most `most` bytes; a larger one is alone."""
    found, now, held = [], 0, 0
    for layer, seconds in zip(reversed(model.layers), backward):
        n = layer.weights * model.element
        if held and held + n > most:
            found.append((now, held))
            held = 0
        now += seconds
        held += n
        if held >= most:
            found.append((now, held))
            held = 0
    return found + [(now, held)] if held else found


def link_end(buckets, seconds_of):
    """When the last message has ended: they are sent one after another, each when it
    is ready."""
    free = 0
    for ready, n in buckets:
        free = max(free, ready) + seconds_of(n)
    return free


def step_time(net, p, model, samples, most, slower=0):
    """Seconds of a step. While messages are sent, the passes are slower by the part
    `slower`."""
    forward, backward = pass_times(model, samples)
    buckets = fill_buckets(model, backward, most)

    def seconds_of(n):
        return fastest(net, p, n)[1]
    sending = min(sum(seconds_of(n) for _, n in buckets), sum(backward))
    lost = slower * sending
    return forward + max(sum(backward), link_end(buckets, seconds_of)) + lost


def efficiency(net, p, model, samples, most, slower=0):
    """Time of a step of one rank over that of p ranks with as many samples each."""
    return samples / model.rate / step_time(net, p, model, samples, most, slower)


def best_bucket(net, p, model, samples, slower=0):
    """(efficiency, bytes) of the best size of a bucket; the smallest of equals."""
    return max(((round(efficiency(net, p, model, samples, most, slower), 3), most)
                for most in BUCKETS), key=lambda pair: (pair[0], -pair[1]))


def last_ranks(net, model, samples_of, least):
    """The most ranks in powers of two with at least this efficiency."""
    good = [p for p in RANKS
            if best_bucket(net, p, model, samples_of(p))[0] >= least]
    return str(max(good)) if good else "< 8"


# ------------------------------------------------------------------ tables

def milliseconds(seconds):
    """With three digits."""
    value = seconds * 1e3
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def size_name(n):
    """Bytes in KB or MB."""
    return f"{n / 1e6:g} MB" if n >= 1e6 else f"{n / 1e3:g} KB"


def size_range(sizes):
    """The least and the greatest."""
    least, most = size_name(min(sizes)), size_name(max(sizes))
    return least if least == most else f"{least.removesuffix(' MB')}–{most}"


def algorithm_table():
    """Milliseconds of each algorithm."""
    ranks = (8, 64, 1024)
    yield "Milliseconds of an all_reduce, ring / halving / tree / hierarchical"
    yield ["network", "bytes", *(f"{p} ranks" for p in ranks)]
    for net in NETWORKS:
        for n in (64e3, 1e6, 25e6):
            yield [net.name, size_name(n),
                   *(" / ".join(milliseconds(each(net, p, n))
                                for each in ALGORITHMS.values())
                     for p in ranks)]


def choice_table():
    """The best bucket and algorithm of each model, network and number of ranks."""
    ranks = (8, 32, 128, 256, 1024)
    yield ("Efficiency with the best bucket, the sizes of buckets within 0.01 of it, "
           "and the fastest algorithm; a step of a rank has 64 images (of a core 8) "
           "or 8192 words")
    yield ["model", "network", *(f"{p} ranks" for p in ranks)]
    for model, net in CASES:
        cells = []
        for p in ranks:
            value, most = best_bucket(net, p, model, model.samples)
            good = [each for each in BUCKETS if value - 0.01 <= efficiency(
                net, p, model, model.samples, each)]
            cells.append(f"{value:.2f}, {size_range(good)}, "
                         f"{fastest(net, p, most)[0]}")
        yield [model.name, net.name, *cells]


def bucket_table():
    """Efficiency by the size of buckets."""
    p = 256
    yield f"Efficiency on {p} ranks by size of buckets; *none*: no overlap"
    sizes = (16e3, *BUCKETS)  # the first is the default of comm.all_reduce
    yield ["model", "network", *map(size_name, sizes), "none"]
    for model, net in CASES:
        yield [model.name, net.name,
               *(f"{efficiency(net, p, model, model.samples, most):.2f}"
                 for most in (*sizes, math.inf))]


def limit_table():
    """Where it stops scaling."""
    yield ("Most ranks (of 8, 16 ... 1024) with an efficiency of 0.8 / 0.5; *fixed*: "
           "the samples of a rank as above; *divided*: all ranks share 8192 images "
           "or 1 M words")
    yield ["model", "network", "fixed", "divided"]
    for model, net in CASES:
        row = [model.name, net.name]
        for samples_of in (lambda p, m=model: m.samples,
                           lambda p, m=model: m.divided / p):
            row.append(" / ".join(last_ranks(net, model, samples_of, least)
                                  for least in (0.8, 0.5)))
        yield row


def changed(net, alpha=1, beta=1):
    """The network with other links between nodes."""
    outer = Link(net.outer.alpha * alpha, net.outer.beta * beta)
    inner = outer if net.inner == net.outer else net.inner
    return net._replace(inner=inner, outer=outer)


def sensitivity_table():
    """Efficiency under other assumptions."""
    p = 256
    yield f"Efficiency on {p} ranks, best bucket, if one assumption changes"
    yield ["model", "network", "as above", "alpha x 10", "beta x 2", "beta / 2",
           "ranks twice as fast, or half of the samples",
           "passes 10 % slower while sending"]
    for model, net in CASES:
        fast = model._replace(rate=2 * model.rate)
        values = [best_bucket(each, p, who, samples, slower)[0]
                  for each, who, samples, slower in (
                      (net, model, model.samples, 0),
                      (changed(net, alpha=10), model, model.samples, 0),
                      (changed(net, beta=2), model, model.samples, 0),
                      (changed(net, beta=0.5), model, model.samples, 0),
                      (net, fast, model.samples, 0),
                      (net, model, model.samples, 0.1))]
        yield [model.name, net.name, *(f"{value:.2f}" for value in values)]


def link_text(link):
    """Latency and bandwidth."""
    return f"{link.alpha * 1e6:.3g} us, {1e-9 / link.beta:.3g} GB/s"


def network_table():
    """The profiles."""
    yield "Networks"
    yield ["network", "ranks of a node", "within a node", "between nodes",
           "link of a node"]
    for net in NETWORKS:
        yield [net.name, str(net.node),
               "–" if net.node == 1 else link_text(net.inner), link_text(net.outer),
               "shared by its ranks" if net.shared else "one for each rank"]


def model_table():
    """The models."""
    yield "Models"
    yield ["model", "weights", "bytes of all gradients", "arrays",
           "ms forward + backward"]
    for model in (ON_CORE, RESNET, TRANSFORMER):
        weights = sum(layer.weights for layer in model.layers)
        forward, backward = pass_times(model, model.samples)
        yield [model.name, f"{weights / 1e6:.1f} M",
               f"{weights * model.element / 1e6:.0f} MB",
               str(sum(1 for layer in model.layers if layer.weights)),
               f"{forward * 1e3:.1f} + {sum(backward) * 1e3:.1f}"]


def all_tables():
    """All tables as Markdown."""
    found = []
    for table in (network_table, model_table, algorithm_table, choice_table,
                  bucket_table, limit_table, sensitivity_table):
        title, head, *rows = table()
        found += [f"{title}:", "", "| " + " | ".join(head) + " |",
                  "|" + "---|" * len(head),
                  *("| " + " | ".join(row) + " |" for row in rows), ""]
    return "\n".join(found)


BLOCK = re.compile(r"(<!-- scaling -->\n).*?(<!-- end -->\n)", re.S)


def main(path=None, *options):
    """Prints, writes or compares the tables."""
    if path is None:
        print(all_tables())
        return
    path = pathlib.Path(path)
    page = path.read_text(encoding="utf-8")
    text, n = BLOCK.subn(lambda found: f"{found[1]}\n{all_tables()}\n{found[2]}", page)
    if n != 1:
        sys.exit(f"scaling.py: {path} has {n} places for tables; write one: "
                 "<!-- scaling --> and <!-- end -->, each on its own line")
    if "--check" not in options:
        path.write_text(text, encoding="utf-8")
    elif text != page:
        sys.exit(f"scaling.py: {path} has other tables; run: "
                 f"python3 bench/scaling.py {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
