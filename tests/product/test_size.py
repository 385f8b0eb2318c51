# SPDX-License-Identifier: Apache-2.0
"""The size of libtenon.so without debugging information, and the libraries
that it needs.

    test_size.py COMPILER OPTIMIZATION LIBTENON LIBFILES

The size counts in the build of the product only: gcc with -O3.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

COMPILER, OPTIMIZATION = sys.argv[1:3]
LIBTENON, FILES = (pathlib.Path(each) for each in sys.argv[3:5])
MOST_KIB = 450
# The C library's parts, and the dynamic linker, which has its thread-local memory.
ALLOWED = re.compile(r"^(libc|libm|ld-linux-[\w-]+)\.so\.\d+$")


def stripped_kib(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.so"
        tap.output(["strip", "-o", copy, path])
        return copy.stat().st_size / 1024


def check_size(path):
    kib = stripped_kib(path)
    assert kib <= MOST_KIB, (
        f"{path.name} has {kib:.0f} KiB stripped, at most {MOST_KIB} are "
        "allowed; docs/decisions/075-a-small-core.md says where they are")


def check_needed(path):
    text = tap.output(["readelf", "-dW", path])
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    foreign = [name for name in needed if not ALLOWED.match(name)]
    tap.equal(foreign, [], f"libraries that {path.name} needs")


def refuses(check, path):
    try:
        check(path)
    except AssertionError:
        return
    raise AssertionError(f"{check.__name__} accepted {path}")


def the_library_is_small():
    if COMPILER != "gcc" or OPTIMIZATION != "3":
        raise tap.Skip(f"this build is by {COMPILER} with -O{OPTIMIZATION}")
    check_size(LIBTENON)


def the_library_needs_libc_and_libm_alone():
    check_needed(LIBTENON)


def a_larger_library_is_found():
    """Planted: half a mebibyte of read-only data."""
    with tempfile.TemporaryDirectory() as folder:
        data, copy = pathlib.Path(folder) / "data", pathlib.Path(folder) / "copy.so"
        data.write_bytes(bytes(1 << 19))
        shutil.copy(LIBTENON, copy)
        subprocess.run(["objcopy", "--add-section", f".planted={data}",
                        "--set-section-flags", ".planted=alloc,readonly", copy],
                       check=True, stderr=subprocess.DEVNULL)
        refuses(check_size, copy)


def another_library_that_is_needed_is_found():
    """Planted: libtenon-files.so needs zlib."""
    refuses(check_needed, FILES)


if __name__ == "__main__":
    tap.run([the_library_is_small, the_library_needs_libc_and_libm_alone,
             a_larger_library_is_found, another_library_that_is_needed_is_found])
