# SPDX-License-Identifier: Apache-2.0
"""Inside of a folder of core files call downward, and nothing is for tests only.

    test_calls.py SOURCE_ROOT BUILD_ROOT

Reads the symbols of the object files in each folder's static library. Files of
a folder that call each other in a circle are at most four. A folder has at most
25 sources. Each function of core is called by the product. One that only its
own file calls is static, unless a test examines it.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])
MOST_IN_CIRCLE, MOST_SOURCES = 4, 25
# Symbols that a shared library exports to hosts.
PUBLIC = re.compile(r"^tn_[a-z]")
SYMBOL = re.compile(r"\[(?:.*/)?([^/\]]+)\]: (\S+) ([A-Za-z])")
OBJECT = re.compile(r"(?:^|/)([^/:]+\.o): (\S+) ([A-Za-z])")

# The library tenon/kernel in core/formula, which has all of it as a plugin has.
KERNEL_LIBRARY = re.compile(r"^tn__formula_tn_")

# Functions that break the rule.
NOT_CALLED = []


class Symbols:
    """For each object file: the names that it defines, and those that it
    needs."""

    def __init__(self):
        self.defined = collections.defaultdict(set)
        self.needed = collections.defaultdict(set)

    def read(self, files, pattern):
        """Reads archives (SYMBOL) or object files (OBJECT)."""
        if not files:
            return self
        text = tap.output(["nm", "-A", "-P", "-g", *files])
        for name, symbol, kind in pattern.findall(text):
            table = self.needed if kind in "Uwv" else self.defined
            table[name].add(symbol)
        return self

    def calls(self):
        """{object: objects that define the names that it needs}."""
        owner = {symbol: name for name, symbols in self.defined.items()
                 for symbol in symbols}
        return {name: {owner[symbol] for symbol in self.needed[name]
                       if owner.get(symbol, name) != name}
                for name in {*self.defined, *self.needed}}


def find_circles(calls):
    """Sorted lists of two or more files of which each reaches all others."""
    reached = {}
    for start in calls:
        found, rest = set(), list(calls[start])
        while rest:
            name = rest.pop()
            if name not in found:
                found.add(name)
                rest += calls.get(name, ())
        reached[start] = found
    circles = {tuple(sorted({start} | {other for other in reached[start]
                                       if start in reached[other]}))
               for start in calls if start in reached[start]}
    return sorted(list(circle) for circle in circles)


def folders():
    return sorted(path.parent.name for path in
                  (SOURCE / "core").glob("*/meson.build"))


def library(folder):
    return BUILD / "core" / folder / f"lib{folder}.a"


def name_source(name):
    """capture.c of capture.c.o, or of a name with a path in it."""
    return re.sub(r"\.o$", "", name).split("_.._")[-1]


def check_circles(folder):
    circles = find_circles(Symbols().read([library(folder)], SYMBOL).calls())
    large = [circle for circle in circles if len(circle) > MOST_IN_CIRCLE]
    tap.equal(large, [], f"files of core/{folder} that call each other")


def count_sources(root):
    return len([*root.glob("*.c"), *root.glob("*.h")])


def check_size(folder, root=SOURCE / "core"):
    count = count_sources(root / folder)
    assert count <= MOST_SOURCES, (
        f"core/{folder} has {count} sources, at most {MOST_SOURCES}")


def words_of(folder):
    """The words of all C sources below a folder."""
    return {word for path in (SOURCE / folder).rglob("*.[ch]")
            for word in re.findall(r"\w+", path.read_text())}


def find_uncalled(core, product, tests, read_source):
    """Sorted names of core that no other file of the product needs, and that
    are neither called in their own file nor (if they are) by a test."""
    needed_by = collections.Counter()
    for symbols in (core, product):
        for needed in symbols.needed.values():
            needed_by.update(needed)
    found = []
    for name, defined in core.defined.items():
        own = core.needed.get(name, set())
        for symbol in defined:
            if PUBLIC.match(symbol) or needed_by[symbol] > (symbol in own):
                continue
            calls = len(re.findall(rf"\b{symbol}\b", read_source(name))) - 1
            if calls == 0 or symbol not in tests:
                found.append(symbol)
    return sorted(found)


def the_product_calls_each_function_of_core():
    # The functions of graph.h and data.h are in libraries of their own.
    core = Symbols().read([library(folder) for folder in folders()] +
                          [BUILD / "core/runtime" / name
                           for name in ("libgraph_api.a", "libdata_api.a")], SYMBOL)
    product = Symbols().read(
        [BUILD / "sdk/manifest/libmanifest.a", BUILD / "sdk/algebra/libalgebra.a"],
        SYMBOL)
    product.read([path for top in ("tools", "core") for path in
                  (BUILD / top).rglob("*.o")
                  if not path.parent.name.endswith(".a.p")], OBJECT)
    where = {path.name: path for path in (SOURCE / "core").glob("*/*.c")}
    found = find_uncalled(
        core, product, words_of("tests"),
        lambda name: where[name_source(name)].read_text())
    found = [name for name in found if not KERNEL_LIBRARY.match(name)]
    tap.equal(found, sorted(NOT_CALLED), "functions that no product calls")


# ------------------------------------------------------- planted violations


def compile_files(sources, folder):
    """Object files of {name: text}."""
    for name, text in sources.items():
        (folder / name).write_text(text)
        subprocess.run(["cc", "-c", name, "-o", f"{name}.o"], cwd=folder,
                       check=True)
    return [folder / f"{name}.o" for name in sources]


def ring(count):
    """Files f0.c to f<n>.c of which each calls the next, the last the first."""
    return {f"f{i}.c": f"void f{(i + 1) % count}(void);\n"
                       f"void f{i}(void) {{ f{(i + 1) % count}(); }}\n"
            for i in range(count)}


def a_circle_of_five_files_is_found():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        sources = ring(5) | {"top.c": "void f0(void);\n"
                                      "void top(void) { f0(); }\n"}
        objects = compile_files(sources, folder)
        circles = find_circles(Symbols().read(objects, OBJECT).calls())
        tap.equal(circles, [[f"f{i}.c.o" for i in range(5)]])
        archive = folder / "librings.a"
        subprocess.run(["ar", "rcsT", archive, *objects], check=True)
        tap.equal(find_circles(Symbols().read([archive], SYMBOL).calls()),
                  circles, "the circles of a thin archive")


def a_function_for_tests_only_is_found():
    sources = {
        "own.c": "void tn__used(void) {}\nvoid tn__spare(void) {}\n"
                 "void tn__inner(void) {}\nvoid tn__outer(void) { tn__inner(); }\n"
                 "void tn_open(void) { tn__outer(); }\n",
        "tool.c": "void tn__used(void);\nvoid run(void) { tn__used(); }\n"}
    with tempfile.TemporaryDirectory() as scratch:
        own, tool = compile_files(sources, pathlib.Path(scratch))
        found = find_uncalled(Symbols().read([own], OBJECT),
                              Symbols().read([tool], OBJECT),
                              {"tn__spare", "tn__inner"},
                              lambda name: sources["own.c"])
        tap.equal(found, ["tn__outer", "tn__spare"])


def a_folder_of_26_sources_is_found():
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        (root / "part").mkdir()
        for i in range(26):
            (root / "part" / f"f{i}.c").touch()
        try:
            check_size("part", root)
        except AssertionError as failure:
            tap.equal(str(failure), "core/part has 26 sources, at most 25")
            return
        raise AssertionError("26 sources were accepted")


if __name__ == "__main__":
    tap.run([a_circle_of_five_files_is_found, a_function_for_tests_only_is_found,
             a_folder_of_26_sources_is_found,
             the_product_calls_each_function_of_core] +
            [(f"core/{each} has no large circle of files",
              lambda f=each: check_circles(f)) for each in folders()] +
            [(f"core/{each} has at most {MOST_SOURCES} sources",
              lambda f=each: check_size(f)) for each in folders()])
