# SPDX-License-Identifier: Apache-2.0
"""Table of converters: one function per type of ONNX node and version of its rules."""

from typing import Callable, Dict, List, Optional, Tuple

Converter = Callable[..., object]

_converters: Dict[Tuple[str, str], List[Tuple[int, Converter]]] = {}
_loaded = False

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
PREVIEW = "ai.onnx.preview"


def converter(*types: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Registers a function as the converter of node types, from opset `since` on.

    >>> @converter("Relu", since=6)
    ... def convert_relu(node, x):
    ...     return node.build.call("elemwise.relu", x)
    """

    def register(function: Converter) -> Converter:
        for name in types:
            versions = _converters.setdefault((domain, name), [])
            versions.append((since, function))
            versions.sort(key=lambda row: row[0])
        return function

    return register


def _load_families() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        from . import converters

        converters.load_all()


def find_converter(domain: str, name: str, opset: int) -> Optional[Converter]:
    """Returns the converter of the newest rules that `opset` has, or None.

    >>> find_converter("", "Relu", 13) is not None
    True
    """
    _load_families()
    found = None
    for since, function in _converters.get((domain, name), ()):
        if since <= opset:
            found = function
    return found


def list_types() -> List[Tuple[str, str, int]]:
    """Returns (domain, type, first opset) of all converters, in order.

    >>> ("", "Relu", 6) in list_types()
    True
    """
    _load_families()
    return sorted((domain, name, rows[0][0]) for (domain, name), rows in _converters.items())
