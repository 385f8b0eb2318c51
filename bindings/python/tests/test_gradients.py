# SPDX-License-Identifier: Apache-2.0
"""Tapes: record, backward, views, gradients of gradients, threads, errors. Expected values are
worked out by hand."""

import gc
import threading
import weakref

import numpy as np
import pytest

import tenon as tn


def leaf(values, request="write", dtype=None):
    return tn.array(values, dtype).attach_grad(request)


def test_the_gradient_of_a_sum_of_squares():
    w = leaf([1.0, 2.0, -3.0])
    with tn.record() as tape:
        assert tn.is_recording()
        loss = (w * w).sum()
    assert not tn.is_recording()
    loss.backward()
    assert w.grad.tolist() == [2, 4, -6]
    assert loss.item() == 14 and isinstance(tape, tn._core.Tape)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_types_of_floats(dtype):
    w = leaf([1.0, 2.0], dtype=dtype)
    with tn.record():
        y = w * 3
    y.backward()
    assert w.grad.dtype == dtype and w.grad.tolist() == [3, 3]


def test_only_floats_have_gradients():
    with pytest.raises(TypeError, match="has no gradient"):
        tn.array([1, 2]).attach_grad()
    with pytest.raises(ValueError, match="'write', 'add' or None"):
        tn.ones(2).attach_grad("ad")


def test_a_gradient_is_weighted():
    w = leaf([1.0, 2.0])
    with tn.record():
        y = w * w
    y.backward([10.0, 100.0])
    assert w.grad.tolist() == [20, 400]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0], "a", object()], ids=repr)
def test_weights_that_do_not_fit(weights):
    w = leaf([1.0, 2.0])
    with tn.record():
        y = w * w
    with pytest.raises((ValueError, TypeError)):
        y.backward(weights)


def test_gradients_are_written_or_added():
    for request, wanted in (("write", [3]), ("add", [6])):
        w = leaf([1.0], request)
        for _ in range(2):
            with tn.record():
                y = w * 3
            y.backward()
        assert w.grad.tolist() == wanted
    w.grad = None
    with tn.record():
        y = w * 5
    y.backward()
    assert w.grad.tolist() == [5]


def test_a_leaf_without_request_gets_none():
    w = leaf([1.0])
    v = leaf([2.0])
    v.attach_grad(None)
    with tn.record():
        y = w * v
    y.backward()
    assert v.grad is None and w.grad.tolist() == [2]


def test_several_leaves_and_uses():
    a, b = leaf([2.0]), leaf([5.0])
    with tn.record():
        y = a * b + a * a - b
    y.backward()
    assert a.grad.tolist() == [9] and b.grad.tolist() == [1]


def test_an_unused_leaf_keeps_no_gradient():
    a, b = leaf([2.0]), leaf([5.0])
    with tn.record():
        b * 2
        y = a * 3
    y.backward()
    assert a.grad.tolist() == [3]
    assert b.grad is None or b.grad.tolist() == [0]


def test_views_of_leaves():
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    with tn.record():
        y = w[0] * 10 + w.T[1] * 2 + w.reshape(4)[::2]
    y.backward()
    assert w.grad.tolist() == [[11, 12], [1, 2]]


def test_views_made_before_recording():
    w = leaf([1.0, 2.0])
    part = w[1:]
    with tn.record():
        y = part * 7
    y.backward()
    assert w.grad.tolist() == [0, 7]


def test_views_of_results():
    w = leaf([1.0, 2.0])
    with tn.record():
        z = w * w
        y = z[1] * 3
    y.backward()
    assert w.grad.tolist() == [0, 12]


def test_keys_with_arrays():
    w = leaf([1.0, 2.0, 3.0])
    with tn.record():
        y = (w[[0, 2, 2]] * tn.array([1.0, 10.0, 100.0])).sum()
    y.backward()
    assert w.grad.tolist() == [1, 0, 110]
    with tn.record():
        y = w[w > 1.5].sum()
    y.backward()
    assert w.grad.tolist() == [0, 1, 1]


