# SPDX-License-Identifier: Apache-2.0
"""Arrays: how they are made, converted and shared, their protocols and shapes."""

import copy
import ctypes
import gc
import operator
import pickle
import sys

import numpy as np
import pytest

import tenon as tn
from by_numpy import NUMPY, PAIRS, PLAIN, make, same


# ----------------------------------------------------------------------- creation

@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (1,) * 16])
def test_an_array_of_numpy_keeps_type_and_elements(name, shape):
    values = make(shape, name)
    same(tn.array(values), values)
    same(tn.asarray(values), values)


@pytest.mark.parametrize("name", PLAIN)
def test_layouts_and_byte_orders_are_read(name):
    values = make((4, 6), name)
    for each in (values.T, values[::2, ::-1], values[:, 1:2], np.asfortranarray(values),
                 np.broadcast_to(values[0], (3, 6)), np.moveaxis(values.reshape(2, 2, 6), 0, 2)):
        same(tn.array(each), each)
    swapped = values.astype(values.dtype.newbyteorder())
    same(tn.array(swapped), values)
    room = np.zeros(values.nbytes + 1, "u1")
    apart = np.frombuffer(room.data, values.dtype, values.size, offset=1).reshape(values.shape)
    apart[...] = values  # its elements are not aligned
    same(tn.array(apart), values)


def test_a_read_only_array_is_copied():
    values = np.arange(4.0)
    values.flags.writeable = False
    array = tn.array(values)
    array += 1
    assert values.tolist() == [0, 1, 2, 3] and array.tolist() == [1, 2, 3, 4]


def test_the_elements_are_a_copy():
    values = np.zeros(3, "f4")
    array = tn.array(values)
    values[:] = 7
    assert array.tolist() == [0, 0, 0]
    out = array.numpy()
    out[:] = 7
    assert array.tolist() == [0, 0, 0]


