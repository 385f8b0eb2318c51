#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen check`: levels of lints, forms of output, and built plugins.

    test_check.py OPGEN CC LIBTENON_MANIFEST TENON_PROBE

The cases lint_* of err/lints.txt show the findings of each lint.
"""

import json
import os
import pathlib
import pty
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import cases  # noqa: E402
import tap  # noqa: E402
from lab import RISKY, RISKY_C, Lab  # noqa: E402

OPGEN = str(pathlib.Path(sys.argv[1]).resolve())
CC = shlex.split(sys.argv[2])
READER, PROBE = (pathlib.Path(a).resolve() for a in sys.argv[3:5])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
CASES = tempfile.TemporaryDirectory()
cases.write_folders(ROOT / "tests/opgen/err", CASES.name)
NO_DOC = f"{CASES.name}/lint_doc"
MISTAKE = f"{CASES.name}/summary_full_stop"

LAB = Lab([OPGEN], CC, FOLDER)


def check(*args, **more):
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    return subprocess.run([OPGEN, "check", *map(str, args)], cwd=ROOT,
                          text=True, capture_output=True, check=False,
                          env={**env, **more})


def build(op=RISKY, source=RISKY_C, hidden=True):
    """A folder with manifests and lab.so."""
    return LAB.build(LAB.write(op), source, hidden)


def says(done, *texts):
    tap.equal((done.returncode, done.stdout), (1, ""), done.stderr)
    for text in texts:
        assert text in done.stderr, f"{text} is not in\n{done.stderr}"


# ---------------------------------------------------------------------- levels

def a_warning_is_no_failure():
    done = check(NO_DOC)
    tap.equal(done.returncode, 0)
    assert "warning[W0101]" in done.stderr, done.stderr


def werror_makes_it_one():
    done = check(NO_DOC, "-Werror")
    tap.equal(done.returncode, 1)
    assert "warning[W0101]" in done.stderr, done.stderr


def a_lint_may_be_an_error():
    for form in (["-Wdoc=error"], ["-W", "doc=error"]):
        done = check(NO_DOC, *form)
        tap.equal(done.returncode, 1, str(form))
        assert "error[E0101]" in done.stderr, done.stderr


def a_lint_may_be_off():
    for form in (["-Wno-doc"], ["-W", "no-doc"], ["-Wdoc=off"],
                 ["-Wall", "-Wno-doc"], ["-Wdoc=error", "-Wno-doc"]):
        done = check(NO_DOC, *form)
        tap.equal((done.returncode, done.stderr), (0, ""), str(form))


def all_is_more_than_the_default():
    folder = f"{CASES.name}/lint_operand_doc"
    tap.equal(check(folder).stderr, "")
    done = check(folder, "-Wall")
    tap.equal(done.returncode, 0)
    assert done.stderr.count("warning[W0103]") == 2, done.stderr


def every_lint_has_a_case_of_its_name():
    listed = subprocess.run([OPGEN, "check", "--list"], text=True,
                            capture_output=True, check=True).stdout
    for line in listed.splitlines():
        code, name, level = line.split()[:3]
        folder = f"{CASES.name}/lint_{name.replace('-', '_')}"
        off = check(folder, f"-Wno-{name}")
        tap.equal((off.returncode, off.stderr), (0, ""), name)
        on = check(folder, f"-W{name}")
        assert f"[{code}]" in on.stderr, f"{name}: {on.stderr}"
        usual = check(folder)
        tap.equal(f"[{code}]" in usual.stderr, level != "off", name)
        page = (ROOT / "docs/reference/lints.md").read_text()
        assert f"| `{name}` | {code} | {level} |" in page, f"docs: {name}"


def lints_wait_for_mistakes_to_be_mended():
    done = check(NO_DOC, MISTAKE, "-Wall")
    assert "error[E0019]" in done.stderr, done.stderr
    assert "W01" not in done.stderr, done.stderr


# ----------------------------------------------------------------------- forms

def json_is_json():
    done = check(NO_DOC, f"{CASES.name}/lint_param_doc",
                 "-Wparam-doc=error", "--error-format=json")
    messages = json.loads(done.stderr)
    tap.equal(sorted((m["code"], m["severity"]) for m in messages),
              [("E0102", "error"), ("W0101", "warning")])
    warning = next(m for m in messages if m["code"] == "W0101")
    tap.equal((warning["file"], warning["line"], warning["column"],
               warning["message"]),
              (f"{NO_DOC}/op.yaml", 2, 5, "operator `scale` has no `doc`"))
    assert warning["help"][0].startswith("add `doc"), warning


def short_is_a_line_each():
    done = check(NO_DOC, "--error-format=short")
    tap.equal(done.stderr.splitlines()[0],
              f"{NO_DOC}/op.yaml:2:5: warning[W0101]: operator `scale` has no "
              "`doc`")


def on_a_terminal(**more):
    leader, follower = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    with subprocess.Popen([OPGEN, "check", NO_DOC], cwd=ROOT, stderr=follower,
                          env={**env, "TERM": "xterm", **more}) as child:
        os.close(follower)
        said = b""
        while True:
            try:
                more_said = os.read(leader, 4096)
            except OSError:
                break
            if not more_said:
                break
            said += more_said
        child.wait()
    os.close(leader)
    return said.decode()


def a_terminal_is_coloured():
    said = on_a_terminal()
    assert "\033[1;33mwarning[W0101]" in said, repr(said)
    for plain in (on_a_terminal(NO_COLOR="1"), on_a_terminal(TERM="dumb"),
                  check(NO_DOC).stderr):
        assert "\033" not in plain, repr(plain)


# --------------------------------------------------------------- built plugins

def a_good_plugin_is_silent():
    folder = build()
    for paths in ([folder / "lab.so"], [folder, folder / "lab.so"],
                  [folder / "lab.so", folder]):
        done = check(*paths)
        tap.equal((done.returncode, done.stdout, done.stderr), (0, "", ""))


def a_file_that_is_none_is_refused():
    path = FOLDER / "text.so"
    path.write_text("nothing")
    says(check(path), "text.so:1:1: error[E0080]: this host does not load it")
    says(check(FOLDER / "none.so"), "error[E0001]: cannot read")


def a_changed_note_is_refused():
    folder = build()
    path = folder / "lab.so"
    data = path.read_bytes()
    at = data.index(b"A kernel that does what its parameter says")
    path.write_bytes(data[:at] + b"B" + data[at + 1:])
    says(check(path), "error[E0080]")


def a_plugin_that_dies_while_it_is_loaded():
    dies = RISKY_C + "__attribute__((constructor)) static void die(void) " \
        "{ abort(); }\n"
    says(check(build(source=dies) / "lab.so"),
         "error[E0080]: while it was loaded and unloaded, it ended the process: Aborted")


def another_exported_symbol_is_found():
    more = RISKY_C + "__attribute__((visibility(\"default\"))) " \
        "int helper(void) { return 1; }\n"
    done = check(build(source=more) / "lab.so")
    says(done, "error[E0081]: the plugin exports `helper`, too",
         "= help: make it static")
    tap.equal(done.stderr.count("E0081]:"), 1)
    done = check(build(hidden=False) / "lab.so")
    says(done, "exports `lab_risky`, too")


def an_example_that_fails_is_found():
    more = RISKY + """\
  - {name: crash, params: {how: 1}, data: [1], out: [2]}
  - {name: refuse, params: {how: 2}, data: [1], out: [2]}
  - {name: wrong, data: [3], out: [7]}
