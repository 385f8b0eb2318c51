#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the machine code of two revisions, to prove that a change only
renames or rewords.

    same_code.py OLD NEW          two revisions of this repository
    same_code.py --objects A B    two folders of object files

For two revisions the script makes a checkout of each in a temporary folder and
builds the object files of the product with the compiler in CC (gcc if unset).
A function is its bytes and its relocations, without the names of symbols and
without positions in sections of constants, so new names and new texts change
nothing. Functions are compared as a multiset of all objects of one target: a
renamed file is no difference either.

It prints each target with a difference, the names of the functions, and ends
with status 1; status 2 means that a revision could not be built.
"""
import collections
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHF_EXECINSTR, SHT_SYMTAB, SHT_RELA, STT_FUNC = 4, 2, 4, 2

Section = collections.namedtuple(
    "Section", "name kind flags offset size link info entry")


class Object:
    """Sections, symbols and relocations of a 64-bit little-endian object."""

    def __init__(self, path):
        self.data = path.read_bytes()
        assert self.data[:6] == b"\x7fELF\x02\x01", f"{path}: no ELF64 object"
        start, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        raw = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + i * size)
               for i in range(count)]
        base = raw[names][4]
        self.sections = [
            Section(self.text(base + s[0]), s[1], s[2], s[4], s[5], s[6], s[7],
                    s[9]) for s in raw]

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def entries(self, section, form):
        for at in range(section.offset, section.offset + section.size,
                        section.entry):
            yield struct.unpack_from(form, self.data, at)

    def relocations(self):
        """By section: (offset, type) of each place that the linker fills. The
        symbol and the addend say only where data is."""
        found = collections.defaultdict(list)
        for section in self.sections:
            if section.kind == SHT_RELA:
                found[section.info] += [
                    (offset, info & 0xffffffff) for offset, info, _ in
                    self.entries(section, "<QQq")]
        return found

    def functions(self):
        """(name, digest) of every function."""
        relocations = self.relocations()
        for table in self.sections:
            if table.kind != SHT_SYMTAB:
                continue
            names = self.sections[table.link].offset
            for name, info, _, index, value, size in self.entries(
                    table, "<IBBHQQ"):
                if info & 15 == STT_FUNC and 0 < index < len(self.sections):
                    yield (self.text(names + name),
                           self.digest(index, value, size, relocations[index]))

    def digest(self, index, start, size, relocations):
        section = self.sections[index]
        code = bytearray(self.data[section.offset + start:
                                   section.offset + start + size])
        places = sorted((at - start, kind) for at, kind in relocations
                        if start <= at < start + size)
        return hashlib.sha256(bytes(code) + repr(places).encode()).digest()


def functions_of(objects):
    """Digest -> names, of a list of object files."""
    found = collections.defaultdict(list)
    for path in objects:
        for name, digest in Object(path).functions():
            found[digest].append(name)
    return found


def differences(old, new):
    """Names of functions with code that the other side lacks."""
    lost, added = [], []
    for digest in old.keys() | new.keys():
        before, after = old.get(digest, []), new.get(digest, [])
        lost += before[len(after):]
        added += after[len(before):]
    return sorted(lost), sorted(added)


def compare(old, new):
    """Prints the differences of two {target: [object]}; True if there are
    none."""
    same = True
    for target in sorted(old.keys() | new.keys()):
        lost, added = differences(functions_of(old.get(target, [])),
                                  functions_of(new.get(target, [])))
        if lost or added:
            same = False
            print(f"{target}: changed or removed: {', '.join(lost) or 'none'}; "
                  f"changed or new: {', '.join(added) or 'none'}")
    return same


def hash_of(revision):
    """The hash of a revision, so that a clone knows it, too."""
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--verify",
                           f"{revision}^{{commit}}"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        print(f"same_code: git knows no revision {revision}", file=sys.stderr)
        sys.exit(2)
    return done.stdout.strip()


def build(revision, folder):
    """{target: [object]} of the product at a revision; the checkout is in
    `folder`. Paths in constants are no part of the comparison."""
    def call(*command, **more):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, check=False, **more)
        if done.returncode != 0:
            sys.stderr.write(done.stdout[-4000:])
            print(f"same_code: cannot build {revision}: {' '.join(command[:3])}"
                  " failed", file=sys.stderr)
            sys.exit(2)
        return done.stdout

    call("git", "clone", "--quiet", "--shared", str(ROOT), folder)
    call("git", "-C", folder, "checkout", "--quiet", "--detach", revision)
    out = f"{folder}/build"
    # Failures carry their line; a moved line is no difference.
    call("meson", "setup", out, folder, "-Dtests=false", "-Dcuda=disabled",
         "-Dwerror=false",
         "-Dc_args=-D__LINE__=0 -Wno-builtin-macro-redefined",
         env=dict(os.environ, CC=os.environ.get("CC", "gcc")))
    call("ninja", "-C", out)
    found = collections.defaultdict(list)
    for target in json.loads(call("meson", "introspect", "--targets", out)):
        for name in target["filename"]:
            found[target["name"]] += sorted(pathlib.Path(name + ".p").rglob("*.o"))
    return found


def objects_below(folder):
    return {"objects": sorted(pathlib.Path(folder).rglob("*.o"))}


def main(arguments):
    if arguments[:1] == ["--objects"] and len(arguments) == 3:
        same = compare(*map(objects_below, arguments[1:]))
    elif len(arguments) == 2 and not arguments[0].startswith("-"):
        with tempfile.TemporaryDirectory() as scratch:
            built = []
            for number, revision in enumerate(arguments):
                built.append(build(hash_of(revision), f"{scratch}/{number}"))
            same = compare(*built)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print("the same machine code" if same else "not the same machine code")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
