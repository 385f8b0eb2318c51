# SPDX-License-Identifier: Apache-2.0
"""Functions of operators: signatures, arguments, parameters, results, plugins, errors."""

import inspect
import json
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import tenon as tn
from tenon import _core, _prefix

NAMES = sorted(each.partition("@")[0] for each in _core.list_operators())
ops = tn.ops


def run_child(code, timeout=120):
    """Runs code in a process of its own; the end of the process is a part of the test."""
    head = "import os, sys, threading\nimport numpy as np\nimport tenon as tn\n"
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c",
                           head + textwrap.dedent(code)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout,
                          check=False)


def check_child(code, said="done\n"):
    done = run_child(code)
    assert (done.returncode, done.stdout) == (0, said), done.stderr


# --------------------------------------------------------------------- descriptions

@pytest.mark.parametrize("name", NAMES)
def test_every_operator_has_a_signature_and_a_text(name):
    function = ops.find_operator(name)
    signature = inspect.signature(function)
    described = json.loads(function.__self__.json)
    wanted = {each["name"] for key in ("inputs", "aux", "params") for each in described[key]}
    assert wanted | {"out"} == {each.rstrip("_") if each.rstrip("_") in wanted else each
                                for each in signature.parameters}
    assert function.__name__ == described["name"]
    for each in described["params"]:
        found = signature.parameters.get(each["name"]) or signature.parameters[each["name"] + "_"]
        assert found.kind is inspect.Parameter.KEYWORD_ONLY
        assert (found.default is inspect.Parameter.empty) == (each["default_text"] is None)
    text = function.__doc__
    assert described["summary"] in text
    assert "\nGradient\n" in text and "\nOutputs\n" in text
    assert "{c:" not in text.partition("Gradient")[0]
    for each in described["params"]:
        assert f"\n  {each['name']}  " in text


def test_the_text_has_formula_and_gradient():
    text = tn.ops.elemwise.mul.__doc__
    assert "= lhs*rhs" in text.replace(" ", "").replace("lhs*rhs", "lhs*rhs") or "lhs" in text
    assert "grad" in text


def test_namespaces():
    assert "softmax" in dir(ops.nn) and "nn" in dir(ops)
    assert ops.nn is ops.nn and ops.nn.softmax is ops.nn.softmax
    assert tn.exp is ops.elemwise.exp and not hasattr(tn, "nothing_of_this_name")
    with pytest.raises(AttributeError, match="did you mean 'split'"):
        ops.tensor.splitt
    with pytest.raises(AttributeError, match="did you mean 'nn'"):
        ops.nnn
    with pytest.raises(LookupError, match="there is no operator"):
        ops.find_operator("nn.nothing")
    with pytest.raises(TypeError, match="a name is a str"):
        ops.find_operator(3)
    assert ops.find_operator("nn.softmax@1")(tn.zeros(2)).tolist() == [0.5, 0.5]


# ------------------------------------------------------------------------ arguments

X = np.array([[1, 2, 3]], "f4")


def test_inputs_by_position_and_by_name():
    weight, bias = np.ones((2, 3), "f4"), np.array([1, 2], "f4")
    dense = ops.nn.fully_connected
    for found in (dense(X, weight, bias, num_hidden=2), dense(X, weight, bias=bias, num_hidden=2),
                  dense(data=X, bias=bias, weight=weight, num_hidden=2),
                  dense(tn.array(X), tn.array(weight), bias, num_hidden=2)):
        assert found.tolist() == [[7, 8]]
    for found in (dense(X, weight, num_hidden=2, no_bias=True),
                  dense(X, weight, None, num_hidden=2, no_bias=True),
                  dense(X, weight, bias=None, num_hidden=2, no_bias=True)):
        assert found.tolist() == [[6, 6]]


def test_wrong_inputs():
    softmax = ops.nn.softmax
    with pytest.raises(TypeError, match=r"softmax\(\) takes at most 1 array but 2 were passed"):
        softmax(X, X)
    with pytest.raises(TypeError, match="two values for `data`"):
        softmax(X, data=X)
    with pytest.raises(ValueError, match="takes 1 input"):
        softmax()
    with pytest.raises(ValueError, match="`weight` is NULL"):
        ops.nn.fully_connected(X, bias=[1, 2], num_hidden=2)
    for wrong in ("a", object(), {}, len):
        with pytest.raises(TypeError, match="cannot make an array"):
            softmax(wrong)
    with pytest.raises(TypeError) as caught:
        softmax([[1, 2]])
    assert isinstance(caught.value, tn.DtypeError)
    assert (caught.value.operator, caught.value.plugin) == ("nn.softmax@1", "nn")
    assert caught.value.code == -7


