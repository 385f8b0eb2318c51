# SPDX-License-Identifier: Apache-2.0
"""`python -m tenon`, and the programs `tenon` and `opgen` of the package.

    python -m tenon prefix     the folder with bin, lib, include and share
    python -m tenon version    the version of Tenon
    python -m tenon info       versions, folders, plugins and devices
"""

import os
import sys

import numpy

from . import _prefix

COMMANDS = ("prefix", "version", "info")


def run_program(name: str) -> None:
    """Replaces this process by a program of the installed Tenon."""
    path = _prefix.program(name)
    if not os.path.isabs(path):
        sys.exit(f"{name}: no installation of Tenon has this program: install tenon-sdk again, "
                 "or set TENON_PREFIX to the folder of an installed Tenon")
    sys.stdout.flush()
    os.execv(path, [name, *sys.argv[1:]])


def run_tenon() -> None:
    """The console script `tenon`."""
    run_program("tenon")


def run_opgen() -> None:
    """The console script `opgen`."""
    run_program("opgen")


def find_prefix() -> str:
    """The folder of the installed Tenon. Ends the program if there is none."""
    prefix = _prefix.find_prefix()
    if prefix is None:
        sys.exit("tenon: neither the package nor the system has an installation of Tenon: install "
                 "tenon-sdk again, or set TENON_PREFIX to the folder of an installed Tenon")
    return prefix


def read_version() -> str:
    """The version of libtenon."""
    from . import _api
    text = _api.tn_version()
    return text.decode() if isinstance(text, bytes) else text


def print_info() -> None:
    """Versions and folders; then the plugins and devices, by the program `tenon`."""
    import subprocess
    print(f"tenon {read_version()}")
    print(f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}")
    print(f"prefix {find_prefix()}")
    print(f"package {os.path.dirname(os.path.abspath(__file__))}")
    for subject in ("plugins", "devices"):
        print(f"\n{subject}", flush=True)
        subprocess.run([_prefix.program("tenon"), "list", subject], check=False)


def main(arguments: list) -> int:
    """Runs a command; 2 if there is none of that name."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if arguments[0] == "prefix":
        print(find_prefix())
    elif arguments[0] == "version":
        print(read_version())
    else:
        print_info()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
