# SPDX-License-Identifier: Apache-2.0
"""The operators of Python compute as those of NumPy do, with the documented differences."""

import itertools
import operator

import numpy as np
import pytest

import tenon as tn
from by_numpy import NUMPY, PAIRS, PLAIN, make, same

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
              operator.mod]
COMPARISONS = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


def find_result_type(a, b):
    """The documented rules, independent of tenon._dtypes.promote."""
    if a == b:
        return a
    floats = [each for each in (a, b) if each[0] == "f"]
    if len(floats) == 2:
        return max(floats, key=lambda each: int(each[1:]))
    if floats:
        return floats[0]
    found = np.promote_types(NUMPY[a], NUMPY[b])
    return next(name for name in PLAIN if NUMPY[name] == found)


@pytest.mark.parametrize("a, b", PAIRS)
def test_arithmetic_of_all_types(a, b):
    left, right = make((2, 3), a, 1), make((2, 3), b, 2)
    kind = find_result_type(a, b)
    for function in ARITHMETIC:
        own = kind
        if kind == "bool":
            own = "i64"
        if function is operator.truediv and own[0] != "f":
            own = "f32"
        wanted = function(left.astype(NUMPY[own]), right.astype(NUMPY[own]))
        found = function(tn.array(left), tn.array(right))
        assert found.dtype.name == own, function
        np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-3 if own == "f16" else 1e-6,
                                   err_msg=str(function))


@pytest.mark.parametrize("a, b", PAIRS)
def test_comparisons_of_all_types(a, b):
    left, right = make((2, 3), a, 1), make((3,), b, 2)
    for function in COMPARISONS:
        same(function(tn.array(left), tn.array(right)), function(left, right))


WHOLE = [each for each in PLAIN if each[0] != "f"]


@pytest.mark.parametrize("a, b", list(itertools.product(WHOLE, WHOLE)))
def test_bits_of_all_types(a, b):
    left, right = make((2, 3), a, 1), make((2, 3), b, 2)
    if find_result_type(a, b)[0] == "f":  # i64 and u64
        with pytest.raises(TypeError):
            tn.array(left) & tn.array(right)
        return
    for function in (operator.and_, operator.or_, operator.xor):
        same(function(tn.array(left), tn.array(right)), function(left, right))
    if "bool" not in (a, b):
        for function in (operator.lshift, operator.rshift):
            same(function(tn.array(left), tn.array(right)), function(left, right))


@pytest.mark.parametrize("name", PLAIN)
def test_powers(name):
    base, exponent = make((2, 3), name, 1), make((3,), name, 2)
    if name == "bool":
        base, exponent = base.astype("i8"), exponent.astype("i8")
    np.testing.assert_allclose((tn.array(base) ** tn.array(exponent)).numpy(), base ** exponent,
                               rtol=2e-3)
    np.testing.assert_allclose((tn.array(base) ** 3).numpy(), base ** 3, rtol=2e-3)
    np.testing.assert_allclose((2 ** tn.array(base)).numpy(), 2 ** base, rtol=2e-3)


def test_powers_of_integers_are_exact():
    base = np.array([3, -7, 0, 1, -1, 2])
    same(tn.array(base) ** 21, base ** 21)
    same(tn.array(base) ** 0, base ** 0)
    same(tn.array([2, 3]) ** tn.array([[0], [1], [5], [39]]),
         np.array([2, 3]) ** np.array([[0], [1], [5], [39]]))
    x = tn.array([2, 3])
    x **= 3
    assert x.tolist() == [8, 27]
    assert (tn.array([2, 3]) ** 0.5).dtype is tn.f32
    with pytest.raises(ValueError, match="negative exponents"):
        tn.array([2]) ** -1
    with pytest.raises(TypeError, match="modulus"):
        pow(tn.array([2]), 2, 5)


