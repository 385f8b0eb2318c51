# SPDX-License-Identifier: Apache-2.0
"""The table of trig64.h, with which large angles are reduced: entry i holds the
48 bits of 2/pi * 2^(16*i) from 2^68 down to 2^21, as a double.

    v/bin/python turns.py
"""

from mpmath import mp

mp.prec = 1400


def entry(i):
    return int(mp.floor(2 / mp.pi * mp.mpf(2) ** (16 * i - 21))) % 2 ** 48


for first in range(0, 74, 3):
    print("    " + " ".join(
        f"{(float(entry(i)) * 2.0 ** 21).hex().replace('000p', 'p')},"
        for i in range(first, min(first + 3, 74))))
