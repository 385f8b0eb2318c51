# SPDX-License-Identifier: Apache-2.0
"""Tables of the approximations in sdk/include/tenon/kernel/math/wide.h and
wide_pieces.h, which look their coefficients up: one polynomial for each of
sixteen pieces of a range, or of 32.

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


def middle_of(g, near, step, tries):
    """The float near `near`, in steps, for which g is nearest to a float; and
    that g."""
    found = []
    for i in range(-tries, tries + 1):
        x = single(near + i * step)
        y = single(g(x))
        found.append((abs(g(x) - y) / ulp(y), x, y))
    return min(found)[1:]


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
    """A factor near to 1/m for the middle m of a piece, such that -log of it is
    nearly a float; and that -log."""
    low, high = ends_of_log(j)
    near = 2 / (low + high)
    return middle_of(lambda r: -log(r), near, 7 * ulp(near), 3000)


def piece_on_grid(j, log):
    """The same with the -log of a factor nearly a multiple of 2^-17, which a
    multiple of the high part of log(2) is added to without rounding. Pieces
    beside 1, where the sum is smallest, are counted from nearer to it than from
    their middles: less is left to be rounded there."""
    low, high = ends_of_log(j)
    middle = (low + high) / (4 if j >= 8 else 2)
    unit = log(mp.e)
    near = {1: mpf("0.074") * unit, 14: mpf("-0.038") * unit}.get(j, log(middle))
    most = int(400 * unit)
    found = []
    for i in range(-most, most + 1):
        value = (mp.nint(mp.ldexp(near, 17)) + i) / 2 ** 17
        factor = single(mp.exp(-value / unit))
        found.append((abs(log(factor) + value), factor, value))
    return min(found)[1:]


def ends_of_log(j):
    return 1 + mpf(j) / 16, 1 + mpf(j + 1) / 16


def logarithm(name, log, high_bits, piece=piece_on_grid):
    """By the four highest bits of the fraction of m: factors r near to 1/m, and
    -log(r). Next to 1 both are exact. m is from 3/4 to 3/2, and k*log(2) taken in
    two parts. Where log(2) is 1, m is from 1 to 2 and factors go down to a half:
    sums with k = -1, which are next to 0, are exact."""
    two = log(mpf(2))
    last = (mpf(1), mpf(0)) if high_bits else (mpf(1) / 2, mpf(1))
    entries = [(mpf(1), mpf(0)) if j == 0 else last if j == 15 else piece(j, log)
               for j in range(16)]
    show(name, [("factor", [factor for factor, _ in entries]),
                ("value", [value for _, value in entries])])
    if high_bits:
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


def show_pieces(name, found):
    """Tables of the middles and of each coefficient, of those found piece by
    piece."""
    middles, *coefficients = zip(*found)
    show(name, [("middle", middles)] +
         [(f"by r^{i}", table) for i, table in enumerate(coefficients)])


def pieces(name, g, first, top):
    """Polynomials for a from 0 to `top`, by the exponent and two bits of a + 1;
    the exponent of 1 to 2 ends with ones. The piece at 0 is counted from there,
    with the lowest coefficients `first`."""
    degree = 6
    found, worst = [], mpf(0)
    for j in range(16):
        power, quarter = (j // 4 + 1) % 4, j % 4
        low = mpf(2) ** power * (1 + mpf(quarter) / 4) - 1
        high = min(mpf(2) ** power * (1 + mpf(quarter + 1) / 4) - 1, mpf(top))
        entries = [mpf(0)] * (degree + 2)
        if low < high:
            entries, error = piece_of(g, first, low, high, degree)
            worst = max(worst, error)
        found.append(entries)
    show_pieces(name, found)
    print(f"{name}: {power_of_two(worst)}")


def piece_of(g, first, low, high, degree):
    """The middle and the coefficients of a piece, and their error."""
    if low == 0:
        # Relative errors have no meaning at 0 itself.
        middle, fixed, least = mpf(0), first, mpf(10) ** -9
    else:
        middle = (low + high) / 2
        middle, value = middle_of(g, middle, 7 * ulp(middle), 400)
        fixed, least = {0: value}, low - middle
    pc, error = fitted(g=lambda r: g(middle + r), low=least, high=high - middle,
                       p=powers(0, degree), fixed=fixed)
    return [middle] + pc, error


def tanh():
    """From 9 on it is 1, which tables say that are written by hand."""
    pieces("tanh", mp.tanh, {0: mpf(0), 1: mpf(1)}, 9)


def squares(name, g, first, scale):
    """32 polynomials for a function that falls like exp(-a*a). Number a uses
    polynomial round((scale*a + 1/2)^2), so that the function falls by the same
    factor in each piece. The piece at 0 is as in pieces(). Other pieces are
    counted from seven tenths of their width on, so that little cancels in the
    sums."""
    found, worst, low = [], mpf(0), mpf(0)
    for j in range(32):
        high = (mp.sqrt(j + mpf(1) / 2) - mpf(1) / 2) / scale
        if j == 0:
            starts = [(mpf(0), first)]
        else:
            starts = starts_of(g, low + (high - low) * mpf("0.7"))
        error, entries = square_of(g, max(low, mpf(10) ** -9), high, starts)
        worst, low = max(worst, error), high
        found.append(entries)
    show_pieces(name, found)
    print(f"{name}: {power_of_two(worst)}, up to {mp.nstr(low, 8)}")


def square_of(g, low, high, starts):
    """The error of a piece, and from where it is counted with the coefficients:
    of the first that is good enough, or the best one."""
    best = None
    for middle, fixed in starts:
        pc, error = fitted(g=lambda r: g(middle + r), low=low - middle,
                           high=high - middle, p=powers(0, 8), fixed=fixed)
        if best is None or error < best[0]:
            best = error, [middle] + pc
        if error < mpf(2) ** -26:
            break
    return best


def starts_of(g, near):
    """Floats near to `near` of which g and its derivative are both nearly floats,
    the best ones first; and g of each as its lowest coefficient."""
    found = []
    for i in range(-600, 601):
        x = single(near + 37 * i * ulp(near))
        value, slope = g(x), mp.diff(g, x)
        off = [abs(each - single(each)) / ulp(each) for each in (value, slope)]
        found.append((max(off), x, {0: single(value)}))
    return [each[1:] for each in sorted(found, key=lambda each: each[0])[:5]]


def far(name, g, factor, low, high):
    """g(a) over 2^(-factor*a*a) beyond the pieces."""
    low, high = mpf(low), mpf(high)

    def slow(a):
        return g(a) * mpf(2) ** (factor * a * a)

    error, entries = square_of(slow, low, high,
                               starts_of(slow, (low + high) / 2))
    show(name, [("far", entries)])
    print(f"{name} far: {power_of_two(error)}")


def erfc():
    squares("erfc", mp.erfc, {0: mpf(1)}, mpf(1448) / 2048)
    far("erfc", mp.erfc, mpf(23) / 16, "7.125", "10.125")


def gelu_tail(a):
    return a * mp.erfc(a / mp.sqrt(2)) / 2


def gelu():
    """Its tail."""
    squares("gelu", gelu_tail, {0: mpf(0), 1: mpf(1) / 2}, mpf(1) / 2)
    far("gelu", gelu_tail, mpf(23) / 32, "10.125", "14.375")


SPECS = {
    "log": lambda: logarithm("log", mp.log, 14),
    "log2": lambda: logarithm("log2", lambda x: mp.log(x) / mp.log(2), 0,
                              piece_of_log),
    "log10": lambda: logarithm("log10", mp.log10, 15),
    "roots": roots,
    "tanh": tanh,
    "erfc": erfc,
    "gelu": gelu}

if __name__ == "__main__":
    for _name in sys.argv[1:] or SPECS:
        SPECS[_name]()