def test_misspelt_and_unknown_parameters():
    with pytest.raises(TypeError, match="unexpected argument 'axsi'; did you mean 'axis'"):
        ops.nn.softmax(X, axsi=1)
    with pytest.raises(TypeError, match="it has parts, dim, out"):
        ops.tensor.concat(X, qqq=1)


def test_variadic_inputs():
    a, b = tn.ones((2, 1)), tn.zeros((2, 2))
    wanted = [[1, 0, 0], [1, 0, 0]]
    for found in (ops.tensor.concat(a, b), ops.tensor.concat([a, b]), ops.tensor.concat((a, b)),
                  ops.tensor.concat(a, b.numpy()), ops.tensor.concat(*[a, b], dim=-1)):
        assert found.tolist() == wanted
    many = [tn.full(1, each, "f32") for each in range(300)]
    assert ops.tensor.concat(many, dim=0).tolist() == list(range(300))
    assert ops.tensor.add_n(*many).tolist() == [sum(range(300))]
    assert ops.tensor.concat(a).tolist() == [[1], [1]]
    for call in (ops.tensor.concat, lambda: ops.tensor.concat([])):
        with pytest.raises(ValueError, match="no parts"):
            call()


def test_several_results():
    parts = ops.tensor.split(X, num_outputs=3, axis=1)
    assert isinstance(parts, tuple) and [each.item() for each in parts] == [1, 2, 3]
    out = tn.zeros((1, 1))
    parts = ops.tensor.split(X, num_outputs=3, axis=1, out=(None, out, None))
    assert parts[1] is out and out.item() == 2
    single = ops.tensor.split(X, num_outputs=1, axis=1)
    assert isinstance(single, tn.Array)


def test_out():
    out = tn.zeros((1, 3))
    assert ops.nn.softmax(X, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.exp(X) / np.exp(X).sum(), rtol=1e-6)
    assert ops.elemwise.add(out, out, out=(out,)) is out
    assert ops.nn.softmax(X, out=None).shape == (1, 3)
    wide = tn.zeros((1, 6))
    ops.elemwise.add(X, X, out=wide[:, ::2])
    assert wide.tolist() == [[2, 0, 4, 0, 6, 0]]
    for wrong, error in ((3, TypeError), ((out, out), ValueError), (out.numpy(), TypeError),
                         (["a"], TypeError), (tn.zeros(5), ValueError),
                         (tn.zeros((1, 3), "f64"), TypeError), ({}, TypeError)):
        with pytest.raises(error, match="out"):
            ops.nn.softmax(X, out=wrong)


def test_out_may_be_an_input():
    x = tn.array([1.0, 2.0])
    assert tn.exp(x, out=x) is x
    np.testing.assert_allclose(x.numpy(), np.exp([1, 2]), rtol=1e-6)


def test_states_of_batch_norm():
    data = np.array([[1, 10], [3, 30]], "f4")
    mean, var = tn.zeros(2), tn.ones(2)
    found = ops.nn.batch_norm(data, np.ones(2, "f4"), np.zeros(2, "f4"), mean, var, eps=0.0)
    np.testing.assert_allclose(found.numpy(), data, rtol=1e-6)
    assert mean.tolist() == [0, 0]
    with tn.record():
        found = ops.nn.batch_norm(data, np.ones(2, "f4"), np.zeros(2, "f4"), moving_mean=mean,
                                  moving_var=var, eps=0.0, momentum=0.75)
    np.testing.assert_allclose(found.numpy(), [[-1, -1], [1, 1]], rtol=1e-6)
    np.testing.assert_allclose(mean.numpy(), [0.5, 5], rtol=1e-6)
    np.testing.assert_allclose(var.numpy()[0], 0.75 + 0.25 * np.var([1, 3]), rtol=0.2)


# ----------------------------------------------------------------------- parameters

class Index:
    def __index__(self):
        return 1