"""
    folder = build(more)
    done = check(folder, folder / "lab.so")
    says(done, "op.yaml:14:5: error[E0082]: example `crash`: it ended the "
         "process: Aborted",
         "op.yaml:15:5: error[E0082]: example `refuse`:", "no, thanks",
         "op.yaml:16:5: error[E0083]: example `wrong`: `out` comes out as [6]")
    tap.equal(done.stderr.count("error["), 3, done.stderr)


def a_plugin_of_other_manifests_is_found():
    folder = build()
    (folder / "op.yaml").write_text(RISKY.replace("default: 0", "default: 3"))
    says(check(folder, folder / "lab.so"),
         "error[E0084]: it was not built from the manifests of `lab`")


DOUBLED = """opgen: 1
op: doubled
summary: Twice
doc: Twice.
inputs: [{name: data, dtype: f32}]
outputs: [{name: out, dtype: f32, shape: data}]
forward: {out: 2*data}
gradient: auto
examples: [{name: one, data: [1], out: [2]}]
"""


def manifests_of_another_plugin_are_an_error():
    """They would be taken for checked. A companion has those of its plugin."""
    folder = build()
    done = check("plugins/elemwise", "plugins/optim", folder / "lab.so")
    says(done, "lab.so:1:1: error[E0084]: this is the plugin `lab`, the "
         "manifests are of `elemwise`, `optim`",
         "help: give the manifests of `lab`, or check it without any")
    done = check("plugins/elemwise", folder, folder / "lab.so")
    tap.equal((done.returncode, done.stderr), (0, ""))
    for name, told in (
            ("lab_cuda", "it was not built from the manifests of `lab_cuda`"),
            ("lab_other", "this is the plugin `lab_other`"),
            ("labs", "this is the plugin `labs`")):
        other = LAB.write(DOUBLED)
        (other / "plugin.yaml").write_text((other / "plugin.yaml").read_text(
            ).replace("plugin: lab", f"plugin: {name}"))
        LAB.build(other)
        says(check(folder, other / "lab.so"), f"error[E0084]: {told}")


def manifests_with_mistakes_are_not_taken_for_missing():
    folder = build()
    broken = LAB.write(DOUBLED.replace("summary", "sumary"))
    done = check(broken, "plugins/optim", folder / "lab.so")
    says(done, "error[E0012]: unknown key `sumary`", "opgen: 1 error in")
    tap.equal("E0084" in done.stderr, False, done.stderr)


# --------------------------------------------------- calls of gradients

CALLS = """\
opgen: 1
op: risky
summary: Twice the input, with a gradient of another plugin's
doc: Nothing of use.
inputs: [{name: data, dtype: f32, doc: Any}]
outputs: [{name: out, dtype: f32, shape: data, doc: Twice the input}]
forward: {out: 2*data}
gradient: {graph: {data: other.risky(grad.out)}}
examples:
  - {name: e, data: [1, 2], out: [2, 4], grad: {out: [1, 3], data: [2, 6]}}