def test_numbers_and_lists_get_the_types_of_python():
    assert tn.array(1.5).dtype is tn.array([1, 2.5]).dtype is tn.f32
    assert tn.array(3).dtype is tn.array([[1], [2]]).dtype is tn.array(range(3)).dtype is tn.i64
    assert tn.array(True).dtype == tn.array([True, False]).dtype == "bool"
    assert tn.array([]).dtype is tn.array(()).dtype is tn.f32
    assert tn.array(2**63).dtype is tn.array([2**63]).dtype is tn.u64
    assert tn.array(np.float16(2)).dtype is tn.f16
    assert tn.array([tn.ones(2), tn.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert tn.array([np.ones(2), [3, 4]]).tolist() == [[1, 1], [3, 4]]


def test_a_type_that_is_asked_for_loses_no_digits():
    assert tn.array(0.1, dtype="f64").item() == 0.1
    assert tn.array([0.1], dtype=tn.f64).tolist() == [0.1]
    assert tn.asarray([0.1], "f64").tolist() == [0.1]
    assert tn.array([2**53 + 1], dtype="i64").tolist() == [2**53 + 1]
    assert tn.full(2, 0.1, "f64").tolist() == [0.1, 0.1]
    assert tn.full((), 2**53 + 1).item() == 2**53 + 1


@pytest.mark.parametrize("value, dtype", [(2**40, "i32"), ([300], "u8"), (-1, "u64"),
                                          ([-129], "i8"), (2**64, None), (2**64, "u64")])
def test_an_integer_outside_of_its_type_is_refused(value, dtype):
    with pytest.raises(OverflowError):
        tn.array(value, dtype=dtype)


def test_full_zeros_ones_empty_arange():
    same(tn.zeros((2, 3)), np.zeros((2, 3), "f4"))
    same(tn.ones(3, tn.i8), np.ones(3, "i1"))
    same(tn.full((2,), np.int64(3)), np.full(2, 3))
    same(tn.full((2,), True), np.full(2, True))
    same(tn.full(np.int64(2), 1.5), np.full(2, 1.5, "f4"))
    same(tn.arange(5), np.arange(5))
    same(tn.arange(1, 2, 0.25), np.arange(1, 2, 0.25, "f4"))
    same(tn.arange(5, 0, -2, dtype="i16"), np.arange(5, 0, -2, "i2"))
    assert tn.empty((2, 2), "bf16").shape == (2, 2)


@pytest.mark.parametrize("shape, error, text", [
    (-1, ValueError, "0 or more"),
    ((2**40, 2**40), IndexError, "more bytes than an address can count"),
    ((2**58,), MemoryError, "out of memory"),
    ((1,) * 40, ValueError, "at most 16"),
    (2.5, TypeError, "sequence of ints"),
    ("ab", TypeError, "integer"),
    (None, TypeError, "sequence of ints"),
    ((2, 1.5), TypeError, "integer"),
    (2**70, OverflowError, "int"),
])
def test_a_wrong_shape_is_refused(shape, error, text):
    with pytest.raises(error, match=text):
        tn.zeros(shape)


OBJECTS = [np.array([None]), np.array(["a"]), np.array([b"a"]), np.zeros(2, "c8"),
           np.zeros(2, "M8[s]"), np.zeros(2, "m8[s]"), np.zeros(2, [("a", "i4")]),
           np.zeros(2, "g"), {}, "abc", b"abc", 1 + 2j, [1, None], [1, "a"], [1j], object(), len,
           None, [2**70], {1, 2}]


@pytest.mark.parametrize("value", OBJECTS, ids=repr)
def test_objects_that_are_no_numbers_are_refused(value):
    with pytest.raises(TypeError, match="array"):
        tn.array(value)


class Fake:
    """An object that pretends to be an array."""

    def __init__(self, **functions):
        for name, function in functions.items():
            setattr(type(self), name, staticmethod(function))

    def __new__(cls, **functions):
        return object.__new__(type("Fake", (cls,), {}))


def fail(*args, **named):
    raise RuntimeError("of the object")


@pytest.mark.parametrize("fake, error", [
    (Fake(__array__=fail), RuntimeError), (Fake(__array__=lambda *a, **k: "no"), ValueError),
    (Fake(__dlpack__=fail), RuntimeError), (Fake(__dlpack__=lambda **k: 3), TypeError),
    (Fake(__dlpack__=lambda: len), TypeError)], ids=range(5))
def test_objects_that_pretend_to_be_arrays(fake, error):
    for use in (tn.array, lambda each: tn.ones(2) + each, tn.exp):
        with pytest.raises(error):
            use(fake)


def test_too_many_dimensions_are_refused():
    deep = 1.0
    for _ in range(17):
        deep = [deep]
    for use in (lambda: tn.array(np.zeros((1,) * 17)), lambda: tn.array(deep),
                lambda: tn.ones(1).reshape((1,) * 17), lambda: tn.exp(deep)):
        with pytest.raises(ValueError, match="17 dimensions; arrays have at most 16"):
            use()


def test_lists_of_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="do not form an array"):
        tn.array([[1], [1, 2]])


def test_array_itself_makes_none():
    with pytest.raises(TypeError, match="tenon.array"):
        tn.Array()


# ------------------------------------------------------------ types that only store

STORAGE = ["bf16", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0"]


@pytest.mark.parametrize("name", STORAGE)
def test_types_of_ml_dtypes_are_read_and_written(name):
    types = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    kind = getattr(types, {"bf16": "bfloat16", "f8e8m0": "float8_e8m0fnu"}.get(
        name, name.replace("f8", "float8_", 1)))
    values = np.array([[1, 2], [4, 0.5]]).astype(kind)
    array = tn.array(values)
    assert array.dtype.name == name
    assert array.numpy().dtype == kind
    assert array.tolist() == [[1, 2], [4, 0.5]]
    assert array[1, 1].item() == 0.5
    assert array.T.copy().tolist() == [[1, 4], [2, 0.5]]
    assert array.astype("f32").tolist() == [[1, 2], [4, 0.5]]
    assert tn.array([1, 2], "f32").astype(name).tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(array)).tolist() == array.tolist()
    assert repr(array).startswith("array(") and f"dtype={name}" in repr(array)


@pytest.mark.parametrize("name", STORAGE)
def test_they_need_no_other_package_inside_of_tenon(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    array = tn.array([1, 2, 4], dtype=name)
    assert array.tolist() == [1, 2, 4] and array[2].item() == 4
    assert f"dtype={name}" in repr(array) and str(array)
    again = pickle.loads(pickle.dumps(array))
    assert again.dtype.name == name and again.tolist() == [1, 2, 4]
    with pytest.raises(TypeError, match="install the package ml_dtypes"):
        array.numpy()


@pytest.mark.parametrize("name", ["i4", "u4", "i2", "u2"])
def test_elements_that_share_a_byte(name):
    array = tn.array([0, 1, 1], "f32").astype(name)
    assert array.dtype.name == name and array.tolist() == [0, 1, 1]
    assert array.numpy().tolist() == [0, 1, 1]
    assert pickle.loads(pickle.dumps(array)).tolist() == [0, 1, 1]


# --------------------------------------------------------------------- conversions

@pytest.mark.parametrize("source, target", PAIRS)
def test_astype_converts_as_numpy(source, target):
    values = make(5, source)
    same(tn.array(values).astype(target), values.astype(NUMPY[target]))


def test_astype_of_the_own_type_copies_only_if_asked():
    array = tn.ones(2)
    assert array.astype("f32", copy=False) is array
    assert array.astype("f32") is not array


def test_a_dtype_equals_its_names():
    assert tn.f32 == "f32" == tn.f32 and tn.f32 == np.float32 and tn.f32 == "float32"
    assert tn.f32 != "f64" and tn.f32 != "nonsense" and tn.f32 != 3.5
    assert hash(tn.f32) == hash(pickle.loads(pickle.dumps(tn.f32)))
    assert tn.find_dtype(float) is tn.f32 and tn.find_dtype(np.dtype("i2")) is tn.i16
    with pytest.raises(ValueError, match="did you mean 'f32'"):
        tn.find_dtype("f33")
    with pytest.raises(TypeError, match="complex64"):
        tn.find_dtype(np.complex64)
    for wrong in (None, object(), 3.5, -1):
        with pytest.raises(TypeError):
            tn.ones(2).astype(wrong)
    assert tn.promote("f32", "i64") is tn.f32 and tn.promote(tn.bf16, np.float16) is tn.f32


def test_numpy_takes_arrays():
    x = tn.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.asarray(x).dtype == np.float32
    assert np.array(x, dtype="f8").dtype == np.float64
    assert np.sin(x).dtype == np.float32
    assert np.concatenate([x, x]).shape == (4, 2)
    assert np.array([x, x]).shape == (2, 2, 2)


def test_a_view_shares_the_memory():
    x = tn.zeros((2, 3))
    view = x.numpy(copy=False)
    x[1, 2] = 5
    x.wait()
    assert view[1, 2] == 5
    assert np.shares_memory(view, x.numpy(copy=False))
    assert not np.shares_memory(view, x.numpy())
    assert x.T.numpy(copy=False).strides == (4, 12)
    del x
    gc.collect()
    assert view.sum() == 5  # the memory lives as long as the view


def test_a_view_of_another_type_is_refused():
    with pytest.raises(ValueError, match="copy"):
        np.asarray(tn.ones(2), dtype="f8", copy=False)


def test_a_broadcast_view_cannot_be_written():
    wide = tn.ones(3).broadcast_to(2, 3)
    with pytest.raises((ValueError, TypeError)):
        wide += 1
    with pytest.raises((ValueError, TypeError)):
        wide[...] = 1
    assert not wide.numpy(copy=False).flags.writeable


# --------------------------------------------------------------------------- DLPack

class Producer:
    """An array of NumPy as another package's."""

    def __init__(self, values, versions=True):
        self.values = values
        self.versions = versions
        self.asked = []

    def __dlpack__(self, **named):
        self.asked.append(named)
        if named and not self.versions:
            raise TypeError("an old producer")
        return self.values.__dlpack__(**named)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("name", PLAIN)
def test_numpy_reads_by_dlpack_without_a_copy(name):
    values = make((2, 3), name)
    array = tn.array(values)
    taken = np.from_dlpack(array)
    assert taken.dtype == values.dtype
    np.testing.assert_array_equal(taken, values)
    assert taken.ctypes.data == np.from_dlpack(array).ctypes.data
    np.testing.assert_array_equal(np.from_dlpack(array[:, ::2]), values[:, ::2])


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("name", PLAIN)
def test_from_dlpack_shares_the_memory(name, versions):
    values = make((2, 3), name)
    array = tn.from_dlpack(Producer(values, versions))
    same(array, values)
    values[0, 0] = 0
    assert array[0, 0].item() == 0
    same(tn.from_dlpack(values.T), values.T)


def test_array_copies_what_another_package_owns():
    values = np.ones(3, "f4")
    array = tn.array(Producer(values))
    added = tn.add(tn.zeros(3), Producer(values))
    values[:] = 9
    assert array.tolist() == added.tolist() == [1, 1, 1]


def test_from_dlpack_takes_a_capsule_once():
    capsule = np.ones(3, "f4").__dlpack__()
    assert tn.from_dlpack(capsule).tolist() == [1, 1, 1]
    with pytest.raises(ValueError):
        tn.from_dlpack(capsule)


def test_a_refused_capsule_stays_with_its_producer():
    values = np.ones(3, "c8")
    before = sys.getrefcount(values)
    capsule = values.__dlpack__()
    with pytest.raises(tn.TenonError):
        tn.from_dlpack(capsule)
    assert '"dltensor"' in repr(capsule)
    del capsule
    assert sys.getrefcount(values) == before


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0",
                    reason="this NumPy exports no memory that must not be written")
def test_the_memory_of_a_read_only_producer_is_copied():
    values = np.arange(3.0)
    values.flags.writeable = False
    array = tn.from_dlpack(values)
    array += 1
    array[0] = 5
    assert array.tolist() == [5, 2, 3] and values.tolist() == [0, 1, 2]


def test_capsules_are_versioned_on_request():
    array = tn.ones(2)
    assert '"dltensor"' in repr(array.__dlpack__())
    assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(array.__dlpack__(max_version=(0, 8)))
    assert array.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="another device"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        array.__dlpack__(max_version=3)
    fresh = np.from_dlpack(array, copy=True) if np.__version__ >= "2.1" else None
    if fresh is not None:
        fresh[:] = 5
        assert array.tolist() == [1, 1]


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_nobody_takes_frees_the_array(version):
    values = np.ones(3, "f4")
    before = sys.getrefcount(values)
    array = tn.from_dlpack(values)
    capsule = array.__dlpack__(max_version=version)
    del array
    assert sys.getrefcount(values) > before
    del capsule
    assert sys.getrefcount(values) == before


def test_things_without_dlpack_are_refused():
    for each in (3, "a", None, [1, 2]):
        with pytest.raises((TypeError, AttributeError)):
            tn.from_dlpack(each)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                           ctypes.c_void_p]
    with pytest.raises(ValueError):
        tn.from_dlpack(capsule(1, b"another", None))