class Float:
    def __float__(self):
        return 2.0


@pytest.mark.parametrize("axis", [1, -1, "1", True, np.int8(1), np.uint64(1), np.array(1), Index(),
                                  tn.array(1)], ids=repr)
def test_integers(axis):
    np.testing.assert_allclose(ops.nn.softmax(X, axis=axis).numpy(), np.exp(X) / np.exp(X).sum(),
                               rtol=1e-6)


@pytest.mark.parametrize("axis, error", [
    (1.0, ValueError), (1.5, ValueError), ("a", ValueError), (None, ValueError), ([1], ValueError),
    (np.float32(1), TypeError), (2**80, OverflowError), (object(), TypeError), ({}, TypeError),
    (b"1", TypeError), (tn.ones(3), TypeError), (1j, TypeError), (5, IndexError)], ids=repr)
def test_wrong_integers(axis, error):
    with pytest.raises(error, match="axis"):
        ops.nn.softmax(X, axis=axis)


@pytest.mark.parametrize("axis", [(0,), [0], "[0]", range(1), np.array([0]), 0, np.int64(0),
                                  [np.int8(0)], [Index()][:0] or [False]], ids=repr)
def test_lists(axis):
    assert ops.tensor.sum(X, axis=axis).tolist() == [1, 2, 3]


@pytest.mark.parametrize("axis", [["a"], [0.5], [[0]], {0}, b"ab", (2**70,), np.array([0.0]), [None],
                                  np.array("a"), object()], ids=repr)
def test_wrong_lists(axis):
    with pytest.raises((TypeError, OverflowError), match=r"parameter `axis` of sum\(\)"):
        ops.tensor.sum(X, axis=axis)


@pytest.mark.parametrize("value", [True, 1, np.True_, np.bool_(1), "true", np.int8(1)], ids=repr)
def test_bools(value):
    assert ops.tensor.sum(X, axis=0, keepdims=value).shape == (1, 3)


@pytest.mark.parametrize("value", [2, 1.0, None, "yes!", [True], object()], ids=repr)
def test_wrong_bools(value):
    with pytest.raises((TypeError, ValueError), match="keepdims"):
        ops.tensor.sum(X, axis=0, keepdims=value)


@pytest.mark.parametrize("value", [2, 2.0, "2", np.float16(2), np.int64(2), np.array(2.0), Float(),
                                   tn.array(2.0), True + 1], ids=repr)
def test_floats(value):
    assert ops.elemwise.add_scalar(X, scalar=value).tolist() == [[3, 4, 5]]


@pytest.mark.parametrize("value", [1j, [1], "a", None, 2**2000, object(), tn.ones(2)], ids=repr)
def test_wrong_floats(value):
    with pytest.raises((TypeError, ValueError, OverflowError), match="scalar|one number"):
        ops.elemwise.add_scalar(X, scalar=value)


@pytest.mark.parametrize("dtype", [tn.f64, "f64", np.float64, np.dtype("f8"), "float64"], ids=repr)
def test_types(dtype):
    assert ops.elemwise.cast(X, dtype=dtype).dtype is tn.f64


@pytest.mark.parametrize("dtype", ["f65", 3, None, object(), np.complex64, [1]], ids=repr)
def test_wrong_types(dtype):
    with pytest.raises((TypeError, ValueError), match="dtype|type"):
        ops.elemwise.cast(X, dtype=dtype)


def test_a_missing_parameter_is_named():
    with pytest.raises(ValueError, match="needs the parameter `scalar`"):
        ops.elemwise.add_scalar(X)
    with pytest.raises(TypeError, match="name its parameters"):
        ops.elemwise.add_scalar(X, 2)


