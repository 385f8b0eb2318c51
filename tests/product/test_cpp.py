# SPDX-License-Identifier: Apache-2.0
"""Projects in C++ use an installed copy: tenon.hpp by two compilers, and
find_package(tenon) by CMake.

    test_cpp.py SOURCE_ROOT BUILD_ROOT
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from installed import Installed  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
TENON = Installed(BUILD, FOLDER)
EXAMPLE = SOURCE / "examples/cpp"
WRAPPER = SOURCE / "sdk/include/tenon/tenon.hpp"
# By hand: 1+2+3, 4+4+3, 9+6+3, 16+8+3; their sum; 2wx; relu of -2, 4, 6; x where
# that is not 0.
PRINTED = """x^2+2x+3: 6 11 18 27
its second row: 18 27
sum: 62
d(w^2 x)/dw: 8 20 36
relu(x w): 0 4 6
its gradient: 0 2 3
TN_NOT_FOUND
"""
COMPILERS = ["g++", "clang++"]


def required(program, use):
    if shutil.which(program) is None:
        raise tap.Skip(f"{program} is missing: it {use}")
    return program


# ----------------------------------------------------------------- tenon.hpp

def compile_host(compiler, source):
    """A program with all warnings, by pkg-config."""
    required(compiler, "compiles the example in C++")
    flags = shlex.split(TENON.run("pkg-config", "--cflags", "--libs", "tenon"))
    program = FOLDER / f"{source.stem}-{compiler}"
    TENON.run(compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic",
              "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror",
              source, *flags, f"-Wl,-rpath,{TENON.root / 'lib'}", "-o",
              program)
    return program


def the_example_prints_its_values(compiler):
    program = compile_host(compiler, EXAMPLE / "main.cpp")
    tap.equal(TENON.run(program), PRINTED, "output")


def every_class_computes_by_hand(compiler):
    program = compile_host(compiler, SOURCE / "tests/product/wrapper.cpp")
    tap.equal(TENON.run(program, FOLDER / "net.json"), "every check holds\n",
              "output")


def the_example_of_the_header_prints_its_values():
    comment = WRAPPER.read_text().split("*/")[0]
    lines = re.findall(r"^ \*   (.*)$", comment, re.M)
    source = FOLDER / "header.cpp"
    source.write_text("\n".join(lines) + "\n")
    tap.equal(TENON.run(compile_host("g++", source)), "6\n11\n18\n27\n")


def names_of_the_wrapper_are_in_the_description():
    """Every function and constant of C that tenon.hpp uses."""
    api = json.loads((SOURCE / "sdk/api.json").read_text())
    known = {each["name"] for kind in ("functions", "handles", "structs",
                                       "types", "constants")
             for each in api[kind]}
    known |= {value["name"] for each in api["enums"]
              for value in each["values"]}
    code = re.sub(r"/\*.*?\*/", "", WRAPPER.read_text(), flags=re.S)
    used = set(re.findall(r"\b(?:tn|TN)_\w+", code))
    assert len(used) > 60, used
    tap.equal(used - known, {"TN_DTYPE_MAKE"}, "names that api.json lacks")


def the_wrapper_explains_an_old_standard():
    done = subprocess.run(
        ["g++", "-std=c++14", "-fsyntax-only", "-I", SOURCE / "sdk/include",
         "-x", "c++", "-"], input="#include <tenon/tenon.hpp>\n", text=True,
        capture_output=True, check=False)
    assert done.returncode and "compile with -std=c++17" in done.stderr, (
        done.stderr)


# --------------------------------------------------------------------- CMake

def configure(source, build, *more):
    """The finished `cmake`; no Tenon but the moved one is found."""
    required("cmake", "reads tenonConfig.cmake")
    return subprocess.run(
        ["cmake", "-S", source, "-B", build, *more,
         f"-DCMAKE_PREFIX_PATH={TENON.root}", "-DCMAKE_CXX_COMPILER=g++"],
        text=True, capture_output=True, check=False,
        env=TENON.environment() | {"CC": "", "CXX": ""})


def project(name, lines):
    folder = FOLDER / name
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("\n".join([
        "cmake_minimum_required(VERSION 3.20)", "project(acme CXX)", *lines,
        ""]))
    return folder


def must_configure(source, build, *more):
    done = configure(source, build, *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def cmake_builds_the_example():
    build = FOLDER / "example-build"
    must_configure(EXAMPLE, build)
    tap.output(["cmake", "--build", build])
    tap.equal(TENON.run(build / "acme"), PRINTED, "output")
    needed = tap.output(["readelf", "-dW", build / "acme"])
    assert "[libtenon-graph.so.0]" in needed and "[libtenon.so.0]" in needed


def all_targets_and_paths_exist():
    folder = project("targets", [
        "find_package(tenon REQUIRED)",
        "foreach(each tenon graph files manifest)",
        "  get_target_property(path tenon::${each} IMPORTED_LOCATION)",
        "  message(STATUS \"found ${path}\")", "endforeach()",
        "foreach(each OPGEN PLUGIN_DIR API_JSON)",
        "  message(STATUS \"found ${tenon_${each}}\")", "endforeach()",
        "message(STATUS \"version ${tenon_VERSION}\")"])
    printed = must_configure(folder, FOLDER / "targets-build")
    found = [pathlib.Path(each)
             for each in re.findall(r"-- found (.*)", printed)]
    assert len(found) == 7, printed
    for each in found:
        assert each.exists() and TENON.root.resolve() in (
            each.resolve().parents), each
    assert "-- version 0.1.0" in printed, printed


def installed_files_have_no_absolute_path():
    prefix = TENON.root / "lib/cmake/tenon"
    files = sorted(prefix.iterdir())
    tap.equal([each.name for each in files],
              ["tenonConfig.cmake", "tenonConfigVersion.cmake"])
    for each in files:
        text = each.read_text()
        assert not re.search(r"[\"\s;]/\w", text), each
        assert "@" not in text, each


def a_program_of_a_foreign_version_is_refused():
    for number, (version, fits) in enumerate((
            ("0.1", True), ("0.0.9", True), ("0.2", False), ("1.0", False))):
        folder = project(f"version-{number}",
                         [f"find_package(tenon {version} REQUIRED)"])
        done = configure(folder, FOLDER / f"version-{number}-build")
        tap.equal(done.returncode == 0, fits, f"{version}\n{done.stderr}")
        assert fits or "0.1.0" in done.stderr, done.stderr


def an_unknown_component_is_named():
    folder = project("component",
                     ["find_package(tenon REQUIRED COMPONENTS graphs)"])
    done = configure(folder, FOLDER / "component-build")
    text = " ".join(done.stderr.split())
    assert done.returncode and "no component `graphs`" in text, text


def a_missing_library_is_named():
    required("cmake", "reads tenonConfig.cmake")
    library = TENON.root / "lib/libtenon-graph.so.0.1.0"
    away = library.with_name("away")
    os.rename(library, away)
    try:
        done = configure(EXAMPLE, FOLDER / "missing-build")
    finally:
        os.rename(away, library)
    text = re.sub(r"\s+", "", done.stderr)
    assert done.returncode and "libtenon-graph.so.0.1.0ismissing" in text, (
        done.stderr)


def the_page_shows_the_output():
    assert PRINTED in (SOURCE / "docs/how-to/cpp.md").read_text(), PRINTED


if __name__ == "__main__":
    with SCRATCH:
        tap.run([
            *((f"{case.__name__.replace('_', ' ')} by {name}",
               lambda c=case, n=name: c(n))
              for case in (the_example_prints_its_values,
                           every_class_computes_by_hand)
              for name in COMPILERS),
            the_example_of_the_header_prints_its_values,
            names_of_the_wrapper_are_in_the_description,
            the_wrapper_explains_an_old_standard,
            cmake_builds_the_example, all_targets_and_paths_exist,
            installed_files_have_no_absolute_path,
            a_program_of_a_foreign_version_is_refused,
            an_unknown_component_is_named, a_missing_library_is_named,
            the_page_shows_the_output])
