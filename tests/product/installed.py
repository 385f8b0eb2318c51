# SPDX-License-Identifier: Apache-2.0
"""An installed Tenon that was moved away from where it was installed to."""

import json
import os
import pathlib
import shlex
import shutil

import tap


class Installed:
    """`root` has the content of `out/` after `./dev build`. Its path has a
    blank."""

    def __init__(self, build, folder):
        options = json.loads(tap.output(
            ["meson", "introspect", "--buildoptions", build]))
        prefix = next(each["value"] for each in options
                      if each["name"] == "prefix")
        staging = pathlib.Path(folder) / "staging"
        tap.output(["meson", "install", "-C", build, "--no-rebuild",
                    "--destdir", staging])
        self.root = pathlib.Path(folder) / "moved here"
        shutil.move(staging / prefix.lstrip("/"), self.root)
        shutil.rmtree(staging)

    def environment(self):
        """Variables that a user of this copy sets; no other Tenon is seen."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("TENON_", "LD_", "PKG_CONFIG"))}
        clean["PATH"] = f"{self.root / 'bin'}:{clean['PATH']}"
        clean["PKG_CONFIG_PATH"] = str(self.root / "lib" / "pkgconfig")
        return clean

    def run(self, *command, cwd=None):
        """The output of a command, with the moved tools on the PATH."""
        return tap.output(command, env=self.environment(), cwd=cwd)

    def compile(self, source, binary):
        """Compiles a host as its author would: with pkg-config alone."""
        flags = shlex.split(self.run("pkg-config", "--cflags", "--libs",
                                     "tenon"))
        language = ["c++", "-std=c++17"] if str(source).endswith(".cpp") else [
            "cc", "-std=c11"]
        self.run(*language, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
                 "-Werror", source,
                 *flags, f"-Wl,-rpath,{self.root / 'lib'}", "-o", binary)
        return binary

    def build_plugin(self, source, folder):
        """Copies a plugin project out of the tree and builds it."""
        shutil.copytree(source, folder)
        self.run("meson", "setup", "build", cwd=folder)
        self.run("meson", "compile", "-C", "build", cwd=folder)
        return next((folder / "build").rglob("*.so"))
