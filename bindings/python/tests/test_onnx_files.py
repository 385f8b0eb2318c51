# SPDX-License-Identifier: Apache-2.0
"""ONNX models as files for C hosts, and the node tests of onnx."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

import tenon as tn  # noqa: E402
import tenon.onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx_models import draw, port, make_dense  # noqa: E402
from tenon import _prefix  # noqa: E402
from tenon.onnx import conformance, page  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


# ------------------------------------------------------------------ conversion

def make_two_branches():
    """A model with a constant output, and an input that has a name with a colon."""
    model, weights = make_dense()
    model.graph.node.append(helper.make_node("Shape", ["x:0"], ["size"]))
    model.graph.output.append(port("size", [2], TensorProto.INT64))
    model.graph.input[0].name = model.graph.node[0].input[0] = "x:0"
    return model, weights


def test_a_converted_model_has_all_files(tmp_path):
    model, _ = make_two_branches()
    ports = tn.onnx.convert(model, tmp_path, shapes={"x:0": (2, 3)})
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "graph.json", "model.json", "weights.safetensors"]
    assert ports["inputs"] == [{"name": "x:0", "argument": "x_0", "dtype": "f32", "shape": [2, 3],
                                "is_used": True}]
    assert [each["shape"] for each in ports["outputs"]] == [[2, 4], [2]]
    graph = tn.Graph.load(str(tmp_path / "graph.json"))
    arrays = tn.load_arrays(str(tmp_path / "weights.safetensors"))
    x = draw(2, 3)
    y, size = graph.bind({**arrays, "x_0": x}).forward()
    np.testing.assert_allclose(y.numpy(), tn.onnx.load(model).run({"x:0": x})["y"].numpy(), 1e-6)
    assert size.numpy().tolist() == [2, 3]


def test_open_lengths_must_be_named(tmp_path):
    model = make_dense()[0]
    with pytest.raises(tn.onnx.OnnxError, match=r"\[N,3\]; name all lengths.*--shape x=1,3"):
        tn.onnx.convert(model, tmp_path)
    with pytest.raises(tn.onnx.OnnxError, match=r"cannot have the shape \[1, 4\]"):
        tn.onnx.convert(model, tmp_path, shapes={"x": (1, 4)})


def find_program(name):
    """The path of a program of the installation; skips the test if it is missing."""
    path = pathlib.Path(_prefix.find_prefix()) / "bin" / name
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    return path


def convert_dense(folder):
    model, weights = make_dense()
    tn.onnx.convert(model, folder / "out", shapes={"x": (2, 3)})
    x = draw(2, 3)
    np.save(folder / "x.npy", x)
    return np.maximum(x @ weights["w"] + weights["b"], 0)


def test_the_command_runs_a_converted_model(tmp_path):
    wanted = convert_dense(tmp_path)
    subprocess.run([find_program("tenon"), "graph", "run", "out", "x=@x.npy", "--out", "y.npy"],
                   cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-5, atol=1e-6)


def test_a_program_in_c_runs_a_converted_model(tmp_path):
    source, compiler = ROOT / "examples/host/model.c", shutil.which("cc")
    if not source.exists() or not compiler:
        pytest.skip("needs a C compiler and the examples of the source tree")
    prefix = find_program("tenon").parents[1]
    wanted = convert_dense(tmp_path)
    subprocess.run([compiler, source, f"-I{prefix}/include", f"-L{prefix}/lib", "-ltenon-graph",
                    "-ltenon", f"-Wl,-rpath,{prefix}/lib", "-o", tmp_path / "model"], check=True)
    subprocess.run(["./model", "out", "x", "x.npy", "y.npy"], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-5, atol=1e-6)


def test_the_command_line_reports_and_converts(tmp_path, capsys):
    from tenon.onnx.__main__ import main
    path = tmp_path / "m.onnx"
    onnx.save(make_dense()[0], path)
    assert main(["convert", str(path), "--report"]) == 0
    assert capsys.readouterr().out == f"{path}: can be converted\n"
    assert main(["convert", str(path), str(tmp_path / "out"), "--shape", "x=2,3"]) == 0
    assert capsys.readouterr().out == "input x f32[2,3]\noutput y f32[2,4]\n"
    assert main(["report", str(tmp_path / "lost.onnx")]) == 1
    assert "No such file" in capsys.readouterr().err


# ----------------------------------------------------------------- conformance

class Case:
    rtol, atol = 1e-3, 1e-7


@pytest.mark.parametrize("actual, expected, text", [
    ([1.0, 2.0], [1.0, 2.0005], None),
    ([1.0, 2.0], [1.0, 2.1], "at [1]"),
    ([1.0, np.nan], [1.0, np.nan], None),
    ([1e-7, 1e3], [0, 1e3], None),
    ([1.0], [[1.0]], "shape [1], and not [1, 1]")])
def test_wrong_numbers_are_found(actual, expected, text):
    found = conformance.compare_values(np.array(actual, "f4"), np.array(expected, "f4"), Case, True)
    assert found is None if text is None else text in found


def test_wrong_types_are_found():
    found = conformance.compare_values(np.zeros(1, "i4"), np.zeros(1, "i8"), Case, True)
    assert found == "type int32, and not int64"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """In a process of its own, because the runner forks before there is a runtime."""
    path = tmp_path_factory.mktemp("onnx") / "results.json"
    subprocess.run([sys.executable, "-m", "tenon.onnx", "conformance", "--json", path],
                   stdout=subprocess.DEVNULL, check=False,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    return conformance.read_results(path)


def test_no_node_test_of_onnx_fails(results):
    failed = [f"{each.name}: {each.text}" for each in results if each.status == "failed"]
    if onnx.__version__ < "1.23":
        pytest.skip("older node tests have values that onnx has corrected since, as of attention")
    assert not failed
    counts = conformance.count_results(results)
    assert counts["passed"] >= 0.85 * len(results)
    assert all(each.text for each in results if each.status == "refused")


def test_the_page_has_the_results(results):
    path = ROOT / "docs/reference/onnx.md"
    if not path.exists():
        pytest.skip("the pages are in the source tree only")
    text = path.read_text()
    if f"onnx {onnx.__version__}," not in text:
        pytest.skip(f"the page is for another version than {onnx.__version__}")
    assert text == page.format_page(results), (
        "run `./dev python onnx --page docs/reference/onnx.md`")
