# SPDX-License-Identifier: Apache-2.0
"""tenon.testing: each check passes for right operators, and names the defect of a wrong one."""

import made_plugins
import numpy as np
import pytest

import tenon as tn
from tenon import testing

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])
Y = np.array([[1.0, 2.0, -3.0], [0.5, -4.0, 0.125]])

RIGHT = """opgen: 1
op: right_cube
summary: Cube
inputs: [{name: data, dtype: T}]
dtypes: {T: [f16, bf16, f32, f64]}
outputs: [{name: out, dtype: T, shape: data}]
forward: {out: scale*data^3}
params: [{name: scale, type: float, default: 1}]
gradient: {formula: {data: grad.out*3*scale*data^2}}
"""
WRONG = RIGHT.replace("right_cube", "wrong_cube").replace("3*scale*data^2", "2*scale*data^2")


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    return tn.load(made_plugins.build_plugin(
        tmp_path_factory.mktemp("cubes"), "cubes", right_cube=RIGHT, wrong_cube=WRONG))


def fails(words, check, *args, **named):
    """Runs a check that must fail; the message must contain all words."""
    with pytest.raises(AssertionError) as caught:
        check(*args, **named)
    for each in [words] if isinstance(words, str) else words:
        assert each in str(caught.value), str(caught.value)


# ---------------------------------------------------------------------- comparison

def test_equal_values_are_close():
    testing.assert_close(tn.array([1.0, 2.0]), [1.0, 2.0])
    testing.assert_close(tn.array([1.0, 2.0]), np.float32([1.0, 2.0000001]))
    testing.assert_close([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf])
    testing.assert_close(tn.ones((2, 2)), 1)
    testing.assert_close(tn.zeros((0, 3)), np.zeros((0, 3)))
    testing.assert_close(tn.array([2.0 ** 40], dtype="bf16"), [1.01 * 2.0 ** 40])


def test_the_message_has_the_worst_element():
    fails(["my output", "in 2 of 6 elements", "rtol=0.1, atol=0.5",
           "worst at (1, 0): found 7, expected 3, difference 4, allowed 0.8",
           "also at (0, 2): found 3, expected 5, difference 2, allowed 1"],
          testing.assert_close, tn.array([[1, 2, 3], [7, 4.5, 6]]), [[1, 2, 5], [3.0, 4, 6]],
          0.1, 0.5, name="my output")


@pytest.mark.parametrize("found, expected, words", [
    ([1.0, 2.0], [1.0, 2.0, 3.0], "shape (2,), but (3,)"),
    ([1.0, np.nan], [1.0, 2.0], "worst at (1,): found nan"),
    ([1.0, 2.0], [1.0, np.nan], "expected nan"),
    ([np.inf], [-np.inf], "found inf, expected -inf"),
    ([1e300], [np.inf], "expected inf"),
    ([2 ** 60], [2 ** 60 + 1], "1 of 1 elements"),  # equal as floats
    ([True], [False], "found True, expected False"),
    (np.uint64([2 ** 64 - 1]), np.int64([-1]), "1 of 1 elements"),
])
def test_unequal_values_are_not_close(found, expected, words):
    fails(words, testing.assert_close, found, expected)


def test_nan_is_unequal_on_request():
    fails("found nan", testing.assert_close, [np.nan], [np.nan], equal_nan=False)


def test_tolerances_follow_the_least_precise_type():
    value = 1.001
    testing.assert_close(tn.array([value], dtype="f16"), np.array([1.0]))
    fails("rtol=1e-05", testing.assert_close, tn.array([value], dtype="f32"), np.array([1.0]))
    assert testing.find_tolerances(tn.ones(1), tn.ones(1, "bf16")) == testing.TOLERANCES["bf16"]


# ------------------------------------------------------------------------- forward

def test_right_results_pass(cubes):
    testing.check_forward("cubes.right_cube", [X], lambda x: 2 * x ** 3, scale=2)
    testing.check_forward(cubes.right_cube, {"data": [1.0, -2.0]}, [1, -8])
    testing.check_forward("tensor.topk", [[3.0, 1.0, 2.0]], ([3, 2], [0, 2]), k=2,
                          axis=0)
    testing.check_forward(lambda x, y: (x + y, x * y), [X, Y], lambda x, y: [x + y, x * y])


def test_wrong_results_fail(cubes):
    fails(["`out` of cubes.right_cube", "in 1 of 2 elements", "found -8, expected 8"],
          testing.check_forward, "cubes.right_cube", [[1.0, -2.0]], [1, 8])


def test_a_changed_input_fails():
    def change(x):
        result = x * 2
        x[...] = 0
        return result

    fails("change changed its input `x`", testing.check_forward, change, [X], lambda x: 2 * x)


def test_results_that_depend_on_the_layout_fail():
    def double(x):
        return x * (2 if x.is_contiguous else 3)

    fails("not contiguous", testing.check_forward, double, [X], lambda x: 2 * x)
    testing.check_forward(double, [X], lambda x: 2 * x, layouts=False)


def test_an_ignored_out_fails():
    class Operator:
        json = tn.ops.elemwise.square.__self__.json

        def square(self, x, out=None):
            return tn.ops.elemwise.square(x) if out is None else out.__setitem__(..., 0)

    fails("with `out`", testing.check_forward, Operator().square, [X], lambda x: x * x)


def test_a_missing_output_fails():
    fails("has 1 outputs, but 2", testing.check_forward, lambda x: x * 2, [X],
          lambda x: (2 * x, x))


