# SPDX-License-Identifier: Apache-2.0
"""`tenon data`: files of records against those of MXNet's im2rec (packed.json,
made by tests/reference/packed.py), and against a reader in this file.

    test_data.py PROGRAM
"""

import json
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
PACKED = json.loads(
    (pathlib.Path(__file__).resolve().parent / "packed.json").read_text())
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
MAGIC = 0xced7230a
BYTES = sum(len(each) // 2 for each in PACKED["files"].values())
HEADER = 24
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(*words):
    done = subprocess.run([PROGRAM, "data", *words], cwd=FOLDER, timeout=300,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def succeed(*words):
    """The output of a command without messages."""
    status, said, messages = run(*words)
    tap.equal((status, messages), (0, ""), " ".join(words))
    return said


def fail(status, message, *words):
    """The command fails with this status, and its message has these words."""
    found, said, messages = run(*words)
    tap.equal((found, said), (status, ""), " ".join(words))
    assert message in messages, f"{messages!r} lacks {message!r}"


def names():
    """All names in the folder, also hidden ones."""
    return sorted(path.name for path in FOLDER.iterdir())


def make_set():
    for name, content in PACKED["files"].items():
        path = FOLDER / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes.fromhex(content))


def read_records(path):
    """[(offset, bytes)] of a file of records, after the format's description."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        offset, joined = at, b""
        while True:
            magic, word = struct.unpack_from("<II", data, at)
            tap.equal(magic, MAGIC, f"{path.name}: head at {at}")
            kind, size = word >> 29, word & (1 << 29) - 1
            if kind in (2, 3):
                joined += struct.pack("<I", MAGIC)
            joined += data[at + 8:at + 8 + size]
            at += 8 + (size + 3) // 4 * 4
            if kind in (0, 3):
                break
        found.append((offset, joined))
    return found


def read_labelled(path):
    """[(id, label, data)] of records with one label."""
    found = []
    for _, record in read_records(path):
        flag, label, number, other = struct.unpack_from("<IfQQ", record)
        tap.equal((flag, other), (0, 0), "flag and id2")
        found.append((number, label, record[HEADER:]))
    return found


def expect_files(name, want):
    tap.equal((FOLDER / f"{name}.rec").read_bytes().hex(), want["records"],
              f"{name}.rec")
    tap.equal((FOLDER / f"{name}.idx").read_text(), want["index"], f"{name}.idx")


def a_folder_is_packed_as_im2rec_packs_it():
    succeed("pack", "set", "--out", "whole.rec", "--suffix", ".png")
    expect_files("whole", PACKED["whole"])


def a_list_is_packed_as_im2rec_packs_it():
    for name in ("whole", "labels"):
        (FOLDER / f"{name}.lst").write_text(PACKED[name]["list"])
        succeed("pack", "set", "--list", f"{name}.lst", "--out", f"{name}.rec")
        expect_files(name, PACKED[name])


def a_list_may_have_labels_and_paths_only():
    (FOLDER / "short.lst").write_text("3 a/x y/1.png\r\n\n-1.5\tb/1.png")
    succeed("pack", "set", "--list", "short.lst", "--out", "short.rec")
    tap.equal(read_labelled(FOLDER / "short.rec"),
              [(0, 3, b"x y"), (1, -1.5, b"b1")], "records")


def classes_are_printed():
    said = json.loads(succeed("pack", "set", "--out", "all.rec", "--json"))
    tap.equal([(each["label"], each["folder"], each["records"])
               for each in said["classes"]],
              [(0, ".", 1), (1, "a", 3), (2, "a/x y", 2), (3, "a.d", 1),
               (4, "b", 3), (5, "c/d/e", 1), (6, "empty", 1)], "classes")
    tap.equal(said["files"], [{"file": "all.rec", "index": "all.idx",
                               "records": len(PACKED["files"]),
                               "bytes": BYTES}], "files")


def hidden_files_are_left_out():
    (FOLDER / "set/.hidden").write_text("hidden")
    (FOLDER / "set/.folder").mkdir()
    (FOLDER / "set/.folder/file").write_text("hidden")
    succeed("pack", "set", "--out", "all.rec")
    shutil.rmtree(FOLDER / "set/.folder")
    (FOLDER / "set/.hidden").unlink()
    tap.equal(len(read_records(FOLDER / "all.rec")), len(PACKED["files"]), "records")


def parts_have_each_file_once():
    succeed("pack", "set", "--out", "all.rec")
    whole = read_labelled(FOLDER / "all.rec")
    for n in (2, 5, 12):
        said = json.loads(succeed("pack", "set", "--out", "p.rec", "--parts", str(n),
                                  "--json"))
        tap.equal([each["file"] for each in said["files"]],
                  [f"p_{i}.rec" for i in range(n)], "names")
        parts = [read_labelled(FOLDER / f"p_{i}.rec") for i in range(n)]
        tap.equal(sum(parts, []), whole, f"{n} parts")
        sizes = {len(each) for each in parts}
        assert max(sizes) - min(sizes) <= 1, sizes
        for i in range(n):
            offsets = [offset for offset, _ in read_records(FOLDER / f"p_{i}.rec")]
            tap.equal((FOLDER / f"p_{i}.idx").read_text(), "".join(
                f"{number}\t{offset}\n" for (number, _, _), offset
                in zip(parts[i], offsets)), f"p_{i}.idx")


def an_order_depends_on_the_seed_only():
    succeed("pack", "set", "--out", "all.rec")
    whole, orders = read_labelled(FOLDER / "all.rec"), []
    for seed in ("0", "1", "1", "18446744073709551615"):
        succeed("pack", "set", "--out", "s.rec", "--shuffle", "--seed", seed)
        orders.append(read_labelled(FOLDER / "s.rec"))
        tap.equal(sorted(orders[-1]), sorted(whole), "records")
    tap.equal(orders[1], orders[2], "order of one seed")
    tap.equal(len({tuple(order) for order in [whole, *orders]}), 4, "orders")


def every_order_of_three_files_occurs():
    """The counts of six orders in 120 seeds: chi-square with 5 degrees of
    freedom is above 20.5 once in a thousand times."""
    (FOLDER / "three.lst").write_text("0 b/1.png\n1 b/2.png\n2 b/10.png\n")
    counts = {}
    for seed in range(120):
        succeed("pack", "set", "--list", "three.lst", "--out", "t.rec",
                "--shuffle", "--seed", str(seed))
        order = tuple(number for number, _, _ in read_labelled(FOLDER / "t.rec"))
        counts[order] = counts.get(order, 0) + 1
    tap.equal(len(counts), math.factorial(3), "orders")
    assert sum((n - 20) ** 2 / 20 for n in counts.values()) < 20.5, counts


def records_are_listed():
    succeed("pack", "set", "--list", "labels.lst", "--out", "labels.rec")
    said = json.loads(succeed("list", "labels.rec", "labels.idx", "--json"))
    want = read_records(FOLDER / "labels.rec")
    tap.equal([(each["number"], each["key"], each["offset"], each["bytes"])
               for each in said["records"]],
              [(i, key, want[i][0], len(want[i][1]))
               for i, key in enumerate((7, 9, 4))], "places")
    tap.equal([each["labels"] for each in said["records"]],
              [[1.5, -2], [0.25, 3], [1e10, 0]], "labels")
    tap.equal([(each["kind"], each["begins"]) for each in said["records"]],
              [("text", b"b1".hex()), ("bytes", "0a23d7ce"), ("text", b"x y".hex())],
              "kinds")
    rows = succeed("list", "labels.rec").splitlines()
    tap.equal([row.split() for row in rows],
              [["NUMBER", "KEY", "OFFSET", "BYTES", "LABEL", "KIND", "BEGINS"],
               ["0", "0", "0", "34", "1.5", "-2", "text", "b1"],
               ["1", "1", "44", "36", "0.25", "3", "bytes", "0a23d7ce"],
               ["2", "2", "92", "35", "10000000000", "0", "text", "x", "y"]], "rows")


def write_records(name, records):
    """A file of records without the magic inside of them."""
    data = b"".join(struct.pack("<II", MAGIC, len(each)) + each +
                    bytes(-len(each) % 4) for each in records)
    (FOLDER / name).write_bytes(data)
    return data


def kinds_are_those_of_files_without_labels_too():
    kinds = {"jpeg": b"\xff\xd8\xff\xe0" + bytes(40), "empty": b"",
             "png": b"\x89PNG\r\n\x1a\n" + bytes(40), "gzip": b"\x1f\x8b\x08" * 20,
             "npy": b"\x93NUMPY" + b"\1" * 40, "text": b"many words of a text " * 9,
             "zip": b"PK\x03\x04" * 30, "bytes": b"\1\2\3"}
    write_records("kinds.rec", kinds.values())
    said = json.loads(succeed("list", "kinds.rec", "--json"))
    tap.equal([(each["kind"], each["labels"], each["id"]) for each in said["records"]],
              [(kind, None, None) for kind in kinds], "kinds")
    label = struct.pack("<IfQQ", 2, 0, 5, 0) + struct.pack("<2f", math.inf, 1)
    write_records("kinds.rec", [label + kinds["jpeg"]])
    said = json.loads(succeed("list", "kinds.rec", "--json"))["records"][0]
    tap.equal((said["kind"], said["labels"], said["id"]),
              ("jpeg", ["inf", 1], 5), "with labels")


def hostile_text_is_escaped():
    write_records("kinds.rec", [b"\x1b[2Ja\nb"])
    said = succeed("list", "kinds.rec")
    assert "\x1b" not in said and len(said.splitlines()) == 2, said


def a_sound_file_has_no_damage():
    succeed("pack", "set", "--out", "all.rec")
    n = len(PACKED["files"])
    for words in (["all.rec"], ["all.rec", "all.idx"]):
        tap.equal(succeed("check", *words), f"all.rec: {n} records with "
                  f"{BYTES + n * HEADER} bytes, no damage\n", str(words))
        said = json.loads(succeed("check", *words, "--json"))
        tap.equal(said, {"file": "all.rec", "records": n,
                         "bytes": BYTES + n * HEADER, "damage": []}, str(words))


def damage_is_reported_with_record_offset_and_reason():
    data = bytearray(write_records(
        "bad.rec", [b"one!", b"two", b"three", b"four", b"five"]))
    data[12] ^= 1  # the magic of "two"
    data[40 + 7] = 0xe0  # the kind of "four"
    (FOLDER / "bad.rec").write_bytes(data[:-4])
    want = [(1, 12, "no record begins here"),
            (2, 40, "the head of a record has an unknown kind"),
            (2, 52, "the file ends inside of the record")]
    for word in ("check", "list"):
        status, said, messages = run(word, "bad.rec", "--json")
        tap.equal((status, messages), (1, ""), word)
        said = json.loads(said)
        tap.equal([(each["record"], each["offset"], each["reason"])
                   for each in said["damage"]], want, word)
    tap.equal(len(said["records"]), 2, "records that are listed")
    status, said, messages = run("check", "bad.rec")
    tap.equal((status, messages), (1, ""), "check")
    lines = said.splitlines()
    tap.equal([line.split(None, 2) for line in lines[1:4]],
              [[str(n), str(at), reason] for n, at, reason in want], "rows")
    assert lines[4].startswith("bad.rec: 2 records with 9 bytes, 3 damaged places; "
                               "pack the file again"), lines


def an_index_that_does_not_fit_is_reported():
    write_records("own.rec", [b"one!", b"twotwo!!", b"four"])
    (FOLDER / "own.idx").write_text("0\t0\n1\t20\n")
    status, said, messages = run("check", "own.rec", "own.idx", "--json")
    tap.equal((status, messages), (1, ""), "check")
    tap.equal([(each["record"], each["offset"], each["reason"])
               for each in json.loads(said)["damage"]],
              [(1, 20, "the index has an entry here, but no record begins here"),
               (1, 12, "the index has no entry for it"),
               (2, 28, "the index has no entry for it")], "damage")
    (FOLDER / "own.idx").write_text("0\t0\n1\n")
    fail(1, "own.idx, line 2: a tab is missing", "check", "own.rec", "own.idx")


def mistakes_in_a_list_name_the_line():
    for line, message in (
            ("0", "line 2: the path is missing"),
            ("0\t\t", "line 2: `` is not"),
            ("0\t1\t ", "line 2: the path is missing"),
            ("x b/1.png", "line 2: `x` is not"),
            ("1e39 b/1.png", "line 2: `1e39`"),
            ("-1\t0\tb/1.png", "line 2: the index is not a number"),
            ("0 b/3.png", "line 2: set/b/3.png: No such file or directory"),
            ("0 b", "line 2: set/b: is a folder")):
        (FOLDER / "bad.lst").write_text(f"0 b/1.png\n{line}\n")
        before = names()
        fail(1, f"bad.lst, {message}", "pack", "set", "--list", "bad.lst",
             "--out", "mistake.rec")
        tap.equal(names(), before, "files")
    (FOLDER / "bad.lst").write_bytes(b"0 b/1.png\n\0")
    fail(1, "bad.lst: is no text", "pack", "set", "--list", "bad.lst",
         "--out", "mistake.rec")
    (FOLDER / "bad.lst").write_text("1\t0\tb/1.png\n1\t0\tb/2.png\n")
    fail(1, "mistake.idx: key 1 occurs twice", "pack", "set", "--list", "bad.lst",
         "--out", "mistake.rec")


def mistakes_of_the_command_line_say_what_to_do():
    for words, message in (
            ([], "data wants `pack` and a folder"),
            (["pak", "set"], "did you mean `pack`"),
            (["pack", "set"], "--out FILE.rec is missing"),
            (["pack", "set", "--out", "x.txt"], "does not end in .rec"),
            (["pack", "set", "--out", ".rec"], "does not end in .rec"),
            (["pack", "set", "b", "--out", "x.rec"], "wants one folder"),
            (["pack", "set", "--out", "x.rec", "--parts", "0"], "from 1 to 1000"),
            (["pack", "set", "--out", "x.rec", "--seed", "1"], "add --shuffle"),
            (["pack", "set", "--out", "x.rec", "--list", "l", "--suffix", "s"],
             "choose one"),
            (["list", "x.rec", "--parts", "2"], "not of `data list`"),
            (["check", "x.rec", "x.idx", "y"], "unexpected `y`")):
        fail(2, message, *words)
    for words, message in (
            (["set", "--out", "x.rec", "--parts", "13"], "12 files for 13 parts"),
            (["set", "--out", "x.rec", "--suffix", ".gif"], "has no file to pack"),
            (["set/top.png", "--out", "x.rec"], "is no folder"),
            (["nowhere", "--out", "x.rec"], "nowhere: No such file"),
            (["set", "--out", "nowhere/x.rec"], "nowhere/x.rec: cannot be created"),
            (["set", "--out", "set/x.rec"], "is inside of the packed folder"),
            (["set", "--out", "./set/b/x.rec"], "is inside of the packed folder"),
            (["set", "--out", "x.rec", "--list", "nowhere.lst"], "nowhere.lst")):
        fail(1, message, "pack", *words)
    fail(1, "nowhere.rec", "check", "nowhere.rec")
    assert "x.rec" not in names(), names()


def unusual_files_of_a_folder_are_refused():
    odd = FOLDER / "odd"
    odd.mkdir()
    (odd / "a").write_text("a")
    for make, message in (
            (lambda path: path.symlink_to("nowhere"), "odd/b: No such file"),
            (lambda path: path.symlink_to("."), "odd/b: is a link to odd"),
            (os.mkfifo, "odd/b: is neither a file nor a folder")):
        make(odd / "b")
        fail(1, message, "pack", "odd", "--out", "odd.rec")
        (odd / "b").unlink()
    assert "odd.rec" not in names(), names()


def restore_signals():
    """They are ignored in jobs of a shell that run in the background."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def an_interrupted_run_leaves_the_older_files():
    """A FIFO makes the run wait in the middle."""
    os.mkfifo(FOLDER / "pipe")
    (FOLDER / "slow.lst").write_text("0 b/1.png\n1 ../pipe\n")
    (FOLDER / "slow.rec").write_text("old")
    before = names()
    for number in SIGNALS:
        with subprocess.Popen([PROGRAM, "data", "pack", "set", "--list", "slow.lst",
                               "--out", "slow.rec"], cwd=FOLDER,
                              preexec_fn=restore_signals, stderr=subprocess.PIPE, text=True) as packing:
            with open(FOLDER / "pipe", "wb") as pipe:  # when the run opens it
                pipe.write(b"half")
                pipe.flush()
                assert any(name.startswith(".tenon-") for name in names()), names()
                packing.send_signal(number)
            messages = packing.communicate(timeout=60)[1]
        tap.equal(packing.returncode, 1, "status")
        assert "interrupted by a signal; nothing was written" in messages, messages
        tap.equal(names(), before, "files")
        tap.equal((FOLDER / "slow.rec").read_text(), "old", "the older file")


def a_file_that_cannot_be_read_leaves_nothing():
    (FOLDER / "closed.lst").write_text("0 b/1.png\n1 /proc/self/mem\n")
    before = names()
    fail(1, "/proc/self/mem: cannot be read: Input/output error; nothing was written",
         "pack", "set", "--list", "closed.lst", "--out", "closed.rec")
    tap.equal(names(), before, "files")


if __name__ == "__main__":
    with SCRATCH:
        make_set()
        tap.run([a_folder_is_packed_as_im2rec_packs_it,
                 a_list_is_packed_as_im2rec_packs_it,
                 a_list_may_have_labels_and_paths_only, classes_are_printed,
                 hidden_files_are_left_out, parts_have_each_file_once,
                 an_order_depends_on_the_seed_only,
                 every_order_of_three_files_occurs, records_are_listed,
                 kinds_are_those_of_files_without_labels_too,
                 hostile_text_is_escaped, a_sound_file_has_no_damage,
                 damage_is_reported_with_record_offset_and_reason,
                 an_index_that_does_not_fit_is_reported,
                 mistakes_in_a_list_name_the_line,
                 mistakes_of_the_command_line_say_what_to_do,
                 unusual_files_of_a_folder_are_refused,
                 an_interrupted_run_leaves_the_older_files,
                 a_file_that_cannot_be_read_leaves_nothing])
