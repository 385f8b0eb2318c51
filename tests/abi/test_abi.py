# SPDX-License-Identifier: Apache-2.0
"""The public headers against the numbers in sdk/abi/, in every language."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import structs  # noqa: E402
import tap  # noqa: E402

NUMBERS = structs.ROOT / "sdk" / "abi"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
COMPILERS = [("gcc", "c", "c11"), ("g++", "c++", "c++17"),
             ("clang", "c", "c11"), ("clang++", "c++", "c++17")]
# Templates that another header includes several times, and code for nvcc.
PARTS = {"product_tile.h", "cuda.h"}
HEADERS = sorted(
    path.relative_to(structs.INCLUDE / "tenon").as_posix()
    for path in (structs.INCLUDE / "tenon").rglob("*.h")
    if path.name not in PARTS and path.parent.name != "test")
PADDED = {name for name in HEADERS if name.startswith("plugin/")} | {
    "draft/pass.h", "draft/registers.h"}
# headers with structs that other binaries read
MINORS = [0, 1, 2]
LINE = re.compile(r"^TN_ABI_(\w+)\((.+), (-?\d+)\)$")


def committed(minor):
    """{"SIZE tn_tensor": 48, "OFFSET tn_tensor, data": 0, ...}"""
    result = {}
    for line in (NUMBERS / f"0.{minor}-lp64.inc").read_text().splitlines():
        found = LINE.match(line)
        if found:
            result[f"{found[1]} {found[2]}"] = int(found[3])
    return result


def compile_text(compiler, text, *more):
    """The finished compiler run over `text` with the SDK's include path."""
    name, language, standard = compiler
    if not shutil.which(name):
        raise tap.Skip(f"{name} is not installed")
    return subprocess.run(
        [name, "-x", language, f"-std={standard}", *WARNINGS, *more,
         "-I", structs.INCLUDE, "-"],
        input=text, text=True, capture_output=True, check=False)


def must_compile(compiler, text, *more):
    """Fails with the compiler's words if it has any."""
    done = compile_text(compiler, text, *more)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(done.stderr)


def must_not_compile(compiler, text, word, *more):
    """Fails unless the compiler refuses and says `word`."""
    done = compile_text(compiler, text, *more)
    if done.returncode == 0 or word not in done.stderr:
        raise AssertionError(f"expected a refusal that says {word!r}\n"
                             f"{done.stderr}")


def header_cases():
    """Every header alone, in both languages, with both compilers."""
    def case(compiler, header):
        padded = ["-Wpadded"] if header in PADDED else []
        must_compile(compiler, f"#include <tenon/{header}>\n", *padded)

    return [(f"{header} stands alone for {compiler[0]} -std={compiler[2]}",
             lambda c=compiler, h=header: case(c, h))
            for header in HEADERS for compiler in COMPILERS]


def wrapper_cases():
    """tenon.hpp alone, with both compilers."""
    return [(f"tenon.hpp stands alone for {each[0]} -std={each[2]}",
             lambda c=each: must_compile(c, "#include <tenon/tenon.hpp>\n",
                                         "-Wshadow", "-Wconversion"))
            for each in COMPILERS if each[1] == "c++"]


def number_cases():
    """check.c for every target minor, in both languages."""
    def case(compiler, minor):
        must_compile(compiler, (HERE / "check.c").read_text(),
                     f"-DTN_TARGET_MINOR={minor}",
                     f'-DTN_ABI_NUMBERS="0.{minor}-lp64.inc"',
                     "-I", NUMBERS)

    return [(f"0.{minor} has the committed layout for {compiler[0]}",
             lambda c=compiler, m=minor: case(c, m))
            for minor in MINORS for compiler in COMPILERS]


