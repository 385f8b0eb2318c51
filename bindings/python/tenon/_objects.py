# SPDX-License-Identifier: Apache-2.0
"""Objects of the C library: makes them, reads their texts, and releases them.

    graph = Handle(make("tn_graph_create", runtime), "tn_graph_release")
    text = read_text("tn_graph_json", graph.address)
"""

import ctypes
import threading

from tenon import _api


def make(function, *arguments):
    """Calls a function that stores an object in its last parameter; returns its address."""
    release_late()
    out = ctypes.c_void_p()
    getattr(_api, function)(*arguments, ctypes.byref(out))
    return out.value


def read_text(function, *arguments):
    """Calls a function that makes a tn_text; returns its characters, or None for none."""
    text = make(function, *arguments)
    if text is None:
        return None
    try:
        return _api.tn_text_get(text)
    finally:
        _api.tn_text_release(text)


_state = threading.local()
_late = []  # objects to release: their owners ended inside of an operator


class inside_operator:
    """While it is active on a thread, owners that end there release their objects later.

    Functions of the host must not be called from an operator, but Python may free any object
    there. The next use of this file elsewhere releases those as well.
    """

    def __enter__(self):
        _state.depth = getattr(_state, "depth", 0) + 1

    def __exit__(self, *_):
        _state.depth -= 1


def release_late():
    """Releases the objects of `_late`."""
    while _late and not getattr(_state, "depth", 0):
        try:
            release, address = _late.pop()
        except IndexError:  # another thread was faster
            return
        release(address)


class Handle:
    """The address of an object of C, and the function that releases it."""

    __slots__ = ("address", "_release", "__weakref__")

    def __init__(self, address, release):
        self.address = address
        self._release = getattr(_api, release)

    def __reduce_ex__(self, protocol):
        raise TypeError("an object of the C library cannot be copied or pickled; copy the object "
                        "of Python that owns it")

    def __del__(self):
        address, self.address = self.address, None
        if address is not None:
            _late.append((self._release, address))
            release_late()
