# SPDX-License-Identifier: Apache-2.0
"""Operators called from Python give the values that their manifests state, and those that scripts
in tests/reference have computed with NumPy and torch."""

import json
import math
import pathlib
import re

import numpy as np
import pytest

import tenon as tn
from tenon import _prefix

yaml = pytest.importorskip("yaml", reason="needs the package PyYAML, which reads manifests")

PLUGINS = ("elemwise", "tensor", "nn", "linalg", "image", "optim", "random")
MANIFESTS = pathlib.Path(_prefix.data("manifests"))
TABLES = pathlib.Path(__file__).resolve().parents[3] / "tests" / "plugins"


# ------------------------------------------------------------- examples of manifests

def find_documents():
    """(plugin, keys of an operator) of all manifests; members of families are completed."""
    for plugin in PLUGINS:
        for path in sorted((MANIFESTS / plugin).glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if not document or "kernels_for" in document:
                    continue
                for each in document.get("each") or [document]:
                    if "op" in each:
                        yield plugin, {**document, **each}


def find_examples():
    for plugin, document in find_documents():
        version = document.get("version", 1)
        for number, example in enumerate(document.get("examples") or []):
            yield pytest.param(f"{plugin}.{document['op']}@{version}", example,
                               id=f"{plugin}.{document['op']}-{example.get('name', number)}")


EXAMPLES = list(find_examples())


def read_numbers(values):
    """Nested lists with texts such as nan and inf as an array of f64, or of i64."""
    if isinstance(values, list):
        return [read_numbers(each) for each in values]
    return float(values) if isinstance(values, str) else values


class Description:
    def __init__(self, name):
        self.function = tn.ops.find_operator(name)
        self.json = json.loads(self.function.__self__.json)
        self.type = None  # of the first type variable, instead of f32

    def list_types(self):
        """None for the usual types, then each type of the first variable, as opgen tries them."""
        variables = self.json["dtype_vars"]
        return [None, *(reversed(variables[0]["allowed"]) if variables else ())]

    def choose_dtype(self, operand, params):
        """f32 for a type variable that may be it, else the first of its types."""
        if operand["dtype"] is not None:
            return operand["dtype"]
        if operand["dtype_param"] is not None:
            key = operand["dtype_param"]
            name = key if isinstance(key, str) else self.json["params"][key]["name"]
            default = next(each["default_text"] for each in self.json["params"]
                           if each["name"] == name)
            return params.get(name, default)
        if self.type is not None and operand["dtype_var"] == 0:
            return self.type
        allowed = self.json["dtype_vars"][operand["dtype_var"]]["allowed"]
        return "f32" if "f32" in allowed else allowed[0]


def make_operand(description, operand, values, params):
    dtype = description.choose_dtype(operand, params)
    if isinstance(values, dict):  # with a type or shape of its own
        dtype = values.get("dtype", dtype)
        shape, values = values.get("shape"), values.get("values", values.get("data"))
    else:
        shape = None
    found = np.asarray(read_numbers(values), dtype="f8" if tn.find_dtype(dtype).is_float else None)
    if shape is not None:
        found = found.reshape(shape)
    return tn.array(found).astype(dtype, copy=False)


def is_list(operand):
    return "variadic" in operand["flags"] or operand["count"] is not None


def make_inputs(description, example, params):
    """Arrays by name; a variadic one is a list."""
    made = {}
    for operand in description.json["inputs"] + description.json["aux"]:
        values = example.get(operand["name"])
        if values is None:
            continue
        if is_list(operand):
            made[operand["name"]] = [make_operand(description, operand, each, params)
                                     for each in values]
        else:
            made[operand["name"]] = make_operand(description, operand, values, params)
    return made


def call(description, made, params):
    positional, named = [], dict(params)
    for operand in description.json["inputs"]:
        value = made.get(operand["name"])
        if "variadic" in operand["flags"]:
            positional += value or []
        else:
            positional.append(value)
    for operand in description.json["aux"]:
        named[operand["name"]] = made.get(operand["name"])
    found = description.function(*positional, **named)
    return found if isinstance(found, tuple) else (found,)


def close(found, wanted, tolerance, note):
    wanted = np.asarray(read_numbers(wanted), dtype="f8")
    found = found.astype("f64").numpy() if found.dtype.can_compute else np.asarray(found.tolist())
    assert found.size == wanted.size, note
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=tolerance, atol=tolerance,
                               err_msg=note)


def name_outputs(description, found):
    """Visible outputs by name; a counted one has a list."""
    visible = [each for each in description.json["outputs"] if "hidden" not in each["flags"]]
    counted = [each for each in visible if each["count"] is not None]
    named, left = {}, list(found)
    for each in visible:
        if each["count"] is None:
            named[each["name"]] = left.pop(0)
        else:
            assert len(counted) == 1
            n = len(left) - sum(1 for other in visible[visible.index(each) + 1:])
            named[each["name"]], left = left[:n], left[n:]
    return named


def compute_example(description, example, params):
    """The inputs with gradients and the results, in the first types that a kernel takes."""
    slopes = example.get("grad") or {}
    for description.type in description.list_types():
        made = make_inputs(description, example, params)
        leaves = {key: made[key] for key in slopes if key in made}
        for each in leaves.values():
            for array in each if isinstance(each, list) else [each]:
                array.attach_grad()
        try:
            if not example.get("training") and not slopes:
                return leaves, call(description, made, params)
            with tn.record(train=bool(example.get("training"))):
                return leaves, call(description, made, params)
        except tn.UnsupportedError as error:
            refused = error
    raise refused


