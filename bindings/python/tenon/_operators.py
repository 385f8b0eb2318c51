# SPDX-License-Identifier: Apache-2.0
"""Descriptions of operators, for calls in graphs."""

import collections
import ctypes
import json

from tenon import _api, _core
from tenon._binding import encode
from tenon._objects import Handle, make, read_text

Operator = collections.namedtuple("Operator", "address name stem inputs states params is_variadic")
_known = {}  # by name: (address of the description, Operator)


def find_operator(name):
    """The Operator of "nn.convolution" or "nn.convolution@1"."""
    address = make("tn_operator_get", _core.runtime_handle(), encode(name))
    description = ctypes.cast(_api.tn_operator_desc(address), ctypes.c_void_p).value
    known = _known.get(name)
    if known is None or known[:2] != (address, description):
        known = _known[name] = (address, description, _read_operator(address))
    return known[2]


def _read_operator(address):
    whole = json.loads(read_text("tn_operator_json", address))
    inputs = whole["inputs"]
    return Operator(
        address, _api.tn_operator_name(address), whole["name"],
        [each["name"] for each in inputs], [each["name"] for each in whole["aux"]],
        {each[key] for each in whole["params"] for key in ("name", "alias")},
        bool(inputs) and "variadic" in inputs[-1]["flags"])


def count_outputs(operator, n_inputs, params):
    """Number of visible outputs of a call with so many inputs and this text of parameters."""
    parsed = Handle(make("tn_params_parse", operator.address, encode(params)), "tn_params_release")
    visible = ctypes.c_uint32()
    _api.tn_operator_outputs(operator.address, parsed.address, n_inputs, None,
                             ctypes.byref(visible))
    return visible.value
