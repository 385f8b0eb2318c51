# SPDX-License-Identifier: Apache-2.0
"""ONNX models that are refused, and broken ones."""

import os

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

import tenon as tn  # noqa: E402
import tenon.onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx_models import port, make_model, make_dense, run_both  # noqa: E402
from tenon.onnx.plugins import operator_name  # noqa: E402


# --------------------------------------------------------------------- refusals

def test_types_of_a_domain_are_operators_of_a_plugin():
    assert operator_name("acme", "Cube") == "acme.cube"
    assert operator_name("nn", "FullyConnected") == "nn.fully_connected"
    assert operator_name("acme", "RGBToGrey") == "acme.rgb_to_grey"
    nodes = [helper.make_node("Quadratic", ["x"], ["y"], domain="elemwise", a=1.0, c=3.0)]
    model = make_model(nodes, [port("x", [2])], [port("y", [2])], domains=["elemwise"])
    assert run_both(model, {"x": np.array([2, 3], "f4")})["y"].tolist() == [7, 12]


@pytest.mark.parametrize("domain, op, attributes, text", [
    ("acme", "Cube", {}, "no loaded plugin has the operator `acme.cube`"),
    ("elemwise", "Quadratic", {"d": 1.0}, "`elemwise.quadratic` has no parameter `d`")])
def test_a_missing_operator_or_parameter_is_named(domain, op, attributes, text):
    nodes = [helper.make_node(op, ["x"], ["y"], domain=domain, name="n1", **attributes)]
    model = make_model(nodes, [port("x", [2])], [port("y", [2])], domains=[domain])
    with pytest.raises(tn.onnx.Unsupported, match=f"node `n1`: {domain}.{op}.*{text}"):
        tn.onnx.load(model).run({"x": np.zeros(2, "f4")})


def test_a_report_has_one_line_for_each_kind():
    nodes = [helper.make_node("Cube", ["x"], ["a"], domain="acme", name="n1"),
             helper.make_node("Cube", ["a"], ["b"], domain="acme", name="n2"),
             helper.make_node("Relu", ["b"], ["y"])]
    model = make_model(nodes, [port("x", [2])], [port("y", [2])], domains=["acme"])
    assert [str(each) for each in tn.onnx.report(model)] == [
        "node `n1` and 1 more: acme.Cube (opset 1): no loaded plugin has the operator `acme.cube`"]
    assert tn.onnx.report(make_dense()[0]) == []


def test_a_report_converts_where_all_lengths_are_known():
    nodes = [helper.make_node("Dropout", ["x", "ratio", "yes"], ["a"], name="n1"),
             helper.make_node("Cube", ["a"], ["b"], domain="acme", name="n2"),
             helper.make_node("Dropout", ["a", "ratio", "yes"], ["c"], name="n3"),
             helper.make_node("Resize", ["c", "", "ratios"], ["d"], name="n4",
                              coordinate_transformation_mode="tf_half_pixel_for_nn")]
    model = make_model(nodes, [port("x", ["N", 2, 3, 3])], [port("b", [1]), port("d", [1])],
                       {"ratio": np.array(0.5, "f4"), "yes": np.array(True),
                        "ratios": np.ones(4, "f4")}, domains=["acme"])
    assert len(tn.onnx.report(model)) == 1
    found = [str(each) for each in tn.onnx.report(model, shapes={"x": (1, 2, 3, 3)})]
    assert found == [
        "node `n2`: acme.Cube (opset 1): no loaded plugin has the operator `acme.cube`",
        "node `n1` and 1 more: Dropout (opset 18): `training_mode` with a `ratio` above 0 draws "
        "random numbers",
        "node `n4`: Resize (opset 18): `coordinate_transformation_mode` tf_half_pixel_for_nn"]


def test_texts_are_refused():
    nodes = [helper.make_node("StringConcat", ["x", "x"], ["y"], name="join")]
    model = make_model(nodes, [port("x", [1], TensorProto.STRING)],
                       [port("y", [1], TensorProto.STRING)], opset=20)
    with pytest.raises(tn.onnx.Unsupported, match="node `join`: StringConcat.*no strings"):
        tn.onnx.load(model).run({"x": np.array(["a"], object)})


