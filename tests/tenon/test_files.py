# SPDX-License-Identifier: Apache-2.0
"""The files that `tenon run` and `tenon graph run` write with --out.

    test_files.py PROGRAM PLUGIN

PROGRAM is the built tenon, PLUGIN the built elemwise.so.
"""

import ast
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import fixtures  # noqa: E402
import tap  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
PLUGIN = pathlib.Path(sys.argv[2]).resolve()
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)


def tenon(*words, stdin=b""):
    """The bytes that a command prints; it must succeed without a word."""
    done = subprocess.run(
        [PROGRAM, *words], cwd=FOLDER, input=stdin, capture_output=True,
        timeout=300, check=False,
        env=dict(os.environ, TENON_PLUGIN_PATH=str(PLUGIN.parent),
                 HOME=str(FOLDER), TMPDIR=str(FOLDER)))
    tap.equal((done.returncode, done.stderr), (0, b""), "status and messages")
    tap.equal([path.name for path in FOLDER.glob("tenon-*")], [],
              "temporary files that are left")
    return done.stdout


def read_npy(content):
    """Shape and numbers of a .npy file of f32."""
    tap.equal(content[:8], b"\x93NUMPY\x01\x00", "magic of a .npy")
    length = struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:10 + length].decode())
    tap.equal((header["descr"], header["fortran_order"]), ("<f4", False), "header")
    data = content[10 + length:]
    return header["shape"], list(struct.unpack(f"<{len(data) // 4}f", data))


def read_npz(path):
    with zipfile.ZipFile(path) as archive:
        return {name: read_npy(archive.read(name)) for name in archive.namelist()}


def one_result_becomes_a_npy():
    said = tenon("run", "elemwise.quadratic", "[[1,2],[3,4]]", "a=1", "b=2", "c=3",
                 "--out", "y.npy")
    tap.equal(said, b"", "output")
    tap.equal(read_npy((FOLDER / "y.npy").read_bytes()),
              ((2, 2), [6, 11, 18, 27]), "y.npy")


def a_file_is_replaced():
    for scale in (1, 2):
        tenon("run", "elemwise.quadratic", "[1]", f"a={scale}", "--out", "again.npy")
    tap.equal(read_npy((FOLDER / "again.npy").read_bytes()), ((1,), [2]), "again.npy")


def several_results_become_a_npz():
    tenon("run", "elemwise.mul", "[2,3]", "[5,-7]", "--grad", "--out", "all.npz")
    tap.equal(read_npz(FOLDER / "all.npz"),
              {"out.npy": ((2,), [10, -21]), "grad.lhs.npy": ((2,), [5, -7]),
               "grad.rhs.npy": ((2,), [2, 3])}, "all.npz")


def several_results_become_a_safetensors():
    tenon("run", "elemwise.mul", "[2]", "[5]", "--grad", "--out", "all.safetensors")
    content = (FOLDER / "all.safetensors").read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    tap.equal(sorted(header), ["grad.lhs", "grad.rhs", "out"], "names")
    begin, end = header["grad.rhs"]["data_offsets"]
    tap.equal(struct.unpack("<f", content[8 + length:][begin:end]), (2,), "grad.rhs")


def standard_output_gets_a_npy_that_standard_input_takes():
    made = tenon("run", "elemwise.relu", "[1,-2,3]", "--out", "-")
    tap.equal(read_npy(made), ((3,), [1, 0, 3]), "standard output")
    tap.equal(tenon("run", "elemwise.add_scalar", "@-", "scalar=1", stdin=made),
              b"[2, 1, 4]\n", "output")


def a_graph_writes_its_heads():
    tenon("graph", "run", "net.json", "data=ones(1,3)", "weights.npz",
          "--out", "heads.npz")
    found = read_npz(FOLDER / "heads.npz")
    tap.equal(list(found), ["out_output.npy"], "names")
    shape, values = found["out_output.npy"]
    tap.equal(shape, (1, 3), "shape")
    # y = sigmoid(z)*z for z = 1 + 2 + (1, 2, 3)
    for value, right in zip(values, (3.928055160, 4.966535745, 5.985164261)):
        assert abs(value - right) < 1e-6, values


def a_profile_is_printed_beside_a_file():
    said = tenon("run", "elemwise.relu", "[1]", "--out", "p.npy", "--profile")
    assert said.startswith(b"OPERATOR") and b"elemwise.relu@1" in said, said


def profile_of(*words):
    """{operator: calls} of `tenon graph run`."""
    said = tenon("graph", "run", *words, "--profile", "--json")
    return {row["operator"]: row["calls"] for row in json.loads(said)["profile"]}


def a_profile_counts_no_step_twice():
    tap.equal(profile_of("one.json", "x=[1,-2]"), {"elemwise.relu@1": 1}, "one step")
    tap.equal(profile_of("nested.json", "x=[1,-2]"),
              {"elemwise.relu@1": 1, "elemwise.add@1": 1}, "a graph in a graph")
    big = "zeros(30000,3)"  # calls are fused where this saves memory traffic
    tap.equal(profile_of("net.json", f"data={big}", f"shift={big}"),
              {"elemwise.quadratic@1 + elemwise.add@1 + elemwise.sigmoid@1 + "
               "elemwise.mul@1": 1}, "fused calls")


def a_trace_and_a_profile_are_one_recording():
    said = tenon("run", "elemwise.relu", "[1]", "--trace", "t.json", "--profile")
    assert b"elemwise.relu@1  1" in said, said
    spans = json.loads((FOLDER / "t.json").read_text())["traceEvents"]
    assert any(span["name"] == "elemwise.relu@1" for span in spans), spans


if __name__ == "__main__":
    with SCRATCH:
        fixtures.make_all(FOLDER, PLUGIN)
        tap.run([one_result_becomes_a_npy, a_file_is_replaced,
                 several_results_become_a_npz,
                 several_results_become_a_safetensors,
                 standard_output_gets_a_npy_that_standard_input_takes,
                 a_graph_writes_its_heads, a_profile_is_printed_beside_a_file,
                 a_profile_counts_no_step_twice,
                 a_trace_and_a_profile_are_one_recording])
