# SPDX-License-Identifier: Apache-2.0
"""The functions of a shared object, as x86-64 runs them."""

import bisect
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

START = re.compile(r"^([0-9a-f]+) <")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\t(\S+) *(.*)$")
# A whole vector that goes to memory, but not to the stack.
STORE = re.compile(r"v?mov([aun]p[sd]|ntp[sd]|dq[au]\d*) "
                   r"%([xyz])mm\d+,[^%]*\((?!%rsp|%rbp)")
BYTES = {"x": 16, "y": 32, "z": 64}


class Listing:
    """The output of `objdump` and `nm` for a file that still has its
    symbols."""

    def __init__(self, path):
        self.path = path
        self.address = {}
        for line in tap.output(["nm", path]).splitlines():
            words = line.split()
            if len(words) == 3 and words[1] in "tT":
                self.address[words[2]] = int(words[0], 16)
        self.code = {}
        instructions = []
        for line in tap.output(["objdump", "-d", "--no-show-raw-insn", path]
                               ).splitlines():
            found = INSTRUCTION.match(line)
            if found:
                instructions.append((int(found[1], 16), found[2], found[3]))
            elif START.match(line):
                instructions = []
                self.code[int(START.match(line)[1], 16)] = instructions

    def function(self, name):
        """Its instructions, (address, operation, operands) each. A function
        that shares its code with another one may be only a jump there."""
        assert name in self.address, f"{self.path} has no function {name}"
        code = self.code[self.address[name]]
        while code[0][1] == "jmp":
            code = self.code[int(code[0][2].split()[0], 16)]
        return code

    def stores(self, name):
        """Bytes of the vectors that the innermost loops of a function write."""
        code = self.function(name)
        places = [at for at, _, _ in code]
        spans = []
        for at, operation, operands in code:
            to = re.match(r"[0-9a-f]+", operands)
            if operation.startswith("j") and to:
                if places[0] <= int(to[0], 16) <= at:
                    spans.append((int(to[0], 16), at))
        inner = [(low, high) for low, high in spans
                 if not any((a, b) != (low, high) and low <= a and b <= high
                            for a, b in spans)]
        written = set()
        for low, high in inner:
            for _, operation, operands in code[bisect.bisect_left(places, low):
                                               bisect.bisect_right(places, high)]:
                store = STORE.match(f"{operation} {operands}")
                if store:
                    written.add(BYTES[store[2]])
        return written
