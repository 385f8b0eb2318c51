# SPDX-License-Identifier: Apache-2.0
"""The generated tables agree with the headers, and failures become exceptions."""

import ctypes
import gc
import importlib.util
import json
import keyword
import pathlib
import subprocess
import sys
import threading

import pytest

from tenon import _api, _binding, _errors, _objects, _prefix

with open(_prefix.data("api.json"), encoding="utf-8") as file:
    API = json.load(file)
STRUCTS = [each for each in API["structs"] if each["group"] in ("tenon", "plugin")]
FUNCTIONS = [each["name"] for each in API["functions"]
             if each["group"] == "tenon" and "library" in each]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda each: each["name"])
def test_a_struct_has_the_layout_of_the_header(struct):
    made = getattr(_api, struct["name"])
    assert (ctypes.sizeof(made), ctypes.alignment(made)) == (struct["size"], struct["align"])
    for field in struct["fields"]:
        name = field["name"] + ("_" if keyword.iskeyword(field["name"]) else "")
        found = getattr(made, name)
        assert (found.offset, found.size) == (field["offset"], field["size"]), name


def test_every_function_of_the_host_api_is_in_its_library():
    assert len(FUNCTIONS) > 150
    for name in FUNCTIONS:
        assert callable(getattr(_api, name)), name


def test_constants_have_the_values_of_the_header():
    values = [each for enum in API["enums"] if enum["group"] in ("tenon", "plugin")
              for each in enum["values"]]
    assert len(values) > 100
    for each in values:
        assert getattr(_api, each["name"]) == each["value"]
    assert _api.TN_OK == 0 and _api.TN_VERSION == _api.tn_version()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no `tn_grph_create`"):
        _api.tn_grph_create


def test_a_struct_that_grows_gets_its_size():
    assert _api.tn_bind().struct_size == ctypes.sizeof(_api.tn_bind)
    assert _api.tn_program_stats(reserved=0).struct_size == ctypes.sizeof(_api.tn_program_stats)


def test_texts_are_encoded_and_refused_with_a_nul():
    assert _api.tn_attribute(key="größe", value="1").key == "größe".encode()
    kind = ctypes.c_uint32()
    _api.tn_dtype_parse("f32", ctypes.byref(kind))
    assert _api.tn_dtype_name(kind.value) == "f32"
    with pytest.raises(ValueError, match="NUL"):
        _binding.encode("f32\0")
    with pytest.raises(ctypes.ArgumentError, match="NUL"):
        _api.tn_dtype_parse("f32\0", ctypes.byref(kind))


def test_a_failure_raises_the_exception_of_its_code():
    kind = ctypes.c_uint32()
    with pytest.raises(_errors.TenonError) as caught:
        _api.tn_dtype_parse("f23", ctypes.byref(kind))
    assert type(caught.value) is _errors.CLASSES[caught.value.code]
    assert "f23" in str(caught.value)


def test_each_code_has_a_class():
    codes = {value: name for name, value in _api.CONSTANTS.items()
             if isinstance(value, int) and -20 < value < 0
             and _api.tn_code_name(value) == name}
    assert len(codes) >= 14
    assert {each: codes[each] for each in codes if each not in _errors.CLASSES} == {}


@pytest.mark.parametrize("code, also", [
    (-1, ValueError), (-2, LookupError), (-3, ValueError), (-4, MemoryError), (-5, IndexError),
    (-6, ValueError), (-7, TypeError), (-9, NotImplementedError), (-12, OSError),
    (-14, TimeoutError)])
def test_an_exception_is_also_that_of_python(code, also):
    error = _errors.make_error(code, b"nn.convolution@1, node `conv1`: no")
    assert isinstance(error, also) and isinstance(error, _errors.TenonError)
    assert (error.code, error.operator, error.plugin, error.node) == (
        code, "nn.convolution@1", "nn", "conv1")


def test_the_tables_are_those_of_the_generator(tmp_path):
    script = pathlib.Path(__file__).resolve().parents[1] / "generate_api.py"
    if not script.exists():
        pytest.skip("the sources of the package are not here")
    out = tmp_path / "_api.py"
    subprocess.run([sys.executable, str(script), _prefix.data("api.json"), str(out)], check=True)
    spec = importlib.util.spec_from_file_location("tenon_api_again", out)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    for table in ("CONSTANTS", "CALLBACKS", "STRUCTS", "FUNCTIONS"):
        assert getattr(again, table) == getattr(_api, table), table


def test_names_can_be_resolved_by_many_threads():
    failures = []

    def resolve():
        try:
            for name in FUNCTIONS:
                _api.__getattr__(name)
        except Exception as error:  # noqa: BLE001  (reported by the test)
            failures.append(error)

    threads = [threading.Thread(target=resolve) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []


def test_an_owner_that_ends_inside_of_an_operator_releases_later(monkeypatch):
    released = []
    monkeypatch.setattr(_objects._api, "tn_text_release", released.append)
    with _objects.inside_operator():
        _objects.Handle(12, "tn_text_release")
        gc.collect()
        assert released == []
    _objects.Handle(34, "tn_text_release")
    gc.collect()
    assert sorted(released) == [12, 34]