# ------------------------------------------------------------------------ backward

def test_right_gradients_pass(cubes):
    testing.check_backward("cubes.right_cube", [X], Y, lambda dy, x: 6 * dy * x ** 2, scale=2)
    testing.check_backward("elemwise.mul", [X, Y], np.ones((2, 3)), [Y, X])
    testing.check_backward("elemwise.mul", [X, Y], np.ones((2, 3)), {"rhs": X})
    testing.check_backward(lambda x: (x * 2, x * x), [[3.0]], [[10.0], [100.0]], [[620.0]])


def test_wrong_gradients_fail(cubes):
    fails(["gradient of `data` of cubes.wrong_cube", "found 8, expected 12"],
          testing.check_backward, "cubes.wrong_cube", [[2.0]], [1.0], [[12]])
    fails("2 inputs, but 1 gradients", testing.check_backward, "elemwise.mul", [X, Y],
          np.ones((2, 3)), [Y])


# ----------------------------------------------------------------- numeric gradients

def test_numeric_gradients_agree(cubes):
    testing.check_numeric_gradient("cubes.right_cube", [X], scale=2)
    testing.check_numeric_gradient("tensor.dot", [X, Y.T])
    testing.check_numeric_gradient("nn.softmax", {"data": X}, axis=-1)
    testing.check_numeric_gradient(lambda x, w: tn.tanh(x @ w) * 3, [X, Y.T])


def test_numeric_gradients_find_a_wrong_formula(cubes):
    fails(["gradient of `data` of cubes.wrong_cube", "in 6 of 6 elements", "difference quotients"],
          testing.check_numeric_gradient, "cubes.wrong_cube", [X])


def test_numeric_gradients_find_a_cut(cubes):
    """The gradient of x by y is there, but that of y is cut off."""
    def multiply(x, y):
        return x * y.detach()

    testing.check_numeric_gradient(multiply, [X, Y], wrt="x")
    fails("gradient of `y`", testing.check_numeric_gradient, multiply, [X, Y])


def test_numeric_gradients_report_a_kink():
    testing.check_numeric_gradient("elemwise.relu", [X])
    fails("may be at a kink", testing.check_numeric_gradient, "elemwise.relu", [[0.0, 1.0]])


def test_numeric_gradients_check_some_of_many_elements():
    calls = []

    def count(x):
        calls.append(1)
        return x * x

    testing.check_numeric_gradient(count, [testing.random_array((100, 100))], points=5)
    assert len(calls) == 2 + 2 * 5


def test_random_operators_get_one_seed():
    testing.check_numeric_gradient("nn.dropout", [1 + np.abs(X)], p=0.5)


def test_operators_of_f32_are_checked_in_f32():
    """The function refuses f64."""
    def double(x):
        if x.dtype == tn.f64:
            raise tn.DtypeError("f64")
        return x * x

    testing.check_numeric_gradient(double, [X])

    def wrong(x):
        return double(x) + (x * 0.5).detach()

    fails("gradient of `x`", testing.check_numeric_gradient, wrong, [X])


def test_nothing_to_check_is_an_error():
    with pytest.raises(ValueError, match="no gradient to check"):
        testing.check_numeric_gradient("elemwise.add", [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="no input 'z'"):
        testing.check_numeric_gradient("elemwise.add", [X, Y], wrt="z")


# --------------------------------------------------------------------- consistency

def test_consistent_types_pass(cubes):
    assert testing.check_consistency("cubes.right_cube", [X], devices=["cpu"], scale=2) == [
        ("cpu", "f32"), ("cpu", "f16"), ("cpu", "bf16")]
    testing.check_consistency(lambda x: tn.tanh(x), [X], dtypes=["f64", "f16"])
    testing.check_consistency("tensor.argmax", [X], gradients=False, axis=0)


def test_every_device_is_compared():
    devices = testing.list_devices()
    assert devices[0] == "cpu(0)"
    found = testing.check_consistency("elemwise.tanh", [X], devices=devices, dtypes=["f32", "f16"])
    assert {each[0] for each in found} == set(devices)


def test_inconsistent_results_fail():
    def scale(x):
        return x * (2.1 if x.dtype == tn.bf16 else 2.0)

    testing.check_consistency(scale, [X], dtypes=["f64", "f16"])
    fails(["the result of scale on cpu(0) in bf16", "in 6 of 6"],
          testing.check_consistency, scale, [X], dtypes=["f64", "f32", "bf16"])


def test_inconsistent_gradients_fail():
    def scale(x):
        return x.detach() * 2 if x.dtype == tn.f16 else x * 2

    fails("gradient of `x` of scale on cpu(0) in f16",
          testing.check_consistency, scale, [X], dtypes=["f32", "f16"])
    testing.check_consistency(scale, [X], dtypes=["f32", "f16"], gradients=False)


def test_nothing_to_compare_is_an_error():
    with pytest.raises(ValueError, match="nothing to compare"):
        testing.check_consistency("elemwise.tanh", [X], devices=["cpu"], dtypes=["f32"])


def test_random_arrays_repeat():
    first, second = (testing.random_array((4, 5), "f64", low=2, high=3) for _ in range(2))
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert first.dtype == tn.f64 and first.numpy().min() >= 2 and first.numpy().max() <= 3
    assert testing.random_array((100,), "i8", -3, 3).numpy().tolist() != [0] * 100
