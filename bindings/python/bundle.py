# SPDX-License-Identifier: Apache-2.0
"""Copies an installed Tenon into a folder for a wheel.

    bundle.py PREFIX FOLDER

A wheel has no links, so libraries have one file each, under the name that programs
load (`libtenon.so.0`). `libtenon.so`, for `-ltenon`, is a text that names it. Code
loses its debugging information. Left out are pages, examples, man pages and
completions, since nobody looks for them in a package, and the part of plugins/comm that
was compiled against the MPI of this machine.
"""

import pathlib
import re
import shutil
import subprocess
import sys

LEFT_OUT = ("share/doc", "share/man", "share/bash-completion", "share/zsh",
            "lib/tenon/comm/mpi_shim.so")
LICENCE = "share/doc/tenon/LICENSE"
# Packages of Debian with libraries that auditwheel adds. Their licences ask for a copy.
ADDED = ("libyaml-0-2", "libffi8", "libffi7")
VERSIONED = re.compile(r"(lib[\w-]+\.so)\.(\d+)\.[\d.]+")


def is_left_out(name):
    """True for a file that no package needs."""
    if name == LICENCE:
        return False
    return any(name == each or name.startswith(each + "/") for each in LEFT_OUT)


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def copy_file(source, target):
    """Copies a file with its mode, and removes debugging information from code."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if is_elf(target) and shutil.which("strip"):
        subprocess.run(["strip", target], check=True)
    target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def copy_library(source, folder):
    """Copies libX.so.0.1.0 as libX.so.0, and writes libX.so for the linker."""
    name, major = VERSIONED.fullmatch(source.name).groups()
    copy_file(source, folder / f"{name}.{major}")
    # The linker looks for this file in the folders of its -L options.
    (folder / name).write_text(f"INPUT({name}.{major})\n")


def correct_cmake(path):
    """Makes the files of CMake name libX.so.0, the only file of a library here."""
    text = path.read_text()
    text, changes = re.subn(r"(\$\{file\}\.so\.\d+)[\d.]+", r"\1", text)
    if changes != 1:
        sys.exit(f"bundle.py: {path} names its libraries in a new form: "
                 "change correct_cmake in bundle.py")
    path.write_text(text)


def copy_tree(prefix, folder):
    """Copies all files but those in LEFT_OUT."""
    for source in sorted(prefix.rglob("*")):
        name = source.relative_to(prefix).as_posix()
        if not source.is_file() or is_left_out(name):
            continue
        if source.parent == prefix / "lib" and ".so" in source.name:
            if not source.is_symlink():
                copy_library(source, folder / "lib")
            continue
        copy_file(source, folder / name)
    correct_cmake(folder / "lib/cmake/tenon/tenonConfig.cmake")


def copy_licences(folder):
    """Copies the licences of other libraries, from where Debian keeps them."""
    for package in ADDED:
        source = pathlib.Path("/usr/share/doc", package, "copyright")
        if source.is_file():
            copy_file(source, folder / "share/doc/tenon/licences" / package)


def main(prefix, folder):
    prefix, folder = pathlib.Path(prefix).resolve(), pathlib.Path(folder)
    if not (prefix / "lib/pkgconfig/tenon.pc").is_file():
        sys.exit(f"bundle.py: {prefix} is no installed Tenon: ./dev build makes out/")
    shutil.rmtree(folder, ignore_errors=True)
    copy_tree(prefix, folder)
    copy_licences(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"bundle.py: {size / 2**20:.1f} MiB; left out: {', '.join(LEFT_OUT)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
