# SPDX-License-Identifier: Apache-2.0
"""The models of bench/scaling.py against messages that are sent one by one, closed
forms, and published sizes; and the page that has its tables.

    test_scaling.py SOURCE_ROOT
"""

import math
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(SOURCE / "bench"))
sys.dont_write_bytecode = True

import tap  # noqa: E402
import scaling  # noqa: E402
from scaling import Layer, Link, Model, Network  # noqa: E402

ALPHA, BETA, GAMMA = 3e-6, 2e-9, 5e-10
FLAT = Network("flat", 1, Link(ALPHA, BETA), Link(ALPHA, BETA), False, GAMMA)
SLOW = Link(7e-5, 3e-8)
SHARED = Network("shared", 4, Link(ALPHA, BETA), SLOW, True, GAMMA)
OWN = SHARED._replace(shared=False)


def near(found, expected, what="seconds"):
    """Fails unless both are equal but for rounding."""
    if not math.isclose(found, expected, rel_tol=1e-9):
        raise AssertionError(f"{what}: {found!r} instead of {expected!r}")


def run_rounds(rounds, values, block):
    """Seconds of rounds of messages (from, to, blocks, adds), which are sent at once;
    `values` has the blocks of each rank, and is changed."""
    total = 0
    for messages in rounds:
        sent = [[values[source][b] for b in blocks]
                for source, _, blocks, _ in messages]
        total += max((ALPHA + len(blocks) * block * BETA
                      + (len(blocks) * block * GAMMA if adds else 0))
                     for _, _, blocks, adds in messages)
        for (_, target, blocks, adds), numbers in zip(messages, sent):
            for b, number in zip(blocks, numbers):
                values[target][b] = number + (values[target][b] if adds else 0)
    return total


def start_values(p):
    """p blocks of each rank, all different, and their sums."""
    values = [[1000 ** (rank % 3) * (rank + 2) + b for b in range(p)]
              for rank in range(p)]
    return values, [sum(column) for column in zip(*values)]


def ring_rounds(p):
    """Each rank sends a block to the next one."""
    for adds in (True, False):
        for i in range(p - 1):
            yield [(r, (r + 1) % p, [(r - i + (not adds)) % p], adds)
                   for r in range(p)]


def halving_rounds(p):
    """Partners exchange halves of their blocks, the nearest first; then back."""
    held = {rank: list(range(p)) for rank in range(p)}
    done = []
    distance = 1
    while distance < p:
        messages = []
        for r in range(p):
            other = r ^ distance
            theirs = [b for b in held[r] if b & distance == other & distance]
            messages.append((r, other, theirs, True))
        held = {r: [b for b in held[r] if b & distance == r & distance]
                for r in range(p)}
        done.append(messages)
        yield messages
        distance *= 2
    for messages in reversed(done):
        yield [(target, source, blocks, False)
               for source, target, blocks, _ in messages]


def a_ring_takes_as_long_as_its_messages():
    for p in (2, 3, 5, 8, 16):
        values, sums = start_values(p)
        n = 1e6
        seconds = run_rounds(ring_rounds(p), values, n / p)
        tap.equal(values, [sums] * p, "sums")
        near(scaling.ring(FLAT, p, n), seconds)
        near(seconds, 2 * (p - 1) * ALPHA + 2 * (p - 1) / p * n * BETA
             + (p - 1) / p * n * GAMMA, "closed form")


def halving_takes_as_long_as_its_messages():
    for p in (2, 4, 8, 32):
        values, sums = start_values(p)
        n = 3e5
        seconds = run_rounds(halving_rounds(p), values, n / p)
        tap.equal(values, [sums] * p, "sums")
        near(scaling.halving(FLAT, p, n), seconds)
        # Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective
        # Communication Operations in MPICH".
        near(seconds, 2 * math.log2(p) * ALPHA + 2 * (p - 1) / p * n * BETA
             + (p - 1) / p * n * GAMMA, "closed form")


