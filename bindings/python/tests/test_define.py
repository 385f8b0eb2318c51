# SPDX-License-Identifier: Apache-2.0
"""Operators in Python, and formulas without a compiler."""

import numpy as np
import pytest

import tenon as tn


@pytest.fixture(autouse=True)
def take_failures():
    """tn.wait() reports each failure once, so that other tests do not find them."""
    yield
    try:
        tn.wait()
    except tn.TenonError:
        pass


@tn.operator
def own_cube(x, *, scale=1.0):
    """A scaled cube of every element"""
    return scale * x ** 3


@own_cube.gradient
def cube_gradient(grad, x, *, scale=1.0):
    return 3 * scale * x ** 2 * grad


def test_a_function_becomes_an_operator():
    x = tn.array([1.0, 2.0]).attach_grad()
    with tn.record():
        y = own_cube(x, scale=2.0)
        loss = (y * y).sum()
    loss.backward()
    np.testing.assert_allclose(y.numpy(), [2, 16])
    np.testing.assert_allclose(x.grad.numpy(), [24, 768])  # 2y * 6x^2


def test_it_runs_in_a_program():
    x = tn.var("x")
    program = tn.Graph(own_cube(x, scale=2.0) * 2).bind({"x": tn.array([1.0, 2.0])})
    np.testing.assert_allclose(program.forward()[0].numpy(), [4, 32])


def test_a_class_has_several_inputs_and_a_shape():
    @tn.operator
    class Pair:
        """Two results"""
        outputs = ("a", "b")

        def forward(self, x, y, *, k=2):
            return x + k * y

        def infer_shape(self, x, y, *, k=2):
            return x

    np.testing.assert_allclose(Pair(tn.ones((3,)), tn.ones((3,)), k=3).numpy(), [4, 4, 4])


def test_the_shape_and_type_of_a_result_may_differ():
    @tn.operator(name="count_positive", shape=lambda x: x[:1], dtype="i64")
    def count(x):
        return (x > 0).sum(axis=1)

    found = count(tn.array([[1.0, -2.0, 3.0], [-1.0, -1.0, -1.0]]))
    assert found.dtype == tn.i64 and found.tolist() == [2, 0]


@pytest.mark.parametrize("size", [4, 100000])
def test_an_exception_is_the_error_of_the_call(size):
    @tn.operator(name=f"bad_{size}")
    def bad(x):
        raise ValueError("no luck")

    with pytest.raises(tn.TenonError, match="ValueError: no luck .*test_define.py"):
        bad(tn.ones((size,))).wait()


def test_a_wrong_result_is_refused():
    @tn.operator(name="two_arrays")
    def two(x):
        return x, x

    with pytest.raises(tn.TenonError, match="2 arrays instead of 1"):
        two(tn.ones((2,))).wait()
    with pytest.raises(TypeError, match="needs a default"):
        @tn.operator(name="no_default")
        def no_default(x, *, k):
            return x


def test_a_formula_needs_no_compiler():
    cube = tn.formula("scale*data^3", scale=2.0)
    x = tn.array([1.0, 2.0]).attach_grad()
    with tn.record():
        y = cube(x, scale=3.0)
    y.backward()
    np.testing.assert_allclose(y.numpy(), [3, 24])
    np.testing.assert_allclose(x.grad.numpy(), [9, 36])
    np.testing.assert_allclose(cube(x).numpy(), [2, 16])


def test_a_formula_has_several_inputs():
    blend = tn.formula("weight*a + (1 - weight)*b", weight=0.25)
    a, b = tn.array([[4.0], [8.0]]), tn.array([0.0, 4.0])
    np.testing.assert_allclose(blend(a, b).numpy(), [[1, 4], [2, 5]])


def test_a_manifest_of_a_formula():
    double = tn.formula("""
opgen: 1
op: test_double
summary: Twice every element
dtypes: {T: [f32]}
inputs: [{name: x, dtype: T}]
outputs: [{name: y, dtype: T, shape: x}]
forward: {y: 2*x}
""")
    assert double(tn.array([1.5])).tolist() == [3.0]


@pytest.mark.parametrize("text, named, error", [
    ("scale*", {}, ValueError), ("f(x)", {}, ValueError), ("x", {"k": "2"}, TypeError),
    ("op: x", {"k": 2.0}, TypeError), ("", {}, ValueError),
])
def test_wrong_formulas_are_refused(text, named, error):
    with pytest.raises(error):
        tn.formula(text, **named)


def test_a_class_has_a_gradient():
    @tn.operator(name="weighted")
    class Weighted:
        """A weighted sum"""

        def forward(self, x, y, *, k=2.0):
            return x + k * y

        def backward(self, grad, y, *, k=2.0):
            assert y.shape == grad.shape
            return grad, k * grad

    x, y = tn.ones((2,)).attach_grad(), tn.ones((2,)).attach_grad()
    with tn.record():
        total = Weighted(x, y, k=3.0).sum()
    total.backward()
    assert x.grad.tolist() == [1, 1] and y.grad.tolist() == [3, 3]
