#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/records/records_cases.inc: records, and the files that MXNet
writes of them.

    records.py LIBMXNET > records_cases.inc

LIBMXNET is libmxnet.so of the wheel that `./dev bench engine` fetches. Nothing
here knows of Tenon. The committed file was made with MXNet 1.9.1.
"""

import ctypes
import pathlib
import sys
import tempfile

MAGIC = bytes.fromhex("0a23d7ce")
CASES = {
    "empty": [b""],
    "short": [b"a", b"ab", b"abc", b"abcd", b"abcde"],
    "only the number": [MAGIC, MAGIC + MAGIC, MAGIC * 3],
    "the number first": [MAGIC + b"abcdefg"],
    "the number last": [b"abcd" + MAGIC, b"abcdefg" + MAGIC],
    "the number inside": [b"abcd" + MAGIC + b"efgh" + MAGIC + b"i"],
    "the number not at a multiple of four": [b"a" + MAGIC, b"abcde" + MAGIC],
    "half of the number": [MAGIC[:2], b"abcd" + MAGIC[:3], MAGIC[2:] + MAGIC],
}


def written(library, records):
    """The bytes of a file that MXNet writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file.rec"
        writer = ctypes.c_void_p()
        code = library.MXRecordIOWriterCreate(str(path).encode(),
                                              ctypes.byref(writer))
        for record in records:
            code |= library.MXRecordIOWriterWriteRecord(
                writer, ctypes.c_char_p(record), ctypes.c_size_t(len(record)))
        code |= library.MXRecordIOWriterFree(writer)
        assert code == 0, records
        return path.read_bytes()


def text(data):
    """A string of C."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


def main():
    library = ctypes.CDLL(sys.argv[1])
    print("/* Written by tests/reference/records.py with MXNet 1.9.1. */")
    for name, records in CASES.items():
        data = written(library, records)
        print(f'{{"{name}", {len(records)},\n {{', end="")
        print(",\n  ".join(f"{{{text(each)}, {len(each)}}}"
                           for each in records), end="},\n ")
        lines = [text(data[at:at + 16]) for at in range(0, len(data), 16)]
        print("\n ".join(lines) + f",\n {len(data)}}},")


if __name__ == "__main__":
    main()
