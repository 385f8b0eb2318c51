# SPDX-License-Identifier: Apache-2.0
"""A folder uses the folders below it, and nothing else.

    test_layers.py SOURCE_ROOT BUILD_ROOT

Two witnesses: the #include lines of every source file, and the undefined
symbols of every folder's static library.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])

# The folders of plugins, of the engine, of arrays, those that calls use, and
# calls.
REGISTRY = ["core/base", "sdk/manifest", "core/fields", "core/shapes",
            "core/registry"]
ENGINE = ["core/base", "core/variables", "core/pool", "core/fences",
          "core/tokens", "core/engine"]
ARRAYS = ENGINE + ["core/storage", "core/ndarray"]
CALLS = REGISTRY + ["core/choice"] + ENGINE[1:] + ARRAYS[-2:]
ALL_CALLS = CALLS + ["core/call"]
# The runtime, after all folders that it uses.
RUNTIME = ALL_CALLS + ["core/loading", "core/exchange", "core/records",
    "core/tape", "core/plan", "core/graph", "core/gradient", "core/graph_json",
    "core/passes", "core/program", "core/execution", "core/program_bind",
    "core/runtime"]
# folder: (its library, the folders below it that it may use)
BELOW = {
    "core/base": ("base", []),
    "sdk/algebra": ("algebra", ["core/base"]),
    "sdk/manifest": ("manifest", ["core/base", "sdk/algebra"]),
    "core/variables": ("variables", ["core/base"]),
    "core/pool": ("pool", ["core/base", "core/variables"]),
    "core/fences": ("fences", ["core/base", "core/variables"]),
    "core/tokens": ("tokens", ENGINE[:4]),
    "core/engine": ("engine", ENGINE[:5]),
    "core/storage": ("storage", ENGINE),
    "core/fields": ("fields", ["core/base"]),
    "core/shapes": ("shapes", ["core/base", "sdk/manifest"]),
    "core/registry": ("registry", REGISTRY[:-1]),
    "core/choice": ("choice", REGISTRY),
    "core/loading": ("loading", REGISTRY),
    "core/ndarray": ("ndarray", ARRAYS[:-1]),
    "core/call": ("call", CALLS),
    "core/formula": ("formula", ["core/base", "sdk/algebra", "sdk/manifest"]),
    "core/binding": ("binding", ["core/base", "sdk/manifest", "core/shapes",
                                 "core/formula"]),
    "core/exchange": ("exchange", ARRAYS),
    "core/files": ("files", ARRAYS + ["core/exchange"]),
    "core/records": ("records", ["core/base"]),
    "core/tape": ("tape", ALL_CALLS),
    "core/plan": ("plan", ["core/base"]),
    "core/graph": ("graph", ALL_CALLS),
    "core/gradient": ("gradient", ALL_CALLS + ["core/graph"]),
    "core/graph_json": ("graph_json", ALL_CALLS + ["core/graph",
                                                 "core/gradient"]),
    "core/passes": ("passes", ALL_CALLS + ["core/graph", "core/gradient"]),
    "core/program": ("program", ALL_CALLS + ["core/graph", "core/plan"]),
    "core/execution": ("execution", ALL_CALLS + ["core/graph", "core/plan",
                                               "core/program"]),
    "core/program_bind": ("program_bind", ALL_CALLS + [
        "core/graph", "core/gradient", "core/passes", "core/plan",
        "core/program", "core/execution"]),
    "core/runtime": ("runtime", RUNTIME[:-1]),
    "core/batches": ("batches", RUNTIME),
    "core/parallel": (None, []),  # like a host, the public functions alone
    "tools/opgen": (None, ["core/base", "sdk/algebra", "sdk/manifest"]),
    "tools/tenon": (None, []),
    "tools/probe": (None, ["core/base", "sdk/manifest"]),
    "plugins": (None, []),
}
PUBLIC = {path.relative_to(SOURCE / "sdk/include").as_posix()
          for path in (SOURCE / "sdk/include/tenon").rglob("*.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# The names of this project: public, internal, and of the manifest reader.
OURS = re.compile(r"^(tn_|tn__|tnm_)")


def sources(folder):
    """Every C source and header of a folder."""
    return sorted(path for path in (SOURCE / folder).rglob("*.[ch]"))


def includes(folder):
    """Only headers of the folder itself, of folders below, and public ones."""
    allowed = {path.name for path in sources(folder)} | PUBLIC
    for below in BELOW[folder][1]:
        allowed |= {path.name for path in sources(below)}
    for path in sources(folder):
        for name in INCLUDE.findall(path.read_text()):
            generated = name.endswith((".gen.h", ".gen.inc"))
            assert name in allowed or generated, (
                f"{path.relative_to(SOURCE)} includes {name}, which does not "
                f"stand below {folder}")


def headers_have_no_circle(folder):
    """No header of a folder includes itself by way of others."""
    headers = {path.name: set(INCLUDE.findall(path.read_text()))
               for path in sources(folder) if path.suffix == ".h"}
    left = {name: used & set(headers) for name, used in headers.items()}
    while left:
        done = {name for name, used in left.items() if not used & set(left)}
        assert done, f"{folder}: a circle among {sorted(left)}"
        left = {name: used for name, used in left.items() if name not in done}


def symbols(folder, option):
    """Names of this project that a library defines or leaves undefined."""
    archive = BUILD / folder / f"lib{BELOW[folder][0]}.a"
    names = tap.output(["nm", option, "--format=just-symbols", archive])
    return {name for name in names.split() if OURS.match(name)}


def links(folder):
    """Every name that a library wants is defined in it or below it."""
    known = symbols(folder, "--defined-only")
    for below in BELOW[folder][1]:
        known |= symbols(below, "--defined-only")
    missing = symbols(folder, "--undefined-only") - known
    tap.equal(sorted(missing), [], f"names that {folder} finds nowhere below")


def every_folder_with_a_library_is_listed_here():
    built = {path.parent.relative_to(BUILD).as_posix()
             for top in ("core", "sdk", "tools", "plugins")
             for path in BUILD.glob(f"{top}/*/lib*.a")}
    tap.equal(built - set(BELOW), set(), "folders without a place")


if __name__ == "__main__":
    tap.run([every_folder_with_a_library_is_listed_here] +
            [(f"{each} includes only what stands below it",
              lambda f=each: includes(f)) for each in BELOW] +
            [(f"{each}: headers include each other in no circle",
              lambda f=each: headers_have_no_circle(f)) for each in BELOW] +
            [(f"{each} calls only what stands below it",
              lambda f=each: links(f)) for each in BELOW if BELOW[each][0]])
