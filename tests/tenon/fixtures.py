# SPDX-License-Identifier: Apache-2.0
"""The files that golden cases refer to, made anew for every case."""
import json
import pathlib
import struct
import zipfile


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
    numbers = floats(1, 2, 3, 4, 5, 6)
    (folder / "matrix.npy").write_bytes(npy("<f4", (2, 3), numbers))
    (folder / "counts.npy").write_bytes(
        npy("<i4", (2,), struct.pack("<2i", 1, 2)))
    (folder / "columns.npy").write_bytes(
        npy("<f8", (2, 2), struct.pack("<4d", 1, 3, 2, 4), True, 2))
    (folder / "truncated.npy").write_bytes(npy("<f4", (2, 3), numbers[:10]))
    (folder / "big-endian.npy").write_bytes(
        npy(">f4", (1,), struct.pack(">f", 1.5)))
    (folder / "text.npy").write_text("1 2 3\n4 5 6\n")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def safetensors(arrays):
    """The bytes of a .safetensors file: {name: (shape, values)}, all f32."""
    header, data = {}, b""
    for name, (shape, values) in arrays.items():
        begin, data = len(data), data + floats(*values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def make_bundles(folder):
    """Files of several arrays, and of a graph's weights."""
    two = {"first": npy("<f4", (2,), floats(1, -2)),
           "a:b": npy("<f4", (2,), floats(3, -4))}
    with zipfile.ZipFile(folder / "two.npz", "w") as made:
        for name, content in two.items():
            made.writestr(name + ".npy", content)
    (folder / "two.safetensors").write_bytes(
        safetensors({"layer/kernel:0": ([2], [5, -6]), "bias": ([1], [7])}))
    with zipfile.ZipFile(folder / "weights.npz", "w") as made:
        made.writestr("shift.npy", npy("<f4", (1, 3), floats(1, 2, 3)))
        made.writestr("spare.npy", npy("<f4", (1,), floats(9)))
    (folder / "dense.safetensors").write_bytes(safetensors(
        {"fc_weight": ([2, 3], [1, 0, -1, 2, 1, 0]), "fc_bias": ([2], [0, 1]),
         "bn_gamma": ([2], [1, 1]), "bn_beta": ([2], [0, 0])}))


def note_hash(data):
    """tn_note.manifest_hash, as note-format.md describes it."""
    most, h = 2 ** 64 - 1, 0x9e3779b97f4a7c15
    for i in range(0, len(data), 8):
        word = int.from_bytes(data[i:i + 8], "little")
        h = (h ^ word) * 0xff51afd7ed558ccd & most
        h = (h << 29 | h >> 35) & most
    h ^= len(data)
    for _ in range(2):
        h = (h ^ h >> 32) * 0xe9846af9b1a615d & most
    return h ^ h >> 28


def make_hostile(plugin):
    """A copy with other words in its note: sequences that a terminal obeys,
    marks that reverse text, a line that looks like one of the command."""
    data = bytearray(plugin)
    head = data.index(b"Tenon\0\0\0") + 8
    size, = struct.unpack_from("<I", data, head + 8)
    tables, = struct.unpack_from("<Q", data, head + 40)
    begin = head + size
    for word, other in (
            (b"Element-wise arithmetic and functions",
             "a\n  this host   loads it".encode()),
            (b"Sum of two arrays of equal shape",
             b"\x1b]0;title\x07\x1b[2J\xc2\x9b31m\x7f"),
            (b"Natural logarithm", "\u202egnp.\n\u200b".encode())):
        at = data.index(word, begin)
        data[at:at + len(word)] = other.ljust(len(word), b"\xff")
    struct.pack_into("<Q", data, head + 32,
                     note_hash(data[begin:begin + tables]))
    return bytes(data)


def make_plugins(folder, plugin):
    (folder / "empty.so").write_bytes(b"")
    (folder / "text.so").write_text("This is not a plugin.\n")
    good = plugin.read_bytes()
    (folder / "truncated.so").write_bytes(good[:4096])
    other = bytearray(good)
    struct.pack_into("<H", other, 18, 183 if other[18] == 62 else 62)
    (folder / "other-machine.so").write_bytes(other)
    (folder / "hostile.so").write_bytes(make_hostile(good))


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
    (folder / "requiring").mkdir()
    (folder / "requiring" / "crc32.yaml").write_text(crc32)
    (folder / "requiring" / "plugin.yaml").write_text(
        "opgen: 1\nplugin: zlib\nrelease: 1\nsummary: Checksums\n"
        "license: Apache-2.0\noperators: [crc32.yaml]\n"
        "requires: {elemwise: \">=99\", nn: \">=2\"}\n")
    make_families(folder / "families", crc32)


def make_families(folder, crc32):
    """A plugin whose operators have two families or none."""
    families = {"crc": "linear codes", "plain": None, "sum": "sums",
                "check": "linear codes"}
    folder.mkdir()
    for name, family in families.items():
        op = f"op: {name}" + (f"\nfamily: {family}" if family else "")
        (folder / f"{name}.yaml").write_text(crc32.replace("op: crc32", op))
    (folder / "plugin.yaml").write_text(
        "opgen: 1\nplugin: codes\nrelease: 1\nsummary: Checksums\n"
        "license: Apache-2.0\n"
        f"operators: [{', '.join(f'{name}.yaml' for name in families)}]\n")


def node(name, op=None, inputs=(), **more):
    """A variable, or a call, as a graph's file has it."""
    kind = {"kind": "call", "op": op, "inputs": [[i, 0] for i in inputs]}
    return {"name": name, **(kind if op else {"kind": "variable"}), **more}


def make_graphs(folder):
    net = {"tenon": 1, "plugins": [], "nodes": [
        node("data"), node("shift", shape=[None, 3]),
        node("curve", "elemwise.quadratic@1", [0], params="a=1 b=2"),
        node("moved", "elemwise.add@1", [2, 1]),
        node("gate", "elemwise.sigmoid@1", [3]),
        node("out", "elemwise.mul@1", [3, 4])], "heads": [[5, 0]]}
    (folder / "net.json").write_text(json.dumps(net, indent=1))
    make_model(folder / "model", net)
    groups = {2: "left", 4: "right"}
    for i, name in groups.items():
        net["nodes"][i]["attributes"] = {"group": name}
    (folder / "placed.json").write_text(json.dumps(net, indent=1))
    for i in groups:
        del net["nodes"][i]["attributes"]
    net["nodes"][2]["op"] = "far.away@3"
    net["plugins"] = [{"name": "far", "release": 4, "hash": "12"}]
    (folder / "lost.json").write_text(json.dumps(net, indent=1))
    net["nodes"][2]["op"] = "elemwise.quadratik@1"
    (folder / "misspelt.json").write_text(
        json.dumps({**net, "plugins": []}, indent=1))
    net["nodes"][2]["op"] = "elemwise.quadratic@9"
    (folder / "newer.json").write_text(
        json.dumps({**net, "plugins": []}, indent=1))
    (folder / "broken.json").write_text('{"tenon": 1,\n "nodes": [7]}')


def make_model(folder, net):
    """A folder with a graph and its weights."""
    folder.mkdir()
    (folder / "graph.json").write_text(json.dumps(net, indent=1))
    (folder / "weights.safetensors").write_bytes(
        safetensors({"shift": ([1, 3], [1, 2, 3])}))


def make_trained(folder):
    """A graph with weights, states and a label."""
    net = {"tenon": 1, "plugins": [], "nodes": [
        node("data"), node("fc_weight"), node("fc_bias"),
        node("fc", "nn.fully_connected@1", [0, 1, 2], params="num_hidden=2"),
        node("bn_gamma"), node("bn_beta"), node("bn_mean"), node("bn_var"),
        node("bn", "nn.batch_norm@1", [3, 4, 5],
             params="momentum=0.5 fix_gamma=True"),
        node("label"),
        node("loss", "nn.softmax_output@1", [8, 9])], "heads": [[10, 0]]}
    net["nodes"][8]["states"] = [[6, 0], [7, 0]]
    (folder / "trained.json").write_text(json.dumps(net, indent=1))


def make_runs(folder):
    """Graphs that run as one step, and graphs with graphs as nodes."""
    one = {"tenon": 1, "plugins": [], "nodes": [
        node("x"), node("y", "elemwise.relu@1", [0])], "heads": [[1, 0]]}
    (folder / "one.json").write_text(json.dumps(one))
    inner = {"nodes": [node("u"), node("v", "elemwise.relu@1", [0]),
                       node("w", "elemwise.add@1", [1, 1])], "heads": [[2, 0]]}
    nested = {"tenon": 1, "plugins": [], "nodes": [
        node("x"), {"name": "g", "kind": "graph", "inputs": [[0, 0]],
                    "graph": inner}], "heads": [[1, 0]]}
    (folder / "nested.json").write_text(json.dumps(nested))


def make_search_folder(folder):
    """A folder of a search path: no other user may write to it."""
    folder.mkdir(mode=0o755)
    (folder / "broken.so").write_text("This is not a plugin.\n")
    (folder / "empty.so").write_bytes(b"")


def make_all(folder, plugin):
    """`plugin` is a built plugin, of which damaged copies are made."""
    make_arrays(folder)
    make_bundles(folder)
    make_graphs(folder)
    make_trained(folder)
    make_runs(folder)
    make_plugins(folder, plugin)
    make_search_folder(folder / "refused")
    make_manifests(folder / "bound", CRC32.read_text())
