# SPDX-License-Identifier: Apache-2.0
"""A store of arrays under keys: devices push gradients, the store sums them and updates its
weights, and devices pull the result.

    store = tn.KVStore()
    store.set_optimizer("optim.sgd_update", lr=0.1)
    store.init({"weight": w})
    store.push({"weight": [gradient_of_device_0, gradient_of_device_1]})
    store.pull({"weight": w})
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Mapping

from tenon import _api, _core, _values
from tenon._binding import encode
from tenon._objects import Handle, make
from tenon.program import _make_array

_updaters = {}  # functions that stores use, by number
_numbers = itertools.count(1)


def _make_key(key):
    if isinstance(key, str):
        return _api.tn_key(text=encode(key))
    if isinstance(key, bool) or not hasattr(key, "__index__"):
        raise TypeError(f"a key is a text or an integer, not {key!r}")
    return _api.tn_key(text=None, number=key.__index__())


def _read_key(key):
    return key.number if key.text is None else key.text.decode()


class _Keyed:
    """A C list of keys with their arrays, which it keeps."""

    def __init__(self, values, priority, convert):
        if not isinstance(values, Mapping):
            raise TypeError("expected a dict from keys to arrays, not a "
                            f"{type(values).__name__}")
        self.kept, items = [], []
        for key, arrays in values.items():
            arrays = list(arrays) if isinstance(arrays, (list, tuple)) and any(
                isinstance(each, _core.Array) for each in arrays) else [arrays]
            arrays = [convert(each) for each in arrays]
            handles = (ctypes.c_void_p * len(arrays))(*[each._handle for each in arrays])
            self.kept.append((arrays, handles))
            items.append(_api.tn_keyed(
                key=_make_key(key), arrays=handles, n=len(arrays),
                priority=priority.get(key, 0) if isinstance(priority, dict) else priority))
        self.list, self.n = _values.make_list(_api.tn_keyed, items), len(items)


def _check_target(value):
    if not isinstance(value, _core.Array):
        raise TypeError(f"a pull copies into arrays, not into a {type(value).__name__}")
    return value


def _drop_updater(number):
    _updaters.pop(number, None)


class KVStore:
    """A key-value store of the kind "local", "device", "dist_sync" or "dist_async".

    Keys are texts or integers. Functions get a dict from keys to an array, or to a list of arrays,
    one for each device. `priority` is a number, or a dict of numbers: keys with higher ones are
    scheduled first. Nothing waits, except `barrier` and the states.

        store = tn.KVStore("device")
    """

    def __init__(self, kind="local", group=None, bucket_bytes=0, owner_bytes=0):
        options = _api.tn_kvstore_options(group=group, bucket_bytes=bucket_bytes,
                                          owner_bytes=owner_bytes)
        self._handle = Handle(make("tn_kvstore_create", _core.runtime_handle(), encode(kind),
                                   options), "tn_kvstore_release")
        self._running = threading.local()  # its `errors`: of an updater, in a call of this thread

    def _do(self, function, *arguments):
        errors = self._running.errors = []
        try:
            return getattr(_api, function)(self._handle.address, *arguments)
        finally:
            self._running.errors = None
            if errors:
                raise errors[0]

    @property
    def kind(self) -> str:
        """The kind of the store."""
        return self._do("tn_kvstore_kind")

    @property
    def rank(self) -> int:
        """Number of this process among those that share the store; 0 for kinds of one."""
        return self._do("tn_kvstore_rank")

    @property
    def size(self) -> int:
        """Number of processes that share the store."""
        return self._do("tn_kvstore_size")

    def barrier(self) -> None:
        """Waits until all processes have called it."""
        self._do("tn_kvstore_barrier")

    # ---------------------------------------------------------------- values

    def init(self, values: dict, priority=0) -> None:
        """Adds keys with a copy of their array each.

            store.init({"weight": w, 3: b})
        """
        keyed = _Keyed(values, priority, _make_array)
        self._do("tn_kvstore_init", keyed.list, keyed.n)

    def push(self, values: dict, priority=0) -> None:
        """Sums the arrays of each key, and updates its value.

            store.push({"weight": [g0, g1]})
        """
        keyed = _Keyed(values, priority, _make_array)
        self._do("tn_kvstore_push", keyed.list, keyed.n)

    def pull(self, out: dict, priority=0) -> None:
        """Copies the value of each key into its arrays.

            store.pull({"weight": [w0, w1]})
        """
        keyed = _Keyed(out, priority, _check_target)
        self._do("tn_kvstore_pull", keyed.list, keyed.n)

    def push_pull(self, values: dict, out=None, priority=0) -> None:
        """push, then pull, in one step; without `out` into the pushed arrays."""
        pushed = _Keyed(values, priority, _make_array if out else _check_target)
        pulled = _Keyed(out or values, priority, _check_target)
        self._do("tn_kvstore_push_pull", pushed.list, pushed.n, pulled.list, pulled.n)

    def broadcast(self, values: dict, out, priority=0) -> None:
        """init, then pull, in one step: all devices and processes begin with the same values."""
        added = _Keyed(values, priority, _make_array)
        pulled = _Keyed(out, priority, _check_target)
        self._do("tn_kvstore_broadcast", added.list, added.n, pulled.list, pulled.n)

    # -------------------------------------------------------------- updaters

    def set_optimizer(self, name: str, **params) -> None:
        """Lets an operator update the values; a second call changes parameters, and keeps states.

            store.set_optimizer("optim.adam_update", lr=0.001)
        """
        self._do("tn_kvstore_set_optimizer", encode(name), _values.format_params(params).encode())

    def set_updater(self,
                    update: Callable[[str | int, _core.Array, _core.Array], None] | None) -> None:
        """Lets a function update the values: update(key, received, value) changes the array
        `value` by the sum `received`. None: the sum becomes the value.

            store.set_updater(lambda key, sum, value: tn.ops.elemwise.add(value, sum, out=value))
        """
        if update is None:
            self._do("tn_kvstore_set_updater", _api.tn_kvstore_update(), None, _drop)
            return
        running = self._running

        def call(_, key, received, value):
            try:
                update(_read_key(key.contents), *[_core.wrap_array(_api.tn_array_retain(each))
                                                  for each in (received, value)])
            except BaseException as error:
                if getattr(running, "errors", None) is not None:
                    running.errors.append(error)
                text = f"the updater raised {type(error).__name__}: {error}"
                return _api.tn_fail(_api.TN_INVALID, b"%s", ctypes.c_char_p(
                    text.encode().replace(b"\0", b" ")))
            return _api.TN_OK

        number = next(_numbers)
        _updaters[number] = _api.tn_kvstore_update(call)
        try:
            self._do("tn_kvstore_set_updater", _updaters[number], number, _drop)
        except BaseException:
            _drop_updater(number)
            raise

    def save_states(self, path: str | os.PathLike) -> None:
        """Writes the states of the operator to a .npz or .safetensors."""
        self._do("tn_kvstore_save_states", encode(os.fspath(path)))

    def load_states(self, path: str | os.PathLike) -> None:
        """Reads the file of save_states."""
        self._do("tn_kvstore_load_states", encode(os.fspath(path)))

    def __repr__(self):
        return f"<KVStore {self.kind}, rank {self.rank} of {self.size}>"


_drop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_drop_updater)
