# SPDX-License-Identifier: Apache-2.0
"""Data sets and files of records."""

import struct

import numpy as np
import pytest

import tenon as tn
from tenon import data

X = np.arange(20, dtype=np.float32).reshape(10, 2)
Y = np.arange(10, dtype=np.int64)


def test_batches_of_arrays():
    examples = data.from_arrays([X, Y], batch=4)
    assert (len(examples), examples.n_examples, examples.n_damaged) == (3, 10, 0)
    batches = list(examples)
    assert [each.number for each in batches] == [0, 1, 2]
    assert [each.pad for each in batches] == [0, 0, 2]
    np.testing.assert_array_equal(batches[1].data.numpy(), X[4:8])
    np.testing.assert_array_equal(batches[1].label.numpy(), Y[4:8])
    assert batches[2].index.tolist() == [8, 9, 0, 1]
    np.testing.assert_array_equal(batches[2].label.numpy(), [8, 9, 0, 1])
    assert [each.epoch for each in examples] == [1, 1, 1]
    assert repr(examples) == "<DataSet of 10 examples in 3 batches>"


def test_the_end_of_an_epoch_with_next_batch():
    examples = data.from_arrays(X, batch=5)
    assert [examples.next_batch().number for _ in range(2)] == [0, 1]
    assert examples.next_batch() is None and examples.next_batch() is None
    examples.rewind()
    batch = examples.next_batch()
    assert (batch.epoch, batch.number, batch.label) == (1, 0, None)


@pytest.mark.parametrize("last, sizes", [("pad", [4, 4, 4]), ("discard", [4, 4]),
                                         ("roll", [4, 4])])
def test_the_last_batch(last, sizes):
    examples = data.from_arrays([X], batch=4, last=last)
    assert [len(each.index) for each in examples] == sizes
    second = [each.index.tolist() for each in examples]
    assert second[0] == ([8, 9, 0, 1] if last == "roll" else [0, 1, 2, 3])


def test_a_shuffled_epoch_has_each_example_once():
    def orders(seed):
        examples = data.from_arrays([X, Y], batch=5, shuffle=True, seed=seed)
        return [[i for each in examples for i in each.label.numpy().tolist()] for _ in range(2)]

    first, second = orders(1)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    assert orders(1) == [first, second] and orders(2)[0] != first


def test_a_position_can_be_saved():
    def make():
        return data.from_arrays([Y], batch=3, shuffle=True, seed=5, last="roll")

    one = make()
    list(one)
    loop = iter(one)
    next(loop)
    state = one.save()
    rest = [each.data.numpy().tolist() for each in loop]
    two = make()
    two.restore(state)
    assert [each.data.numpy().tolist() for each in two] == rest
    with pytest.raises(tn.InvalidError):
        data.from_arrays([Y], batch=4).restore(state)


def test_parts_have_each_example_once():
    parts = [data.from_arrays([Y], batch=1, part=i, n_parts=3) for i in range(3)]
    found = [[each.data.numpy()[0] for each in part] for part in parts]
    assert sorted(len(each) for each in found) == [3, 3, 4]
    assert sorted(i for each in found for i in each) == list(range(10))


def test_arrays_of_a_batch_can_be_kept_or_used_again():
    kept = [each.data for each in data.from_arrays([X], batch=2, prefetch=0)]
    for i, each in enumerate(kept):
        np.testing.assert_array_equal(each.numpy(), X[2 * i:2 * i + 2])
    total = sum(each.data.numpy().sum() for each in data.from_arrays([X], batch=2, reuse=True))
    assert total == X.sum()


def test_a_table_of_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("1,0.5,2\n0,1.5,3\n")
    (batch,) = data.open_file(path, "csv", {"label": [0], "label_dtype": "i64"}, batch=2)
    assert batch.data.numpy().tolist() == [[0.5, 2], [1.5, 3]]
    assert batch.label.numpy().tolist() == [1, 0] and batch.label.numpy().dtype == np.int64
    path.write_text("1,2\n3,x\n")
    with pytest.raises(tn.InvalidError, match="t.csv"):
        data.open_file(path, "csv")


@pytest.mark.parametrize("make, kind, text", [
    (lambda: data.from_arrays([X, Y[:3]]), tn.ShapeError, "10"),
    (lambda: data.from_arrays([]), tn.TenonError, "field"),
    (lambda: data.from_arrays(X, last="drop"), ValueError, "pad, discard, roll"),
    (lambda: data.from_arrays(X, batch=-1), ValueError, "batch=-1"),
    (lambda: data.from_arrays(X, part=3, n_parts=2), tn.TenonError, "part"),
    (lambda: data.from_arrays(X, colour=3), TypeError, "colour"),
    (lambda: data.open_file("none.csv", "csv"), tn.TenonError, "none.csv"),
    (lambda: data.open_file("none.csv", "cvs"), tn.NotFoundError, "cvs"),
    (lambda: data.DataSet(), TypeError, "from_arrays")])
def test_wrong_data_sets(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


# ------------------------------------------------------------ files of records

def test_records_have_the_documented_form(tmp_path):
    with data.RecordWriter(tmp_path / "a.rec", tmp_path / "a.idx") as file:
        file.write(7, b"abcde")
    content = (tmp_path / "a.rec").read_bytes()
    assert content == struct.pack("<II", 0xced7230a, 5) + b"abcde\0\0\0"
    assert (tmp_path / "a.idx").read_text() == "7\t0\n"


def test_records_are_read_in_order_and_by_key(tmp_path):
    names = tmp_path / "a.rec", tmp_path / "a.idx"
    records = {3: b"", 1: b"x" * 1000, 2: struct.pack("<I", 0xced7230a) * 3}
    with data.RecordWriter(*names) as file:
        for key, value in records.items():
            file.write(key, value)
    reader = data.RecordReader(*names)
    assert reader.count() == 3
    for _ in range(2):
        assert {each.key: each.data for each in reader} == records
    assert reader[2].data == records[2] and reader.read() is None
    assert [each.key for each in data.RecordReader(names[0])] == [0, 1, 2]
    with pytest.raises(tn.NotFoundError, match="9"):
        reader[9]


def test_labelled_records(tmp_path):
    with data.RecordWriter(tmp_path / "a.rec") as file:
        file.write_labelled(4, [1.5], b"jpeg")
        file.write_labelled(5, [1, 2, 3], b"png")
    one, two = (data.read_header(each.data) for each in data.RecordReader(tmp_path / "a.rec"))
    assert one == ([1.5], 4, 0, b"jpeg") and two == ([1, 2, 3], 5, 0, b"png")
    with pytest.raises(tn.InvalidError):
        data.read_header(b"short")


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(KeyError):
        with data.RecordWriter(tmp_path / "a.rec") as file:
            file.write(0, b"a")
            raise KeyError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="closed"):
        file.write(0, b"a")


def test_damage_is_reported_or_left_out(tmp_path):
    path = tmp_path / "a.rec"
    with data.RecordWriter(path) as file:
        for i in range(3):
            file.write(i, b"abcd")
    content = bytearray(path.read_bytes())
    content[12] ^= 1  # the head of the second record
    path.write_bytes(bytes(content))
    with pytest.raises(tn.InvalidError, match="a.rec"):
        list(data.RecordReader(path))
    reader = data.RecordReader(path, skip_damaged=True)
    assert reader.damage is None
    assert len(list(reader)) == 2
    assert reader.n_damaged == 1 and reader.damage[:2] == (1, 12)
