# SPDX-License-Identifier: Apache-2.0
"""Optimizers beside the formulas of their papers, written in NumPy."""

import inspect

import numpy as np
import pytest

import tenon as tn

WEIGHTS = {"w": np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -4.0]], np.float32),
           "b": np.array([4.0, -1.0], np.float32)}
GRADS = [{"w": np.array([[0.5, 1.0, -2.0], [3.0, -0.25, 8.0]], np.float32) * scale,
          "b": np.array([-1.0, 2.5], np.float32) * scale} for scale in (1.0, -0.5, 2.0)]


def clip(values, limit):
    return values if limit is None else np.clip(values, -limit, limit)


def step_sgd(w, g, state, _, lr, momentum=None, wd=0.0, rescale=1.0, limit=None):
    g = clip(rescale * g, limit)
    if momentum is None:
        return (1 - lr * wd) * w - lr * g
    state["mom"] = momentum * state.get("mom", 0) - lr * wd * w - lr * g
    return w + state["mom"]


def step_adam(w, g, state, n, lr, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0.0, limit=None):
    g = clip(g + wd * w, limit)
    state["mean"] = beta1 * state.get("mean", 0) + (1 - beta1) * g
    state["var"] = beta2 * state.get("var", 0) + (1 - beta2) * g * g
    mean, var = state["mean"] / (1 - beta1 ** n), state["var"] / (1 - beta2 ** n)
    return w - lr * mean / (np.sqrt(var) + epsilon)


def step_rmsprop(w, g, state, _, lr, gamma1=0.95, epsilon=1e-8):
    state["n"] = gamma1 * state.get("n", 0) + (1 - gamma1) * g * g
    return w - lr * g / np.sqrt(state["n"] + epsilon)


def step_rmspropalex(w, g, state, _, lr, gamma1=0.95, gamma2=0.9, epsilon=1e-8):
    state["n"] = gamma1 * state.get("n", 0) + (1 - gamma1) * g * g
    state["g"] = gamma1 * state.get("g", 0) + (1 - gamma1) * g
    width = np.sqrt(np.maximum(state["n"] - state["g"] ** 2, 0) + epsilon)
    state["delta"] = gamma2 * state.get("delta", 0) - lr * g / width
    return w + state["delta"]


def step_ftrl(w, g, state, _, lr, lamda1=0.01, beta=1.0, wd=0.0):
    n, z = state.get("n", 0), state.get("z", 0)
    z = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) * w / lr
    n = n + g * g
    state.update(n=n, z=z)
    new = (np.sign(z) * lamda1 - z) / ((beta + np.sqrt(n)) / lr + wd)
    return np.where(np.abs(z) <= lamda1, 0, new)


CASES = [
    ("sgd", step_sgd, {}, {}),
    ("sgd", step_sgd, {"weight_decay": 0.5, "rescale_grad": 2.0, "clip_gradient": 3.0},
     {"wd": 0.5, "rescale": 2.0, "limit": 3.0}),
    ("sgd", step_sgd, {"momentum": 0.75, "weight_decay": 0.25}, {"momentum": 0.75, "wd": 0.25}),
    ("sgd_mom", step_sgd, {"momentum": 0.5}, {"momentum": 0.5}),
    ("adam", step_adam, {}, {}),
    ("adam", step_adam, {"beta1": 0.5, "beta2": 0.75, "weight_decay": 0.5, "clip_gradient": 2.0},
     {"beta1": 0.5, "beta2": 0.75, "wd": 0.5, "limit": 2.0}),
    ("rmsprop", step_rmsprop, {"gamma1": 0.5}, {"gamma1": 0.5}),
    ("rmspropalex", step_rmspropalex, {"gamma1": 0.5}, {"gamma1": 0.5}),
    ("ftrl", step_ftrl, {"lamda1": 0.5, "weight_decay": 0.25}, {"lamda1": 0.5, "wd": 0.25}),
]


def make_params(dtype="f32"):
    return {name: tn.array(each, dtype=dtype).attach_grad() for name, each in WEIGHTS.items()}


def as_arrays(grads, dtype="f32"):
    return {name: tn.array(each, dtype=dtype) for name, each in grads.items()}


@pytest.mark.parametrize("name, formula, settings, same", CASES,
                         ids=[f"{each[0]}-{len(each[2])}" for each in CASES])
