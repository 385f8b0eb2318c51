# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of the package, with an installed Tenon in it.

    make_wheel.py PREFIX FOLDER

FOLDER/*.whl is for any Python from 3.9 on and any Linux whose C library is at least as
old as its tag says (manylinux). auditwheel adds the libraries that Linux does not
promise, under names that no other package uses; each needs the text of its licence.
"""

import os
import pathlib
import subprocess
import sys
import zipfile

import mesonpy

HERE = pathlib.Path(__file__).resolve().parent
LICENCES = "tenon/prefix/share/doc/tenon/licences/"


def run(*command, **variables):
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True,
                   env={**os.environ, **variables})


def build_raw(prefix, folder):
    """The wheel of meson-python, for this machine and this Python."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    os.chdir(HERE)
    name = mesonpy.build_wheel(str(raw), {
        "setup-args": [f"-Dtenon_prefix={prefix}", "-Dbundle=true"],
        "build-dir": str(folder / "meson")})
    os.chdir(folder)  # python would import the package of the sources
    return raw / name


def add_stubs(raw):
    """Puts type stubs into the wheel, which the package in it writes."""
    run("wheel", "unpack", "--dest", raw.parent, raw)
    tree = next(path for path in raw.parent.iterdir() if path.is_dir())
    run("tenon.stubs", PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="1")
    run("wheel", "pack", "--dest-dir", raw.parent, tree)
    return raw


def tag_wheel(raw):
    """Names the oldest Python: meson-python names the one that built the wheel."""
    run("wheel", "tags", "--remove", "--python-tag=cp39", raw)
    return next(raw.parent.glob("*.whl"))


def check_licences(wheel):
    """Fails if auditwheel added a library without a licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    held = [name[len(LICENCES):] for name in names if name.startswith(LICENCES)]
    for name in names:
        folder, _, file = name.partition("/")
        library = file.split("-")[0]
        if folder == "tenon_sdk.libs" and file and not any(
                each.startswith(library) for each in held):
            sys.exit(f"make_wheel.py: {name} has no licence in {LICENCES}: "
                     "add its package to ADDED in bundle.py")


def main(prefix, folder):
    prefix, folder = (pathlib.Path(each).resolve() for each in (prefix, folder))
    wheel = tag_wheel(add_stubs(build_raw(prefix, folder)))
    run("auditwheel", "repair", "-w", folder, wheel)
    check_licences(next(folder.glob("*.whl")))


if __name__ == "__main__":
    main(*sys.argv[1:])
