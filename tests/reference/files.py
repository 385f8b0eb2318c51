#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of arrays in tests/fuzz/seeds, which tests/exchange reads.

    files.py SEEDS

The .npy and .npz files are NumPy's own (made with NumPy 1.24.2, Python 3.11,
zlib 1.2.13); one zip is put together here, because zipfile uses the large form
of the directory for large files only. The .safetensors files are put together
after the description of the format: eight bytes of length, JSON, elements.
"""

import json
import pathlib
import struct
import sys
import zlib

import numpy as np

SEEDS = pathlib.Path(sys.argv[1])
MATRIX = np.array([[1, 2, 3], [4, 5, 6.5]])


def npy(name, array, version=(1, 0)):
    """A .npy of this format version."""
    path = SEEDS / "npy" / f"{name}.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    return path.read_bytes()


def safetensors(name, arrays, metadata=None, padding=b""):
    """arrays: (name, dtype, shape, bytes), one after the other."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for key, dtype, shape, data in arrays:
        header[key] = {"dtype": dtype, "shape": shape,
                       "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode() + padding
    body = b"".join(data for *_, data in arrays)
    (SEEDS / "safetensors" / f"{name}.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + body)


def zip64(name, member, data):
    """A zip of one stored member, with every size in a zip64 field."""
    full, at = 0xffffffff, 0
    crc, n, key = zlib.crc32(data), len(data), member.encode()
    common = struct.pack("<HHHHHIIIH", 45, 0, 0, 0, 33, crc, full, full,
                         len(key))
    sizes = struct.pack("<HHQQ", 1, 16, n, n)
    local = b"PK\3\4" + common + struct.pack("<H", len(sizes)) + key + sizes
    extra = struct.pack("<HHQQQ", 1, 24, n, n, at)
    entry = (b"PK\1\2" + struct.pack("<H", 45) + common +
             struct.pack("<HHHHII", len(extra), 0, 0, 0, 0, full) + key + extra)
    begin = len(local) + n
    end64 = begin + len(entry)
    end = (b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1,
                                   len(entry), begin) +
           b"PK\6\7" + struct.pack("<IQI", 0, end64, 1) +
           b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xffff, 0xffff, full, full,
                                   0))
    (SEEDS / "npz" / f"{name}.npz").write_bytes(local + data + entry + end)


npy("f4", MATRIX.astype("<f4"))
npy("f8_columns", np.asfortranarray(MATRIX), (2, 0))
npy("i4_big", np.array([1, -2, 70000], ">i4"), (3, 0))
npy("f8_big_columns", np.asfortranarray(MATRIX.astype(">f8")))
npy("f2_scalar", np.array(-1.5, "<f2"))
npy("u1_empty", np.zeros((0, 3), "u1"))
stored = npy("bools", np.array([True, False, True]))
np.savez(SEEDS / "npz" / "stored.npz", weight=MATRIX.astype("<f4"),
         bias=np.array(7, "<i8"), none=np.zeros((2, 0), "<u2"))
np.savez_compressed(SEEDS / "npz" / "deflated.npz",
                    ramp=np.arange(300, dtype="<i2"),
                    columns=np.asfortranarray(MATRIX))
np.savez(SEEDS / "npz" / "empty.npz")
zip64("zip64", "bools.npy", stored)
safetensors("mixed", [
    ("weight", "F32", [2, 3], MATRIX.astype("<f4").tobytes()),
    ("half", "F16", [2], np.array([0.5, -2], "<f2").tobytes()),
    ("brain", "BF16", [2], b"\x80\x3f\x00\xc0"),  # 1 and -2
    ("flags", "BOOL", [3], b"\1\0\1"),
    ("step", "I64", [], struct.pack("<q", -9)),  # not aligned
    ("none", "U16", [4, 0], b"")],
    {"format": "pt", "Größe": "\"2\"\n"}, b"   ")
safetensors("empty", [])
