# SPDX-License-Identifier: Apache-2.0
"""Runs the node tests of the installed `onnx`: `python -m tenon.onnx conformance`.

Each case passes, is refused with a message, or fails: wrong numbers, or an unexpected error.
Cases run in child processes, so that a crash counts as one failure.
"""

import collections
import json
import os
import warnings
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from . import _tenon
from .errors import OnnxError, Unsupported
from .model import Model, Port

PASSED, REFUSED, FAILED = "passed", "refused", "failed"
_CHUNK = 150
_RANDOM = ("Bernoulli", "RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike")


class Result:
    """Outcome of one case."""

    def __init__(self, name: str, operator: str, status: str, text: str = "") -> None:
        self.name = name
        self.operator = operator
        self.status = status
        self.text = text

    def as_row(self) -> List[str]:
        """Fields for JSON."""
        return [self.name, self.operator, self.status, self.text]


def list_cases() -> List[Any]:
    """Returns the node tests of the installed onnx, in order of names."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return sorted(cases, key=lambda case: case.name)


def read_case_model(case: Any) -> onnx.ModelProto:
    """Returns the model of a case."""
    if getattr(case, "model", None) is not None:
        return case.model
    return onnx.load(os.path.join(case.model_dir, "model.onnx"))


def find_operator(case: Any, model: onnx.ModelProto) -> str:
    """Returns the type that a case tests: that of its node, or of the expanded function."""
    named = model.graph.node[0]
    name = case.name
    if len(model.graph.node) == 1 and not name.endswith("_expanded"):
        return f"{named.domain}.{named.op_type}" if named.domain else named.op_type
    return ""


# --------------------------------------------------------------------- values


def read_value(path: str, info: onnx.ValueInfoProto) -> Any:
    """Reads an input or output file of a case."""
    with open(path, "rb") as file:
        content = file.read()
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(content)
        return numpy_helper.to_list(sequence)
    if kind == "optional_type":
        optional = onnx.OptionalProto()
        optional.ParseFromString(content)
        return numpy_helper.to_optional(optional)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(content)
    return numpy_helper.to_array(tensor)


def _decode(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return value


def list_data(case: Any, model: onnx.ModelProto) -> Iterable[Tuple[List[Any], List[Any]]]:
    """Yields inputs and expected outputs of a case."""
    if getattr(case, "data_sets", None):
        for inputs, outputs in case.data_sets:
            yield [_decode(value) for value in inputs], [_decode(value) for value in outputs]
        return
    for folder in sorted(os.listdir(case.model_dir)):
        if not folder.startswith("test_data_set"):
            continue
        path = os.path.join(case.model_dir, folder)
        values = []
        for prefix, infos in (("input", model.graph.input), ("output", model.graph.output)):
            values.append([])
            for index, info in enumerate(infos):
                file = os.path.join(path, f"{prefix}_{index}.pb")
                if os.path.exists(file):
                    values[-1].append(read_value(file, info))
        yield values[0], values[1]


def to_numpy(value: Any) -> Any:
    """Returns a result as an array of NumPy, a list of them, or None."""
    if isinstance(value, (list, tuple)):
        return [to_numpy(item) for item in value]
    return _tenon.to_numpy(value) if _tenon.is_array(value) else value


def compare_values(actual: Any, expected: Any, case: Any, exact: bool) -> Optional[str]:
    """Returns the first difference as a text, or None."""
    if expected is None or actual is None:
        return None if expected is actual else f"{actual!r}, and not {expected!r}"
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return "a sequence of another length"
        texts = (compare_values(a, e, case, exact) for a, e in zip(actual, expected))
        return next((text for text in texts if text), None)
    expected = np.asarray(expected)
    if actual.shape != expected.shape:
        return f"shape {list(actual.shape)}, and not {list(expected.shape)}"
    are_texts = {actual.dtype.kind, expected.dtype.kind} <= set("OUS")
    if actual.dtype != expected.dtype and not are_texts:
        return f"type {actual.dtype}, and not {expected.dtype}"
    return None if not exact else _compare_elements(actual, expected, case)


def _compare_elements(actual: np.ndarray, expected: np.ndarray, case: Any) -> Optional[str]:
    """Compares as the runner of onnx does, and allows for rounding.

    The runner's absolute tolerance of 1e-7 is below the rounding of sums in f32, so two units in
    the last place of the largest element of the output are allowed as well.
    """
    if expected.dtype.kind in "OUSbiu":
        same = actual == expected
    else:
        rtol, atol = getattr(case, "rtol", 1e-3), getattr(case, "atol", 1e-7)
        if expected.dtype.name == "bfloat16":
            rtol = max(rtol, 2**-6)
        wide = expected.astype(np.float64)
        finite = np.abs(wide[np.isfinite(wide)])
        if expected.dtype in (np.float16, np.float32, np.float64) and finite.size:
            atol = max(atol, 2 * np.finfo(expected.dtype).eps * float(finite.max()))
        with np.errstate(all="ignore"):
            same = np.isclose(actual.astype(np.float64), wide, rtol=rtol, atol=atol, equal_nan=True)
    if np.all(same):
        return None
    place = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0]) if np.ndim(same) else ()
    return f"{actual[place]!r} at {list(place)}, and not {expected[place]!r}"


# ----------------------------------------------------------------------- runs


def run_case(case: Any, model: onnx.ModelProto, mode: str = "eager") -> Tuple[str, str]:
    """Runs one case: status, and the message if it did not pass."""
    exact = not any(node.op_type in _RANDOM for node in model.graph.node)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = Model(model, mode)
            for inputs, outputs in list_data(case, model):
                names = [Port(info).name for info in model.graph.input]
                results = loaded.run(dict(zip(names, inputs)))
                for value, expected in zip(results.values(), outputs):
                    text = compare_values(to_numpy(value), expected, case, exact)
                    if text:
                        return FAILED, text
    except Unsupported as error:
        return REFUSED, error.kind
    except OnnxError as error:
        return FAILED, str(error)
    except Exception as error:  # the cause of any other error is a defect
        return FAILED, f"{type(error).__name__}: {error}"
    return PASSED, ""


def run_chunk(cases: List[Any], chosen: List[int], mode: str, write: Any) -> None:
    """Runs cases in this process; writes a line of JSON before and after each."""
    for index in chosen:
        write(json.dumps([index]))
        status, text = run_case(cases[index], read_case_model(cases[index]), mode)
        write(json.dumps([index, status, text]))


def run_all(cases: List[Any], chosen: List[int], mode: str) -> Dict[int, Tuple[str, str]]:
    """Runs cases in child processes; a crash counts as a failure of its case."""
    results: Dict[int, Tuple[str, str]] = {}
    while True:
        rest = [index for index in chosen if index not in results][:_CHUNK]
        if not rest:
            return results
        done, begun = _run_child(cases, rest, mode)
        results.update(done)
        if len(done) < len(rest):
            lost = begun if begun is not None and begun not in done else rest[len(done)]
            results[lost] = (FAILED, "the process ended")


def _run_child(cases: List[Any], chosen: List[int], mode: str) -> Tuple[dict, Optional[int]]:
    """Runs cases in a copy of this process, which has no runtime yet."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as out:
                run_chunk(cases, chosen, mode, lambda line: print(line, file=out, flush=True))
        finally:
            os._exit(0)
    os.close(writer)
    done: Dict[int, Tuple[str, str]] = {}
    begun = None
    with os.fdopen(reader) as lines:
        for line in lines:
            row = json.loads(line)
            begun = row[0]
            if len(row) == 3:
                done[row[0]] = (row[1], row[2])
    os.waitpid(child, 0)
    return done, begun