# -------------------------------------------------------------------- Python's protocols

def test_iteration_and_length():
    x = tn.array([[1, 2], [3, 4]])
    assert len(x) == 2
    assert [each.tolist() for each in x] == [[1, 2], [3, 4]]
    assert [each.item() for row in x for each in row] == [1, 2, 3, 4]
    assert list(reversed(tn.arange(3)))[0].item() == 2
    for use in (len, list, iter):
        with pytest.raises(TypeError):
            use(tn.array(1.0))
    assert list(tn.zeros((0, 3))) == []
    first, second = tn.arange(2)
    assert (first.item(), second.item()) == (0, 1)


def test_conversions_to_numbers():
    assert float(tn.array(1.5)) == 1.5 and int(tn.array([2.7])) == 2
    assert bool(tn.array(0)) is False and bool(tn.array([[3]])) is True
    assert operator.index(tn.array(3)) == 3 and [5, 6][tn.array(1)] == 6
    assert isinstance(tn.array(True).item(), bool) and isinstance(tn.array(3, "u8").item(), int)
    assert tn.array(2**63, "u64").item() == 2**63
    assert f"{tn.array(1.5):.2f}" == "1.50" and f"{tn.ones(2)}" == "[1. 1.]"
    for use in (float, int, bool):
        with pytest.raises(ValueError):
            use(tn.ones(2))
        with pytest.raises(ValueError):
            use(tn.ones(0))
    for each in (tn.array(1.0), tn.array(True)):
        with pytest.raises(TypeError):
            operator.index(each)


