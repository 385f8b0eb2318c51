# SPDX-License-Identifier: Apache-2.0
"""The files that golden cases refer to, made anew for every case."""
import pathlib
import struct


CRC32 = (pathlib.Path(__file__).resolve().parents[2] /
         "examples" / "zlib" / "crc32.yaml")


def npy(descr, shape, elements, fortran=False, version=1):
    """The bytes of a .npy file, after the description of the format."""
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n" % (
        descr, fortran, shape)
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return (b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() +
            elements)


def make_arrays(folder):
    floats = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    (folder / "matrix.npy").write_bytes(npy("<f4", (2, 3), floats))
    (folder / "columns.npy").write_bytes(
        npy("<f8", (2, 2), struct.pack("<4d", 1, 3, 2, 4), True, 2))
    (folder / "truncated.npy").write_bytes(npy("<f4", (2, 3), floats[:10]))
    (folder / "big-endian.npy").write_bytes(
        npy(">f4", (1,), struct.pack(">f", 1.5)))
    (folder / "text.npy").write_text("1 2 3\n4 5 6\n")


def make_plugins(folder, plugin):
    (folder / "empty.so").write_bytes(b"")
    (folder / "text.so").write_text("This is not a plugin.\n")
    good = plugin.read_bytes()
    (folder / "truncated.so").write_bytes(good[:4096])
    other = bytearray(good)
    struct.pack_into("<H", other, 18, 183 if other[18] == 62 else 62)
    (folder / "other-machine.so").write_bytes(other)


def make_manifests(folder, crc32):
    """Copies of a good binding, each in a folder that names its plugin."""
    folder.mkdir()
    data = "{c: const uint8*, pass: data}"
    size = "{c: uint32, pass: size(data)}"
    for name, text in (
            ("swapped", crc32.replace(data, "?").replace(size, data)
             .replace("?", size)),
            ("mistaken", crc32.replace("uint32", "uint")),
            ("missing", crc32.replace("libz.so.1", "libnowhere.so.7")),
            ("untrue", crc32.replace("3421780262", "3421780263")),
            ("narrow", crc32.replace("uint32", "uint8"))):
        (folder / name).mkdir()
        (folder / name / "crc32.yaml").write_text(text)


def make_search_folder(folder):
    """A folder of a search path: nobody else may write to it."""
    folder.mkdir(mode=0o755)
    (folder / "broken.so").write_text("This is not a plugin.\n")
    (folder / "empty.so").write_bytes(b"")


def make_all(folder, plugin):
    """`plugin` is a built plugin, of which damaged copies are made."""
    make_arrays(folder)
    make_plugins(folder, plugin)
    make_search_folder(folder / "refused")
    make_manifests(folder / "bound", CRC32.read_text())
