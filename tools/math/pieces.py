# SPDX-License-Identifier: Apache-2.0
"""Tables of the approximations in sdk/include/tenon/math/wide.h, which look
their coefficients up: one polynomial for each of sixteen pieces of a range.

    v/bin/python pieces.py [NAME...]      see minimax.py for v

prints, for each name, the tables as C, and the largest relative error of a
piece as a power of two. A piece has a middle from which its polynomial is
counted, chosen near to where it is so that the value there is as good as a
float; coefficients are rounded as those of minimax.py.
"""

import sys

from mpmath import mp, mpf

import minimax
from functions import at, powers

BITS = 24


def ulp(value):
    return mp.ldexp(1, int(mp.frexp(value)[1]) - BITS)


def single(value):
    return minimax.rounded(value, BITS)


def middle_of(g, near, step, tries, place=0):
    """The float next to `near`, in steps, whose g is nearest to a float, or
    that at a later place; and its g."""
    found = []
    for i in range(-tries, tries + 1):
        x = single(near + i * step)
        y = single(g(x))
        found.append((abs(g(x) - y) / ulp(y), x, y))
    return sorted(found)[place][1:]


def show(name, tables):
    for title, values in tables:
        print(f"{name} {title}:", ", ".join(minimax.literal(value, BITS)
                                            for value in values))


def fitted(**spec):
    """Coefficients, rounded, and the largest error."""
    fit = minimax.Fit({"bits": BITS, **spec})
    fit.round_all(BITS)
    return fit.pc, max(abs(e) for e in fit.errors())


def power_of_two(error):
    return "2^" + mp.nstr(mp.log(error, 2), 4)


# ------------------------------------------------------------------- logarithms

def logarithm(name, log, high_bits):
    """Of m from 3/4 to 3/2, by the four highest bits of its fraction: factors
    r near to 1/m, and -log(r). Next to 1 both are exact. k*log(2) is taken in
    two parts."""
    factors, values = [], []
    for j in range(16):
        low, high = 1 + mpf(j) / 16, 1 + mpf(j + 1) / 16
        if j >= 8:
            low, high = low / 2, high / 2
        if j in (0, 15):
            factor, value = mpf(1), mpf(0)
        else:
            near = 2 / (low + high)
            factor, value = middle_of(lambda r: -log(r), near,
                                      7 * ulp(near), 3000)
        factors.append(factor)
        values.append(value)
    show(name, [("factor", factors), ("value", values)])
    two = log(mpf(2))
    high = mp.floor(mp.ldexp(two, high_bits)) / 2 ** high_bits
    show(name, [("of 2", [high, single(two - high)])])
    pc, error = fitted(g=at(log(mp.e), lambda f: log(1 + f) / f),
                       low=-mpf(1) / 32, high=mpf(1) / 16, plain=True,
                       p=powers(0, 4))
    show(name, [("of 1 + f, by f", pc)])
    print(f"{name}: {power_of_two(error)}")


# ----------------------------------------------------------------------- gelu

# Nearly 1/(2*log(2)): what it is less, the tables make good. By so short a
# number squares are multiplied with less to round. This one, the place of the
# middles and the last digits of exp2m1_f32 (wide.h differs from minimax.py in
# them) are those with which, of all floats, none was more than 1.99 units off;
# with neighbours of them it would be 2.0 to 2.1.
FACTOR, PLACE = mpf(45) / 64, 6


def gelu_tail(a, factor):
    """a*erfc(a/sqrt(2))/2 over 2^(-factor*a*a)."""
    return a * mp.erfc(a / mp.sqrt(2)) / 2 * mpf(2) ** (factor * a * a)


def gelu():
    """By the exponent and two bits of a + 1, for a from 0 to 15; the exponent
    of 1 to 2 ends with ones. The piece at 0 is counted from 0, without a power:
    it would be rounded once more."""
    degree = 6
    tables = [[] for _ in range(degree + 2)]
    worst = mpf(0)
    for j in range(16):
        power, quarter = (j // 4 + 1) % 4, j % 4
        low = mpf(2) ** power * (1 + mpf(quarter) / 4) - 1
        high = mpf(2) ** power * (1 + mpf(quarter + 1) / 4) - 1
        factor = FACTOR if low > 0 else 0

        def g(a, factor=factor):
            return gelu_tail(a, factor)
        middle, value = mpf(0), mpf(0)
        if low > 0:
            middle = (low + high) / 2
            middle, value = middle_of(g, middle, 7 * ulp(middle), 400, PLACE)

        def from_middle(r, middle=middle, g=g):
            return g(middle + r)
        # Relative errors have no meaning at 0 itself.
        least = mpf(10) ** -9 if low == 0 else low - middle
        pc, error = fitted(g=from_middle, low=least, high=high - middle,
                           p=powers(0, degree), fixed={0: value})
        worst = max(worst, error)
        for table, entry in zip(tables, [middle] + pc):
            table.append(entry)
    show("gelu", [("middle", tables[0])] +
         [(f"by r^{i}", table) for i, table in enumerate(tables[1:])])
    print(f"gelu: {power_of_two(worst)}")


SPECS = {
    "log": lambda: logarithm("log", mp.log, 14),
    "log2": lambda: logarithm("log2", lambda x: mp.log(x) / mp.log(2), 14),
    "log10": lambda: logarithm("log10", mp.log10, 15),
    "gelu": gelu}

if __name__ == "__main__":
    for _name in sys.argv[1:] or SPECS:
        SPECS[_name]()
