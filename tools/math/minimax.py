# SPDX-License-Identifier: Apache-2.0
"""Coefficients of the approximations in sdk/include/tenon/kernel/math/.

    python3 -m venv v && v/bin/pip install mpmath
    v/bin/python minimax.py [NAME...]     all of them without a name

prints, for each name, the coefficients as hexadecimal floats, lowest power
first, and the largest weighted error as a power of two. Polynomials and
rational functions are found by Remez's exchange on a grid of Chebyshev points;
the denominator of a rational function is the one of the step before, which
leaves every step a linear system. Coefficients are rounded one by one, from the
lowest power up, and those that are left are fitted again after each, unless
the approximation is `plain`.
"""

import sys

from mpmath import mp, mpf

import functions

mp.dps = 50


def chebyshev(low, high, n):
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (n - 1))
            for i in range(n)]


def rounded(value, bits):
    """To so many bits, ties aside."""
    if value == 0:
        return value
    _, exponent = mp.frexp(value)
    return mp.ldexp(mp.nint(mp.ldexp(value, bits - exponent)), exponent - bits)


class Fit:
    """P(x)/Q(x) against g, Q(0) = 1. Powers are lists, `fixed` a dictionary
    from places in `p` to coefficients."""

    def __init__(self, spec):
        self.p = spec["p"]
        self.q = spec.get("q", [])
        self.plain = spec.get("plain", False)
        n = len(self.p) + len(self.q)
        self.xs = chebyshev(mpf(spec["low"]), mpf(spec["high"]),
                            max(40 * n, 400))
        g, weight = spec["g"], spec.get("weight")
        self.gs = [g(x) for x in self.xs]
        self.ws = [weight(x) if weight else 1 / abs(y)
                   for x, y in zip(self.xs, self.gs)]
        self.p_fixed = dict(spec.get("fixed", {}))
        self.q_fixed = {}
        self.pc = [mpf(0)] * len(self.p)
        self.qc = [mpf(0)] * len(self.q)

    def denominator(self, x):
        return 1 + sum(c * x ** k for c, k in zip(self.qc, self.q))

    def errors(self):
        return [w * (sum(c * x ** k for c, k in zip(self.pc, self.p)) /
                     self.denominator(x) - y)
                for x, y, w in zip(self.xs, self.gs, self.ws)]

    def solve(self, nodes):
        """Coefficients with an error that alternates at the nodes."""
        ps = [i for i in range(len(self.p)) if i not in self.p_fixed]
        qs = [i for i in range(len(self.q)) if i not in self.q_fixed]
        n = len(ps) + len(qs) + 1
        a, b = mp.matrix(n, n), mp.matrix(n, 1)
        for row, node in enumerate(nodes):
            x, y, w = self.xs[node], self.gs[node], self.ws[node]
            for column, i in enumerate(ps):
                a[row, column] = x ** self.p[i]
            for column, i in enumerate(qs):
                a[row, len(ps) + column] = -y * x ** self.q[i]
            a[row, n - 1] = (-1) ** row * self.denominator(x) / w
            b[row] = (y - sum(c * x ** self.p[i]
                              for i, c in self.p_fixed.items()) +
                      y * sum(c * x ** self.q[i]
                              for i, c in self.q_fixed.items()))
        solution = mp.lu_solve(a, b)
        for i, c in list(self.p_fixed.items()):
            self.pc[i] = mpf(c)
        for i, c in list(self.q_fixed.items()):
            self.qc[i] = mpf(c)
        for column, i in enumerate(ps):
            self.pc[i] = solution[column]
        for column, i in enumerate(qs):
            self.qc[i] = solution[len(ps) + column]
        return n

    def extrema(self, errors, n):
        """n nodes of alternating sign with large errors, or None."""
        runs = []
        for i, e in enumerate(errors):
            if runs and (e > 0) == (errors[runs[-1]] > 0):
                if abs(e) > abs(errors[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n:
            if abs(errors[runs[0]]) < abs(errors[runs[-1]]):
                runs.pop(0)
            else:
                runs.pop()
        return runs if len(runs) == n else None

    def run(self):
        n = (len(self.p) - len(self.p_fixed) + len(self.q) -
             len(self.q_fixed) + 1)
        if n == 1:
            self.pc = [mpf(self.p_fixed[i]) for i in range(len(self.p))]
            self.qc = [mpf(self.q_fixed[i]) for i in range(len(self.q))]
            return
        last = len(self.xs) - 1
        nodes = [round(last * (1 - mp.cos(mp.pi * (i + mpf(1) / 2) / n)) / 2)
                 for i in range(n)]
        best = None
        for _ in range(40):
            self.solve(nodes)
            errors = self.errors()
            most = max(abs(e) for e in errors)
            if best is None or most < best[0]:
                stuck = best is not None and most > best[0] * mpf("0.9999")
                best = (most, list(self.pc), list(self.qc))
                if stuck:
                    break
            nodes = self.extrema(errors, n)
            if nodes is None:
                break
        _, self.pc, self.qc = best

    def round_all(self, bits):
        if self.plain:
            self.run()
            self.rest = self.pc[0] - rounded(self.pc[0], bits)
            self.pc = [rounded(c, bits) for c in self.pc]
            return
        for i in range(len(self.p)):
            if i in self.p_fixed:
                continue
            self.run()
            self.p_fixed[i] = rounded(self.pc[i], bits)
        for i in range(len(self.q)):
            self.run()
            self.q_fixed[i] = rounded(self.qc[i], bits)
        self.run()


def literal(value, bits):
    if bits == 24:
        return float(value).hex().replace("0000000p", "p") + "f"
    return float(value).hex()


def main(names):
    for name in names or functions.SPECS:
        spec = functions.SPECS[name]
        bits = spec.get("bits", 53)
        fit = Fit(spec)
        fit.round_all(bits)
        error = mp.log(max(abs(e) for e in fit.errors()), 2)
        print(f"{name}: 2^{mp.nstr(error, 4)}")
        for letter, values in (("p", fit.pc), ("q", fit.qc)):
            print(f"  {letter}", ", ".join(literal(c, bits) for c in values))
        if fit.plain:
            print("  of the first is left", literal(fit.rest, bits))


if __name__ == "__main__":
    main(sys.argv[1:])
