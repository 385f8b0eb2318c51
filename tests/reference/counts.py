#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/counts_cases.inc: exact functions of distributions by
SciPy, for the tests of plugins/random.

    counts.py > ../plugins/counts_cases.inc
"""

import numpy
import scipy
from scipy import stats

GAMMAS = [(0.1, 2), (0.999, 1), (1, 1), (3.5, 0.5), (50, 1), (10000, 2)]
# name, parameters in a manifest's words, distribution
COUNTS = [
    ("random.poisson", "lam=0.3", stats.poisson(0.3)),
    ("random.poisson", "lam=9.99", stats.poisson(9.99)),
    ("random.poisson", "lam=10", stats.poisson(10)),
    ("random.poisson", "lam=57.5", stats.poisson(57.5)),
    ("random.poisson", "lam=10000", stats.poisson(10000)),
    ("random.negative_binomial", "k=3 p=0.4", stats.nbinom(3, 0.4)),
    ("random.negative_binomial", "k=0.7 p=0.1", stats.nbinom(0.7, 0.1)),
    ("random.generalized_negative_binomial", "mu=4 alpha=0.5",
     stats.nbinom(2, 1 / 3)),
    ("random.generalized_negative_binomial", "mu=20 alpha=0",
     stats.poisson(20)),
]


def moments(law):
    """Mean, variance, and the fourth central moment."""
    mean, variance, _, excess = (float(each) for each in law.stats("mvsk"))
    return mean, variance, (excess + 3) * variance ** 2


def numbers(values):
    return ", ".join(repr(float(each)) for each in values)


def main():
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(" * Written by tests/reference/counts.py with NumPy "
          f"{numpy.__version__}, SciPy {scipy.__version__}.")
    print(" */")
    print("static const gamma_case gammas[] = {")
    for alpha, beta in GAMMAS:
        law = stats.gamma(alpha, scale=beta)
        shares = numpy.arange(1, 40) / 40
        print(f"  {{\"alpha={alpha} beta={beta}\", {{{numbers(moments(law))}}},")
        print(f"   {{{numbers(law.ppf(shares))}}}}},")
    print("};")
    print("static const count_case counts[] = {")
    for name, text, law in COUNTS:
        # 16 classes of about the same probability: the least count of each.
        bounds = sorted({int(law.ppf(k / 16)) + 1 for k in range(1, 16)})
        shares = numpy.diff([0, *law.cdf([each - 1 for each in bounds]), 1])
        print(f"  {{\"{name}\", \"{text}\", {{{numbers(moments(law))}}}, "
              f"{len(bounds) + 1},")
        print(f"   {{{', '.join(map(str, bounds))}}},")
        print(f"   {{{numbers(shares)}}}, {float(stats.chi2(len(bounds)).ppf(0.999))!r}}},")
    print("};")


if __name__ == "__main__":
    main()