def test_membership():
    x = tn.array([1.0, 2.0])
    assert 2.0 in x and 3 not in x and "a" not in x and None not in x


def test_hashes_are_those_of_objects():
    x, y = tn.ones(2), tn.ones(2)
    assert len({x, y}) == 2 and hash(x) == hash(x)


def test_repr_is_like_numpys():
    assert repr(tn.array([1.0, 2.5])) == "array([1. , 2.5])"
    assert repr(tn.array([[1, 2], [3, 4]])) == "array([[1, 2],\n       [3, 4]])"
    assert repr(tn.array([True])) == "array([ True])"
    assert repr(tn.array([1], "i8")) == "array([1], dtype=i8)"
    assert repr(tn.array([1.5], "bf16")) == "array([1.5], dtype=bf16)"
    assert repr(tn.zeros((0, 2))) == "array([], dtype=f32)" or "shape=(0, 2)" in \
        repr(tn.zeros((0, 2)))
    assert "..." in repr(tn.zeros(5000))
    assert str(tn.array(3)) == "3"


@pytest.mark.parametrize("name", PLAIN)
def test_copies_and_pickles(name):
    values = make((2, 3), name)
    array = tn.array(values).T
    for each in (array.copy(), copy.copy(array), copy.deepcopy(array),
                 pickle.loads(pickle.dumps(array)), array.flatten().reshape(3, 2)):
        same(each, values.T)
        assert each.is_contiguous
    again = array.copy()
    again[...] = 0
    same(array, values.T)


