# SPDX-License-Identifier: Apache-2.0
"""Keys of arrays read and write as those of NumPy do."""

import random

import numpy as np
import pytest

import tenon as tn
from by_numpy import NUMPY, same

SHAPE = (4, 3, 5)


def draw_key(rng, shape, advanced):
    """A random key for an array of this shape; most are valid."""
    key, axis, ellipsis = [], 0, False
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice("iiisssne" + "abbl" * advanced)
        n = shape[axis] if axis < len(shape) else 2
        if kind == "i":
            key.append(rng.choice([int, np.int64])(rng.randint(-n - rng.randint(0, 1), n - 1)))
        elif kind == "s":
            parts = [rng.choice([None, rng.randint(-n - 2, n + 2)]) for _ in range(2)]
            key.append(slice(*parts, rng.choice([None, 1, 2, 3, -1, -2, -7])))
        elif kind == "n":
            key.append(None)
            continue
        elif kind == "e":
            if ellipsis:
                continue
            ellipsis = True
            axis = max(axis, len(shape) - rng.randint(0, 2)) - 1
            key.append(Ellipsis)
        elif kind == "b" and axis < len(shape):
            key.append(np.array([rng.random() < 0.5 for _ in range(n)]))
        elif kind == "l":
            key.append([rng.randint(-n, n - 1) for _ in range(2)])
        else:
            size = rng.choice([(), (2,), (1,), (2, 2), (2, 1), (0,)])
            key.append(np.random.RandomState(rng.randint(0, 999)).randint(-n, n, size))
        axis += 1
    if len(key) == 1 and rng.random() < 0.5:
        return key[0]
    return tuple(key)


def as_tenon(key):
    """The same key with arrays of Tenon instead of NumPy's."""
    if isinstance(key, tuple):
        return tuple(map(as_tenon, key))
    return tn.array(key) if isinstance(key, np.ndarray) else key


def attempt(function):
    try:
        return function()
    except (IndexError, ValueError, TypeError) as error:
        return error


@pytest.mark.parametrize("name", ["f32", "i16", "bool", "f64"])
@pytest.mark.parametrize("seed", range(150))
def test_random_keys_read_as_numpy(name, seed):
    rng = random.Random(f"{name} {seed}")
    values = np.arange(60).reshape(SHAPE).astype(NUMPY[name])
    array = tn.array(values)
    for advanced in (0, 1, 1):
        key = draw_key(rng, SHAPE, advanced)
        wanted = attempt(lambda: values[key])
        found = attempt(lambda: array[as_tenon(key)])
        if isinstance(wanted, Exception):
            assert isinstance(found, IndexError), (key, wanted, found)
        else:
            assert not isinstance(found, Exception), (key, found)
            same(found, wanted)
            same(array[key], wanted)


@pytest.mark.parametrize("name", ["f32", "i16", "bool"])
@pytest.mark.parametrize("seed", range(100))
def test_random_keys_write_as_numpy(name, seed):
    rng = random.Random(f"write {name} {seed}")
    for advanced in (0, 1, 1):
        values = np.arange(60).reshape(SHAPE).astype(NUMPY[name])
        array = tn.array(values)
        key = draw_key(rng, SHAPE, advanced)
        part = attempt(lambda: values[key])
        if isinstance(part, Exception):
            before = array.numpy()
            with pytest.raises(IndexError):
                array[as_tenon(key)] = 1
            np.testing.assert_array_equal(array.numpy(), before)
            continue
        # Equal values, because the same element may be written twice.
        for value in (7, np.full(part.shape, 9, values.dtype), np.full(part.shape[1:], 3)):
            values[key] = value
            array[as_tenon(key)] = tn.array(value) if rng.random() < 0.5 else value
            np.testing.assert_array_equal(array.numpy(), values)


def test_basic_keys_give_views():
    x = tn.zeros((3, 4))
    x[1, ::2] = 5
    row = x[2]
    row[...] = 7
    x[:, -1] = [1, 2, 3]
    x[None][0, 0, 0] = 9
    assert x.tolist() == [[9, 0, 0, 1], [5, 0, 5, 2], [7, 7, 7, 3]]


def test_keys_with_arrays_give_copies():
    x = tn.zeros(3)
    part = x[[0, 1]]
    part += 1
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize("key", [3, -4, (0, 0), (..., ...), 1.5, "a", True, np.True_, [0.5],
                                 [True], np.array(["a"]), (None,) * 20, slice(None, None, 0),
                                 [5], [-4], {}, np.array([1.0]), 2**70, tn.array(True)], ids=repr)
def test_a_wrong_key_is_an_index_error(key):
    x = tn.zeros(3)
    with pytest.raises((IndexError, ValueError, TypeError)) as caught:
        x[key]
    assert isinstance(key, (slice, dict, np.ndarray)) or isinstance(caught.value, IndexError)
    with pytest.raises((IndexError, ValueError, TypeError)):
        x[key] = 1
    assert x.tolist() == [0, 0, 0]


def test_values_that_do_not_fit_are_refused():
    x = tn.zeros((2, 3))
    for key, value in ((0, [1, 2]), (slice(None), np.zeros((3, 3))), ([0, 1], [1, 2])):
        with pytest.raises(ValueError):
            x[key] = value
    with pytest.raises(TypeError):
        x[0] = "a"
    with pytest.raises(TypeError):
        x[0] = None
    with pytest.raises(TypeError, match="deleted"):
        del x[0]
    with pytest.raises(OverflowError):
        tn.zeros(2, "i8")[0] = 300
    assert x.tolist() == [[0] * 3] * 2


def test_overlapping_assignment():
    values = np.arange(6)
    array = tn.array(values)
    values[1:], array[1:] = values[:-1].copy(), array[:-1].copy()
    assert array.tolist() == values.tolist()
    array[::-1] = array
    tn.wait()
    assert sorted(array.tolist()) == sorted(values.tolist())
