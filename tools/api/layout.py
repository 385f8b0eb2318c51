# SPDX-License-Identifier: Apache-2.0
"""Lays JSON out for reading and for diffs: a value that fits is one line."""

import json

WIDTH = 100


def text_of(value):
    return layout(value, 0) + "\n"


def layout(value, indent):
    """The value; each member of a list or an object that does not fit in a line
    begins a line."""
    short = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or (
            indent and len(short) + indent <= WIDTH):
        return short
    blanks = " " * (indent + 1)
    if isinstance(value, list):
        parts = [layout(each, indent + 1) for each in value]
    else:
        parts = [f"{json.dumps(key)}: {layout(each, indent + 1)}"
                 for key, each in value.items()]
    ends = "[]" if isinstance(value, list) else "{}"
    return (ends[0] + "\n" + ",\n".join(blanks + part for part in parts) + "\n"
            + " " * indent + ends[1])
