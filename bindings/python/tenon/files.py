# SPDX-License-Identifier: Apache-2.0
"""Files of arrays: .npy and .npz of NumPy, and .safetensors.

    tn.save("weights.safetensors", {"fc1_weight": w}, metadata={"epoch": 3})
    weights = tn.load_arrays("weights.safetensors")
"""

from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import itertools
import os

from tenon import _api, _core, _errors, _values
from tenon._binding import encode
from tenon._objects import Handle, make
from tenon.program import _make_array


def save(path: str | os.PathLike, arrays: object, compress: bool = False,
         metadata: dict | None = None) -> None:
    """Writes a dict of arrays, or one array, in the format that the end of the name selects.

    The file appears when it is complete. `compress` is for .npz; `metadata`, a dict, for
    .safetensors. NumPy arrays and lists are accepted too.

        tn.save("weights.npz", {"w": w, "b": b})
    """
    if not isinstance(arrays, collections.abc.Mapping):
        arrays = {"": arrays}
    kept = {name: _make_array(each) for name, each in arrays.items()}
    items = _values.make_list(_api.tn_bundle_item, [
        _api.tn_bundle_item(name=encode(name), array=each._handle)
        for name, each in kept.items()])
    pairs = _values.make_list(_api.tn_bundle_pair, [
        _api.tn_bundle_pair(key=encode(key), value=encode(str(value)))
        for key, value in (metadata or {}).items()])
    content = _api.tn_bundle_content(
        flags=_api.TN_BUNDLE_DEFLATE if compress else 0, items=items, n_items=len(kept),
        metadata=pairs, n_metadata=len(metadata or ()))
    _api.tn_bundle_save(_core.runtime_handle(), encode(os.fspath(path)), content)


def load_arrays(path: str | os.PathLike, map_pages: bool = False) -> dict[str, _core.Array]:
    """Reads all arrays of a file, as a dict. The array of a .npy has the name "".

    With `map_pages`, arrays are the pages of the file where its format allows that, and are read
    when they are used; the file must not become shorter meanwhile.

        weights = tn.load_arrays("weights.npz")
    """
    with ArrayFile(path, map_pages) as file:
        return dict(file)


def load_array(path: str | os.PathLike, name: str | None = None,
               map_pages: bool = False) -> _core.Array:
    """Reads one array of a file: that of this name, or the only one.

        x = tn.files.load_array("x.npy")
    """
    with ArrayFile(path, map_pages) as file:
        return file._read(None if name is None else encode(name))


class ArrayFile(collections.abc.Mapping):
    """An opened file of arrays: a mapping from names to arrays, each read when it is requested.

        with tn.files.ArrayFile("model.safetensors") as file:
            print(file.metadata, file.shapes)
            w = file["fc1_weight"]
    """

    def __init__(self, path, map_pages=False):
        self._handle = Handle(make("tn_bundle_open", _core.runtime_handle(),
                                   encode(os.fspath(path))), "tn_bundle_close")
        self._flags = _api.TN_BUNDLE_MAP if map_pages else 0
        self._entries = {}  # by name: (shape, element type)
        entry = _api.tn_bundle_entry()
        for i in range(_api.tn_bundle_size(self._handle.address)):
            _api.tn_bundle_at(self._handle.address, i, ctypes.byref(entry))
            self._entries[entry.name.decode()] = (
                tuple(entry.shape[:entry.ndim]) if entry.ndim else (),
                _api.tn_dtype_name(entry.dtype))

    def _get_address(self):
        if self._handle is None:
            raise ValueError("the file of arrays is closed; open it again")
        return self._handle.address

    def _read(self, name):
        return _core.wrap_array(make("tn_bundle_get", self._get_address(), name, self._flags))

    def __getitem__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"the name of an array is a text, not {name!r}")
        return self._read(encode(name))

    def __contains__(self, name):
        return name in self._entries

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """A dict from names to shapes."""
        return {name: each[0] for name, each in self._entries.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """A dict from names to names of element types."""
        return {name: each[1] for name, each in self._entries.items()}

    @property
    def metadata(self) -> dict[str, str]:
        """The texts of a .safetensors, a dict."""
        found, pair = {}, _api.tn_bundle_pair()
        with contextlib.suppress(_errors.NotFoundError):
            for i in itertools.count():
                _api.tn_bundle_pair_at(self._get_address(), i, ctypes.byref(pair))
                found[pair.key.decode()] = pair.value.decode()
        return found

    def close(self) -> None:
        """Closes the file; arrays that were read stay valid."""
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<ArrayFile of {len(self)} arrays: {', '.join(itertools.islice(self, 4))}>"
