# SPDX-License-Identifier: Apache-2.0
"""Graphs and programs that end in any order, and their memory."""

import copy
import ctypes
import gc
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tenon as tn
from tenon import _api, _core, _objects, _values
from layers import draw, make_layer


# ----------------------------------------------------------------- lifetimes

def count_live_bytes():
    gc.collect()
    tn.wait()
    memory = _api.tn_memory()
    runtime = _core.runtime_handle()
    _api.tn_memory_get(runtime, _values.make_place(runtime, "cpu"), ctypes.byref(memory))
    return memory.live


def use_and_fail(x, w):
    g = make_layer()
    p = g.bind({"data": x, "fc1_weight": w}, request="write")
    p.forward(train=True)
    p.backward([np.ones((64, 4), np.float32)])
    q = p.reshape(data=(8, 3))
    q.monitor(lambda name, value: None)
    q.forward()
    for wrong in (lambda: g.bind({"data": (2, 5), "fc1_weight": w}), lambda: g["none"],
                  lambda: g.variable("data"), lambda: p.forward(data=[1.0]), lambda: g.call("no.such"),
                  lambda: p.backward([w]), lambda: g.call("elemwise.exp", 1)):
        with pytest.raises((tn.TenonError, TypeError)):
            wrong()


def test_use_and_failures_leave_no_memory():
    x, w = draw(64, 3), draw(4, 3)
    use_and_fail(x, w)
    before = count_live_bytes()
    for _ in range(50):
        use_and_fail(x, w)
    assert count_live_bytes() == before


def test_a_program_that_ends_inside_of_an_operator_is_released_later():
    held, counts = [make_layer().bind({"data": (2, 3)})], []

    @tn.operator
    def drop_and_double(x):
        """Doubles, and drops a program"""
        held.clear()
        counts.append(len(_objects._late))
        return 2 * x

    assert drop_and_double(tn.array([1.0])).numpy().tolist() == [2]
    make_layer()
    assert counts == [1] and _objects._late == []


def test_copies_and_pickles():
    g = make_layer()
    for again in (copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert again is not g and again.to_json() == g.to_json()
    x = g["data"]
    assert copy.copy(x) is x and copy.deepcopy([x])[0] is x
    p = g.bind({"data": (2, 3)})
    for each in (x, p, g._handle):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(each)
    with pytest.raises(TypeError, match="copied"):
        copy.copy(g._handle)


def test_objects_that_live_until_the_interpreter_ends():
    code = """
import tenon as tn
g = tn.Graph(tn.var("x") * 2)
p = g.bind({"x": [1.0]})
p.monitor(lambda name, value: None)
p.forward()
store = tn.kvstore.KVStore()
store.init({"w": [1.0]})
store.set_updater(lambda key, received, value: None)
store.push({"w": [1.0]})
examples = tn.data.from_arrays([[1.0, 2.0]])
batch = next(iter(examples))
print(p.outputs[0].numpy())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2.]\n", "")


def test_a_forked_process_gets_an_error():
    g = make_layer()
    child = os.fork()
    if child == 0:
        try:
            g.bind({"data": (2, 3)})
        except tn.TenonError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