# ---------------------------------------------------------------- broken models

@pytest.mark.parametrize("content", [b"", b"\0", b"no model", b"\x08\x07\x12\xff\xff\xff\x7f"])
def test_bytes_that_are_no_model(content, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(tn.onnx.OnnxError, match="m.onnx: not an ONNX model"):
        tn.onnx.load(path)


def test_a_model_that_is_cut_anywhere_is_an_error_or_a_model():
    content = make_dense()[0].SerializeToString()
    for n in range(0, len(content), 7):
        try:
            tn.onnx.load(content[:n]).run({"x": np.zeros((1, 3), "f4")})
        except tn.onnx.OnnxError:
            pass


def test_a_model_with_changed_bytes_is_an_error_or_a_model():
    content = make_dense()[0].SerializeToString()
    rng = np.random.default_rng(3)
    for _ in range(200):
        changed = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            changed[place] = rng.integers(0, 256)
        try:
            tn.onnx.load(bytes(changed)).run({"x": np.zeros((1, 3), "f4")})
        except tn.onnx.OnnxError:
            pass


@pytest.mark.parametrize("op, weights, text", [
    ("ConstantOfShape", {"shape": np.array([1 << 40])}, "more than 268435456 elements"),
    ("ConstantOfShape", {"shape": np.array([-1])}, "negative length"),
    ("Reshape", {"shape": np.array([5, 5])}, r"6 elements \[2, 3\] have no shape \[5, 5\]"),
    ("Expand", {"shape": np.array([7, 2, 4])}, "node `n1`: Expand"),
    ("Tile", {"shape": np.array([1])}, "node `n1`: Tile"),
    ("Gather", {"shape": np.array([9])}, "out of range"),
    ("ReduceSum", {"shape": np.array([4])}, "axis 4 is out of range for 2 dimensions")])
def test_impossible_shapes_are_errors(op, weights, text):
    inputs = ["shape"] if op == "ConstantOfShape" else ["x", "shape"]
    model = make_model([helper.make_node(op, inputs, ["y"], name="n1")], [port("x", [2, 3])],
                       [port("y", ["a", "b"])], weights)
    for mode in ("eager", "auto"):
        with pytest.raises(tn.onnx.OnnxError, match=text):
            tn.onnx.load(model, mode).run({"x": np.zeros((2, 3), "f4")})


def test_a_newer_opset_is_refused():
    model = make_dense()[0]
    model.opset_import[0].version = 10000
    with pytest.raises(tn.onnx.OnnxError, match="has opset 10000; the installed onnx"):
        tn.onnx.load(model)


def save_external(folder, location, offset=0, length=24):
    model, _ = make_dense()
    tensor = model.graph.initializer[1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    (folder / "model").mkdir()
    (folder / "weights.bin").write_bytes(bytes(24))
    (folder / "model" / "weights.bin").write_bytes(bytes(8) + np.arange(4, dtype="f4").tobytes())
    path = folder / "model" / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read_from_the_folder_of_the_model(tmp_path):
    model = tn.onnx.load(save_external(tmp_path, "weights.bin", 8, 16))
    assert model(np.zeros((1, 3), "f4")).numpy().tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("location, offset, text", [
    ("../weights.bin", 0, "is not in the folder of the model"),
    ("/etc/passwd", 0, "is not in the folder of the model"),
    ("", 0, "is not in the folder of the model"),
    ("link.bin", 0, "is not in the folder of the model"),
    ("lost.bin", 0, "does not exist"),
    ("weights.bin", 16, "bytes 16 to 32 of `weights.bin`, which has 24"),
    ("weights.bin", -8, "bytes -8 to 8 of `weights.bin`, which has 24"),
    ("weights.bin", "x", "invalid literal")])
def test_external_data_elsewhere_is_refused(tmp_path, location, offset, text):
    path = save_external(tmp_path, location, offset, 16)
    os.symlink("../weights.bin", path.parent / "link.bin")
    with pytest.raises(tn.onnx.OnnxError, match=text):
        tn.onnx.load(path)
