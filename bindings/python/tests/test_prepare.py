# SPDX-License-Identifier: Apache-2.0
"""Prepared calls."""

import gc
import weakref

import numpy as np
import pytest

import tenon as tn

ADD = tn.ops.elemwise.add


def test_a_run_reads_the_arrays_again():
    x, y, z = tn.array([1.0, 2.0]), tn.array([10.0, 20.0]), tn.zeros(2)
    run = tn.prepare(ADD, x, y, out=z)
    np.testing.assert_array_equal(z.numpy(), [0, 0])  # nothing is computed yet
    assert run() is z
    np.testing.assert_array_equal(z.numpy(), [11, 22])
    x[...] = 5
    run()
    np.testing.assert_array_equal(z.numpy(), [15, 25])


def test_results_are_made_if_they_are_not_passed():
    run = tn.prepare(tn.ops.elemwise.broadcast_add, tn.array([1.0]), 2)
    assert run() is run.result
    np.testing.assert_array_equal(run.result.numpy(), [3])
    values, places = tn.prepare(tn.ops.tensor.topk, tn.array([3.0, 1.0, 2.0]), k=2, axis=0)()
    np.testing.assert_array_equal(values.numpy(), [3, 2])
    np.testing.assert_array_equal(places.numpy(), [0, 2])


def test_an_operator_of_a_list_is_prepared():
    run = tn.prepare(tn.ops.tensor.concat, [tn.array([1.0]), tn.array([2.0])], dim=0)
    np.testing.assert_array_equal(run().numpy(), [1, 2])


def test_dynamic_parameters_change():
    w = tn.array([4.0])
    run = tn.prepare(tn.ops.optim.sgd_update, w, tn.array([1.0]), out=w, lr=1.0)
    run()
    run.set(lr=0.5)
    run()
    np.testing.assert_array_equal(w.numpy(), [2.5])
    with pytest.raises(tn.TenonError, match="dynamic"):
        run.set(wd=0.5)
    with pytest.raises(TypeError, match="rate"):
        run.set(rate=0.5)


def test_the_call_keeps_its_arrays():
    x = tn.array([1.0])
    run = tn.prepare(ADD, x, x)
    del x
    gc.collect()
    np.testing.assert_array_equal(run().numpy(), [2])
    gone = weakref.ref(run.result)
    del run
    gc.collect()
    assert gone() is None


def test_mistakes_are_explained():
    x = tn.array([1.0])
    with pytest.raises(TypeError, match="an operator"):
        tn.prepare(np.add, x, x)
    with pytest.raises(TypeError, match="an operator"):
        tn._core.prepare()
    with pytest.raises(TypeError, match="graph"):
        tn.prepare(ADD, tn.var("x"), tn.var("y"))
    with pytest.raises(tn.ShapeError):
        tn.prepare(ADD, tn.ones(2), tn.ones(3))
    with pytest.raises(tn.UnsupportedError):
        tn.prepare(tn.ops.tensor.nonzero, x)
    run = tn.prepare(ADD, x, x)
    with pytest.raises(TypeError, match="no arguments"):
        run(x)
    with tn.record():
        with pytest.raises(RuntimeError, match="gradient"):
            run()
