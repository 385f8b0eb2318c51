# SPDX-License-Identifier: Apache-2.0
"""Times inspecting, loading and starting; prints lines `name value unit`.

    load.py BUILD_FOLDER
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import make_plugins
from samples import PRINTED, save, say, table

BUILD = pathlib.Path(sys.argv[1]).resolve()
TIMES = 31


def measured(what, files):
    """Median nanoseconds that bench/load reports for these files."""
    command = [BUILD / "bench" / "load", what, *files]
    return statistics.median(
        int(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(TIMES))


def started(command, **more):
    """Median milliseconds of a whole process."""
    def once():
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **more)
        return 1e3 * (time.perf_counter() - begin)
    return statistics.median(once() for _ in range(TIMES))


def stripped_size(path):
    """KiB of a file without its symbols and debug information."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy"
        subprocess.run(["strip", "-o", copy, path], check=True)
        return copy.stat().st_size / 1024


def main():
    """All figures of docs/benchmarks/performance.md, in its order."""
    library = (BUILD / "core" / "libtenon.so").resolve()
    tool = BUILD / "tools" / "tenon" / "tenon"
    elemwise = BUILD / "plugins" / "elemwise" / "elemwise.so"
    many = make_plugins.make(BUILD, BUILD / "bench" / "plugins")
    one = many[:1]
    say("inspect_elemwise", measured("inspect", [elemwise]) / 1e3, "us")
    say("inspect_50_operators", measured("inspect", one) / 1e3, "us")
    say("dlopen_elemwise", measured("dlopen", [elemwise]) / 1e3, "us")
    say("load_elemwise", measured("load", [elemwise]) / 1e3, "us")
    say("dlopen_50_operators", measured("dlopen", one) / 1e3, "us")
    say("load_50_operators", measured("load", one) / 1e3, "us")
    say("dlopen_100x50", measured("dlopen", many) / 1e6, "ms")
    say("load_100x50", measured("load", many) / 1e6, "ms")
    say("libtenon_stripped", stripped_size(library), "KiB")
    for name in ("libtenon-manifest.so", "tenon-probe"):
        path = (library.parent / name).resolve()
        say(f"{name.split('.')[0].replace('-', '_')}_stripped",
            stripped_size(path), "KiB")
    say("start_true", started(["/bin/true"]), "ms")
    say("start_tenon_version", started([tool, "--version"]), "ms")
    search = {**os.environ, "TENON_PLUGIN_PATH": str(elemwise.parent)}
    say("start_tenon_list", started([tool, "list"], env=search), "ms")
    table(f"Medians of {TIMES} processes", ["figure", "value", "unit"],
          [[name, f"{value:.1f}", unit]
           for name, value, unit, _ in PRINTED["figures"]])
    save("load")


if __name__ == "__main__":
    main()