def test_attributes():
    x = tn.zeros((2, 3), "f64")
    assert (x.shape, x.strides, x.ndim, x.size) == ((2, 3), (3, 1), 2, 6)
    assert (x.dtype, x.itemsize, x.nbytes, x.device) == (tn.f64, 8, 48, "cpu(0)")
    assert x.grad is None and x.is_contiguous and not x.T.is_contiguous
    for name in ("shape", "dtype", "nothing"):
        with pytest.raises(AttributeError):
            setattr(x, name, 3)
    with pytest.raises(TypeError):
        x.grad = 3


def test_wait_takes_seconds():
    x = tn.ones(3) + 1
    assert x.wait() is x and x.wait(1.0) is x
    for seconds in (0, -1, float("nan")):
        try:
            x.wait(seconds)
        except tn.BusyError:
            pass
    with pytest.raises(TypeError):
        x.wait("a")


# ----------------------------------------------------------------- reductions and shapes

AXES = [None, 0, 1, -1, (0,), (0, 2), (-1, 0), (0, 1, 2), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("method", ["sum", "mean", "prod", "max", "min"])
def test_reductions(method, axis, keepdims):
    for name in ("f32", "f64", "i64", "u8", "bool"):
        values = make((2, 3, 4), name, 5)
        if name == "bool":
            values[0, 0, 0] = False
        wanted = getattr(values, method)(axis=axis, keepdims=keepdims)
        found = getattr(tn.array(values), method)(axis=axis, keepdims=keepdims)
        assert found.shape == wanted.shape
        if method == "mean" and name[0] != "f":
            assert found.dtype is tn.f32
        else:
            assert found.dtype.numpy == wanted.dtype, name
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("method", ["argmax", "argmin"])
def test_positions_of_extremes(method):
    values = np.random.RandomState(1).permutation(24).reshape(2, 3, 4).astype("f4")
    array = tn.array(values)
    same(getattr(array, method)(), getattr(values, method)())
    for axis in (0, 1, -1):
        same(getattr(array, method)(axis=axis), getattr(values, method)(axis=axis))
        same(getattr(array, method)(axis=axis, keepdims=True),
             np.expand_dims(getattr(values, method)(axis=axis), axis))


@pytest.mark.parametrize("method", ["any", "all"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_any_and_all(method, axis):
    for values in (make((2, 3), "bool"), np.zeros((2, 3), "f4"), np.zeros((0, 3)), np.eye(2, 3)):
        same(getattr(tn.array(values), method)(axis=axis), getattr(values, method)(axis=axis))
        same(getattr(tn.array(values), method)(axis=axis, keepdims=True),
             getattr(values, method)(axis=axis, keepdims=True))


def test_reductions_that_are_refused():
    x = tn.zeros((2, 3))
    for axis in (2, -3, (0, 5)):
        with pytest.raises(IndexError):
            x.sum(axis=axis)
    with pytest.raises(ValueError):
        x.sum(axis=(0, 0))
    with pytest.raises(ValueError, match="no elements"):
        tn.zeros(0).max()
    with pytest.raises(TypeError):
        x.sum(axis="a")
    with pytest.raises(TypeError):
        x.sum(axis=1.5)
    assert tn.zeros(0).sum().item() == 0


def test_views_of_shapes():
    values = np.arange(24.0).reshape(2, 3, 4)
    array = tn.array(values)
    same(array.reshape(4, 6), values.reshape(4, 6))
    same(array.reshape((3, -1)), values.reshape(3, -1))
    same(array.reshape(np.int64(24)), values.reshape(24))
    same(array.T.reshape(-1), values.T.reshape(-1))
    same(array.T, values.T)
    same(array.transpose(2, 0, 1), values.transpose(2, 0, 1))
    same(array.transpose((-1, 0, 1)), values.transpose(-1, 0, 1))
    same(array.swapaxes(0, -1), values.swapaxes(0, -1))
    same(array[:, ::-1].ravel(), values[:, ::-1].ravel())
    same(array[:1, :, 2:3].squeeze(), values[:1, :, 2:3].squeeze())
    same(array[:1].squeeze(0), values[:1].squeeze(0))
    same(array[:1, :, :1].squeeze((0, -1)), values[:1, :, :1].squeeze((0, -1)))
    same(array[0, 0].broadcast_to(2, 4), np.broadcast_to(values[0, 0], (2, 4)))
    same(array.view("i64"), values.view("i8"))
    same(tn.array([[True, False]]).T.reshape(-1), [True, False])
    array.reshape(24)[5] = 100
    assert array[0, 1, 1].item() == 100


def test_shapes_that_are_refused():
    x = tn.zeros((1, 3))
    for call in (lambda: x.reshape(2, 2), lambda: x.reshape(-1, -1), lambda: x.transpose(0, 0),
                 lambda: x.transpose(0), lambda: x.squeeze(1), lambda: x.broadcast_to(2, 2),
                 lambda: x.view("f64x"), lambda: x.reshape(-5)):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: x.squeeze(5), lambda: tn.zeros(()).squeeze(0), lambda: x.transpose(0, 2),
                 lambda: x.swapaxes(0, 5)):
        with pytest.raises(IndexError):
            call()
    for call in (lambda: x.reshape("a"), lambda: x.reshape(1.5), lambda: x.to(3)):
        with pytest.raises(TypeError):
            call()


def test_devices():
    x = tn.ones(2)
    assert x.to("cpu") is x and x.to("cpu(0)") is x
    for name in ("foo", "cpu(7)", "cpu(", ""):
        with pytest.raises((LookupError, ValueError, IndexError)):
            x.to(name)
        with pytest.raises((LookupError, ValueError, IndexError)):
            tn.zeros(2, device=name)
