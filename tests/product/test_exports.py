# SPDX-License-Identifier: Apache-2.0
"""The symbols that the libraries and the plugins export.

    test_exports.py SOURCE_ROOT LIBTENON LIBGRAPH LIBDATA LIBPARALLEL LIBFILES
        LIBMANIFEST PLUGIN...
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, LIBTENON, GRAPH, DATA, PARALLEL, FILES, MANIFEST, *PLUGINS = (
    pathlib.Path(each) for each in sys.argv[1:])
DECLARED = re.compile(r"\bTN_API\b[^;(]*?\b(tn_\w+)\(", re.S)


def exported(path):
    """Names in the dynamic symbol table, without their versions."""
    lines = tap.output(["nm", "-D", "--defined-only",
                        "--format=just-symbols", path]).split()
    return {name.split("@")[0] for name in lines}


def dynamic(path, tag):
    """Values of one tag of the dynamic section."""
    text = tap.output(["readelf", "-dW", path])
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def undefined(path):
    """Names that the dynamic linker must find in other libraries."""
    return set(tap.output(["nm", "-D", "--undefined-only",
                           "--format=just-symbols", path]).split())


OTHERS = {"graph": GRAPH, "program": GRAPH, "data": DATA}
OTHERS |= {"comm": PARALLEL, "kvstore": PARALLEL}


def declared(library):
    """Functions of the host API, of one of the libraries."""
    text = "".join(path.read_text() for path in
                   (SOURCE / "sdk/include/tenon").glob("*.h")
                   if OTHERS.get(path.stem, LIBTENON) == library)
    return set(DECLARED.findall(text))


def the_library_exports_exactly_the_declared_functions():
    # TENON_0 is the name of the version that public symbols carry.
    public = {name for name in exported(LIBTENON) if not
              name.startswith(("tn__", "TENON_"))}
    tap.equal(sorted(public), sorted(declared(LIBTENON)), "names")


def the_library_of_graphs_exports_exactly_the_declared_functions():
    tap.equal(sorted(exported(GRAPH) - {"TENON_GRAPH_0"}),
              sorted(declared(GRAPH)), "names")
    tap.equal(dynamic(GRAPH, "SONAME"), ["libtenon-graph.so.0"], "soname")


def the_library_of_data_exports_exactly_the_declared_functions():
    tap.equal(sorted(exported(DATA) - {"TENON_DATA_0"}),
              sorted(declared(DATA)), "names")
    tap.equal(dynamic(DATA, "SONAME"), ["libtenon-data.so.0"], "soname")


def the_library_of_groups_exports_exactly_the_declared_functions():
    tap.equal(sorted(exported(PARALLEL) - {"TENON_PARALLEL_0"}),
              sorted(declared(PARALLEL)), "names")
    tap.equal(dynamic(PARALLEL, "SONAME"), ["libtenon-parallel.so.0"], "soname")


def the_library_of_groups_calls_public_functions_alone():
    private = {name for name in undefined(PARALLEL) if name.startswith("tn__")}
    tap.equal(private, set(), "internal names")


def internal_names_are_exported_for_libraries_of_the_same_build():
    internal = {name for name in exported(LIBTENON) if name.startswith("tn__")}
    needed = {name for path in (GRAPH, DATA, FILES) for name in undefined(path)
              if name.startswith("tn__")}
    tap.equal(sorted(internal), sorted({name.split("@")[0] for name in needed}),
              "names")
    versions = {name.split("@")[1] for name in needed}
    tap.equal([v.startswith("TENON_PRIVATE_") for v in versions], [True],
              "one version with the release in it")


def the_library_of_files_exports_nothing():
    tap.equal(exported(FILES), set(), "names")
    tap.equal(dynamic(FILES, "SONAME"), ["libtenon-files.so.0"], "soname")


def the_soname_carries_the_major_version():
    tap.equal(dynamic(LIBTENON, "SONAME"), ["libtenon.so.0"], "soname")


def the_library_looks_for_nothing_in_build_folders():
    tap.equal(dynamic(LIBTENON, "RPATH"), [], "rpath")


def the_library_parses_no_yaml():
    needed = dynamic(LIBTENON, "NEEDED")
    tap.equal([name for name in needed if "yaml" in name], [], "needed")


def the_reader_of_manifests_exports_one_symbol():
    tap.equal(exported(MANIFEST), {"tn_manifest_module"}, "names")
    tap.equal(dynamic(MANIFEST, "SONAME"), ["libtenon-manifest.so.0"],
              "soname")
    tap.equal(dynamic(MANIFEST, "RPATH"), [], "rpath")


def plugin_exports_one_symbol(path):
    tap.equal(exported(path), {"tn_plugin_entry"}, f"exports of {path.name}")


def plugin_needs_libc_and_libm_only(path):
    needed = set(dynamic(path, "NEEDED"))
    tap.equal(needed - {"libc.so.6", "libm.so.6"}, set(), "needed libraries")


def plugin_wants_nothing_of_the_host(path):
    names = tap.output(["nm", "-D", "--undefined-only",
                        "--format=just-symbols", path]).split()
    tap.equal([name for name in names if name.startswith("tn_")], [],
              "undefined names")


if __name__ == "__main__":
    tap.run([the_library_exports_exactly_the_declared_functions,
             the_library_of_graphs_exports_exactly_the_declared_functions,
         the_library_of_data_exports_exactly_the_declared_functions,
             the_library_of_groups_exports_exactly_the_declared_functions,
             the_library_of_groups_calls_public_functions_alone,
             internal_names_are_exported_for_libraries_of_the_same_build,
             the_library_of_files_exports_nothing,
             the_soname_carries_the_major_version,
             the_library_looks_for_nothing_in_build_folders,
             the_library_parses_no_yaml,
             the_reader_of_manifests_exports_one_symbol] +
            [(f"{path.name}: {check.__name__.replace('_', ' ')}",
              lambda p=path, c=check: c(p))
             for path in PLUGINS
             for check in (plugin_exports_one_symbol,
                           plugin_needs_libc_and_libm_only,
                           plugin_wants_nothing_of_the_host)])