def test_steps_follow_the_formulas(name, formula, settings, same):
    params = make_params()
    step = tn.optim.Optimizer(name, params, learning_rate=0.125, **settings)
    expected = {key: each.astype(np.float64) for key, each in WEIGHTS.items()}
    states = {key: {} for key in WEIGHTS}
    for i, grads in enumerate(GRADS):
        step.step(as_arrays(grads))
        for key in WEIGHTS:
            expected[key] = formula(expected[key], grads[key].astype(np.float64), states[key],
                                    i + 1, 0.125, **same)
            np.testing.assert_allclose(params[key].numpy(), expected[key], rtol=2e-5, atol=2e-5)
    assert step.steps == 3


def test_every_optimizer_of_the_plugin_has_a_case():
    assert {each[0] for each in CASES} == set(tn.optim.list_optimizers())


def test_steps_use_the_gradients_of_a_tape():
    params = make_params()
    step = tn.optim.sgd(params, learning_rate=0.5)
    with tn.record():
        loss = (params["w"] * params["w"]).sum() + (params["b"] * 3).sum()
    loss.backward()
    step.step()
    np.testing.assert_array_equal(params["w"].numpy(), np.zeros((2, 3)))  # w - 0.5 * 2 w
    np.testing.assert_array_equal(params["b"].numpy(), WEIGHTS["b"] - 1.5)


def test_a_step_inside_of_record_is_not_recorded():
    params = make_params()
    step = tn.optim.sgd(params, learning_rate=1.0)
    with tn.record():
        loss = (params["b"] * params["b"]).sum()
        loss.backward()
        step.step()
        assert tn.is_recording()
    np.testing.assert_array_equal(params["b"].numpy(), -WEIGHTS["b"])


def test_the_rate_changes():
    b = np.array([4.0, -1.0])
    params = {"b": tn.array(b, dtype="f32")}
    step = tn.optim.sgd(params, learning_rate=lambda n: 1.0 / n)
    one = {"b": tn.ones(2)}
    step.step(one)
    step.step(one)
    np.testing.assert_array_equal(params["b"].numpy(), b - 1 - 0.5)
    assert step.learning_rate == pytest.approx(1 / 3)
    step.learning_rate = 0.25
    step.step(one)
    np.testing.assert_array_equal(params["b"].numpy(), b - 1.75)


def test_overrides_are_for_one_parameter():
    params = make_params()
    step = tn.optim.sgd(params, learning_rate=0.5, weight_decay=0.5,
                        overrides={"b": {"weight_decay": 0, "learning_rate": 2.0}})
    step.step({"w": tn.zeros((2, 3)), "b": tn.ones(2)})
    np.testing.assert_array_equal(params["w"].numpy(), 0.75 * WEIGHTS["w"])
    np.testing.assert_array_equal(params["b"].numpy(), WEIGHTS["b"] - 2)


def test_parameters_without_a_gradient_keep_their_value():
    params = make_params()
    step = tn.optim.sgd(params, learning_rate=1.0)
    step.step({"w": None, "b": tn.ones(2)})
    step.step([None, tn.ones(2)])
    np.testing.assert_array_equal(params["w"].numpy(), WEIGHTS["w"])
    np.testing.assert_array_equal(params["b"].numpy(), WEIGHTS["b"] - 2)


@pytest.mark.parametrize("dtype, momentum", [("f16", None), ("bf16", None), ("bf16", 0.0)])
def test_multi_precision_adds_up_short_steps(dtype, momentum):
    """A step of 2^-10 is lost in f16 at 4 and in bf16 at 1, and 512 of them are a half."""
    start = 4.0 if dtype == "f16" else 1.0
    found = {}
    for multi in (False, True):
        params = {"w": tn.full((3,), start, dtype)}
        step = tn.optim.sgd(params, learning_rate=2.0 ** -10, momentum=momentum,
                            multi_precision=multi)
        for _ in range(512):
            step.step({"w": tn.ones((3,), dtype)})
        found[multi] = params["w"].astype("f32").numpy()
    np.testing.assert_array_equal(found[False], [start] * 3)
    np.testing.assert_array_equal(found[True], [start - 0.5] * 3)


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_a_saved_state_continues(tmp_path, ending):
    path = tmp_path / f"state.{ending}"
    straight, broken = make_params(), make_params()
    first = tn.optim.adam(straight, learning_rate=0.125)
    second = tn.optim.adam(broken, learning_rate=0.125)
    for grads in GRADS[:2]:
        first.step(as_arrays(grads))
        second.step(as_arrays(grads))
    second.save(path)
    third = tn.optim.adam(broken, learning_rate=0.125)
    third.load(path)
    assert third.steps == 2
    first.step(as_arrays(GRADS[2]))
    third.step(as_arrays(GRADS[2]))
    for key in WEIGHTS:
        np.testing.assert_array_equal(straight[key].numpy(), broken[key].numpy())


