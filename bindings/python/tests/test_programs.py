# SPDX-License-Identifier: Apache-2.0
"""`python -m tenon`, the console scripts, and the stubs of `python -m tenon.stubs`."""

import ast
import os
import subprocess
import sys

import pytest

from tenon import __main__ as programs
from tenon import _prefix, stubs

PARAM = {"flags": [], "default_text": None, "values": [], "doc": "", "name": "p"}
OPERAND = {"flags": [], "count": None, "doc": ""}


def run(*arguments, status=0):
    done = subprocess.run([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def make_operator(**more):
    operator = {"name": "cube", "summary": "Third power", "flags": [], "params": [], "aux": [],
                "inputs": [dict(OPERAND, name="data", doc="Any shape")],
                "outputs": [dict(OPERAND, name="out")]}
    operator.update(more)
    return operator


def test_prefix_prints_a_folder_with_the_programs():
    prefix = run("-m", "tenon", "prefix").strip()
    assert os.path.exists(os.path.join(prefix, "bin", "opgen"))


def test_version_is_that_of_the_program():
    version = run("-m", "tenon", "version").strip()
    said = subprocess.run([_prefix.program("tenon"), "--version"], stdout=subprocess.PIPE,
                          universal_newlines=True, check=True).stdout
    assert version in said


def test_info_lists_plugins_after_the_versions():
    lines = run("-m", "tenon", "info").splitlines()
    assert lines[0].startswith("tenon ")
    assert any(line.startswith("elemwise ") for line in lines)


def test_unknown_command_gets_the_list_of_commands():
    assert "python -m tenon prefix" in run("-m", "tenon", "prefixx", status=2)


@pytest.mark.parametrize("name", ["tenon", "opgen"])
def test_console_script_becomes_the_program(name):
    said = run("-c", f"from tenon.__main__ import run_{name}; run_{name}()", "--version")
    assert said.startswith(name)


def test_missing_program_is_a_message(monkeypatch):
    monkeypatch.setattr(_prefix, "program", lambda name: name)
    with pytest.raises(SystemExit, match="opgen: no installation of Tenon"):
        programs.run_opgen()


def test_stub_has_inputs_then_parameters_then_out():
    params = [dict(PARAM, name="scale", type="float", default_text="1"),
              dict(PARAM, name="to", type="int", flags=["required"])]
    assert stubs.write_signature(make_operator(params=params)) == (
        "def cube(data: Tensor, *, to: int, scale: float = 1, out: Out = None) -> Array: ...")


def test_stub_has_optional_and_variadic_inputs_and_several_outputs():
    optional = dict(OPERAND, name="bias", flags=["optional"])
    hidden = dict(OPERAND, name="mask", flags=["hidden"])
    operator = make_operator(aux=[optional], outputs=[hidden, *make_operator()["outputs"]])
    assert stubs.write_signature(operator) == (
        "def cube(data: Tensor, bias: Optional[Tensor] = None, *, out: Out = None) -> Array: ...")
    variadic = dict(OPERAND, name="parts", flags=["variadic"])
    operator = make_operator(inputs=[variadic], outputs=[variadic])
    assert stubs.write_signature(operator) == (
        "def cube(*parts: Tensor, out: Out = None) -> tuple[Array, ...]: ...")


@pytest.mark.parametrize("param, text", [
    (dict(type="bool", default_text="true"), "bool = True"),
    (dict(type="enum", default_text="a", values=["a", "b"]), 'Literal["a", "b"] = "a"'),
    (dict(type="int", default_text="None", flags=["optional"]), "Optional[int] = None"),
    (dict(type="ints", default_text="[1, 2]"), "Union[int, Sequence[int]] = [1, 2]"),
    (dict(type="float", default_text="inf"), "float = ..."),
    (dict(type="dtype", default_text="f32"), 'Union[str, DType] = "f32"')])
def test_stub_has_types_and_defaults(param, text):
    operator = make_operator(params=[dict(PARAM, **param)])
    assert f"p: {text}," in stubs.write_signature(operator)


def test_stub_renames_words_of_python():
    param = dict(PARAM, name="from", type="int", flags=["required"])
    assert "from_: int" in stubs.write_signature(make_operator(params=[param]))


def test_stub_keeps_quotes_and_backslashes_of_texts():
    text = 'a "quoted" \\frac and three """'
    operator = make_operator(summary="Third", inputs=[dict(OPERAND, name="data", doc=text)])
    tree = ast.parse("\n".join(stubs.write_plugin("acme", [operator])))
    assert 'data: a "quoted" \\frac and three' in ast.get_docstring(tree.body[0].body[0])


def test_stubs_of_all_installed_plugins_are_a_partial_package(tmp_path):
    folder = tmp_path / "tenon-stubs"
    assert run("-m", "tenon.stubs", tmp_path).strip() == str(folder)
    assert (folder / "py.typed").read_text() == "partial\n"
    classes = read_classes(folder / "ops.pyi")
    assert {"elemwise", "nn", "tensor"} <= set(classes)
    assert "add" in classes["elemwise"] and classes["elemwise"] == sorted(classes["elemwise"])
    # Names that each array has by the tests of arrays.
    assert {"numpy", "shape", "grad", "__add__", "__getitem__"} <= set(
        read_classes(folder / "_core.pyi")["Array"])
    names = read_names(folder / "__init__.pyi")
    assert {"Array", "DType", "array", "f32", "Graph", "record", "ops", "exp"} <= names
    assert not {name for name in names if name.startswith("__")} - {"__getattr__"}


def read_classes(path):
    """Names of methods by class."""
    return {node.name: [each.name for each in node.body] for node in ast.parse(
        path.read_text()).body if isinstance(node, ast.ClassDef)}


def read_names(path):
    """Names that the file defines or imports as itself."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname for each in node.names if each.asname}
        elif isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets}
        else:
            names.add(node.target.id if isinstance(node, ast.AnnAssign) else node.name)
    return names


def test_a_default_that_is_no_constant_is_dots():
    def make(shape, dtype=object(), *, device=None, n: int = 1):
        """Makes."""
    assert stubs.write_parameters(make) == "(shape, dtype=..., *, device=None, n=1)"


def test_stubs_of_a_file_that_is_no_plugin_end_with_the_message(tmp_path):
    (tmp_path / "bad.so").write_text("no plugin")
    assert "bad.so" in run("-m", "tenon.stubs", tmp_path, "--plugin", tmp_path / "bad.so",
                           status=1)