@pytest.mark.parametrize("name, example", EXAMPLES)
def test_the_examples_of_manifests(name, example):
    description = Description(name)
    params = example.get("params") or {}
    tolerance = max(float(example.get("tol", 0)), 2e-5)
    slopes = example.get("grad") or {}
    leaves, found = compute_example(description, example, params)
    outputs = name_outputs(description, found)
    for key, array in outputs.items():
        if key not in example:
            continue
        pairs = zip(array, example[key]) if isinstance(array, list) else [(array, example[key])]
        for one, wanted in pairs:
            wanted = wanted.get("values", wanted.get("data")) if isinstance(wanted, dict) else wanted
            close(one, wanted, tolerance, key)
    if leaves:
        check_slopes(outputs, slopes, leaves, tolerance)


def check_slopes(outputs, slopes, leaves, tolerance):
    heads, weights = [], []
    for key, array in outputs.items():
        given = slopes.get(key)
        for i, each in enumerate(array if isinstance(array, list) else [array]):
            if each._tape is None or not each.dtype.is_float:
                continue
            weight = given[i] if isinstance(array, list) and given is not None else given
            weight = 0.0 if weight is None and len(outputs) > 1 else weight
            heads.append(each)
            weights.append(None if weight is None else tn.array(
                np.broadcast_to(np.asarray(read_numbers(weight), "f4"), each.shape)
                if np.ndim(weight) == 0 else np.asarray(read_numbers(weight), "f4").reshape(
                    each.shape)))
    tn.autograd.backward(heads, weights)
    for key, each in leaves.items():
        pairs = zip(each, slopes[key]) if isinstance(each, list) else [(each, slopes[key])]
        for array, wanted in pairs:
            close(array.grad, wanted, tolerance, f"gradient of {key}")


def test_most_operators_have_examples():
    assert len(EXAMPLES) > 250


# ---------------------------------------------------------------- tables of scripts

NUMBER = r"-?(?:INFINITY|NAN|[0-9][0-9.]*(?:e[-+]?[0-9]+)?)"
TOKEN = re.compile(r'"([^"]*)"|(' + NUMBER + r")|([{},])|(TN_CALL_TRAIN)|(TN_[A-Z_]+)")


def parse_table(path):
    """The rows of C initialisers of a file, as nested lists."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
    stack = [[]]
    for string, number, mark, train, other in TOKEN.findall(text):
        if mark == "{":
            stack.append([])
        elif mark == "}":
            done = stack.pop()
            stack[-1].append(done)
        elif mark == ",":
            continue
        elif number:
            stack[-1].append(float(number.replace("INFINITY", "inf").replace("NAN", "nan"))
                             if not re.fullmatch(r"-?[0-9]+", number) else int(number))
        elif train:
            stack[-1].append(1)
        else:
            stack[-1].append(string if not other else other)
    return stack[0]


def read_operands(row):
    """[n, [[[ndim, [sizes]], [elements]] ...]] as arrays of f64."""
    if not row or not row[0]:
        return []
    arrays = []
    for (ndim, sizes), elements in row[1]:
        shape = tuple(sizes[:ndim])
        values = np.zeros(math.prod(shape))
        values[:len(elements)] = elements[:len(values)]
        arrays.append(values.reshape(shape))
    return arrays


def find_rows():
    for name in ("attention", "ctc", "losses", "norms", "norm", "sequences", "reduce"):
        path = TABLES / f"{name}_cases.inc"
        if path.exists():
            for number, row in enumerate(parse_table(path)):
                yield pytest.param(row, id=f"{name}-{number}-{row[0]}")


ROWS = list(find_rows())


def find_precisions(name):
    allowed = Description(name).json["dtype_vars"]
    allowed = allowed[0]["allowed"] if allowed else ["f32"]
    return [each for each in (("f64", 1e-12), ("f32", 4e-6), ("f16", 6e-3), ("bf16", 5e-2))
            if each[0] in allowed]


@pytest.mark.skipif(not ROWS, reason="the tables are in the source tree only")
@pytest.mark.parametrize("row", ROWS)
def test_values_of_scripts(row):
    name, text, flags, inputs, aux, outputs, after, heads, slopes = [
        *row, *[[0]] * (9 - len(row))]
    inputs, aux, outputs, after, heads, slopes = map(
        read_operands, (inputs, aux, outputs, after, heads, slopes))
    params = dict(each.partition("=")[::2] for each in text.split())
    for dtype, tolerance in find_precisions(name):
        made = [tn.array(each, dtype) if not isinstance(each, tn.Array) else each
                for each in inputs + aux]
        for each in made[:len(slopes)]:
            each.attach_grad()
        note = f"{name} {text} {dtype}"
        with tn.record(train=bool(flags)):
            found = tn.ops.find_operator(name)(*made, **params)
        found = found if isinstance(found, tuple) else (found,)
        for array, wanted in zip(found, outputs):
            compare(array, wanted, tolerance, note)
        for array, wanted in zip(made[len(inputs):], after):
            compare(array, wanted, tolerance, note)
        if not slopes:
            continue
        weights = [tn.array(each, array.dtype) for each, array in zip(heads, found)]
        weights += [tn.zeros(each.shape, each.dtype) for each in found[len(weights):]]
        tn.autograd.backward(list(found), weights)
        for array, wanted in zip(made, slopes):
            compare(array.grad, wanted, tolerance, note)


def compare(array, wanted, tolerance, note):
    assert array.shape == wanted.shape, note
    found = array.astype("f64").numpy()
    both = np.isfinite(found) & np.isfinite(wanted)
    np.testing.assert_array_equal(found[~both], wanted[~both], err_msg=note)
    assert (np.abs(found - wanted)[both] <= tolerance * np.maximum(1, np.abs(wanted))[both]).all(), \
        note
