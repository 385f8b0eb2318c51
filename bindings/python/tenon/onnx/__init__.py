# SPDX-License-Identifier: Apache-2.0
"""ONNX models: `tenon.onnx.load("model.onnx")` returns a model that computes.

The package `onnx` parses models, checks them, and converts old ones. Operators come from the
plugins. It is an extra: `pip install tenon-sdk[onnx]`.
"""

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tenon.onnx needs the package `onnx`: pip install 'tenon-sdk[onnx]'"
    ) from error

from .convert import convert
from .errors import NeedsElements, OnnxError, Unsupported
from .model import Model, Port, load
from .report import report

__all__ = [
    "Model",
    "NeedsElements",
    "OnnxError",
    "Port",
    "Unsupported",
    "convert",
    "load",
    "report",
]
