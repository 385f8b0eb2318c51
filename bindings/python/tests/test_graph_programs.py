# SPDX-License-Identifier: Apache-2.0
"""Programs of graphs. Expected values come from NumPy and by hand."""

import gc
import threading

import numpy as np
import pytest

import tenon as tn
from layers import draw, make_chain, make_layer


# ------------------------------------------------------------------- programs

def test_forward_and_backward_agree_with_numpy():
    g = make_layer()
    x, w, b = draw(5, 3), draw(4, 3) - 1, draw(4) - 1
    p = g.bind({"data": x, "fc1_weight": w, "fc1_bias": b}, request="write")
    (y,) = p.forward(train=True)
    before = x @ w.T + b
    np.testing.assert_allclose(y.numpy(), np.maximum(before, 0), rtol=1e-5, atol=1e-6)
    head = draw(5, 4)
    p.backward(tn.array(head))
    inner = head * (before > 0)
    np.testing.assert_allclose(p.gradients["fc1_weight"].numpy(), inner.T @ x, rtol=1e-5)
    np.testing.assert_allclose(p.gradients["fc1_bias"].numpy(), inner.sum(0), rtol=1e-5)
    np.testing.assert_allclose(p.gradients["data"].numpy(), inner @ w, rtol=1e-5)


def test_gradients_can_add_up_or_be_left_out():
    y = tn.var("a") * tn.var("b")
    p = y.bind({"a": [2.0], "b": [5.0]}, request={"a": "add", "b": None})
    for _ in range(3):
        p.forward(train=True)
        p.backward([np.ones(1, np.float32)])
    assert list(p.gradients) == ["a"] and p.gradients["a"].numpy().tolist() == [15]


def test_gradients_into_arrays_of_the_caller():
    target = tn.array([7.0])
    p = (tn.var("a") * 3).bind({"a": [2.0]}, gradients={"a": target}, request={"a": "add"})
    p.forward(train=True)
    p.backward([np.ones(1, np.float32)])
    assert target.numpy().tolist() == [10]


def test_a_program_creates_arrays_of_a_shape():
    p = make_layer().bind({"data": (2, 3)})
    assert {name: each.shape for name, each in p.arguments.items()} == {
        "data": (2, 3), "fc1_weight": (4, 3), "fc1_bias": (4,)}
    assert p.gradients == {}
    p = tn.ops.elemwise.exp(tn.var("x")).bind({"x": ((2,), "f64")})
    assert p.outputs[0].numpy().dtype == np.float64


def test_element_types_that_follow_from_nothing_are_f32():
    y = tn.ops.nn.softmax_output(tn.var("x"), name="softmax")
    p = y.bind({"x": (2, 3)}, request="write")
    assert [each.numpy().dtype for each in p.arguments.values()] == [np.float32] * 2
    p = tn.ops.nn.softmax_output(tn.var("x"), name="softmax").bind({"x": np.ones((2, 3))})
    assert [each.numpy().dtype for each in p.arguments.values()] == [np.float64, np.float32]
    with pytest.raises(tn.IncompleteError, match="`x`"):
        y.bind({"x": (None, 3)})


def test_inputs_can_be_passed_to_a_run():
    p = make_layer().bind({"data": (1, 3), "fc1_weight": np.ones((4, 3), np.float32)})
    assert p.forward(data=[[1.0, 2.0, 3.0]])[0].numpy().tolist() == [[6] * 4]
    with pytest.raises(TypeError, match="no argument `date`; its arguments are data"):
        p.forward(date=[[1.0, 2.0, 3.0]])
    with pytest.raises(tn.ShapeError):
        p.forward(data=[1.0, 2.0])


