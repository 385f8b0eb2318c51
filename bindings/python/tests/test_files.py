# SPDX-License-Identifier: Apache-2.0
"""Files of arrays: NumPy reads those that Tenon writes, and the other way round."""

import json
import os
import struct

import numpy as np
import pytest

import tenon as tn

W = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.array([1, -2, 3], np.int64)


def test_numpy_reads_written_files(tmp_path):
    tn.save(tmp_path / "one.npy", W)
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), W)
    for compress in (False, True):
        tn.save(tmp_path / "both.npz", {"w": tn.array(W), "b": B}, compress=compress)
        with np.load(tmp_path / "both.npz") as file:
            assert sorted(file) == ["b", "w"]
            np.testing.assert_array_equal(file["w"], W)
            np.testing.assert_array_equal(file["b"], B)
            assert file["b"].dtype == np.int64


def test_files_of_numpy_are_read(tmp_path):
    np.save(tmp_path / "one.npy", W)
    np.savez(tmp_path / "both.npz", w=W, b=B)
    found = tn.load_arrays(tmp_path / "both.npz")
    assert set(found) == {"w", "b"}
    np.testing.assert_array_equal(found["w"].numpy(), W)
    np.testing.assert_array_equal(tn.load_arrays(tmp_path / "one.npy")[""].numpy(), W)
    np.testing.assert_array_equal(tn.files.load_array(tmp_path / "one.npy").numpy(), W)
    np.testing.assert_array_equal(tn.files.load_array(tmp_path / "both.npz", "b").numpy(), B)


def test_a_safetensors_has_the_documented_form(tmp_path):
    path = tmp_path / "w.safetensors"
    tn.save(path, {"w": W}, metadata={"epoch": 3})
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    assert header["__metadata__"] == {"epoch": "3"}
    assert header["w"] == {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
    assert data[8 + n:] == W.tobytes()


@pytest.mark.parametrize("map_pages", [False, True])
def test_an_opened_file_is_a_mapping(tmp_path, map_pages):
    path = tmp_path / "w.safetensors"
    tn.save(path, {"w": W, "größe": B}, metadata={"a": "b"})
    with tn.files.ArrayFile(path, map_pages) as file:
        assert len(file) == 2 and "w" in file and "v" not in file
        assert file.shapes == {"w": (3, 4), "größe": (3,)}
        assert file.dtypes == {"w": "f32", "größe": "i64"}
        assert file.metadata == {"a": "b"}
        assert repr(file).startswith("<ArrayFile of 2 arrays")
        w = file["w"]
        with pytest.raises(tn.NotFoundError, match="`w`"):
            file["ww"]
        with pytest.raises(TypeError, match="is a text"):
            file[0]
    np.testing.assert_array_equal(w.numpy(), W)
    with pytest.raises(ValueError, match="closed"):
        file["w"]


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "w.npy"
    tn.save(path, W)
    with pytest.raises(tn.TenonError, match="w.npy"):
        tn.save(path, {"a": W, "b": B})
    np.testing.assert_array_equal(np.load(path), W)
    assert os.listdir(tmp_path) == ["w.npy"]


@pytest.mark.parametrize("name, text", [
    ("w.txt", "txt"), ("no/such/folder/w.npz", "no/such"), ("w.npz\0", "NUL")])
def test_wrong_names(tmp_path, name, text):
    with pytest.raises((tn.TenonError, ValueError), match=text):
        tn.save(str(tmp_path) + "/" + name, {"w": W})


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04junk", b"\xff" * 64])
@pytest.mark.parametrize("end", ["npy", "npz", "safetensors"])
def test_damaged_files_are_refused(tmp_path, content, end):
    path = tmp_path / f"damaged.{end}"
    path.write_bytes(content)
    with pytest.raises(tn.TenonError, match="damaged"):
        tn.load_arrays(path)
    with pytest.raises(tn.TenonError, match="missing"):
        tn.load_arrays(tmp_path / f"missing.{end}")


def test_weights_of_a_program_survive_a_file(tmp_path):
    g = tn.Graph(tn.ops.nn.fully_connected(tn.var("x"), num_hidden=4, name="fc"))
    x, w = np.ones((2, 4), np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)
    p = g.bind({"x": x, "fc_weight": w})
    expected = p.forward()[0].numpy()
    tn.save(tmp_path / "w.safetensors", {name: each for name, each in p.arguments.items()
                                         if name != "x"})
    g.save(tmp_path / "g.json")
    again = tn.Graph.load(tmp_path / "g.json").bind(
        {"x": x, **tn.load_arrays(tmp_path / "w.safetensors")})
    np.testing.assert_array_equal(again.forward()[0].numpy(), expected)
    np.testing.assert_allclose(expected, x @ w.T)
