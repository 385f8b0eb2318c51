#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A planted violation of each rule of headers.py makes it fail."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SCRIPT = pathlib.Path(__file__).with_name("headers.py")
DRAFT = "/* part.h: a part.\n * Draft: this header may change in any release. */\n"
CLEAN = {
    "tenon.h": '/* Hosts. */\n#include "tenon/plugin/op.h"\n',
    "plugin/op.h": "/* Plugins. */\n#include <stdint.h>\n",
    "kernel/kernel.h": '/* Kernels. */\n#include "tenon/draft/part.h"\n',
    "draft/part.h": DRAFT + '#include "tenon/plugin/op.h"\n',
    "test/test.h": '/* Tests. */\n#include "tenon/tenon.h"\n',
}


def measure(changes):
    """The complaints about CLEAN with these headers changed."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in {**CLEAN, **changes}.items():
            path = pathlib.Path(scratch) / "sdk/include/tenon" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, scratch], text=True,
                              capture_output=True, check=False)
        found = [line[2:] for line in done.stdout.splitlines()
                 if line.startswith("# ")]
        tap.equal(done.returncode, 1 if found else 0, done.stdout)
        return found


def finds(title, name, text, start):
    def case():
        found = measure({name: text})
        tap.equal(len(found), 1, f"complaints: {found}")
        assert found[0].startswith(start), found

    return (f"finds: {title}", case)


def a_clean_tree_passes():
    tap.equal(measure({}), [])


def a_tree_without_headers_fails():
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([sys.executable, SCRIPT, scratch], text=True,
                              capture_output=True, check=False)
        tap.equal(done.returncode, 1, done.stdout)


tap.run([
    a_clean_tree_passes,
    a_tree_without_headers_fails,
    finds("a host header that includes the kernel library", "graph.h",
          '#include "tenon/kernel/kernel.h"\n',
          "graph.h includes tenon/kernel/kernel.h"),
    finds("a host header that includes a draft", "graph.h",
          "#include <tenon/draft/part.h>\n",
          "graph.h includes tenon/draft/part.h"),
    finds("a plugin header that includes the kernel library", "plugin/note.h",
          '# include "tenon/kernel/kernel.h"\n',
          "plugin/note.h includes tenon/kernel/kernel.h"),
    finds("a plugin header that includes a header of hosts", "plugin/note.h",
          '#include "tenon/tenon.h"\n', "plugin/note.h includes tenon/tenon.h"),
    finds("a relative path, which would hide the group", "plugin/note.h",
          '#include "../kernel/kernel.h"\n',
          'plugin/note.h includes "../kernel/kernel.h"'),
    finds("a draft that does not say so", "draft/other.h", "/* A part. */\n",
          "draft/other.h does not state"),
    finds("a draft in another group", "plugin/part.h", DRAFT,
          "plugin/part.h states that it is a draft"),
    finds("an unknown group", "other/part.h", "/* A part. */\n",
          "other/part.h: other/ is no group"),
])
