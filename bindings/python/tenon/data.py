# SPDX-License-Identifier: Apache-2.0
"""Batches of training data, and files of records.

    examples = tn.data.from_arrays([images, labels], batch=64, shuffle=True, seed=1)
    for epoch in range(5):
        for batch in examples:
            program.forward(train=True, data=batch.data, label=batch.label)
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import threading

from tenon import _api, _core, _errors, _values
from tenon._binding import encode
from tenon._objects import Handle, make, read_text
from tenon.program import _make_array

_LAST = {"pad": 0, "discard": 1, "roll": 2}
_NO_PREFETCH = 0xffffffff  # TN_NO_PREFETCH


class Batch(collections.namedtuple("Batch", "arrays pad index number epoch")):
    """One batch: `arrays` has an array for each field of the examples.

    The last `pad` examples only fill the batch; `index` is a NumPy array with the number of each
    example in the data set; `number` is that of the batch in its epoch.
    """

    __slots__ = ()

    @property
    def data(self) -> _core.Array:
        """The first field."""
        return self.arrays[0]

    @property
    def label(self) -> _core.Array | None:
        """The second field, or None."""
        return self.arrays[1] if len(self.arrays) > 1 else None


def _make_options(batch, last, shuffle, seed, part, n_parts, prefetch, skip_damaged, place):
    if last not in _LAST:
        raise ValueError(f"last={last!r} is none of {', '.join(_LAST)}")
    for name, value in (("batch", batch), ("part", part), ("n_parts", n_parts)):
        if not 0 <= value < 1 << 32:
            raise ValueError(f"{name}={value} is not between 0 and 2^32 - 1")
    return _api.tn_data_options(
        batch=batch, last=_LAST[last], shuffle=bool(shuffle), seed=seed, part=part,
        n_parts=n_parts, prefetch=_NO_PREFETCH if prefetch == 0 else prefetch or 0,
        on_damage=_api.TN_DAMAGE_SKIP if skip_damaged else _api.TN_DAMAGE_STOP,
        place=_values.make_place(_core.runtime_handle(), place))


def from_arrays(fields, batch: int = 1, **settings) -> DataSet:
    """Batches of arrays: each has the examples along its first dimension. DataSet describes the
    settings.

        tn.data.from_arrays([x, y], batch=32, shuffle=True)
    """
    fields = list(fields) if isinstance(fields, (list, tuple)) else [fields]
    kept = [_make_array(each) for each in fields]
    handles = (ctypes.c_void_p * max(1, len(kept)))(*[each._handle for each in kept])
    return DataSet._open("tn_data_from_arrays", (handles, len(kept)), batch, **settings)


def open_file(path: str | os.PathLike, kind: str, params: dict | None = None, batch: int = 1,
              **settings) -> DataSet:
    """Batches of a file of the kind "csv", "libsvm", "idx", "records" or "images"; `params` is a
    dict of the parameters of the kind (docs/reference/data.md). DataSet describes the settings.

        tn.data.open_file("train.csv", "csv", {"label": [0]}, batch=64)
    """
    file = _api.tn_data_file(path=encode(os.fspath(path)), kind=encode(kind),
                             params=_values.format_params(params or {}))
    return DataSet._open("tn_data_open", (file,), batch, **settings)


class DataSet:
    """Examples in batches; from_arrays and open_file make it.

    - `batch`: number of examples. `last`: a last batch that is not full is filled ("pad"), left
      out ("discard"), or begins the next epoch ("roll").
    - `shuffle`, `seed`: a random order, which depends on the seed and the epoch only.
    - `part`, `n_parts`: this process reads one of several parts.
    - `prefetch`: batches that are prepared in advance (default 2, 0: none).
    - `skip_damaged`: leaves damaged examples of a file out. `place`: the device of the batches.
    - `reuse`: the arrays of a batch are filled again by the next one. Without it they are copies.

    Each loop over it is an epoch. A loop after `restore` continues at that position.
    """

    @classmethod
    def _open(cls, function, arguments, batch, last="pad", shuffle=False, seed=0, part=0,
              n_parts=0, prefetch=None, skip_damaged=False, place="cpu", reuse=False):
        options = _make_options(batch, last, shuffle, seed, part, n_parts, prefetch,
                                skip_damaged, place)
        made = cls.__new__(cls)
        made._handle = Handle(make(function, _core.runtime_handle(), *arguments, options),
                              "tn_data_release")
        made._place, made._reuse, made._lock = options.place, reuse, threading.RLock()
        made._is_at_start = True  # a loop begins at the current position
        return made

    def __init__(self):
        raise TypeError("make a data set by tn.data.from_arrays or tn.data.open_file")

    def _do(self, function, *arguments):
        with self._lock:
            return getattr(_api, function)(self._handle.address, *arguments)

    def next_batch(self) -> Batch | None:
        """Waits for the next batch of the epoch; None at its end."""
        found = _api.tn_batch()
        with self._lock:
            self._is_at_start = False
            self._do("tn_data_next", ctypes.byref(found))
            if not found.n_arrays:
                return None
            arrays = [self._take(each) for each in found.arrays[:found.n_arrays]]
            return Batch(arrays, found.pad, self._read_index(found), found.number, found.epoch)

    def _take(self, address):
        return _core.wrap_array(_api.tn_array_retain(address) if self._reuse
                                else make("tn_array_to", address, self._place))

    @staticmethod
    def _read_index(batch):
        import numpy
        if not batch.n_examples:
            return numpy.empty(0, numpy.uint64)
        return numpy.ctypeslib.as_array(batch.index, (batch.n_examples,)).copy()

    def rewind(self) -> None:
        """Begins the next epoch."""
        with self._lock:
            self._do("tn_data_rewind")
            self._is_at_start = True

    def __iter__(self):
        if not self._is_at_start:
            self.rewind()
        while True:
            batch = self.next_batch()
            if batch is None:
                return
            yield batch

    def __len__(self):
        return self.n_batches

    @property
    def n_examples(self) -> int:
        """Number of examples of the part."""
        return self._do("tn_data_count_examples")

    @property
    def n_batches(self) -> int:
        """Number of batches of the epoch."""
        return self._do("tn_data_count_batches")

    @property
    def n_damaged(self) -> int:
        """Number of damaged places that were left out."""
        return self._do("tn_data_count_damage")

    def save(self) -> str:
        """The position as a text, for `restore` of a data set that was opened in the same way.

            state = examples.save()
        """
        with self._lock:
            return read_text("tn_data_save", self._handle.address)

    def restore(self, state: str) -> None:
        """Goes to a position; the next loop continues there."""
        with self._lock:
            self._do("tn_data_restore", encode(state))
            self._is_at_start = True

    def __repr__(self):
        return f"<DataSet of {self.n_examples} examples in {self.n_batches} batches>"


# ------------------------------------------------------------ files of records

Record = collections.namedtuple("Record", "key data offset")
Record.__doc__ = """A record: its key, its bytes, and the byte of the file where it begins."""
Header = collections.namedtuple("Header", "labels id id2 data")
Header.__doc__ = """The head of a labelled record, and the bytes after it."""


class RecordWriter:
    """Writes a file of records, and an index. The files appear when it is closed without a
    failure.

        with tn.data.RecordWriter("train.rec", "train.idx") as file:
            file.write(0, b"...")
            file.write_labelled(1, [3.0], jpeg)
    """

    def __init__(self, path, index=None):
        self._handle = Handle(
            make("tn_record_writer_create", _core.runtime_handle(), encode(os.fspath(path)),
                 None if index is None else encode(os.fspath(index))),
            "tn_record_writer_release")
        self._lock = threading.Lock()

    def _get_address(self):
        if self._handle is None:
            raise ValueError("the file of records is closed")
        return self._handle.address

    def write(self, key: int, data: bytes) -> None:
        """Adds a record of any bytes; `key` is its number in the index."""
        data = bytes(data)
        with self._lock:
            _api.tn_record_write(self._get_address(), key, data, len(data))

    def write_labelled(self, key: int, labels: list[float], data: bytes, id2: int = 0) -> None:
        """Adds a record with a head: a label, or several."""
        labels, data = [float(each) for each in labels], bytes(data)
        made = (ctypes.c_float * max(1, len(labels)))(*labels)
        header = _api.tn_record_header(
            n_labels=0 if len(labels) == 1 else len(labels),
            label=labels[0] if len(labels) == 1 else 0, id=key, id2=id2,
            labels=None if len(labels) == 1 else made,
            data=ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), bytes=len(data))
        with self._lock:
            _api.tn_record_write_labelled(self._get_address(), key, header)

    def close(self) -> None:
        """Completes the files."""
        with self._lock:
            if self._handle is not None:
                try:
                    _api.tn_record_writer_finish(self._handle.address)
                finally:
                    self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        self._handle = None


class RecordReader:
    """Reads a file of records: a loop gives each of them, and `reader[key]` the one of a key.

        for record in tn.data.RecordReader("train.rec"):
            print(record.key, len(record.data))
    """

    def __init__(self, path, index=None, part=0, n_parts=0, skip_damaged=False):
        options = _api.tn_record_options(
            on_damage=_api.TN_DAMAGE_SKIP if skip_damaged else _api.TN_DAMAGE_STOP, part=part,
            n_parts=n_parts)
        if index is not None:
            options.index = encode(os.fspath(index))
        self._handle = Handle(make("tn_record_reader_open", _core.runtime_handle(),
                                   encode(os.fspath(path)), options), "tn_record_reader_release")
        self._lock = threading.RLock()

    def _read(self, function, *arguments):
        """The record, or None after the last."""
        found = _api.tn_record()
        with self._lock:
            getattr(_api, function)(self._handle.address, *arguments, ctypes.byref(found))
            if not found.data:
                return None
            return Record(found.key, ctypes.string_at(found.data, found.bytes), found.offset)

    def read(self) -> Record | None:
        """The next record, or None after the last."""
        return self._read("tn_record_read")

    def __getitem__(self, key):
        return self._read("tn_record_find", key)

    def __iter__(self):
        self.rewind()
        return iter(self.read, None)

    def rewind(self) -> None:
        """Goes back to the first record."""
        with self._lock:
            _api.tn_record_rewind(self._handle.address)

    def count(self) -> int:
        """Number of records; the reader needs an index."""
        count = ctypes.c_uint64()
        with self._lock:
            _api.tn_record_count(self._handle.address, ctypes.byref(count))
        return count.value

    @property
    def n_damaged(self) -> int:
        """Number of damaged places that the reader has met."""
        with self._lock:
            return _api.tn_record_count_damage(self._handle.address)

    @property
    def damage(self) -> tuple[int, int, str] | None:
        """(record, offset, reason) of the last damaged place, or None."""
        found = _api.tn_record_damage()
        with self._lock, contextlib.suppress(_errors.NotFoundError):
            _api.tn_record_damage_get(self._handle.address, ctypes.byref(found))
            return found.record, found.offset, found.reason.decode()
        return None


def read_header(data: bytes) -> Header:
    """The head of a labelled record: a Header.

        labels, key, _, jpeg = tn.data.read_header(record.data)
    """
    data = bytes(data)
    record = _api.tn_record(data=ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p),
                            bytes=len(data))
    found = _api.tn_record_header()
    _api.tn_record_header_read(record, ctypes.byref(found))
    labels = list(found.labels[:found.n_labels]) if found.n_labels else [found.label]
    return Header(labels, found.id, found.id2,
                  ctypes.string_at(found.data, found.bytes) if found.bytes else b"")
