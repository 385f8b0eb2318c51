# SPDX-License-Identifier: Apache-2.0
"""Builds plugins from manifests, by opgen and the C compiler of the machine."""

import os
import pathlib
import shutil
import subprocess

import pytest

from tenon import _prefix


def run(*command, **more):
    done = subprocess.run([str(each) for each in command], text=True, capture_output=True,
                          check=False, **more)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout


def build_plugin(folder, name, **manifests):
    """The path of NAME.so, with an operator for each manifest; skips without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("pkg-config") is None:
        pytest.skip("builds a plugin, which needs cc and pkg-config")
    folder = pathlib.Path(folder) / name
    folder.mkdir()
    for op, text in manifests.items():
        (folder / f"{op}.yaml").write_text(text)
    files = ", ".join(f"{op}.yaml" for op in manifests)
    (folder / "plugin.yaml").write_text(f"opgen: 1\nplugin: {name}\nrelease: 1\n"
                                        f"summary: Made by a test\nlicense: Apache-2.0\n"
                                        f"operators: [{files}]\n")
    prefix = pathlib.Path(_prefix.find_prefix())
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    run(prefix / "bin/opgen", "generate", folder / "plugin.yaml", "-o", folder)
    flags = run("pkg-config", "--cflags", "tenon", env=env).split()
    flags += run("pkg-config", "--variable=plugin_cflags", "tenon", env=env).split()
    run(compiler, "-O1", "-shared", "-fPIC", *flags, *sorted(folder.glob("*.c")), "-o",
        folder / f"{name}.so", "-lm")
    return folder / f"{name}.so"
