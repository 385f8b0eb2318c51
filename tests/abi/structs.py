# SPDX-License-Identifier: Apache-2.0
"""Reads the structs of op.h and note.h; as a program, prints their numbers.

    tests/abi/structs.py [TARGET_MINOR] > sdk/abi/0.2-lp64.inc

is run by hand when a minor version is added. Its output is reviewed and
committed: tests/abi compares the header with the committed file, never with
itself.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "sdk" / "include"

STRUCT = re.compile(r"struct (tn_\w+) \{(.*?)\}", re.S)
POINTER = re.compile(r"\(\*(\w+)\)")
MEMBER = re.compile(r"(\w+)\s*(?:\[[^]]*\])?$")
ENUM = re.compile(r"\benum\s*\{(.*?)\}", re.S)


def preprocessed(minor):
    """The text of both headers as a plugin that targets 0.`minor` sees it."""
    run = ["gcc", "-E", "-P", "-std=c11", f"-DTN_TARGET_MINOR={minor}",
           "-I", INCLUDE, INCLUDE / "tenon" / "plugin" / "note.h"]
    return subprocess.run(run, check=True, capture_output=True,
                          text=True).stdout


def member(declaration):
    """The name that one member's declaration introduces."""
    found = POINTER.search(declaration)
    if not found:
        found = MEMBER.search(declaration.strip())
    return found.group(1)


def structs(minor):
    """{struct: [member, ...]} in the order of the header."""
    result = {}
    for name, body in STRUCT.findall(preprocessed(minor)):
        parts = [part for part in body.split(";") if part.strip()]
        result[name] = [member(part) for part in parts]
    return result


def values(minor):
    """The names of all enumerators, in the order of the header."""
    bodies = ",".join(ENUM.findall(preprocessed(minor)))
    return re.findall(r"\bTN_\w+(?=\s*=)", bodies)


def numbers(minor):
    """The X-macro lines, with values that this machine's gcc computes."""
    program = ["#include <stdio.h>", "#include <tenon/plugin/note.h>",
               "int main(void) {"]
    for name, members in structs(minor).items():
        program.append(f'printf("TN_ABI_SIZE({name}, %zu)\\n", '
                       f"sizeof({name}));")
        for each in members:
            program.append(f'printf("TN_ABI_OFFSET({name}, {each}, %zu)\\n", '
                           f"offsetof({name}, {each}));")
    for name in values(minor):
        program.append(f'printf("TN_ABI_VALUE({name}, %lld)\\n", '
                       f"(long long){name});")
    program.append("}")
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "numbers"
        subprocess.run(["gcc", f"-DTN_TARGET_MINOR={minor}", "-I", INCLUDE,
                        "-x", "c", "-", "-o", binary], check=True, text=True,
                       input="\n".join(program))
        return subprocess.run([binary], check=True, capture_output=True,
                              text=True).stdout


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else "2"
    print("/* SPDX-License-Identifier: Apache-2.0\n"
          f" * op.h 0.{target} on LP64 machines (x86-64, aarch64). "
          "*/")
    print(numbers(target), end="")
