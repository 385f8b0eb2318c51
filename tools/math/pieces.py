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

def piece_of_log(j, log):
    """A factor near to 1/m for the middle m of a piece, whose -log is nearly a
    float; and that."""
    low, high = ends_of_log(j)
    near = 2 / (low + high)
    return middle_of(lambda r: -log(r), near, 7 * ulp(near), 3000)


def piece_on_grid(j, log):
    """The same with the -log of a factor nearly a multiple of 2^-17, which a
    multiple of the high part of log(2) is added to without rounding. Pieces
    beside 1, where the sum is smallest, are counted from nearer to it than from
    their middles: less is left to be rounded there."""
    low, high = ends_of_log(j)
    near = {1: mpf("0.074"), 14: mpf("-0.038")}.get(j, log((low + high) / 2))
    found = []
    for i in range(-400, 401):
        value = (mp.nint(mp.ldexp(near, 17)) + i) / 2 ** 17
        factor = single(mp.exp(-value))
        found.append((abs(log(factor) + value), factor, value))
    return min(found)[1:]


def ends_of_log(j):
    low, high = 1 + mpf(j) / 16, 1 + mpf(j + 1) / 16
    return (low / 2, high / 2) if j >= 8 else (low, high)


def logarithm(name, log, high_bits, piece=piece_of_log):
    """Of m from 3/4 to 3/2, by the four highest bits of its fraction: factors
    r near to 1/m, and -log(r). Next to 1 both are exact. k*log(2) is taken in
    two parts."""
    entries = [(mpf(1), mpf(0)) if j in (0, 15) else piece(j, log)
               for j in range(16)]
    show(name, [("factor", [factor for factor, _ in entries]),
                ("value", [value for _, value in entries])])
    two = log(mpf(2))
    high = mp.floor(mp.ldexp(two, high_bits)) / 2 ** high_bits
    show(name, [("of 2", [high, single(two - high)])])
    pc, error = fitted(g=at(log(mp.e), lambda f: log(1 + f) / f),
                       low=-mpf(1) / 32, high=mpf(1) / 16, plain=True,
                       p=powers(0, 4))
    show(name, [("of 1 + f, by f", pc)])
    print(f"{name}: {power_of_two(error)}")


# ----------------------------------------------------------- powers, polynomials

def roots():
    """2^(i/16)."""
    show("roots", [("", [single(mpf(2) ** (mpf(i) / 16)) for i in range(16)])])


def pieces(name, g, first, top, place=0):
    """Polynomials for a from 0 to `top`, by the exponent and two bits of a + 1;
    the exponent of 1 to 2 ends with ones. The piece at 0 is that of `first`, a
    function and its lowest coefficients, counted from 0; others have the middle
    at a place (middle_of)."""
    degree = 6
    tables = [[] for _ in range(degree + 2)]
    worst = mpf(0)
    for j in range(16):
        power, quarter = (j // 4 + 1) % 4, j % 4
        low = mpf(2) ** power * (1 + mpf(quarter) / 4) - 1
        high = min(mpf(2) ** power * (1 + mpf(quarter + 1) / 4) - 1, mpf(top))
        entries = [mpf(0)] * len(tables)
        if low < high:
            entries, error = piece_of(g, first, low, high, degree, place)
            worst = max(worst, error)
        for table, entry in zip(tables, entries):
            table.append(entry)
    show(name, [("middle", tables[0])] +
         [(f"by r^{i}", table) for i, table in enumerate(tables[1:])])
    print(f"{name}: {power_of_two(worst)}")


def piece_of(g, first, low, high, degree, place):
    """The middle and the coefficients of a piece, and their error."""
    if low == 0:
        # Relative errors have no meaning at 0 itself.
        (g, fixed), middle, least = first, mpf(0), mpf(10) ** -9
    else:
        middle = (low + high) / 2
        middle, value = middle_of(g, middle, 7 * ulp(middle), 400, place)
        fixed, least = {0: value}, low - middle
    pc, error = fitted(g=lambda r: g(middle + r), low=least, high=high - middle,
                       p=powers(0, degree), fixed=fixed)
    return [middle] + pc, error


def tanh():
    """From 9 on it is 1, which tables say that are written by hand."""
    pieces("tanh", mp.tanh, (mp.tanh, {0: mpf(0), 1: mpf(1)}), 9)


# What a square is multiplied with, nearly 1/log(2) and 1/(2*log(2)): what it is
# less, the tables make good. By so short a number squares are multiplied with
# less to round. These, the places of the middles and the coefficients of
# exp2m1_f32 (wide.h differs from minimax.py in the three highest) are those with
# which, of all floats, none was more than 1.998 and 1.99 units off; with
# neighbours of them it would be 2.0 to 2.1.
ERFC_FACTOR, ERFC_PLACE = mpf(23) / 16, 0
GELU_FACTOR, GELU_PLACE = mpf(45) / 64, 6


def erfc():
    """erfc(a) over 2^(-factor*a*a); the piece at 0 without a power: it would be
    rounded once more."""
    pieces("erfc", lambda a: mp.erfc(a) * mpf(2) ** (ERFC_FACTOR * a * a),
           (mp.erfc, {0: mpf(1)}), "10.2", ERFC_PLACE)


def gelu_tail(a):
    return a * mp.erfc(a / mp.sqrt(2)) / 2


def gelu():
    """Its tail, as that of erfc."""
    pieces("gelu", lambda a: gelu_tail(a) * mpf(2) ** (GELU_FACTOR * a * a),
           (gelu_tail, {0: mpf(0)}), 15, GELU_PLACE)


SPECS = {
    "log": lambda: logarithm("log", mp.log, 14, piece_on_grid),
    "log2": lambda: logarithm("log2", lambda x: mp.log(x) / mp.log(2), 14),
    "log10": lambda: logarithm("log10", mp.log10, 15),
    "roots": roots,
    "tanh": tanh,
    "erfc": erfc,
    "gelu": gelu}

if __name__ == "__main__":
    for _name in sys.argv[1:] or SPECS:
        SPECS[_name]()
