# SPDX-License-Identifier: Apache-2.0
"""A copy of the installed tree, moved elsewhere, does all that it did.

    test_install.py SOURCE_ROOT BUILD_ROOT
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from installed import Installed  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
TENON = Installed(BUILD, FOLDER)


# A host that loads one plugin and uses no graphs.
LOADER = """#include <stdio.h>
#include <tenon/tenon.h>
int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  tn_code rc = argc == 2 ? tn_runtime_create(NULL, &rt) : TN_INVALID;
  if (!rc) rc = tn_plugin_load(rt, argv[1]);
  printf("%d\\n", (int)rc);
  if (rt) tn_runtime_release(rt);
  return 0;
}
"""


def holds_the_promised_files():
    for name in ("bin/tenon", "bin/opgen", "lib/libtenon.so",
                 "lib/libtenon.so.0", "lib/tenon/elemwise.so",
                 "lib/libtenon-graph.so", "lib/libtenon-graph.so.0",
                 "lib/libtenon-data.so", "lib/libtenon-data.so.0",
                 "lib/libtenon-parallel.so", "lib/libtenon-parallel.so.0",
                 "lib/libtenon-files.so.0", "lib/libtenon-manifest.so.0", "lib/tenon/tenon-probe",
                 "lib/tenon/blas/plugin.yaml",
                 "lib/pkgconfig/tenon.pc",
                 "lib/cmake/tenon/tenonConfig.cmake",
                 "include/tenon/tenon.hpp", "share/tenon/api.json",
                 "share/man/man1/tenon.1", "share/man/man1/opgen.1",
                 "share/bash-completion/completions/tenon",
                 "share/bash-completion/completions/opgen",
                 "share/zsh/site-functions/_tenon",
                 "share/zsh/site-functions/_opgen",
                 "share/doc/tenon/README.md", "share/doc/tenon/LICENSE",
                 "share/doc/tenon/examples/kernel/root.c"):
        assert (TENON.root / name).exists(), f"{name} is not installed"


def holds_every_public_header():
    include = SOURCE / "sdk" / "include"
    headers = [path.relative_to(include)
               for path in (include / "tenon").rglob("*.*h")]
    assert pathlib.Path("tenon/plugin/op.h") in headers, headers
    for name in headers:
        assert (TENON.root / "include" / name).exists(), f"{name} is missing"


def installed_pages_lead_to_installed_files():
    pages = TENON.root / "share/doc/tenon"
    found = 0
    for page in pages.rglob("*.md"):
        if page.is_relative_to(pages / "examples"):
            continue  # their links are for the checkout
        text = page.read_text()
        named = [pages / each for each in re.findall(
            r"`(examples/(?:author|host|kernel|rows|zlib)[\w/.-]*)`", text)]
        linked = [page.parent / each for each in re.findall(
            r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]
        for target in named + linked:
            assert target.exists(), f"{page}: {target}"
        found += len(named) + len(linked)
    assert found > 50, found


def programs_find_the_library_beside_them():
    for name in ("tenon", "opgen"):
        text = tap.output(["readelf", "-dW", TENON.root / "bin" / name])
        for path in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", text):
            tap.equal(path, "$ORIGIN/../lib", f"rpath of {name}")


def tenon_loads_the_standard_plugins():
    found = json.loads(TENON.run("tenon", "list", "operators", "--json"))
    assert "elemwise.quadratic" in json.dumps(found), found


def tenon_runs_an_operator():
    tap.equal(TENON.run("tenon", "run", "elemwise.quadratic", "[[1,2],[3,4]]",
                        "a=1", "b=2", "c=3"),
              "[[6, 11],\n [18, 27]]\n", "output")


def tenon_runs_an_operator_without_code():
    """Its reader and the program that tries it are found after the move."""
    tap.equal(TENON.run("tenon", "run", "zlib.crc32", "[97]", "--dtype", "u8",
                        "--plugin", SOURCE / "examples/zlib/crc32.yaml"),
              "3904355907\n", "output")


def run_without(name, *command):
    """The result of a command while one installed file is missing."""
    path = TENON.root / name
    away = path.with_name("away")
    path.rename(away)
    try:
        return subprocess.run(command, text=True, check=False,
                              capture_output=True, env=TENON.environment())
    finally:
        away.rename(path)


def missing_parts_for_manifests_are_named():
    for name in ("lib/tenon/tenon-probe", "lib/libtenon-manifest.so.0"):
        done = run_without(
            name, TENON.root / "bin/tenon", "run", "zlib.crc32", "[97]",
            "--plugin", SOURCE / "examples/zlib/crc32.yaml")
        assert done.returncode == 1 and name in done.stderr and (
            "install it" in done.stderr), done.stderr


def a_missing_reader_of_files_is_named():
    """Only files need it."""
    name = "lib/libtenon-files.so.0"
    host = TENON.compile(SOURCE / "examples/host/files.c", FOLDER / "files")
    done = run_without(name, host)
    assert done.returncode != 0 and name in done.stderr and (
        "install it" in done.stderr), done.stderr
    main = TENON.compile(SOURCE / "examples/host/main.c", FOLDER / "main")
    done = run_without(name, main)
    tap.equal((done.returncode, done.stdout), (0, "6 11 18 27\n"), "output")


def a_host_without_graphs_does_not_load_their_library():
    for example, used in (("main.c", False), ("graph.c", True)):
        host = TENON.compile(SOURCE / "examples/host" / example, FOLDER / "host")
        needed = tap.output(["readelf", "-dW", host])
        tap.equal("libtenon-graph.so.0" in needed, used, example)
    done = run_without("lib/libtenon-graph.so.0",
                       TENON.compile(SOURCE / "examples/host/main.c",
                                     FOLDER / "main"))
    tap.equal((done.returncode, done.stdout), (0, "6 11 18 27\n"), "output")


def a_plugin_with_passes_finds_the_library_of_graphs():
    """Also in a host that uses no graphs; without it there is a warning."""
    plugin = BUILD / "tests/graph/passes/rewriter.so"
    source, library = FOLDER / "load.c", "lib/libtenon-graph.so.0"
    source.write_text(LOADER)
    host = TENON.compile(source, FOLDER / "load")
    tap.equal(TENON.run(host, plugin), "0\n", "code")
    done = run_without(library, host, plugin)
    assert library in done.stderr and "install it" in done.stderr, done.stderr


def opgen_judges_a_manifest():
    TENON.run("opgen", "check", SOURCE / "examples" / "author")


def pkg_config_follows_the_move():
    flags = shlex.split(TENON.run("pkg-config", "--cflags", "--libs", "tenon"))
    for flag in flags:
        if flag.startswith(("-I", "-L")):
            path = pathlib.Path(flag[2:]).resolve()
            assert path.is_relative_to(TENON.root.resolve()), flag
    opgen, = shlex.split(TENON.run("pkg-config", "--variable=opgen", "tenon"))
    assert pathlib.Path(opgen).exists(), f"opgen={opgen}"


def a_host_compiles_and_runs():
    main = TENON.compile(SOURCE / "examples" / "host" / "main.c",
                         FOLDER / "main")
    tap.equal(TENON.run(main), "6 11 18 27\n", "output")


def examples_of_headers_are_examples_of_hosts():
    check_example("tenon.h", "main.c")
    check_example("kvstore.h", "kvstore.c")


def check_example(name, example):
    """The program in the comment of a header is the one in examples/host."""
    header = (SOURCE / "sdk/include/tenon" / name).read_text()
    comment = header[header.index(" *   #include <stdio.h>"):]
    comment = comment[:comment.index(" *   }\n") + len(" *   }\n")]
    lines = [line[5:] for line in comment.splitlines()]
    main = (SOURCE / "examples" / "host" / example).read_text()
    tap.equal("\n".join(lines) + "\n", main[main.index("#include"):],
              f"lines of {name}")


def a_plugin_builds_outside_the_tree():
    plugin = TENON.build_plugin(SOURCE / "examples" / "author",
                                FOLDER / "author")
    said = TENON.run("tenon", "inspect", plugin)
    assert "acme" in said and "cube" in said, said
    result = json.loads(TENON.run(
        "tenon", "run", "acme.cube", "[1, 2, 3]", "scale=2", "--plugin",
        plugin, "--json"))
    assert "[2, 16, 54]" in json.dumps(result), result


def the_demo_of_an_author_holds():
    said = TENON.run("bash", SOURCE / "examples/author/demo.sh", TENON.root)
    assert "the demo holds" in said, said


def the_demo_learns_digits():
    said = TENON.run("bash", SOURCE / "examples/demo_digits.sh", TENON.root)
    assert "Both learned the same, number for number." in said, said
    tested = [float(each) for each in re.findall(r"tested +([0-9.]+) %", said)]
    assert tested[-1] >= 98, f"LeNet ends at {tested[-1]} %"
    traced = json.loads((TENON.root / "lenet.json").read_text())
    assert traced["traceEvents"], "the trace is empty"


def the_demo_learns_images():
    said = TENON.run("bash", SOURCE / "examples/demo_images.sh", TENON.root)
    if "SKIPPED" in said:
        print(said)
        return
    assert "Both learned the same, number for number." in said, said
    tested = [float(each) for each in re.findall(r"tested +([0-9.]+) %", said)]
    assert tested[-1] >= 95, f"image_folder ends at {tested[-1]} %"


if __name__ == "__main__":
    with SCRATCH:
        tap.run([holds_the_promised_files, holds_every_public_header,
                 installed_pages_lead_to_installed_files,
                 programs_find_the_library_beside_them,
                 tenon_loads_the_standard_plugins,
                 tenon_runs_an_operator,
                 tenon_runs_an_operator_without_code,
                 missing_parts_for_manifests_are_named,
                 a_missing_reader_of_files_is_named,
                 a_host_without_graphs_does_not_load_their_library,
                 a_plugin_with_passes_finds_the_library_of_graphs,
                 opgen_judges_a_manifest,
                 pkg_config_follows_the_move,
                 a_host_compiles_and_runs,
                 examples_of_headers_are_examples_of_hosts,
                 a_plugin_builds_outside_the_tree,
                 the_demo_of_an_author_holds, the_demo_learns_digits,
                 the_demo_learns_images])
