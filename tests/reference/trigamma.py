#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/kernel/trigamma_cases.inc: arguments, which floats hold exactly,
and the second derivative of log(gamma(x)) there.

    trigamma.py > trigamma_cases.inc

mpmath computes it with 40 digits; the committed file was made with mpmath 1.3.0.
"""

import mpmath

AT = [0.5, 1, 1.5, 2, 3, 4.75, 9.5, 10, 11, 30, 1000, 2.0**40, 2.0**-20, 0.125,
      -0.5, -0.625, -0.375, -1.5, -1.25, -7.875, -100.5, -(2.0**-20),
      -1 + 2.0**-20, -2 - 2.0**-10, -1000.75]

if __name__ == "__main__":
    mpmath.mp.dps = 40
    for x in AT:
        value = mpmath.nstr(mpmath.psi(1, mpmath.mpf(x)), 20)
        print(f"    {{{x!r}, {value}, 0}},")