def target_cases():
    """Names that TN_TARGET_MINOR hides, and values that it refuses."""
    newer = ("#include <tenon/plugin/op.h>\n"
             "const void *use(const tn_host *host);\n"
             "const void *use(const tn_host *host) {\n"
             '  return host->extension(host, "blas/1");\n}\n')
    loss = ("#include <tenon/plugin/op.h>\n"
            "uint32_t use(const tn_plugin *plugin);\n"
            "uint32_t use(const tn_plugin *plugin) {\n"
            "  return plugin->n_dependencies + TN_ROLE_LOSS;\n}\n")
    stored = ("#include <tenon/plugin/op.h>\n"
              "uint64_t use(void);\n"
              "uint64_t use(void) {\n  return TN_BIT_I4 & TN_BITS_PACKED;\n}\n")
    later = ("#include <tenon/plugin/op.h>\n"
             "int32_t use(const tn_frame *call);\n"
             "int32_t use(const tn_frame *call) {\n"
             "  call->host->complete(call->host->defer(call), TN_OK, NULL);\n"
             "  return TN_LATER;\n}\n")
    cases = []
    for each in COMPILERS:
        cases += [
            (f"{each[0]} sees calls that complete later when 0.2 is the target",
             lambda c=each: must_compile(c, later, "-DTN_TARGET_MINOR=2")),
            (f"{each[0]} does not see them when 0.1 is the target",
             lambda c=each: must_not_compile(c, later, "complete",
                                             "-DTN_TARGET_MINOR=1")),
            (f"{each[0]} sees dependencies and losses when 0.2 is the target",
             lambda c=each: must_compile(c, loss, "-DTN_TARGET_MINOR=2")),
            (f"{each[0]} does not see dependencies when 0.1 is the target",
             lambda c=each: must_not_compile(c, loss, "n_dependencies",
                                             "-DTN_TARGET_MINOR=1")),
            (f"{each[0]} sees sets of storage types when 0.2 is the target",
             lambda c=each: must_compile(c, stored, "-DTN_TARGET_MINOR=2")),
            (f"{each[0]} does not see sets when 0.1 is the target",
             lambda c=each: must_not_compile(c, stored, "TN_BIT_I4",
                                             "-DTN_TARGET_MINOR=1")),
            (f"{each[0]} sees host->extension when 0.1 is the target",
             lambda c=each: must_compile(c, newer, "-DTN_TARGET_MINOR=1")),
            (f"{each[0]} does not see host->extension when 0.0 is the target",
             lambda c=each: must_not_compile(c, newer, "extension",
                                             "-DTN_TARGET_MINOR=0")),
            (f"{each[0]} is told that a target of 0.99 wants a newer SDK",
             lambda c=each: must_not_compile(
                 c, "#include <tenon/plugin/op.h>\n", "install a newer Tenon SDK",
                 "-DTN_TARGET_MINOR=99")),
        ]
    return cases


def dlpack_cases():
    """tn_tensor against the DLPack header that Debian ships."""
    def case(compiler):
        if not pathlib.Path("/usr/include/dlpack/dlpack.h").exists():
            raise tap.Skip("libdlpack-dev is not installed")
        must_compile(compiler, (HERE / "dlpack.c").read_text())

    return [(f"tn_tensor is DLPack's DLTensor for {compiler[0]}",
             lambda c=compiler: case(c)) for compiler in COMPILERS]


def every_member_of_the_header_has_a_committed_offset():
    for minor in MINORS:
        expected = set()
        for name, members in structs.structs(minor).items():
            expected.add(f"SIZE {name}")
            expected.update(f"OFFSET {name}, {each}" for each in members)
        expected.update(f"VALUE {name}" for name in structs.values(minor))
        tap.equal(set(committed(minor)) ^ expected, set(),
                  f"members of 0.{minor}, header against sdk/abi")


def members_of_a_minor_version_keep_their_place():
    frozen = (NUMBERS / "frozen").read_text().split()
    for older, newer in zip(MINORS, MINORS[1:]):
        later = committed(newer)
        for key, value in committed(older).items():
            kind, name = key.split(" ", 1)
            if kind == "SIZE" and name not in frozen:
                assert later[key] >= value, f"{name} shrank in 0.{newer}"
            else:
                tap.equal(later.get(key), value, f"{key} in 0.{newer}")


def growing_structs_begin_with_their_size():
    frozen = (NUMBERS / "frozen").read_text().split()
    for name, members in structs.structs(MINORS[-1]).items():
        if name not in frozen:
            assert "struct_size" in members[:2], f"{name} cannot grow"


def numbers_of_released_versions_do_not_change():
    for line in (NUMBERS / "released").read_text().splitlines():
        digest, name = line.split()
        found = hashlib.sha256((NUMBERS / name).read_bytes()).hexdigest()
        tap.equal(found, digest, f"sha256 of sdk/abi/{name}")


if __name__ == "__main__":
    tap.run(header_cases() + wrapper_cases() + number_cases() +
            target_cases() + dlpack_cases() +
            [every_member_of_the_header_has_a_committed_offset,
             members_of_a_minor_version_keep_their_place,
             growing_structs_begin_with_their_size,
             numbers_of_released_versions_do_not_change])
