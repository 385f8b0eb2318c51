# SPDX-License-Identifier: Apache-2.0
"""The key-value store. Expected values are computed by hand."""

import gc

import numpy as np
import pytest

import tenon as tn
from tenon import kvstore

ONES = np.ones(3, np.float32)


def make_store(kind="local"):
    store = kvstore.KVStore(kind)
    store.init({"w": tn.array(ONES), 3: tn.array(2 * ONES)})
    return store


def pull(store, key="w"):
    out = tn.array(0 * ONES)
    store.pull({key: out})
    return out.numpy().tolist()


@pytest.mark.parametrize("kind", ["local", "device"])
def test_a_sum_becomes_the_value(kind):
    store = make_store(kind)
    assert (store.kind, store.rank, store.size) == (kind, 0, 1)
    assert pull(store) == [1, 1, 1] and pull(store, 3) == [2, 2, 2]
    store.push({"w": [tn.array(ONES), tn.array(4 * ONES)], 3: 7 * ONES}, priority={"w": 1})
    assert pull(store) == [5, 5, 5] and pull(store, 3) == [7, 7, 7]
    store.barrier()
    assert repr(store) == f"<KVStore {kind}, rank 0 of 1>"


def test_a_text_and_a_number_are_two_keys():
    store = make_store()
    with pytest.raises(tn.NotFoundError, match="3"):
        store.push({"3": ONES})
    with pytest.raises(tn.ExistsError):
        store.init({3: ONES})


def test_an_operator_updates_the_values():
    store = make_store()
    store.set_optimizer("optim.sgd_update", lr=0.5)
    store.push({"w": [tn.array(ONES), tn.array(ONES)]})
    assert pull(store) == [0, 0, 0]
    store.set_optimizer("optim.sgd_update", lr=1)
    store.push({"w": ONES})
    assert pull(store) == [-1, -1, -1]
    with pytest.raises(tn.NotFoundError, match="lrr"):
        store.set_optimizer("optim.sgd_update", lrr=1)


def test_states_survive_a_file(tmp_path):
    store = make_store()
    store.set_optimizer("optim.sgd_mom_update", lr=1, momentum=0.5)
    store.push({"w": ONES})  # momentum -1, value 0
    store.save_states(tmp_path / "states.npz")
    again = kvstore.KVStore()
    again.init({"w": 0 * ONES, 3: ONES})
    again.set_optimizer("optim.sgd_mom_update", lr=1, momentum=0.5)
    again.load_states(tmp_path / "states.npz")
    again.push({"w": ONES})  # momentum -1.5
    assert pull(again) == [-1.5, -1.5, -1.5]


def test_a_function_updates_the_values():
    store, seen = make_store(), []

    def update(key, received, value):
        seen.append((key, received.numpy().tolist()))
        tn.ops.elemwise.add(value, received, out=value)

    store.set_updater(update)
    store.push({"w": 2 * ONES, 3: ONES})
    assert dict(seen) == {"w": [2, 2, 2], 3: [1, 1, 1]}
    assert pull(store) == [3, 3, 3] and pull(store, 3) == [3, 3, 3]
    store.set_updater(None)
    store.push({"w": 9 * ONES})
    assert pull(store) == [9, 9, 9] and len(seen) == 2


def test_an_exception_of_the_function_is_raised_by_the_push():
    store = make_store()

    def fail(key, received, value):
        raise KeyError(f"no {key}")

    store.set_updater(fail)
    with pytest.raises(KeyError, match="no w"):
        store.push({"w": ONES})
    store.set_updater(None)
    store.push({"w": ONES})
    assert pull(store) == [1, 1, 1]


def test_functions_are_dropped_with_their_store():
    before = len(kvstore._updaters)
    store = make_store()
    for _ in range(3):
        store.set_updater(lambda key, received, value: None)
    assert len(kvstore._updaters) == before + 1
    del store
    gc.collect()
    assert len(kvstore._updaters) == before


def test_push_and_pull_in_one_step():
    store, a = make_store(), tn.array(ONES)
    b = tn.array(5 * ONES)
    store.push_pull({"w": [a, b]})
    assert a.numpy().tolist() == b.numpy().tolist() == [6, 6, 6]
    store.push_pull({"w": ONES}, {3: a})
    assert a.numpy().tolist() == [2, 2, 2]


def test_a_broadcast_gives_all_arrays_the_first_value():
    store = kvstore.KVStore()
    outs = [tn.array(0 * ONES), tn.array(0 * ONES)]
    store.broadcast({"w": 4 * ONES}, {"w": outs})
    assert [each.numpy().tolist() for each in outs] == [[4, 4, 4]] * 2


@pytest.mark.parametrize("wrong, kind, text", [
    (lambda store: store.push({"ww": ONES}), tn.NotFoundError, "`?w"),
    (lambda store: store.push({"w": np.ones(4, np.float32)}), tn.ShapeError, "w"),
    (lambda store: store.push({"w": np.ones(3)}), tn.DtypeError, "w"),
    (lambda store: store.push(ONES), TypeError, "a dict from keys to arrays"),
    (lambda store: store.push({None: ONES}), TypeError, "a text or an integer"),
    (lambda store: store.pull({"w": ONES}), TypeError, "into arrays, not into a ndarray"),
    (lambda store: kvstore.KVStore("globl"), tn.InvalidError, "local"),
    (lambda store: store.save_states("x.npz"), tn.InvalidError, "operator")])
def test_wrong_uses(wrong, kind, text):
    with pytest.raises(kind, match=text):
        wrong(make_store())
