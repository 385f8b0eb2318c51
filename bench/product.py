# SPDX-License-Identifier: Apache-2.0
"""GFLOP/s of the matrix products of nn.fully_connected, beside OpenBLAS called
directly.

    product.py BUILD_FOLDER [ROUNDS]

Prints the lines of product.c and a table of them.
"""

import pathlib
import sys

from samples import Program, save, say, table

BUILD = pathlib.Path(sys.argv[1]).resolve()
PLUGINS = [BUILD / "plugins" / name / f"{name}.so"
           for name in ("openblas", "nn")]


def shape(extent):
    """data x weight: "64x784x512" is 64x784, 512x784."""
    n, k, h = extent.split("x")
    return f"{n}x{k}, {h}x{k}"


def main():
    """All figures of products in docs/benchmarks/performance.md."""
    lines = Program("product", [BUILD / "bench" / "product", *PLUGINS,
                                *sys.argv[2:]]).run()
    rates = {name: float(value) for name, value, _ in lines}
    for name, value in rates.items():
        say(name, value, "GFLOP/s")
    peak = rates.pop("product.peak")
    rows = []
    for kind in dict.fromkeys(name.rpartition(".")[0] for name in rates):
        _, extent, part = kind.split(".")
        direct, tenon, plain = (rates.get(f"{kind}.{variant}") for variant in
                                ("direct", "tenon", "plain"))
        rows.append([shape(extent), part,
                     *("–" if each is None else f"{each:.1f}"
                       for each in (direct, tenon, plain)),
                     *(f"{each / direct:.2f}" if direct else "–"
                       for each in (tenon, plain))])
    table(f"GFLOP/s of one thread, best of the rounds; one core multiplies "
          f"{peak:.0f} GFLOP/s", ["data x weight", "pass", "direct", "tenon",
                                  "plain", "tenon / direct", "plain / direct"],
          rows)
    save("product")


if __name__ == "__main__":
    main()