def test_broadcasting_sums_the_gradient():
    w = leaf([[1.0], [2.0]])
    with tn.record():
        y = w * tn.array([1.0, 10.0, 100.0]) + tn.ones((4, 1, 1))
    y.backward()
    assert w.grad.tolist() == [[444], [444]]


def test_numbers_and_other_operands():
    w = leaf([2.0])
    with tn.record():
        y = 3 / w + (w ** 2) * np.array([5.0], "f4") - [1.0] + 2 ** w
    y.backward()
    np.testing.assert_allclose(w.grad.numpy(), [-3 / 4 + 20 + 4 * np.log(2)], rtol=1e-6)


def test_assignment_in_place():
    w = leaf([1.0, 2.0])
    with tn.record():
        z = tn.zeros(3)
        z[1:] = w * w
        z *= 5
        y = z.sum()
    y.backward()
    assert w.grad.tolist() == [10, 20]


def test_assignment_to_parts():
    w = leaf([1.0, 2.0])
    with tn.record():
        z = w * 10
        z[0] = w[1] * w[1]
        y = z * tn.array([1.0, 100.0])
        z[:1] = 7
        y = y + z
    y.backward()
    assert z.tolist() == [7, 20] and w.grad.tolist() == [0, 1014]
    w = leaf(np.arange(6, dtype="f4").reshape(2, 3))
    with tn.record():
        z = tn.zeros((3, 2, 2))
        z[::2, :, 1] = w[:, :2] * 2
        z[[1], 0, None, 0] = w[1, 2] * 5
    z.backward()
    assert w.grad.tolist() == [[2, 2, 0], [2, 2, 5]]


def test_a_leaf_that_is_changed_after_its_use():
    w = leaf([3.0])
    with tn.record():
        y = w * w
    w += 1
    try:
        y.backward()
    except tn.TenonError as error:
        assert "w" in str(error)  # refused,
    else:
        assert w.grad.tolist() == [6]  # or the value at the call


def test_steps_in_place_between_recordings():
    w = leaf([8.0])
    for _ in range(3):
        with tn.record():
            y = w * w
        y.backward()
        w -= w.grad * 0.25
    assert w.tolist() == [1]


def test_casts_are_recorded():
    w = leaf([1.5])
    with tn.record():
        y = w.astype("f64") * 2
    y.backward()
    assert w.grad.dtype is tn.f32 and w.grad.tolist() == [2]


def test_matrix_products_and_shapes():
    a, b = leaf(np.ones((2, 3), "f4")), leaf(np.arange(12, dtype="f4").reshape(3, 4))
    with tn.record():
        y = (a @ b).sum()
    y.backward()
    assert a.grad.tolist() == [[6, 22, 38]] * 2 and b.grad.tolist() == [[2] * 4] * 3
    c = leaf(np.ones((5, 2, 3), "f4"))
    with tn.record():
        y = (c @ b).transpose(2, 0, 1).reshape(-1).mean()
    y.backward()
    np.testing.assert_allclose(c.grad.numpy()[0, 0], np.array([6, 22, 38]) / 40, rtol=1e-6)


def test_pause_and_detach():
    w = leaf([3.0])
    with tn.record():
        with tn.pause():
            assert not tn.is_recording()
            constant = w * w
        assert tn.is_recording()
        y = w * constant + (w * 2).detach() * w
    y.backward()
    assert w.grad.tolist() == [15]
    assert w.detach().tolist() == [3]


def test_recording_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError):
        with tn.record():
            with tn.pause():
                1 / 0
    assert not tn.is_recording()
    w = leaf([1.0])
    with pytest.raises(ValueError):
        with tn.record():
            w * tn.ones((2, 3)) + tn.ones(7)
    assert not tn.is_recording()
    with tn.record():
        y = w * 2
    y.backward()
    assert w.grad.tolist() == [2]


