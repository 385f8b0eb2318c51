#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/tenon/packed.json: folders, lists of files, and the files of
records that im2rec of MXNet writes of them.

    packed.py MXNET > packed.json

MXNET is the folder of the wheel that `./dev bench engine` fetches. Needs NumPy
1.23 and opencv-python-headless, which im2rec imports. Nothing here knows of
Tenon. The committed file was made with MXNet 1.9.1.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

MAGIC = bytes.fromhex("0a23d7ce")
# Any bytes: im2rec looks at the suffix only.
FILES = {
    "b/1.png": b"b1", "b/10.png": b"b10", "b/2.png": b"",
    "a/z.png": MAGIC, "a/Z.PNG": b"abc" + MAGIC + b"d" + MAGIC,
    "a/x y/1.png": b"x y", "a/x y/\u00e9.png": b"accent",
    "a.d/1.png": b"a.d", "top.png": b"top", "a/notes.txt": b"no image",
    "empty/none.txt": b"no image", "c/d/e/deep.png": bytes(range(256)) * 3,
}
LABELS = "7\t1.5\t-2\tb/1.png\n9\t0.25\t3\ta/z.png\n4\t1e10\t0\ta/x y/1.png\n"


def run_im2rec(mxnet, *words):
    subprocess.run([sys.executable, mxnet / "mxnet/tools/im2rec.py", *words],
                   check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, PYTHONPATH=str(mxnet)))


def pack(mxnet, folder, name, *options):
    """The list, the records and the index that im2rec makes."""
    prefix, root = folder / name, folder / "set"
    run_im2rec(mxnet, prefix, root, "--pass-through", "--num-thread", "1", *options)
    return {"list": prefix.with_suffix(".lst").read_text(),
            "records": prefix.with_suffix(".rec").read_bytes().hex(),
            "index": prefix.with_suffix(".idx").read_text()}


def main():
    mxnet = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for name, content in FILES.items():
            path = folder / "set" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        run_im2rec(mxnet, folder / "whole", folder / "set", "--list",
                   "--recursive", "--no-shuffle", "--exts", ".png")
        (folder / "labels.lst").write_text(LABELS)
        print(json.dumps({
            "about": "Written by tests/reference/packed.py with MXNet 1.9.1.",
            "files": {name: content.hex() for name, content in FILES.items()},
            "whole": pack(mxnet, folder, "whole"),
            "labels": pack(mxnet, folder, "labels", "--pack-label")}, indent=1))


if __name__ == "__main__":
    main()