"""


def called(folder):
    """A plugin `other` as FOLDER/other.so."""
    other = LAB.write(RISKY)
    manifest = other / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("plugin: lab",
                                                     "plugin: other"))
    LAB.build(other, RISKY_C.replace("lab_risky_params", "other_risky_params"))
    folder.mkdir(parents=True)
    return shutil.move(other / "lab.so", folder / "other.so")


def a_file_knows_the_operators_beside_it():
    """Those of its plugin.yaml, unless there are mistakes in them."""
    folder = LAB.write(CALLS.replace("other.risky", "lab.doubled"))
    manifest = folder / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("[op.yaml]",
                                                     "[op.yaml, b.yaml]"))
    beside = folder / "b.yaml"
    beside.write_text(DOUBLED)
    done = check(folder / "op.yaml")
    tap.equal((done.returncode, done.stderr), (0, ""))
    beside.write_text(DOUBLED.replace("op: doubled", "op: double"))
    says(check(folder / "op.yaml"),
         "error[E0075]: plugin `lab` has no operator `doubled`",
         "help: did you mean `double`?")
    beside.write_text(DOUBLED.replace(
        "f32}]\noutputs", "f32}, {name: b, dtype: f32, shape: data}]\noutputs"
        ).replace("2*data", "b*data").replace("data: [1]", "data: [1], b: [2]"))
    says(check(folder / "op.yaml"), "error[E0075]: `lab.doubled` ")
    beside.write_text(DOUBLED.replace("summary", "sumary"))
    done = check(folder / "op.yaml")
    tap.equal((done.returncode, done.stderr), (0, ""), "b.yaml was not asked for")


def gradients_call_plugins_that_are_given():
    folder = build(CALLS, "")
    says(check(folder, folder / "lab.so"), "error[E0082]: example `e`: ",
         "lab.risky@1 has no gradient here: ", "other")
    other = called(folder / "elsewhere")
    done = check(folder, folder / "lab.so", "--with", other)
    tap.equal((done.returncode, done.stderr), (0, ""))
    says(check(folder, folder / "lab.so", "--with", "none.so"),
         "none.so:1:1: error[E0001]: cannot read the plugin")


def installed(folder):
    """An opgen as it is installed below FOLDER, with its files."""
    program = folder / "bin/opgen"
    program.parent.mkdir(parents=True)
    shutil.copy(OPGEN, program)
    (folder / "lib/tenon").mkdir(parents=True, exist_ok=True)
    (folder / "lib/libtenon-manifest.so.0").symlink_to(READER)
    (folder / "lib/tenon/tenon-probe").symlink_to(PROBE)
    return program


def check_installed(program, *args):
    return subprocess.run([program, "check", *map(str, args)], text=True,
                          capture_output=True, check=False)


def gradients_call_plugins_that_are_installed():
    """They are in lib/tenon, next to the folder of opgen."""
    folder = build(CALLS, "")
    called(folder / "root/lib/tenon")
    done = check_installed(installed(folder / "root"), folder,
                           folder / "lab.so")
    tap.equal((done.returncode, done.stderr), (0, ""))


# out = x, by memcpy(out, x, 4*n).
BOUND = """\
opgen: 1
op: risky
summary: A copy
doc: By the C library.
inputs: [{name: x, dtype: f32, doc: Any}]
outputs: [{name: out, dtype: f32, shape: x, doc: The same}]
binding:
  library: libc.so.6
  symbol: memcpy
  thread: any
  args:
    - {c: float*, pass: out}
    - {c: const float*, pass: x}
    - {c: uint64, pass: 4*size(x)}
