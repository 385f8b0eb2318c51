# SPDX-License-Identifier: Apache-2.0
"""The functions that minimax.py approximates: g on [low, high] by powers p
(over 1 + powers q), errors relative unless there is a weight. `fixed`
coefficients are prescribed; `bits` is 24 for float and 53, the default, for
double; `plain` rounds the coefficients without fitting the others again, where
that is good enough and the exchange is lost with few of them."""

from mpmath import mp, mpf

LN2 = mp.log(2)


def at(limit, f):
    """f with its limit at 0."""
    return lambda x: f(x) if x != 0 else mpf(limit)


def powers(first, last):
    return list(range(first, last + 1))


def mills(a):
    """1/(exp(a^2/2) erfc(a/sqrt(2)))."""
    return mp.exp(-a * a / 2) / mp.erfc(a / mp.sqrt(2))


def lgamma_unit(u):
    if abs(u) < mpf(10) ** -12:
        return 1 - mp.euler
    if abs(u + 1) < mpf(10) ** -12:
        return mp.euler
    return mp.loggamma(u + 2) / (u * (u + 1))


def stirling(z):
    x = 1 / mp.sqrt(z)
    return x * (mp.loggamma(x) - (x - mpf("0.5")) * mp.log(x) + x -
                mp.log(2 * mp.pi) / 2)


HALF_LN2 = LN2 / 2 * mpf("1.0001")
SQRT_HALF, SQRT_TWO = mp.sqrt(mpf("0.5")), mp.sqrt(2)