def test_states_are_changed_by_training():
    y = tn.ops.nn.batch_norm(tn.var("x"), name="bn", momentum=0.5)
    p = tn.Graph(y).bind({"x": np.array([[1, 10], [3, 30]], np.float32)})
    assert set(p.auxiliaries) == {"bn_moving_mean", "bn_moving_var"}
    before = p.auxiliaries["bn_moving_mean"].numpy().copy()
    p.forward(train=True)
    np.testing.assert_allclose(p.auxiliaries["bn_moving_mean"].numpy(),
                               0.5 * before + 0.5 * np.array([2, 20]), rtol=1e-5)


def test_a_loss_needs_no_weight_and_another_head_does():
    x = tn.var("x")
    p = tn.ops.nn.make_loss(x * x).bind({"x": [3.0]}, request="write")
    p.forward(train=True)
    p.backward()
    assert p.gradients["x"].numpy().tolist() == [6]
    p = tn.ops.elemwise.exp(x, name="y").bind({"x": [3.0]}, request="write")
    p.forward(train=True)
    with pytest.raises(tn.InvalidError, match="y"):
        p.backward()


def test_backward_without_a_request_is_an_error():
    p = tn.ops.nn.make_loss(tn.var("x")).bind({"x": [3.0]})
    p.forward(train=True)
    with pytest.raises(tn.InvalidError, match="request"):
        p.backward()


def test_a_memory_budget_recomputes_with_the_same_gradients():
    g, arrays = make_chain(16), {"x": draw(32, 64)}
    arrays.update({f"fc{i}_weight": (draw(64, 64) - 1) / 16 for i in range(16)})
    found = []
    for budget in (None, "minimal", 1 << 17):
        p = g.bind(arrays, request="write", memory_budget=budget)
        p.forward(train=True)
        p.backward([np.ones((32, 64), np.float32)])
        found.append((p.stats, p.gradients["fc0_weight"].numpy()))
    assert found[1][0].pool_bytes < found[0][0].pool_bytes / 2
    assert found[0][0].repeated == 0 < found[1][0].repeated
    assert found[2][0].pool_bytes <= 1 << 17
    for stats, gradient in found[1:]:
        np.testing.assert_array_equal(gradient, found[0][1])


@pytest.mark.parametrize("settings, kind, text", [
    ({"memory_budget": -1}, ValueError, "memory_budget is -1"),
    ({"request": "writ"}, ValueError, "'writ' is none of"),
    ({"request": ["write"]}, ValueError, "is none of"),
    ({"place": "tpu"}, tn.TenonError, "tpu"),
    ({"passes": ["no.such"]}, tn.NotFoundError, "no.such"),
    ({"passes": "no.such"}, tn.NotFoundError, "no.such"),
    ({"shared": 1}, TypeError, "tenon.Program, not a int"),
    ({"outputs": [np.ones(2)]}, TypeError, "tenon.Array, not a ndarray"),
    ({"gradients": {"data": np.ones(2)}}, TypeError, "tenon.Array, not a ndarray"),
    ({"colour": 1}, TypeError, "colour")])
def test_wrong_settings(settings, kind, text):
    with pytest.raises(kind, match=text):
        make_layer().bind({"data": (2, 3)}, **settings)


def test_an_array_of_a_wrong_shape_names_the_node():
    with pytest.raises(tn.ShapeError, match="fc1"):
        make_layer().bind({"data": (2, 3), "fc1_weight": np.ones((4, 5), np.float32)})


def test_arguments_as_a_list():
    y = tn.var("a") - tn.var("b")
    assert y.bind([[5.0], [3.0]]).forward()[0].numpy().tolist() == [2]
    with pytest.raises(ValueError, match="2 arguments, but 3"):
        y.bind([[5.0], [3.0], [1.0]])
    with pytest.raises(TypeError, match="no value for b"):
        y.eval(a=[5.0])


def test_an_unknown_argument_is_an_error():
    with pytest.raises(tn.TenonError, match="datum"):
        make_layer().bind({"data": (2, 3), "datum": [1.0]})