gradient: none
examples:
  - {name: e, x: [1, 2.5], out: [1, 2.5]}
"""
CALLS_BOUND = CALLS.replace("2*data", "data").replace(
    "[2, 4]", "[1, 2]").replace("[2, 6]", "[1, 3]")


def bound(folder):
    """The manifests of a plugin `other` in FOLDER, nothing of it compiled."""
    other = LAB.write(BOUND)
    manifest = other / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("plugin: lab",
                                                     "plugin: other"))
    shutil.move(other, folder)
    return folder


def gradients_call_bindings_that_are_given():
    """As a folder, or a plugin.yaml; compiled operators are only read."""
    folder = build(CALLS_BOUND, "")
    program = installed(folder / "root")
    other = bound(folder / "elsewhere")
    compiled = LAB.write(RISKY)
    for path in (other, other / "plugin.yaml"):
        done = check_installed(program, folder, folder / "lab.so", "--with",
                               path, "--with", compiled)
        tap.equal((done.returncode, done.stderr), (0, ""), path)
    manifest = other / "op.yaml"
    manifest.write_text(BOUND.replace("out: [1, 2.5]", "out: [1, 3]"))
    says(check_installed(program, folder, folder / "lab.so", "--with", other),
         "error[E0082]: example `e`: ", "example `e` of other.risky: element 1 "
         "of `out` is 2.5, expected 3")
    manifest.write_text(BOUND.replace("symbol", "symbl"))
    says(check_installed(program, folder, folder / "lab.so", "--with", other),
         "error[E0012]: unknown key `symbl`", "did you mean `symbol`?")


KERNEL = """\
opgen: 1
kernels_for: other.risky@1
kernels:
  - {device: cpu, priority: 100, forward: lab_risky, writes: [write]}
examples:
  - {name: fine, data: [1, 2.5], out: [2, 5]}
"""
KERNEL_C = RISKY_C.replace("lab_risky_params", "other_risky_params")


def kernel(folder, manifest=KERNEL, source=KERNEL_C, init=""):
    """A plugin with a kernel for the operator of `folder`."""
    mine = LAB.write(manifest)
    with (mine / "plugin.yaml").open("a") as file:
        file.write(init)
    return LAB.build(mine, source, given=[folder])


def other_risky():
    """The folder of a plugin `other`, with other.so."""
    other = LAB.write(RISKY)
    manifest = other / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("plugin: lab",
                                                     "plugin: other"))
    # Its own kernel is not checked.
    LAB.build(other, KERNEL_C.replace("2 * x", "7 * x"))
    return other, shutil.move(other / "lab.so", other / "other.so")


def examples_beside_kernels_for_others_are_computed_with_these():
    other, library = other_risky()
    folder = kernel(other)
    given = ("--with", other, "--with", library)
    done = check(folder, folder / "lab.so", *given)
    tap.equal((done.returncode, done.stderr), (0, ""))
    says(check(folder, folder / "lab.so", "--with", other),
         "error[E0082]: example `fine`: there is no operator "
         '"other.risky@1"')
    folder = kernel(other, KERNEL.replace("out: [2, 5]", "out: [2, 6]"))
    says(check(folder, folder / "lab.so", *given),
         "op.yaml:6:5: error[E0083]: example `fine`: `out` comes out as [2, 5]")
    done = subprocess.run([OPGEN, "docs", folder, "--plugin",
                           folder / "lab.so", *given], text=True,
                          capture_output=True, check=False)
    tap.equal((done.returncode, done.stdout, done.stderr),
              (1, "", "opgen: op.yaml: example `fine` of `other.risky@1`: `out` "
               "differs from the result of lab.so\n"))
    folder = kernel(other, KERNEL + "  - {name: crash, params: {how: 1}, "
                    "data: [1], out: [2]}\n  - {name: wrong, data: [3], "
                    "out: [7]}\n")
    says(check(folder, folder / "lab.so", *given), "opgen: 2 errors",
         "op.yaml:7:5: error[E0082]: example `crash`: it ended the process: ",
         "op.yaml:8:5: error[E0083]: example `wrong`: `out` comes out as [6]")


def operators_of_bindings_have_such_examples_too():
    other = bound(FOLDER / "bound_elsewhere")
    manifest = KERNEL.replace("data:", "x:").replace("[2, 5]", "[2, 6]")
    folder = kernel(other, manifest, """#include "op.gen.h"