def test_backward_keeps_the_tape_on_request():
    w = leaf([3.0], "add")
    with tn.record():
        y = w * w
    y.backward(keep=True)
    y.backward()
    assert w.grad.tolist() == [12]
    with pytest.raises((tn.TenonError, ValueError)):
        y.backward()


def test_backward_inside_of_record():
    w = leaf([3.0])
    with tn.record():
        (w * w).backward()
        assert w.grad.tolist() == [6]
        second = w * 5
        second.backward()
        assert w.grad.tolist() == [5]
        third = w * 7
    third.backward()
    assert w.grad.tolist() == [7]


def test_nested_tapes():
    w = leaf([2.0])
    with tn.record():
        outer = w * 3
        with tn.record():
            inner = w * 10
        inner.backward()
        assert w.grad.tolist() == [10]
        outer = outer * w
    outer.backward()
    assert w.grad.tolist() == [12]


def test_two_heads():
    w = leaf([2.0])
    with tn.record():
        a, b = w * 3, w * w
    tn.autograd.backward([a, b])
    assert w.grad.tolist() == [7]
    with tn.record():
        a, b = w * 3, w * w
    tn.autograd.backward([a, b], [None, tn.array([10.0])])
    assert w.grad.tolist() == [43]


def test_heads_of_two_tapes_are_refused():
    w = leaf([2.0])
    with tn.record():
        a = w * 3
    with tn.record():
        b = w * 4
    with pytest.raises((tn.TenonError, ValueError)):
        tn.autograd.backward([a, b])


def test_arrays_that_no_tape_knows():
    for each in (tn.ones(2), leaf([1.0])):
        with pytest.raises(ValueError, match="no tape has recorded"):
            each.backward()
    with tn.record():
        y = tn.ones(2) * 3
    with pytest.raises((ValueError, tn.TenonError)):
        y.backward()
    with pytest.raises((ValueError, TypeError)):
        tn.autograd.backward([])


def test_operators_without_gradient():
    w = leaf([1.0, 2.0])
    with tn.record():
        y = (w > 1.5).astype("f32")
    with pytest.raises((ValueError, tn.TenonError)):
        y.backward()


def test_training_and_evaluation():
    x = tn.ones(1000)
    with tn.record(train=False):
        assert tn.ops.nn.dropout(x, p=0.5).numpy().min() == 1
    with tn.record():
        assert tn.ops.nn.dropout(x, p=0.5).numpy().min() == 0


# ------------------------------------------------------------------------ functions

