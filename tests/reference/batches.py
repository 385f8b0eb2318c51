#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/batches/batches_cases.inc: orders of examples, and seeds of
examples, as decision 109 describes them.

    batches.py > batches_cases.inc

Python's integers and lists alone compute them.
"""

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
CASES = [(1, 0, 0), (2, 7, 0), (10, 0, 0), (10, 0, 1), (10, 1, 0), (16, 2**64 - 1, 3),
         (23, 42, 1000000007)]


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def numbers(key):
    """A sequence of numbers of 64 bits."""
    position = key
    while True:
        position = (position + GOLDEN) & MASK
        yield mix(position)


def key_of(seed, epoch):
    start = mix((seed + GOLDEN) & MASK)
    return mix((start + (epoch + 1) * GOLDEN) & MASK)


def order(n, seed, epoch):
    """Fisher and Yates, from the first example on. Numbers that would make some
    examples more probable than others are not used."""
    draws = numbers(key_of(seed, epoch))
    result = list(range(n))
    for i in range(n):
        choices = n - i
        number = next(draws)
        while number < 2**64 % choices:
            number = next(draws)
        other = i + number % choices
        result[i], result[other] = result[other], result[i]
    return result


def seeds(n, seed, epoch):
    draws = numbers(mix(key_of(seed, epoch) ^ MASK))
    return [next(draws) >> 1 for _ in range(n)]


def main():
    print("/* Made by tests/reference/batches.py. */")
    for n, seed, epoch in CASES:
        positions = ", ".join(map(str, order(n, seed, epoch)))
        first = ", ".join(f"INT64_C({each})" for each in seeds(min(n, 3), seed, epoch))
        print(f"{{{n}, UINT64_C({seed}), UINT64_C({epoch}), {{{positions}}}, {{{first}}}}},")


if __name__ == "__main__":
    main()