# ---------------------------------------------------------------------- cases


def name_operators(cases: List[Any]) -> List[str]:
    """Returns the type that each case tests; an expanded case has that of its original."""
    direct = {}
    models = [read_case_model(case) for case in cases]
    for case, model in zip(cases, models):
        direct[case.name] = find_operator(case, model)
    names = []
    for case, model in zip(cases, models):
        name = case.name
        operator = direct[name]
        if not operator and "_expanded" in name:
            operator = direct.get(name[: name.index("_expanded")], "")
        names.append(operator or model.graph.node[-1].op_type)
    return names


def run_conformance(operator: str = "", mode: str = "eager") -> List[Result]:
    """Runs the cases of one operator, or all."""
    cases = list_cases()
    operators = name_operators(cases)
    chosen = [i for i, name in enumerate(operators) if not operator or name == operator]
    done = run_all(cases, chosen, mode)
    return [Result(cases[i].name, operators[i], *done[i]) for i in chosen]


def write_results(path: str, results: List[Result]) -> None:
    """Writes results as JSON, for `read_results`."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump([result.as_row() for result in results], file)


def read_results(path: str) -> List[Result]:
    """Reads the results of an earlier run."""
    with open(path, encoding="utf-8") as file:
        return [Result(*row) for row in json.load(file)]


def count_results(results: List[Result]) -> "collections.Counter[str]":
    """Counts results by status."""
    return collections.Counter(result.status for result in results)


def tabulate(results: List[Result]) -> List[Tuple[str, int, int, int]]:
    """Returns (operator, passed, refused, failed), in order."""
    table: Dict[str, "collections.Counter[str]"] = {}
    for result in results:
        table.setdefault(result.operator, collections.Counter())[result.status] += 1
    return [
        (name, counts[PASSED], counts[REFUSED], counts[FAILED])
        for name, counts in sorted(table.items())
    ]