def test_repeated_calls_see_changed_parameters():
    x = tn.array([1.0, 2.0])
    add = ops.elemwise.add_scalar
    for value in (1, 2, 1, 3, 1.5, 1, True, np.float32(4), 1.5, 2):
        assert add(x, scalar=value).tolist() == [1 + value, 2 + value]
    divide = ops.elemwise.rdiv_scalar
    for value in (0.0, -0.0, 0.0, -0.0):
        assert np.signbit(ops.elemwise.mul_scalar(x, scalar=value).numpy()).all() == \
            (str(value) == "-0.0")
    for value in (float("nan"), 1.0, float("nan"), 1.0):
        assert np.isnan(divide(x, scalar=value).numpy()).all() == (value != value)
    axes = [0]
    for wanted in ((3,), (2,), (3,)):
        assert ops.tensor.sum(np.ones((2, 3), "f4"), axis=axes).shape == wanted
        axes[0] = 1 - axes[0]
    text = np.array([0])
    for wanted in ((3,), (2,)):
        assert ops.tensor.sum(np.ones((2, 3), "f4"), axis=text).shape == wanted
        text[0] = 1
    for keep in (1, True, 0, False, 1, "true", "false", 1):
        wanted = (1, 3) if keep in (1, "true") else (3,)
        assert ops.tensor.sum(np.ones((2, 3), "f4"), axis=0, keepdims=keep).shape == wanted
    for order in (dict(axis=0, keepdims=True), dict(keepdims=True, axis=0), dict(axis=0), {}):
        found = ops.tensor.sum(np.ones((2, 3), "f4"), **order)
        assert found.shape == {2: (1, 3), 1: (3,), 0: ()}[len(order)]


def test_scalars_of_expressions_do_not_mix():
    x = tn.array([1.0, -2.0])
    for value in list(range(10)) * 2:
        assert (x * value).tolist() == [value, -2 * value]
        assert (value - x).tolist() == [value - 1, value + 2]
    assert np.signbit((x * -0.0).numpy()).tolist() == [True, False]
    assert np.signbit((x * 0.0).numpy()).tolist() == [False, True]


# -------------------------------------------------------------------------- plugins