FUNCTIONS = {
    "products": (lambda x: x * x * x, [1.47, 4.2]),
    "powers": (lambda x: x ** 3, [1.47, 4.2]),
    "exp": (tn.exp, [np.exp(0.7), np.exp(0.7)]),
    "log": (tn.log, [1 / 0.7, -1 / 0.49]),
    "quotients": (lambda x: 1 / x, [-1 / 0.49, 2 / 0.343]),
    "tanh": (tn.tanh, [1 - np.tanh(0.7)**2, -2 * np.tanh(0.7) * (1 - np.tanh(0.7)**2)]),
    "matrices": (lambda x: x.reshape(1, 1) @ x.reshape(1, 1) @ x.reshape(1, 1), [1.47, 4.2, 6]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_grad_of_grad(name):
    function, wanted = FUNCTIONS[name]
    x = tn.array([0.7])
    for each in wanted:
        function = (lambda inner: lambda x: tn.grad(inner)(x).sum())(function)
        np.testing.assert_allclose(function(x).item(), each, rtol=1e-5)
    assert x.grad is None


def test_an_order_that_operators_lack_is_refused():
    third = tn.exp
    for _ in range(3):
        third = (lambda inner: lambda x: tn.grad(inner)(x).sum())(third)
    try:
        np.testing.assert_allclose(third(tn.array([0.5])).item(), np.exp(0.5), rtol=1e-5)
    except tn.UnsupportedError as error:
        assert error.operator == "elemwise.exp_grad@1"
    assert not tn.is_recording()


def test_value_and_grad():
    value, (a, b) = tn.value_and_grad(lambda x, y, z=0: (x * y + z).sum(), argnums=(0, 1))(
        tn.array([2.0]), tn.array([5.0]), z=1)
    assert (value.item(), a.tolist(), b.tolist()) == (11, [5], [2])
    value, slope = tn.value_and_grad(lambda x, y: x * y, argnums=1)(3.0, tn.array([1.0, 2.0]))
    assert value.tolist() == [3, 6] and slope.tolist() == [3, 3]
    assert tn.grad(lambda x: x * x, argnums=-1)(np.array([4.0], "f4")).tolist() == [8]


def test_grad_of_wrong_functions():
    for function, error in ((lambda x: 3.0, TypeError), (lambda x: None, TypeError),
                            (lambda x: x + "a", TypeError), (lambda x: 1 / 0, ZeroDivisionError)):
        with pytest.raises(error):
            tn.grad(function)(tn.ones(2))
        assert not tn.is_recording()
    with pytest.raises((IndexError, TypeError)):
        tn.grad(lambda x: x, argnums=3)(tn.ones(2))
    with pytest.raises(TypeError):
        tn.grad(lambda x: x * 1)(tn.array([1, 2]))


def test_grad_of_a_constant_function_is_zero_or_refused():
    try:
        found = tn.grad(lambda x: tn.ones(1) * 3)(tn.ones(2))
    except (ValueError, tn.TenonError):
        return
    assert found is None or found.tolist() == [0, 0]


def test_grad_inside_of_record():
    w = leaf([2.0])
    with tn.record():
        y = w * tn.grad(lambda x: x ** 3)(w)  # w * 3 w^2
    y.backward()
    np.testing.assert_allclose(w.grad.numpy(), [36], rtol=1e-6)


# -------------------------------------------------------------------- threads and life

def test_threads_have_tapes_of_their_own():
    errors = []
    barrier = threading.Barrier(4)

    def work(number):
        try:
            barrier.wait()
            for i in range(200):
                w = leaf([float(number)])
                with tn.record():
                    y = w * w
                    for _ in range(3):
                        y = y * 2
                assert not tn.is_recording()
                y.backward()
                assert w.grad.item() == 16 * number
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors


def test_recording_in_one_thread_is_not_recording_in_another():
    seen = []
    with tn.record():
        other = threading.Thread(target=lambda: seen.append(tn.is_recording()))
        other.start()
        other.join()
    assert seen == [False]


def test_one_parameter_in_several_threads():
    w = tn.ones(3).attach_grad()
    found = []

    def work(number):
        for _ in range(50):
            with tn.record():
                y = (w * number).sum()
            y.backward()
            found.append(w.grad.numpy())  # of this thread or of another one

    threads = [threading.Thread(target=work, args=(float(each),)) for each in (1, 2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 150 and all(set(each) <= {1, 2, 3} for each in found)


def test_a_gradient_that_is_set_by_hand():
    w = leaf([1.0])
    w.grad = tn.array([5.0])
    assert w.grad.tolist() == [5]
    with pytest.raises(TypeError, match="grad must be an Array or None"):
        w.grad = [5.0]
    with pytest.raises(TypeError):
        w.grad = 5
    w.grad = None
    assert w.grad is None


def test_gradients_make_no_cycles():
    """Arrays and tapes are not known to the collector, so nothing may keep itself alive."""
    def build():
        w = leaf([1.0])
        w.grad = w
        with tn.record():
            y = w * 2
        w.grad = y
        v = leaf([1.0])
        v.grad = v[:1]
        u, t = leaf([1.0]), leaf([1.0])
        u.grad, t.grad = t, u
        return [weakref.ref(each) for each in (w, v, u, t)]

    dead = build()
    gc.collect()
    assert [each() for each in dead] == [None] * 4


def test_a_tape_frees_results_after_backward():
    w = leaf(np.ones(10, "f4"))
    with tn.record() as tape:
        middle = w * 2
        y = middle * 3
    held = weakref.ref(middle)
    del middle
    y.backward()
    assert held() is None
    del y, tape
    gc.collect()