SPECS = {
    # exp(r) of exp in float: |r| <= ln 2; of sigmoid: |r| <= ln(2)/2.
    "exp_f32": {
        "g": mp.exp, "low": -LN2 * mpf("1.0001"), "high": LN2 * mpf("1.0001"),
        "p": powers(0, 7), "fixed": {0: 1, 1: 1}, "bits": 24},
    "exp_f32_half": {
        "g": mp.exp, "low": -HALF_LN2, "high": HALF_LN2,
        "p": powers(0, 6), "fixed": {0: 1, 1: 1}, "bits": 24},
    # (2^f - 1)/f of gelu, |f| <= 1/2.
    "exp2m1_f32": {
        "g": at(LN2, lambda f: (mpf(2) ** f - 1) / f),
        "weight": lambda f: (abs(f) + mpf("0.001")) / mpf(2) ** f,
        "low": -mpf("0.5005"), "high": mpf("0.5005"),
        "p": powers(0, 5), "bits": 24,
        "plain": True},
    # (exp(r) - 1)/r for float functions that compute in double.
    "expm1_short": {
        "g": at(1, lambda r: mp.expm1(r) / r), "low": -HALF_LN2,
        "high": HALF_LN2, "p": powers(0, 7), "fixed": {0: 1}},
    # log(1 + f)/f, f from sqrt(1/2) - 1 to sqrt(2) - 1.
    "log_short": {
        "g": at(1, lambda f: mp.log1p(f) / f), "low": SQRT_HALF - 1,
        "high": SQRT_TWO - 1, "p": powers(0, 12), "fixed": {0: 1}},
    # (exp(r) - 1 - r)/r^2 of expm1 in float: exp(r) from 3/4 to 3/2.
    "expm1_f32": {
        "g": at("0.5", lambda r: (mp.expm1(r) - r) / r ** 2),
        "weight": at(0, lambda r: r ** 2 / mp.expm1(r)),
        "low": mp.log("0.7499"), "high": mp.log("1.5001"),
        "p": powers(0, 4), "bits": 24},
    # (tanh(r)/r - 1)/r^2 in r^2, r up to 0.2935.
    "tanh_f32": {
        "g": at(-mpf(1) / 3, lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0, "high": mpf("0.0862"),
        "p": powers(0, 2), "bits": 24},
    # (cosh(r) - 1)/r^2 and (sinh(r)/r - 1)/r^2 in r^2, |r| <= 1/2.
    "cosh_f32": {
        "g": at("0.5", lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z),
        "weight": lambda z: z, "low": 0, "high": mpf("0.2501"),
        "p": powers(0, 2), "bits": 24},
    "sinh_f32": {
        "g": at(mpf(1) / 6, lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0, "high": mpf("0.2501"),
        "p": powers(0, 2), "bits": 24},
    # log(1 + f), log2(1 + f) and log10(1 + f), f from -1/4 to 1/2.
    "log_f32": {
        "g": at(mpf(1) / 3,
                lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3),
        "weight": at(0, lambda f: f ** 3 / mp.log1p(f)),
        "low": mpf("-0.25"), "high": mpf("0.5"), "p": powers(0, 7),
        "bits": 24},
    "log2_f32": {
        "g": at(1 / LN2 - 1, lambda f: mp.log1p(f) / LN2 / f - 1),
        "weight": at(LN2, lambda f: f * LN2 / mp.log1p(f)),
        "low": mpf("-0.25"), "high": mpf("0.5"), "p": powers(0, 9),
        "bits": 24},
    "log10_f32": {
        "g": at(1 / mp.log(10) - mpf("0.5"),
                lambda f: mp.log1p(f) / mp.log(10) / f - mpf("0.5")),
        "weight": at(mp.log(10), lambda f: f * mp.log(10) / mp.log1p(f)),
        "low": mpf("-0.25"), "high": mpf("0.5"), "p": powers(0, 9),
        "bits": 24},
    # (sin(r)/r - 1)/r^2 and (cos(r) - 1 + r^2/2)/r^4 in r^2, |r| <= pi/4.
    "sin_f32": {
        "g": at(-mpf(1) / 6, lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0,
        "high": (mp.pi / 4 * mpf("1.001")) ** 2, "p": powers(0, 2),
        "bits": 24},
    "cos_f32": {
        "g": at(mpf(1) / 24, lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) /
                z ** 2),
        "weight": lambda z: z ** 2, "low": 0,
        "high": (mp.pi / 4 * mpf("1.001")) ** 2, "p": powers(0, 2),
        "bits": 24},
    # (tan(r)/r - 1)/r^2 in r^2, |r| <= pi/4.
    "tan_f32": {
        "g": at(mpf(1) / 3, lambda z: (mp.tan(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0,
        "high": (mp.pi / 4 * mpf("1.001")) ** 2, "p": powers(0, 6),
        "bits": 24},
    # (atanh(s)/s - 1)/s^2 in s^2, s <= 1/3.
    "atanh_f32": {
        "g": at(mpf(1) / 3, lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0, "high": mpf("0.1112"),
        "p": powers(0, 3), "bits": 24},
    # (((1 + g)/(1 - g))^(1/3) - 1)/g.
    "cbrt_f32": {
        "g": at(mpf(2) / 3,
                lambda g: (mp.cbrt((1 + g) / (1 - g)) - 1) / g),
        "weight": lambda g: abs(g) + mpf("1e-3"), "low": mpf("-0.056"),
        "high": mpf("0.056"), "p": powers(0, 3), "bits": 24, "plain": True},
    # log(1 + w)/w on [0, 1], for softplus.
    "log1p_unit": {
        "g": at(1, lambda w: mp.log1p(w) / w), "low": 0, "high": 1,
        "p": powers(0, 13)},
    # (1/(exp(a^2) erfc(a)) - 1)/a - 13/8.
    "erfc_f32": {
        "g": at(2 / mp.sqrt(mp.pi) - mpf("1.625"),
                lambda a: (mills(a * SQRT_TWO) - 1) / a - mpf("1.625")),
        "weight": lambda a: a / mills(a * SQRT_TWO), "low": mpf("0.001"),
        "high": mpf("10.1"), "p": powers(0, 4), "q": powers(1, 4), "bits": 24},
    # sin(r)/r and cos(r) in r^2, |r| <= pi/4.
    "sin_short": {
        "g": at(1, lambda z: mp.sin(mp.sqrt(z)) / mp.sqrt(z)), "low": 0,
        "high": (mp.pi / 4 * mpf("1.001")) ** 2, "p": powers(0, 4),
        "fixed": {0: 1}},
    "cos_short": {
        "g": lambda z: mp.cos(mp.sqrt(z)), "low": 0,
        "high": (mp.pi / 4 * mpf("1.001")) ** 2, "p": powers(0, 5),
        "fixed": {0: 1}},
    # (asin(s)/s - 1)/s^2 in s^2, s <= 1/2.
    "asin_f32": {
        "g": at(mpf(1) / 6, lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": at(1, lambda z: z * mp.sqrt(z) / mp.asin(mp.sqrt(z))
                     if z else mpf(0)),
        "low": 0, "high": mpf("0.2501"), "p": powers(0, 4), "bits": 24},
    # (atan(s)/s - 1)/s^2 in s^2, s <= 1.
    "atan_f32": {
        "g": at(-mpf(1) / 3, lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": at(1, lambda z: z * mp.sqrt(z) / mp.atan(mp.sqrt(z))
                     if z else mpf(0)),
        "low": 0, "high": 1, "p": powers(0, 7), "bits": 24},
    # erf(x)/x - 1 in x^2, x up to 0.9, and -log(erfc(x)) beyond.
    "erf_near_f32": {
        "g": at(2 / mp.sqrt(mp.pi) - 1,
                lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1),
        "weight": at(mp.sqrt(mp.pi) / 2,
                     lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z))),
        "low": 0, "high": mpf("0.810162008"), "p": powers(0, 5), "bits": 24},
    "erf_far_f32": {
        "g": lambda a: -mp.log(mp.erfc(a)), "weight": mp.erfc,
        "low": mpf("0.9"), "high": mpf("3.95"), "p": powers(0, 6),
        "bits": 24},
    # (mills(a) - 1)/a - 1, for gelu.
    "gelu_f32": {
        "g": at(mp.sqrt(2 / mp.pi) - 1, lambda a: (mills(a) - 1) / a - 1),
        "weight": lambda a: a / mills(a), "low": mpf("0.001"),
        "high": mpf("14.5"), "p": powers(0, 4), "q": powers(1, 4), "bits": 24},
    # lgamma(x)/((x - 1)(x - 2)) in x - 2, the remainder of Stirling's formula,
    # times x, in 1/x^2, and sin(pi f)/f in f^2.
    "lgamma_short": {
        "g": lgamma_unit, "low": -1, "high": 1, "p": powers(0, 14),
        "plain": True},
    "stirling_short": {
        "g": at(mpf(1) / 12, stirling), "weight": lambda z: mpf(1), "low": 0,
        "high": mpf(1) / 9, "p": powers(0, 4), "plain": True},
    "sinpi_short": {
        "g": at(mp.pi, lambda z: mp.sin(mp.pi * mp.sqrt(z)) / mp.sqrt(z)),
        "low": 0, "high": mpf("0.2501"), "p": powers(0, 5), "plain": True},
    # (exp(r) - 1 - r)/r^2 for functions in double.
    "exp_f64": {
        "g": at("0.5", lambda r: (mp.expm1(r) - r) / r ** 2),
        "weight": at(0, lambda r: r ** 2 / mp.expm1(r)),
        "low": -HALF_LN2, "high": HALF_LN2, "p": powers(0, 10),
        "fixed": {0: mpf("0.5")}},
    # (log((1 + s)/(1 - s)) - 2s)/s^3 in s^2.
    "log_f64": {
        "g": at(mpf(2) / 3, lambda z: (2 * mp.atanh(mp.sqrt(z)) -
                                       2 * mp.sqrt(z)) / mp.sqrt(z) ** 3),
        "weight": lambda z: z / 2, "low": 0,
        "high": ((SQRT_TWO - 1) / (SQRT_TWO + 1) * mpf("1.0001")) ** 2,
        "p": powers(0, 6)},
    # (3 atanh(s)/s - 3 - s^2)/s^4 in s^2, for pow.
    "pow_f64": {
        "g": at(mpf(3) / 5, lambda z: (3 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) -
                                       3 - z) / z ** 2),
        "low": 0, "high": mpf("0.02944"), "p": powers(0, 7)},
    # erf(x)/x - 1 in x^2, |x| <= 1, and erf(x/sqrt(2))/x - 3/4, |x| <= 1.
    "erf_f64": {
        "g": at(2 / mp.sqrt(mp.pi) - 1, lambda z: mp.erf(mp.sqrt(z)) /
                mp.sqrt(z) - 1),
        "weight": lambda z: mpf(1), "low": 0, "high": 1, "p": powers(0, 11)},
    "gelu_f64": {
        "g": at(mp.sqrt(2 / mp.pi) - mpf("0.75"), lambda z: mp.erf(
            mp.sqrt(z / 2)) / mp.sqrt(z) - mpf("0.75")),
        "weight": lambda z: mpf(1), "low": 0, "high": 1, "p": powers(0, 10)},
    # (atan(s)/s - 1)/s^2 in s^2, s <= 2/3, and the same of asin, s <= 1/2.
    "atan_f64": {
        "g": at(-mpf(1) / 3, lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0, "high": mpf("0.4445"),
        "p": powers(0, 15)},
    "asin_f64": {
        "g": at(mpf(1) / 6, lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0, "high": mpf("0.2501"),
        "p": powers(0, 12)},
    # (sin(r)/r - 1)/r^2 and (cos(r) - 1 + r^2/2)/r^4 in r^2, |r| <= pi/4.
    "sin_f64": {
        "g": at(-mpf(1) / 6, lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) /
                z),
        "weight": lambda z: z, "low": 0, "high": (mp.pi / 4 * mpf("1.001")) ** 2,
        "p": powers(0, 5)},
    "cos_f64": {
        "g": at(mpf(1) / 24, lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) /
                z ** 2),
        "weight": lambda z: z ** 2, "low": 0,
        "high": (mp.pi / 4 * mpf("1.001")) ** 2, "p": powers(0, 5)},
    # (u + 1/2) exp(u^2) erfc(u), u from 0.7 to 27.4, and (a + 3/4) exp(a^2/2)
    # erfc(a/sqrt(2))/2, a from 0.98 to 38.8: in (u - 35/8)/(u + 35/8) and
    # (a - 49/8)/(a + 49/8).
    "erfc_f64": {
        "g": lambda t: (lambda u: (u + mpf("0.5")) * mp.exp(u * u) *
                        mp.erfc(u))(mpf("4.375") * (1 + t) / (1 - t)),
        "low": mpf("-0.7246"), "high": mpf("0.7246"), "p": powers(0, 21),
        "plain": True},
    "gelu_tail_f64": {
        "g": lambda t: (lambda a: (a + mpf("0.75")) * mp.exp(a * a / 2) *
                        mp.erfc(a / mp.sqrt(2)) / 2)(
            mpf("6.125") * (1 + t) / (1 - t)),
        "low": mpf("-0.7246"), "high": mpf("0.7275"), "p": powers(0, 21),
        "plain": True},
}

# Of tan in wide.h, with one power less: 1/tan(r) is nearly 2 where tan(r) is
# little more than 1/2, so that errors count most there.
SPECS["tan_wide"] = {
    **SPECS["tan_f32"], "p": powers(0, 5),
    "weight": lambda z: z * (3 if mpf("0.19") < z < mpf("0.3") else 1)}