@pytest.mark.parametrize("name", PLAIN)
def test_numbers_get_the_type_of_the_array(name):
    values = make(4, name, 3)
    array = tn.array(values)
    whole = "i64" if name == "bool" else name
    real = name if name[0] == "f" else "f32"
    for function in ARITHMETIC:
        for number, own in ((2, whole), (2.0, real), (np.float32(2), real)):
            if name == "f16" and isinstance(number, np.float32):
                own = "f32"
            if name == "f64" and isinstance(number, np.float32):
                own = "f64"
            if function is operator.truediv and own[0] != "f":
                own = "f32"
            wide = values.astype(NUMPY[own])
            for found, wanted in ((function(array, number), function(wide, wide.dtype.type(2))),
                                  (function(number, array), function(wide.dtype.type(2), wide))):
                assert isinstance(found, tn.Array) and found.dtype.name == own, (function, number)
                np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-3)


def test_operands_of_numpy_and_lists():
    x = tn.array([1.0, 2.0, 3.0])
    n = np.array([1.0, 2.0, 3.0], "f4")
    for found in (n + x, x + n, [1, 2, 3] + x, x + [1, 2, 3], (1, 2, 3) + x):
        same(found, n + n)
    same(np.float32(2) * x, 2 * n)
    same(x == [1, 5, 3], [True, False, True])
    same(n == x, [True] * 3)
    same(n @ x, np.float32(14))


def test_large_integers():
    small = tn.array([1, 250], "u8")
    for number in (300, -1, 2**70):
        for function in (operator.add, operator.mul, operator.and_, operator.floordiv):
            with pytest.raises(OverflowError, match="range of u8"):
                function(small, number)
        for function in COMPARISONS:
            wanted = [function(1, number), function(250, number)]
            assert function(small, number).tolist() == wanted
            assert function(number, small).tolist() == [function(number, 1), function(number, 250)]
    assert (tn.array([1]) + 2**62).item() == 2**62 + 1
    assert (tn.array([2**53]) + 1).item() == 2**53 + 1
    assert (tn.array([1], "u64") + 2**63).item() == 2**63 + 1
    assert (tn.array([1.0]) * 2**100).item() == 2.0**100
    with pytest.raises(OverflowError):
        tn.array([1]) + 2**63
    with pytest.raises(OverflowError):
        tn.add(small, 300)


def test_nan_and_infinity():
    x = tn.array([1.0, float("nan"), float("inf")])
    assert (x == float("nan")).tolist() == [False] * 3
    assert (x != x).tolist() == [False, True, False]
    assert (x < float("inf")).tolist() == [True, False, False]
    assert (x * float("nan") != x).tolist() == [True] * 3
    assert np.isnan((tn.array([1]) + float("nan")).item())
    assert (-0.0 * tn.array([1.0])).numpy().tobytes() == np.float32(-0.0).tobytes()
    assert (0.0 * tn.array([1.0])).numpy().tobytes() == np.float32(0.0).tobytes()