int32_t lab_risky(const tn_frame *call) {
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    ((float *)call->out[0].data)[i] = 2 * ((const float *)call->in[0].data)[i];
  return TN_OK;
}
""")
    program = installed(folder / "root")
    says(check_installed(program, folder, folder / "lab.so", "--with", other),
         "error[E0083]: example `fine`: `out` comes out as [2, 5]")


def kernels_for_others_that_decline_are_told_unless_they_were_withdrawn():
    other, library = other_risky()
    given = ("--with", other, "--with", library)
    declines = KERNEL.replace("forward: lab_risky,",
                              "forward: lab_risky, when: how == 3,")
    folder = kernel(other, declines)
    says(check(folder, folder / "lab.so", *given), "error[E0082]: example "
         "`fine`: no forward kernel of other.risky@1 takes this call",
         "only when how == 3")
    folder = kernel(other, source=KERNEL_C + """
#include "plugin.gen.h"
int32_t lab_init(const tn_host *host, tn_registrar *registrar, void **instance) {
  (void)host, (void)instance;
  return registrar->withdraw(registrar, "lab.risky.cpu", "not today");
}
""", init="init: lab_init\n")
    done = check(folder, folder / "lab.so", *given)
    tap.equal((done.returncode, done.stderr), (0, ""))


def bindings_compute_their_own_manual():
    """And nobody else's."""
    folder = LAB.write(BOUND)
    program = installed(folder / "root")

    def docs(plugin):
        return subprocess.run([program, "docs", folder, "--plugin", plugin],
                              text=True, capture_output=True, check=False)

    done = docs(folder / "plugin.yaml")
    tap.equal((done.returncode, done.stderr), (0, ""))
    assert "gives, computed:" in done.stdout, done.stdout
    done = docs(bound(folder / "other") / "plugin.yaml")
    tap.equal((done.returncode, done.stdout), (1, ""))
    assert "this is the plugin `other`, not `lab`" in done.stderr, done.stderr


def gradients_call_bindings_that_are_installed():
    """In a folder of their name. One that does not load is told."""
    folder = build(CALLS_BOUND, "")
    program = installed(folder / "root")
    other = bound(folder / "root/lib/tenon/other")
    bound(folder / "root/lib/tenon/another")
    done = check_installed(program, folder, folder / "lab.so")
    tap.equal((done.returncode, done.stderr), (0, ""))
    (other / "op.yaml").write_text(BOUND.replace("libc.so.6", "libnone.so"))
    says(check_installed(program, folder, folder / "lab.so"),
         "opgen: other.risky@1 is not there for a gradient: ", "libnone.so",
         "error[E0082]: example `e`: ")


tap.run([
    a_warning_is_no_failure, werror_makes_it_one, a_lint_may_be_an_error,
    a_lint_may_be_off, all_is_more_than_the_default,
    every_lint_has_a_case_of_its_name, lints_wait_for_mistakes_to_be_mended,
    json_is_json, short_is_a_line_each, a_terminal_is_coloured,
    a_good_plugin_is_silent, a_file_that_is_none_is_refused,
    a_changed_note_is_refused, a_plugin_that_dies_while_it_is_loaded,
    another_exported_symbol_is_found, an_example_that_fails_is_found,
    a_plugin_of_other_manifests_is_found,
    manifests_of_another_plugin_are_an_error,
    manifests_with_mistakes_are_not_taken_for_missing,
    a_file_knows_the_operators_beside_it,
    gradients_call_plugins_that_are_given,
    gradients_call_plugins_that_are_installed,
    gradients_call_bindings_that_are_given,
    examples_beside_kernels_for_others_are_computed_with_these,
    operators_of_bindings_have_such_examples_too,
    kernels_for_others_that_decline_are_told_unless_they_were_withdrawn,
    bindings_compute_their_own_manual,
    gradients_call_bindings_that_are_installed])