HOSTILE = {
    "empty.so": b"",
    "text.so": b"this is no library\n",
    "cut.so": b"\x7fELF\x02\x01\x01" + bytes(9),
    "ones.so": b"\x7fELF" + b"\xff" * 5000,
    "other.so": b"\x7fELF\x01\x01\x01" + bytes(200),
    "bad.yaml": b"plugin: [\n",
    "zip.so": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_file_that_is_no_plugin_is_refused(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    before = tn.plugins()
    with pytest.raises(tn.TenonError) as caught:
        tn.load(path)
    assert name in str(caught.value)
    assert tn.plugins() == before


def test_paths_that_are_no_files(tmp_path):
    os.symlink(tmp_path / "b.so", tmp_path / "a.so")
    os.symlink(tmp_path / "a.so", tmp_path / "b.so")
    os.mkfifo(tmp_path / "pipe.so")
    for path in (tmp_path, tmp_path / "none.so", tmp_path / "a.so", tmp_path / "pipe.so", ""):
        with pytest.raises(tn.TenonError):
            tn.load(path)
    with pytest.raises(ValueError, match="null"):
        tn.load("a\0b")
    with pytest.raises(TypeError):
        tn.load(3)


def test_a_library_that_is_no_plugin_is_refused():
    with pytest.raises(tn.PluginError):
        tn.load(_prefix.library("libtenon-graph.so.0"))


def test_a_truncated_plugin_is_refused(tmp_path):
    with open(dict((each[0], each[1]) for each in tn.plugins())["image"], "rb") as file:
        whole = file.read()
    for n in (64, 4096, len(whole) // 2):
        path = tmp_path / f"cut{n}.so"
        path.write_bytes(whole[:n])
        with pytest.raises(tn.TenonError):
            tn.load(path)


def test_a_plugin_is_loaded_once():
    path = dict((each[0], each[1]) for each in tn.plugins())["nn"]
    with pytest.raises(tn.ExistsError, match="is loaded already"):
        tn.load(path)


def test_an_unloaded_plugin():
    with pytest.raises(LookupError, match="no plugin named"):
        tn.unload("nothing")
    with pytest.raises(TypeError, match="a name is a str"):
        tn.unload(3)
    check_child('''
        path = dict((each[0], each[1]) for each in tn.plugins())["elemwise"]
        x = tn.ones(3)
        kept, y = tn.exp, x + 1
        tn.add(x, x), x * 2, tn.ops.elemwise.add_scalar(x, scalar=3)
        tn.wait()
        tn.unload("elemwise")
        for use in (lambda: x + 1, lambda: kept(x), lambda: tn.exp(x), lambda: x * 2):
            try:
                use()
                print("no error")
            except (RuntimeError, AttributeError) as error:
                assert "unloaded" in str(error) or "elemwise" in str(error), error
        assert kept.__name__ == "exp" and "exp" in kept.__doc__
        tn.load(path)
        assert (x + 1).tolist() == [2, 2, 2] and tn.exp(x * 0).tolist() == [1, 1, 1]
        try:
            kept(x)
        except RuntimeError as error:
            assert "take the operator from tenon.ops" in str(error)
        print("done")
    ''')


def test_a_plugin_in_use_is_not_unloaded():
    check_child('''
        x = tn.ones(3).attach_grad()
        with tn.record() as tape:
            y = x * 2
        try:
            tn.unload("elemwise")
            print("unloaded")
        except tn.BusyError:
            y.backward(tn.ones(3))
            assert x.grad.tolist() == [2, 2, 2]
            print("done")
    ''')


# --------------------------------------------------------------------------- errors

def test_a_failure_that_is_found_later_names_the_line():
    indices = tn.full((1, 5000), 10**6)
    x = tn.ones((500, 500)) @ tn.ones((500, 500))  # takes longer than the next call
    y = ops.tensor.gather_nd(x.reshape(-1), indices)
    line = inspect.currentframe().f_lineno - 1
    z = y * 2  # depends on it
    with pytest.raises(tn.OutOfRangeError) as caught:
        y.wait()
    assert caught.value.place == (__file__, line)
    assert f"{__file__}:{line}" in str(caught.value)
    assert caught.value.operator == "tensor.gather_nd@1"
    with pytest.raises(IndexError, match="was not run"):
        z.numpy()
    assert "out of range" in repr(z)  # printing raises nothing
    with pytest.raises(IndexError):
        tn.wait()
    tn.wait()
    assert (x + 1)[0, 0].item() == 501


def test_every_class_of_error_is_a_tenon_error():
    for each in [*vars(tn).values()]:
        if isinstance(each, type) and issubclass(each, Exception):
            assert issubclass(each, tn.TenonError)
    with pytest.raises(tn.TenonError) as caught:
        _core.raise_error(-9999)
    assert caught.value.code == -9999


def test_threads_call_one_operator():
    errors = []

    def work(number):
        try:
            x = tn.full(4, number, "f32")
            for i in range(2000):
                value = number * 1000 + i
                assert ops.elemwise.add_scalar(x, scalar=value)[0].item() == number + value
                assert (x * value)[3].item() == np.float32(number * value)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors


def test_threads_call_one_operator_while_calls_release_the_lock():
    check_child('''
        tn.zeros(1)
        from tenon import _core
        _core.release_in_calls()
        def work(number):
            x = tn.ones(4)
            for i in range(5000):
                value = number * 10000 + i
                y, z = x * value, tn.ops.elemwise.add_scalar(x, scalar=value)
                if i % 50 == 0:
                    assert y[0].item() == value and z[1].item() == value + 1
            good.append(number)
        good = []
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        [each.start() for each in threads], [each.join() for each in threads]
        assert len(good) == 4
        print("done")
    ''')


def test_a_function_that_logs_runs_in_python():
    check_child('''
        lines = []
        tn.configure(log_levels="debug", log=lambda level, line: lines.append((level, line)))
        def work():
            x = tn.ones((64, 64))
            for i in range(50):
                x = (x @ x) * 0.01
            x.wait()
        threads = [threading.Thread(target=work) for _ in range(3)]
        [each.start() for each in threads], [each.join() for each in threads]
        try:
            tn.load("/nonexistent.so")
        except tn.NotFoundError:
            pass
        assert all(isinstance(each[0], int) and isinstance(each[1], str) for each in lines)
        print("done")
    ''')


def test_configure_comes_first():
    check_child('''
        for wrong in (dict(engine="x"), dict(trust=["y"]), dict(workers=-1), dict(cpus="a")):
            try:
                tn.configure(**wrong)
                print("no error")
            except (ValueError, TypeError, OverflowError, IndexError):
                pass
        tn.configure(workers=2, engine="naive")
        assert (tn.ones(3) + 1).tolist() == [2, 2, 2]
        try:
            tn.configure(workers=2)
        except RuntimeError as error:
            assert "exists already" in str(error)
            print("done")
    ''')