@pytest.mark.parametrize("name", ["f32", "f64", "i8", "i32", "i64"])
def test_quotients_and_remainders_of_all_signs(name):
    left, right = np.meshgrid([-7, -6, -1, 0, 1, 6, 5], [3, -3, 2, -2, 4, -4, 7, 0])
    left, right = left.astype(NUMPY[name]), right.astype(NUMPY[name])
    with np.errstate(all="ignore"):
        quotient, remainder = left // right, left % right
        remainder[right == 0] = 0  # as of integers; NaN in NumPy
        for found, wanted in ((tn.array(left) // tn.array(right), quotient),
                              (tn.array(left) % tn.array(right), remainder)):
            np.testing.assert_array_equal(found.numpy(), wanted)
        for number in (3, -3, 0):
            kind = left.dtype.type(number)
            np.testing.assert_array_equal((tn.array(left) // number).numpy(), left // kind)
            np.testing.assert_array_equal((number // tn.array(left)).numpy(), kind // left)


def test_infinite_operands():
    left, right = np.meshgrid(*[np.array([np.inf, -np.inf, np.nan, 1, -0.0], "f4")] * 2)
    with np.errstate(all="ignore"):
        for function in (*ARITHMETIC[:5], operator.pow, *COMPARISONS):
            np.testing.assert_array_equal(function(tn.array(left), tn.array(right)).numpy(),
                                          function(left, right), err_msg=str(function))


@pytest.mark.parametrize("a, b", [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2, 3)),
                                  ((2, 0), (1, 1)), ((1, 2, 1), (4, 1, 3)), ((0,), (1,))])
def test_broadcasting(a, b):
    left, right = make(a, "f32", 1), make(b, "f32", 2)
    for function in (*ARITHMETIC, *COMPARISONS):
        same(function(tn.array(left), tn.array(right)), function(left, right))


def test_shapes_that_do_not_fit():
    with pytest.raises(tn.ShapeError) as caught:
        tn.ones(2) + tn.ones(3)
    assert caught.value.operator.startswith("elemwise.broadcast_add")
    assert caught.value.plugin == "elemwise"
    with pytest.raises(ValueError):
        tn.ones(2).broadcast_to(3)


@pytest.mark.parametrize("name", PLAIN)
def test_in_place_forms(name):
    for function in (operator.iadd, operator.isub, operator.imul, operator.ifloordiv,
                     operator.imod):
        values = make((2, 3), name, 1)
        array = tn.array(values)
        if name == "bool":
            with pytest.raises(TypeError, match="the result has type i64"):
                function(array, array)
            continue
        other = make((3,), name, 2)
        result = function(array, tn.array(other))
        assert result is array
        wanted = function(values.copy(), other)
        np.testing.assert_allclose(array.numpy(), wanted, rtol=2e-3)
        view = array[0]
        view += 1
        np.testing.assert_allclose(array.numpy()[0], wanted[0] + 1, rtol=2e-3)


def test_in_place_forms_keep_type_and_shape():
    x = tn.array([1, 2])
    with pytest.raises(TypeError, match="write a = a"):
        x += 1.5
    with pytest.raises(TypeError):
        x /= 2
    with pytest.raises(ValueError):
        x += tn.ones((3, 2), "i64")
    assert x.tolist() == [1, 2]
    x &= 2
    x <<= 1
    assert x.tolist() == [0, 4]


def test_unary_operators():
    for name in PLAIN:
        values = make(3, name)
        array = tn.array(values)
        if name == "bool":
            same(~array, ~values)
            continue
        same(-array, -values)
        same(abs(-array), abs(-values))
        assert +array is array
        if name[0] != "f":
            same(~array, ~values)
    with pytest.raises(TypeError):
        ~tn.ones(2)


@pytest.mark.parametrize("a, b", [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)),
                                  ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
                                  ((4, 1, 2, 3), (5, 3, 2)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)),
                                  ((0, 3), (3, 2)), ((2, 0), (0, 3))])
def test_matrix_products(a, b):
    left, right = make(a, "f32", 1), make(b, "f32", 2)
    same(tn.array(left) @ tn.array(right), left @ right)


def test_matrix_products_that_are_refused():
    with pytest.raises(ValueError):
        tn.ones((2, 3)) @ tn.ones((2, 3))
    with pytest.raises(ValueError):
        tn.ones(2) @ 3
    for other in ("a", None, object()):
        with pytest.raises(TypeError, match="unsupported operand"):
            tn.ones(2) @ other
        with pytest.raises(TypeError, match="unsupported operand"):
            other @ tn.ones(2)


@pytest.mark.parametrize("other", ["a", None, {}, object(), b"x", 1j])
def test_other_operands_are_type_errors(other):
    x = tn.ones(2)
    for function in (operator.add, operator.mul, operator.lt, operator.and_, operator.pow):
        with pytest.raises(TypeError):
            function(x, other)
        with pytest.raises(TypeError):
            function(other, x)
    assert (x == other) is False and (x != other) is True