def parents_of(p):
    """Parents in the binary tree in order of ranks, by rank; the root has None."""
    parents = {}

    def join(low, high, parent):
        if low >= high:
            return
        bits = (high - low).bit_length() - 1
        middle = low + (1 << bits) - 1
        parents[middle] = parent
        join(low, middle, middle)
        join(middle + 1, high, middle)
    join(0, p, None)
    return parents


def colour_edges(trees):
    """{(rank, tree): 0 or 1}, so that of the edges up from ranks no two of a colour
    have the same lower or the same upper end. A rank has an edge up in each tree and
    at most two from below, so that neighbours make paths and even circles."""
    edges = [(r, i) for i, tree in enumerate(trees) for r in tree
             if tree[r] is not None]
    colours = {}

    def neighbours(r, i):
        yield r, 1 - i
        for other in trees[i]:
            if other != r and trees[i][other] == trees[i][r]:
                yield other, i
    for edge in edges:
        todo = [(edge, 0)]
        while todo:
            one, colour = todo.pop()
            if one in edges and one not in colours:
                colours[one] = colour
                todo += [(other, 1 - colour) for other in neighbours(*one)]
    return colours


def reduce_in_trees(p, k):
    """Rounds until the roots of two trees have summed k blocks, alternately of the
    one and the other tree. Odd and even rounds use the edges of one colour, so that a
    rank sends one block and receives one."""
    first = parents_of(p)
    second = {p - 1 - r: None if parent is None else p - 1 - parent
              for r, parent in first.items()}
    trees = [first, second]
    colours = colour_edges(trees)
    for (r, i), colour in colours.items():  # the colouring is right
        for other, j in colours:
            if (other, j) != (r, i) and colours[other, j] == colour:
                assert other != r and trees[i][r] != trees[j][other], (r, other)
    children = {(r, i): [c for c in trees[i] if trees[i][c] == r]
                for i in (0, 1) for r in range(p)}
    done = {edge: 0 for edge in colours}  # blocks that have gone up
    rounds = 0
    while any(done[edge] < k // 2 for edge in done):
        ready = [(r, i) for (r, i), colour in colours.items()
                 if colour == rounds % 2 and done[r, i] < k // 2
                 and all(done[c, i] > done[r, i] for c in children[r, i])]
        for edge in ready:
            done[edge] += 1
        rounds += 1
    return rounds


def trees_take_about_as_many_rounds_as_their_blocks():
    for p in (8, 16, 32, 64):
        height = math.ceil(math.log2(p))
        for k in (8, 32, 128):
            rounds = 2 * reduce_in_trees(p, k)  # the way down mirrors the way up
            assert 2 * k <= rounds <= 2 * k + 4 * height, (p, k, rounds)


def trees_choose_the_best_number_of_blocks():
    for p, n in ((8, 1e5), (1024, 1e8)):
        height = math.log2(p)
        best = min((2 * k + 4 * height) * (ALPHA + n / k * (BETA + GAMMA / 2))
                   for k in range(1, 20000))
        near(scaling.tree(FLAT, p, n), best)
        byte = BETA + GAMMA / 2
        exact = (2 * n * byte + 4 * height * ALPHA
                 + 4 * math.sqrt(2 * height * ALPHA * n * byte))
        assert exact <= best <= 1.01 * exact, (exact, best)
    tap.equal(scaling.tree(FLAT, 8, 1) > 0, True, "one byte")


def links_between_nodes_are_shared_or_not():
    n, p = 1e6, 16
    inside = 2 * (2 * ALPHA + 3 / 4 * n * BETA) + 3 / 4 * n * GAMMA
    for net, flows in ((SHARED, 4), (OWN, 1)):
        outside = (2 * (2 * SLOW.alpha + 3 / 16 * n * flows * SLOW.beta)
                   + 3 / 16 * n * GAMMA)
        near(scaling.halving(net, p, n), inside + outside)
        near(scaling.hierarchical(net, p, n),
             inside + 2 * ALPHA + min(
                 outside, 2 * 3 * (SLOW.alpha + n / 16 * flows * SLOW.beta)
                 + 3 / 16 * n * GAMMA))
        near(scaling.ring(net, p, n), 2 * 15 * (SLOW.alpha + n / 16 * SLOW.beta)
             + 15 / 16 * n * GAMMA)
        near(scaling.ring(net, 4, n), 2 * 3 * (ALPHA + n / 4 * BETA)
             + 3 / 4 * n * GAMMA, "a node alone")


def models_have_their_published_sizes():
    # torchvision's resnet50 has 25 557 032 weights; 4.09 G multiply-adds.
    layers = scaling.resnet50()
    tap.equal(sum(layer.weights for layer in layers), 25557032, "weights")
    work = sum(layer.work for layer in layers)
    assert 4.08e9 < work < 4.10e9, work
    blocks = 12 * scaling.WIDTH ** 2 + 13 * scaling.WIDTH
    tap.equal(sum(layer.weights for layer in scaling.transformer()),
              scaling.BLOCKS * blocks + 2 * scaling.WIDTH
              + (scaling.WORDS + scaling.LENGTH) * scaling.WIDTH, "weights")


FOUR = Model("four", tuple(Layer(10, 1) for _ in range(4)), 6, 6, 1.5, 4)


def passes_share_the_time_of_a_step():
    # Six samples at 1.5 a second take 4 s, a third of it forward.
    forward, backward = scaling.pass_times(FOUR, 6)
    near(forward, 4 / 3)
    for seconds in backward:
        near(seconds, 2 / 3)


def arrays_share_messages_up_to_a_size():
    uneven = FOUR._replace(layers=(Layer(1, 1), Layer(2, 1), Layer(9, 1),
                                   Layer(3, 1)))
    times = [1, 1, 1, 1]
    tap.equal(scaling.fill_buckets(uneven, times, 24),
              [(1, 12), (2, 36), (4, 12)], "24 bytes")
    tap.equal(scaling.fill_buckets(uneven, times, 1),
              [(1, 12), (2, 36), (3, 8), (4, 4)], "each alone")
    tap.equal(scaling.fill_buckets(uneven, times, math.inf), [(4, 60)], "all")


def messages_wait_for_their_arrays_and_for_the_link():
    ready = [(1, 40), (2, 40), (3, 40), (4, 40)]
    near(scaling.link_end(ready, lambda n: 0), 4)
    near(scaling.link_end(ready, lambda n: n / 80), 4.5, "a fast link")
    near(scaling.link_end(ready, lambda n: n / 20), 1 + 4 * 2, "a slow link")
    near(scaling.link_end([(1, 40), (4, 40)], lambda n: 2), 6, "a pause")


def steps_hide_messages_in_the_backward_pass():
    free = Link(1e-30, 0)
    instant = FLAT._replace(outer=free, inner=free, gamma=0)
    near(scaling.step_time(instant, 8, FOUR, 6, 40), 4)
    near(scaling.efficiency(instant, 8, FOUR, 6, 40), 1, "efficiency")
    seconds = scaling.fastest(FLAT, 8, 160)[1]
    near(scaling.step_time(FLAT, 8, FOUR, 6, math.inf), 4 + seconds, "no overlap")
    near(scaling.step_time(FLAT, 8, FOUR, 6, math.inf, 0.1), 4 + 1.1 * seconds,
         "slower passes")


def the_page_has_the_tables_of_the_program():
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "bench/scaling.py",
         SOURCE / "docs/decisions/116-scaling.md", "--check"],
        text=True, capture_output=True, check=False)
    tap.equal((done.returncode, done.stderr), (0, ""), "check")


if __name__ == "__main__":
    tap.run([a_ring_takes_as_long_as_its_messages,
             halving_takes_as_long_as_its_messages,
             trees_take_about_as_many_rounds_as_their_blocks,
             trees_choose_the_best_number_of_blocks,
             links_between_nodes_are_shared_or_not,
             models_have_their_published_sizes,
             passes_share_the_time_of_a_step,
             arrays_share_messages_up_to_a_size,
             messages_wait_for_their_arrays_and_for_the_link,
             steps_hide_messages_in_the_backward_pass,
             the_page_has_the_tables_of_the_program])