def test_a_loaded_state_is_a_copy():
    params = make_params()
    step = tn.optim.sgd(params, learning_rate=1.0, momentum=1.0)
    step.step(as_arrays(GRADS[0]))
    kept = step.state
    other = tn.optim.sgd(params, learning_rate=1.0, momentum=1.0)
    other.state = kept
    other.step(as_arrays(GRADS[0]))
    np.testing.assert_array_equal(kept["w.mom"].numpy(), -GRADS[0]["w"])


def test_a_dotted_name_does_not_mix_states():
    params = {"a": tn.ones(1), "a.b": tn.ones(2)}
    step = tn.optim.sgd(params, learning_rate=1.0, momentum=0.5)
    step.step({"a": tn.ones(1), "a.b": tn.ones(2)})
    other = tn.optim.sgd(params, learning_rate=1.0, momentum=0.5)
    other.state = step.state
    assert set(other.state) == {"steps", "a.mom", "a.b.mom"}


def test_constructors_have_the_signature_of_the_operator():
    signature = inspect.signature(tn.optim.adam)
    assert list(signature.parameters)[:2] == ["params", "learning_rate"]
    assert signature.parameters["beta2"].default == 0.999
    assert signature.parameters["weight_decay"].default == 0
    assert "clip_gradient" in tn.optim.adam.__doc__
    assert "adam" in dir(tn.optim)


def test_programs_train():
    """One step of f = w * x, of which the gradient by w is x."""
    y = tn.var("w") * tn.var("x")
    program = y.bind({"w": np.float32([1, 2]), "x": np.float32([3, 5])}, request={"w": "write"})
    step = tn.optim.sgd({"w": program.arguments["w"]}, learning_rate=0.5)
    program.forward(train=True)
    program.backward([np.float32([1, 1])])
    step.step(program.gradients)
    np.testing.assert_array_equal(program.arguments["w"].numpy(), [-0.5, -0.5])
    np.testing.assert_array_equal(program.forward()[0].numpy(), [-1.5, -2.5])


@pytest.mark.parametrize("make, kind, words", [
    (lambda p: tn.optim.Optimizer("adm", p, 0.1), tn.NotFoundError, "did you mean 'adam'"),
    (lambda p: tn.optim.sgd(p, 0.1, momentm=0.9), TypeError, "momentm"),
    (lambda p: tn.optim.adam(p, 0.1, beta_1=0.9), TypeError, "did you mean 'beta1'"),
    (lambda p: tn.optim.adam({"w": 3.0}, 0.1), TypeError, "must be an Array"),
    (lambda p: tn.optim.sgd(p, 0.1, overrides={"v": {}}), ValueError, "names v"),
    (lambda p: tn.optim.sgd(p, 0.1).step(), tn.InvalidError, "attach_grad"),
    (lambda p: tn.optim.sgd(p, 0.1).step({"w": None}), ValueError, "no gradient for b"),
    (lambda p: tn.optim.sgd(p, 0.1).step([None]), ValueError, "2 parameters and 1"),
    (lambda p: tn.optim.sgd(p, 0.1).step({"w": tn.ones(5), "b": None}), tn.ShapeError,
     "parameter 'w'"),
    (lambda p: tn.optim.sgd(p, "fast").step({"w": tn.ones((2, 3)), "b": None}), ValueError,
     "fast"),
    (lambda p: tn.optim.Optimizer("elemwise.exp", p, 0.1), ValueError, "no optimizer"),
    (lambda p: setattr(tn.optim.sgd(p, 0.1), "state", {"w.mom": tn.ones(2)}), ValueError,
     "steps"),
    (lambda p: setattr(tn.optim.adam(p, 0.1), "state",
                       {"steps": tn.array(1), "b.mean": tn.ones(2)}), ValueError, "b.var"),
    (lambda p: tn.optim.adm, AttributeError, "adam"),
])
def test_mistakes_are_explained(make, kind, words):
    with pytest.raises(kind, match=words):
        make(make_params())