def test_reshape_shares_arrays_of_equal_shape():
    p = make_layer().bind({"data": (2, 3), "fc1_weight": np.ones((4, 3), np.float32)})
    q = p.reshape(data=(5, 3))
    assert q.forward(data=np.ones((5, 3), np.float32))[0].numpy().tolist() == [[3] * 4] * 5
    p.forward(fc1_weight=2 * np.ones((4, 3), np.float32))
    assert q.forward()[0].numpy().tolist() == [[6] * 4] * 5


def test_a_monitor_sees_all_outputs():
    p = make_layer().bind({"data": np.ones((2, 3), np.float32),
                           "fc1_weight": -np.ones((4, 3), np.float32)})
    seen = {}
    p.monitor(lambda name, value: seen.__setitem__(name, value))
    p.forward()
    assert set(seen) == {"fc1_output", "relu1_output"}
    assert seen["fc1_output"].tolist() == [[-3] * 4] * 2
    assert seen["relu1_output"].tolist() == [[0] * 4] * 2
    seen.clear()
    p.monitor(None)
    p.forward()
    assert seen == {}


def test_an_exception_in_a_monitor_is_raised_by_the_run():
    def fail(name, value):
        raise KeyError(name)

    p = make_layer().bind({"data": (2, 3)})
    p.monitor(fail)
    for _ in range(2):
        with pytest.raises(KeyError, match="fc1_output"):
            p.forward()


def test_dynamic_parameters_can_be_set():
    y = tn.ops.optim.sgd_update(tn.var("w"), tn.var("g"), lr=0.5, wd=0.0, name="step")
    p = y.bind({"w": [10.0], "g": [2.0]})
    assert p.forward()[0].numpy().tolist() == [9]
    p.set("step", lr=1)
    assert p.forward()[0].numpy().tolist() == [8]
    with pytest.raises(tn.TenonError, match="no_such"):
        p.set("no_such", lr=1)
    with pytest.raises(tn.TenonError, match="lrr"):
        p.set("step", lrr=1)


def test_outputs_of_the_caller():
    target = tn.array([0.0, 0.0])
    p = (tn.var("x") + 1).bind({"x": [1.0, 2.0]}, outputs=[target])
    p.forward()
    assert target.numpy().tolist() == [2, 3]


def test_parts_of_a_run():
    p = make_layer().bind({"data": np.ones((2, 3), np.float32)}, fuse=False)
    assert p.forward_part(1) == p.stats.n_forward - 1
    assert p.forward_part(p.stats.n_forward) == 0


def test_text_stats_and_reasons():
    p = make_layer().bind({"data": (2, 3)}, request="write")
    assert "fc1" in p.text() and "backward" in p.text()
    assert p.stats.n_forward > 0 and p.stats.n_backward > 0
    assert [each["node"] for each in p.describe()["steps"]][0] == "fc1"
    assert "TN_BIND_CAPTURE" in p.captured()
    assert "cpu" in make_layer().bind({"data": (2, 3)}, capture=True).captured("train")
    with pytest.raises(ValueError, match="none of forward, train, backward"):
        p.captured("all")


def test_objects_can_end_in_any_order():
    for order in ("gpo", "opg", "pog", "ogp", "gop", "pgo"):
        g = make_layer()
        p = g.bind({"data": np.ones((2, 3), np.float32),
                    "fc1_weight": np.ones((4, 3), np.float32)})
        out = p.forward()[0]
        symbol = g["fc1_output"]
        things = {"g": g, "p": p, "o": out}
        del g, p
        for each in order:
            if each == "o":
                assert things["o"].numpy().tolist() == [[3] * 4] * 2
            del things[each]
            gc.collect()
        assert symbol.name == "fc1"
        assert out.numpy().tolist() == [[3] * 4] * 2


def test_threads_may_use_the_same_symbols_and_programs():
    x, failures = tn.var("x"), []
    shared = (x * 2).bind({"x": [1.0]})

    def work(k):
        try:
            for i in range(30):
                y = x * k + i
                assert y.eval(x=[2.0]).numpy().tolist() == [2 * k + i]
                shared.forward()
        except BaseException as error:  # reported by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
