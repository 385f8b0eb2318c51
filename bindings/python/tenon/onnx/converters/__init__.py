# SPDX-License-Identifier: Apache-2.0
"""Converters of node types, in modules by family."""

import importlib

FAMILIES = (
    "arithmetic",
    "activation",
    "shape",
    "reduction",
    "linear",
    "convolution",
    "pooling",
    "sampling",
    "normalization",
    "recurrent",
    "quantized",
    "indexing",
    "control",
    "sequence",
    "attention",
    "signal",
    "random",
    "training",
    "images",
    "learning",
    "trees",
)


def load_all() -> None:
    """Imports all families, which register their converters.

    >>> load_all()
    """
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
