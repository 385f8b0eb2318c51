# SPDX-License-Identifier: Apache-2.0
"""Finds the installed Tenon that the package uses: its libraries, programs and data.

Searched in this order: the folder `prefix` of the package, which a wheel contains; the
environment variable TENON_PREFIX, a folder with `lib` and `share`; the system, by pkg-config.
"""

import os
import sys

_BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix")
_MACHINE = f"{os.uname().machine}-linux-gnu" if sys.platform.startswith("linux") else ""
_found = None  # the answer of find_prefix


def _ask_pkg_config():
    """The prefix of the system's Tenon; None without pkg-config or without Tenon."""
    import subprocess  # slow to import, and seldom needed
    try:
        answer = subprocess.run(["pkg-config", "--variable=prefix", "tenon"], check=True,
                                capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _folders(prefix):
    return [os.path.join(prefix, *each) for each in
            (("lib",), ("lib", _MACHINE), ("lib64",)) if each[-1]]


def find_prefix():
    """The folder of the installation, or None if there is none.

        python3 -m tenon prefix
    """
    global _found
    if _found is None:
        for prefix in (_BUNDLED, os.environ.get("TENON_PREFIX")):
            if prefix and any(os.path.exists(os.path.join(each, "libtenon.so.0"))
                              for each in _folders(prefix)):
                _found = os.path.abspath(prefix)
                return _found
        _found = _ask_pkg_config() or ""
    return _found or None


def library(name):
    """Path of a library, as `library("libtenon.so.0")`.

    Without an installation it is the name alone, and the system's loader searches for it.
    """
    prefix = find_prefix()
    for folder in _folders(prefix) if prefix else ():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return name


def program(name):
    """Path of a program, as `program("opgen")`; the name alone if it is not there."""
    path = os.path.join(find_prefix() or "", "bin", name)
    return path if os.path.exists(path) else name


def data(name):
    """Path of a file in share/tenon, as `data("api.json")`."""
    prefix = find_prefix()
    if prefix is None:
        raise FileNotFoundError(
            f"no installation of Tenon has {name}: neither the package nor the system has one; "
            "set TENON_PREFIX to the folder of an installed Tenon")
    return os.path.join(prefix, "share", "tenon", name)
