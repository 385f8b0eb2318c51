# SPDX-License-Identifier: Apache-2.0
"""A project of `opgen new` builds, passes its own tests and can be loaded.

    test_new.py SOURCE_ROOT BUILD_ROOT

Everything happens outside the tree, against an installed copy that was moved.
"""

import json
import os
import pathlib
import re
import shutil
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


def command(*words, cwd=FOLDER):
    """Status and output of a command that may fail."""
    result = subprocess.run([str(word) for word in words], cwd=cwd,
                            env=TENON.environment(), text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


def refused(*words, says, cwd=FOLDER, helps=True):
    """A command that must fail, with these words, and change nothing."""
    before = tree(FOLDER)
    status, text = command(*words, cwd=cwd)
    assert status != 0, f"{words} succeeded:\n{text}"
    assert says in text, f"no `{says}` in\n{text}"
    assert not helps or "= help:" in text, f"no help in\n{text}"
    tap.equal(tree(FOLDER), before, f"files after {words}")


def tree(folder):
    """Every file of a folder that is not built, with its content."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and TENON.root not in path.parents
            and "build" not in path.parts}


def build(folder, *options, quick="-Doptimization=0"):
    """The test is that it compiles, not its speed: so most builds are not
    optimised."""
    options = [*(options or ["-Dcuda=disabled"]), *([quick] if quick else [])]
    if (folder / "meson_options.txt").exists():
        again = ["--reconfigure"] if (folder / "build").exists() else []
        TENON.run("meson", "setup", *again, "build", *options, cwd=folder)
    else:
        TENON.run("meson", "setup", "build", cwd=folder)
    TENON.run("meson", "compile", "-C", "build", cwd=folder)


def build_companion(name):
    """Builds the project with its kernels for CUDA, runs its tests with both
    plugins, and loads both. Returns the kernels that `tenon inspect` prints."""
    folder = FOLDER / name
    if not shutil.which("nvcc", path=TENON.environment()["PATH"]):
        raise tap.Skip("nvcc is not installed: only what is built without it "
                       "was tested")
    build(folder, "-Dcuda=enabled")
    companion = folder / f"build/{name}.cuda.so"
    assert companion.name in passes(folder), "the tests do not load it"
    said = json.loads(TENON.run("tenon", "inspect", companion, "--json"))
    plugin = said["plugin"]
    tap.equal(plugin["name"], f"{name}_cuda", "name of the companion")
    TENON.run("tenon", "list", "--plugin", folder / f"build/{name}.so",
              "--plugin", companion)
    return sorted({each["id"] for each in plugin["kernels"]})


def tests(folder):
    """Status and log of the project's own tests."""
    status, _ = command("meson", "test", "-C", "build", cwd=folder)
    return status, (folder / "build/meson-logs/testlog.txt").read_text()


def passes(folder):
    status, log = tests(folder)
    assert status == 0, log
    return log


def a_formula_builds_and_runs():
    TENON.run("opgen", "new", "acme.quad", cwd=FOLDER)
    folder = FOLDER / "acme"
    build(folder, quick=None)
    log = passes(folder)
    for case in ("f16, cpu, dense, new", "f64, cpu, steps, add",
                 "inplace out", "numeric gradient, f64", "repeated, new"):
        assert case in log, f"no case `{case}` in\n{log}"
    tap.equal(TENON.run("tenon", "run", "acme.quad", "[1, 2, 3]", "a=1", "b=2",
                        "c=3", "--plugin", folder / "build/acme.so"),
              "[6, 11, 18]\n", "output")


def a_failed_case_is_shown_at_once():
    """By `meson test` alone, and the passed ones are not."""
    TENON.run("opgen", "new", "wrong.quad", cwd=FOLDER)
    folder = FOLDER / "wrong"
    manifest = folder / "quad.yaml"
    manifest.write_text(manifest.read_text().replace("b*data + c ",
                                                     "b*data + c + 1 "))
    build(folder)
    status, said = command("meson", "test", "-C", "build", cwd=folder)
    assert status != 0, said
    assert re.search(r"wrong\.quad@1 \w+: f32, cpu, dense, write: `out` \(f32\), "
                     r"element \(.*\): expected .*FAIL", said), said
    assert "null out OK" not in said, said


def functions_of_a_formula_are_linked():
    """A program that loads the plugin may have no libm of its own."""
    TENON.run("opgen", "new", "gam.op", cwd=FOLDER)
    folder = FOLDER / "gam"
    manifest = folder / "op.yaml"
    manifest.write_text(manifest.read_text().replace(
        "a*data^2 + b*data + c ", "gamma(data) + a + b + c "))
    build(folder)
    said = TENON.run("readelf", "-dW", folder / "build/gam.so")
    assert "NEEDED" in said and "[libm.so" in said, said


def a_kernel_says_that_it_is_not_written():
    TENON.run("opgen", "new", "lab.rect", "--kernels", "cpu", cwd=FOLDER)
    folder = FOLDER / "lab"
    build(folder)
    log = passes(folder)
    assert "lab_rect_cpu is not written yet" in log, log
    readme = " ".join((folder / "README.md").read_text().split())
    shows = re.search("are listed by `(meson test [^`]*)` as expected", readme)
    status, said = command(*shows[1].split(), cwd=folder)
    assert status == 0 and re.search("(?i)expected ?fail.*f32, cpu, dense, new|"
                                     "f32, cpu, dense, new.*expected ?fail",
                                     said), said
    plugin = folder / "build/lab.so"
    status, text = command("tenon", "run", "lab.rect", "[-1, 2]", "--plugin",
                           plugin)
    assert status != 0 and "lab_rect_cpu is not written yet" in text, text
    tap.equal(TENON.run("tenon", "run", "lab.rect", "[-1, 2]", "--dtype",
                        "f16", "--plugin", plugin),
              "[0, 2]\n", "what the formula gives, for a type without kernel")


def a_written_kernel_passes_and_a_wrong_one_fails():
    folder = FOLDER / "lab"
    source = folder / "rect.c"
    stub = source.read_text()
    head, _, _ = stub.partition("int32_t lab_rect_cpu")
    body = head.replace('#include "rect.gen.h"',
                        '#include "rect.gen.h"\n#include "tenon/kernel/kernel.h"') + """
static void line_f32(const tn_kernel_run *run) {
  const float *x = (const void *)run->at[1];
  float *y = (void *)run->at[0];
  for (int64_t i = 0; i < run->n; ++i)
    y[i * run->stride[0]] = x[i * run->stride[1]] > LIMIT ? x[i * run->stride[1]] : 0;
}
static void line_f64(const tn_kernel_run *run) {
  const double *x = (const void *)run->at[1];
  double *y = (void *)run->at[0];
  for (int64_t i = 0; i < run->n; ++i)
    y[i * run->stride[0]] = x[i * run->stride[1]] > LIMIT ? x[i * run->stride[1]] : 0;
}
int32_t lab_rect_cpu(const tn_frame *call) {
  tn_kernel_walk walk;
  tn_kernel_run run;
  tn_kernel_walk_init(&walk, &call->out[0]);
  tn_kernel_walk_add(&walk, &call->in[0]);
  tn_kernel_walk_begin(&walk);
  for (int64_t i = 0; i < walk.size; i += run.n) {
    tn_kernel_walk_run(&walk, i, walk.size, &run);
    (call->out[0].dtype == TN_F32 ? line_f32 : line_f64)(&run);
  }
  return TN_OK;
}
"""
    source.write_text("#define LIMIT 0\n" + body)
    TENON.run("meson", "compile", "-C", "build", cwd=folder)
    log = passes(folder)
    assert "not written" not in log, log
    source.write_text("#define LIMIT 1\n" + body)
    TENON.run("meson", "compile", "-C", "build", cwd=folder)
    status, log = tests(folder)
    assert status != 0, log
    for part in ("not ok", "lab.rect@1 integers: f32, cpu, dense, new",
                 "`out` (f32), element (1,0): expected 1, got 0, tolerance"):
        assert part in log, f"no `{part}` in\n{log}"
    source.write_text(stub)


def fails(folder, *parts):
    """The project's tests fail, and say these things."""
    TENON.run("meson", "compile", "-C", "build", cwd=folder)
    status, log = tests(folder)
    assert status != 0, log
    for part in parts:
        assert part in log, f"no `{part}` in\n{log}"


def a_kernel_that_forgets_to_add_fails():
    folder = FOLDER / "lab"
    manifest, source = folder / "rect.yaml", folder / "rect.c"
    kept = manifest.read_text(), source.read_text()
    manifest.write_text(kept[0].replace("writes: [write] ",
                                        "writes: [write, add] "))
    source.write_text('''#include "rect.gen.h"
int32_t lab_rect_cpu(const tn_frame *call) {
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    if (call->out[0].dtype == TN_F32) {
      const float x = ((const float *)call->in[0].data)[i];
      ((float *)call->out[0].data)[i] = x > 0 ? x : 0;
    } else {
      const double x = ((const double *)call->in[0].data)[i];
      ((double *)call->out[0].data)[i] = x > 0 ? x : 0;
    }
  }
  return TN_OK;
}
''')
    fails(folder, "lab.rect@1 integers: f32, cpu, dense, add",
          "expected 1, got 0, tolerance")
    manifest.write_text(kept[0])
    # It also reads elements as if they were dense.
    fails(folder, "not ok", "f32, cpu, columns, write")
    source.write_text(kept[1])


def a_function_that_no_source_has_is_missed_when_it_is_linked():
    folder = FOLDER / "lab"
    source = folder / "rect.c"
    kept = source.read_text()
    source.write_text('#include "rect.gen.h"\n')
    status, text = command("meson", "compile", "-C", "build", cwd=folder)
    assert status != 0 and "lab_rect_cpu" in text, text
    source.write_text(kept)


def a_wrong_gradient_is_found_by_differences():
    folder = FOLDER / "acme"
    manifest = folder / "quad.yaml"
    kept = manifest.read_text()
    lines = [line for line in kept.splitlines() if "grad:" not in line]
    wrong = "\n".join(lines).replace(
        "gradient: auto ", "gradient: {formula: {data: grad.out*(a*data + b)}} ")
    assert wrong.count("formula") == 1, wrong
    TENON.run("meson", "configure", "build", "-Doptimization=0", cwd=folder)
    manifest.write_text(wrong + "\n")
    fails(folder, "acme.quad@1 integers: numeric gradient, f64, point 1",
          "gradient of `data` (f64), element (0,0)", "a difference quotient")
    manifest.write_text(wrong + "\ngradcheck: {skip: It is wrong}\n")
    TENON.run("meson", "compile", "-C", "build", cwd=folder)
    assert "# SKIP It is wrong" in passes(folder)
    manifest.write_text(kept)


def an_edited_text_compiles_no_kernel():
    """Tables are compiled again, but no loop, kernel or test."""
    for name, manifest in ("acme", "quad.yaml"), ("lab", "rect.yaml"):
        folder = FOLDER / name
        TENON.run("meson", "compile", "-C", "build", cwd=folder)
        path = folder / manifest
        kept = path.read_text()
        path.write_text(kept.replace("  Computes", "  One line more.\n  Computes")
                        .replace("doc: Linear", "doc: The linear"))
        said = TENON.run("ninja", "-C", "build", "-v", cwd=folder)
        compiled = re.findall(r" -c (?:\S+/)?(\S+)\n", said)
        tap.equal(sorted(compiled), ["plugin.gen.c", manifest.replace(
            ".yaml", ".gen.c")], f"files of {name} that are compiled again")
        path.write_text(kept)


def an_edited_text_compiles_nothing_for_cuda():
    """After the companion of the same project was built."""
    folder = FOLDER / "acme"
    if not (folder / "build/acme.cuda.so").exists():
        raise tap.Skip("nvcc is not installed")
    TENON.run("meson", "compile", "-C", "build", cwd=folder)
    manifest = folder / "quad.yaml"
    kept = manifest.read_text()
    manifest.write_text(kept.replace("doc: Linear", "doc: The linear"))
    said = TENON.run("ninja", "-C", "build", "-v", cwd=folder)
    assert "cuda.gen.c" in said and "nvcc" not in said, said
    manifest.write_text(kept)


def templates_are_in_canonical_form_and_without_warnings():
    for name in ("acme", "lab", "deep", "gpu", "duo", "only", "c"):
        TENON.run("opgen", "check", "-Werror", name, cwd=FOLDER)
        TENON.run("opgen", "fmt", "--check",
                  *(FOLDER / name).glob("*.yaml"), cwd=FOLDER)


def patterns_and_a_backward_kernel_build():
    TENON.run("opgen", "new", "deep.conv", "--from", "convolution", cwd=FOLDER)
    folder = FOLDER / "deep"
    build(folder)
    assert "deep_conv_cpu is not written yet" in passes(folder)
    said = TENON.run("tenon", "inspect", folder / "build/deep.so")
    assert "conv" in said, said


def kernels_for_cuda_and_formulas_are_one_companion():
    TENON.run("opgen", "new", "gpu.rect", "--kernels", "cpu,cuda", cwd=FOLDER)
    folder = FOLDER / "gpu"
    build(folder)
    passes(folder)
    assert not list((folder / "build").rglob("*.cuda.so")), "it is disabled"
    said = TENON.run("tenon", "inspect", folder / "build/gpu.so")
    assert "cuda" not in said, said
    tap.equal(build_companion("gpu"),
              ["gpu.rect.cuda", "gpu.rect.cuda.generated",
               "gpu.rect_grad.cuda"], "kernels")


def a_formula_alone_has_a_companion():
    tap.equal(build_companion("acme"),
              ["acme.quad.cuda", "acme.quad_grad.cuda"], "kernels")


def kernels_for_cuda_without_a_formula_are_a_companion():
    TENON.run("opgen", "new", "duo.conv", "--from", "convolution",
              "--kernels", "cpu,cuda", cwd=FOLDER)
    build(FOLDER / "duo")
    assert "duo_conv_cpu is not written yet" in passes(FOLDER / "duo")
    tap.equal(build_companion("duo"), ["duo.conv.cuda"], "kernels")


def without_kernels_for_cuda_there_is_no_companion():
    folder = FOLDER / "deep"
    build(folder, "-Dcuda=auto")
    assert not list((folder / "build").rglob("*.cuda.so")), "what is in it?"


def formulas_beside_kernels_for_cuda_alone_run():
    TENON.run("opgen", "new", "only.rect", "--kernels", "cuda", cwd=FOLDER)
    folder = FOLDER / "only"
    assert not (folder / "rect.c").exists()
    build(folder)
    passes(folder)
    tap.equal(TENON.run("tenon", "run", "only.rect", "[-1, 2]", "--plugin",
                        folder / "build/only.so"), "[0, 2]\n", "output")


def a_missing_plugin_is_reported_once():
    TENON.run("opgen", "new", "fast.relu", "--kernels", "cpu", cwd=FOLDER)
    folder = FOLDER / "fast"
    (folder / "relu.yaml").write_text(
        "opgen: 1\nkernels_for: elemwise.relu@1\nkernels:\n"
        "  - {device: cpu, forward: fast_relu_cpu, dtypes: [f32]}\n")
    status, text = command("meson", "setup", "build", cwd=folder)
    assert status != 0, text
    for part in ("opgen says", "relu.yaml:2:14: error[E0060]", "add `--with`"):
        assert part in text, f"no `{part}` in\n{text}"
    shutil.rmtree(folder / "build")
    build_file = folder / "meson.build"
    lines = build_file.read_text()
    assert "\nothers = []\n" in lines, lines
    build_file.write_text(lines.replace(
        "\nothers = []\n", "\nothers = [plugindir / 'elemwise.so']\n"))
    build(folder)
    assert "SKIP no example of it is known" in passes(folder)
    said = TENON.run("tenon", "show", "elemwise.relu", "--why", "--plugin",
                     folder / "build/fast.so")
    assert "fast.relu.cpu" in said, said


def a_binding_is_loaded_in_place_checked_and_installed():
    TENON.run("opgen", "new", "c.swap", "--from", "binding", cwd=FOLDER)
    folder = FOLDER / "c"
    tap.equal(sorted(os.listdir(folder)), [".gitignore", "README.md",
              "meson.build", "plugin.yaml", "swap.yaml"], "files")
    call = ("run", "c.swap", "[1, 2, 255, 0]", "--dtype", "u8", "--plugin")
    tap.equal(TENON.run("tenon", *call, folder / "plugin.yaml"),
              "[2, 1, 0, 255]\n", "output, without a build")
    status, text = command("tenon", "run", "c.swap", "[1]", "--dtype", "u8",
                           "--plugin", folder / "plugin.yaml")
    assert status != 0 and "bytes are swapped two by two" in text, text
    build(folder)
    assert "c.swap" in passes(folder)
    TENON.run("meson", "install", "-C", "build", cwd=folder)
    installed = TENON.root / "lib/tenon/c"
    tap.equal(sorted(os.listdir(installed)), ["plugin.yaml", "swap.yaml"],
              "what is installed")
    tap.equal(TENON.run("tenon", *call, installed / "plugin.yaml"),
              "[2, 1, 0, 255]\n", "output of what is installed")


def a_binding_gets_another_and_its_mistakes_are_found():
    folder = FOLDER / "c"
    said = TENON.run("opgen", "new", "c.other", "--from", "binding", cwd=folder)
    assert "'other.yaml'," in said, said
    build_file, manifest = folder / "meson.build", folder / "other.yaml"
    build_file.write_text(build_file.read_text().replace(
        "  'swap.yaml',\n", "  'swap.yaml',\n  'other.yaml',\n"))
    kept = manifest.read_text()
    TENON.run("meson", "compile", "-C", "build", cwd=folder)
    assert "c.other" in passes(folder)
    manifest.write_text(kept.replace("out: [2, 1, 4, 3]", "out: [2, 1, 3, 4]"))
    fails(folder, "example `pairs` of c.other: element 2 of `out` is 4, "
          "expected 3")
    manifest.write_text(kept.replace("pass: data}", "pass: dat}"))
    status, text = command("meson", "compile", "-C", "build", cwd=folder)
    assert status != 0 and "`dat` is not a" in text, text
    manifest.write_text(kept)


def compiled_and_bound_operators_do_not_mix():
    refused("opgen", "new", "c.rect", "--kernels", "cpu", cwd=FOLDER / "c",
            says="are bound to libraries: nothing is compiled")
    refused("opgen", "new", "acme.swap", "--from", "binding",
            cwd=FOLDER / "acme", says="one that is bound to a library is not")
    refused("opgen", "new", "x.swap", "--from", "binding", "--kernels", "cpu",
            says="`--kernels` does not go with it")


def an_operator_is_added_to_a_project():
    folder = FOLDER / "acme"
    lines = (folder / "plugin.yaml").read_text()
    lines = lines.replace("- quad.yaml", "- quad.yaml   # the first")
    (folder / "plugin.yaml").write_text(lines + "# the end\n")
    said = TENON.run("opgen", "new", "acme.half", "--kernels", "cpu,cuda",
                     cwd=folder)
    assert "add to sources in meson.build: 'half.c'," in said, said
    assert "add to cuda_sources in meson.build: 'half.cu'," in said, said
    tap.equal((folder / "plugin.yaml").read_text(),
              lines + "  - half.yaml\n# the end\n", "plugin.yaml")
    build_file = folder / "meson.build"
    build_file.write_text(build_file.read_text().replace(
        "\nsources = [\n", "\nsources = [\n  'half.c',\n").replace(
            "cuda_sources = files(\n", "cuda_sources = files(\n  'half.cu',\n"))
    build(folder)
    log = passes(folder)
    assert "acme_half_cpu is not written yet" in log, log


def lists_of_every_form_are_kept():
    for before, after in (
            ("operators: [a.yaml]", "operators: [a.yaml, b.yaml]"),
            ("operators: [ a.yaml ]  # [one]",
             "operators: [ a.yaml, b.yaml ]  # [one]"),
            ("operators: [\n  a.yaml,  # first ]\n]",
             "operators: [\n  a.yaml, b.yaml,  # first ]\n]"),
            ("operators:\n  - a.yaml\n\n# end",
             "operators:\n  - a.yaml\n  - b.yaml\n\n# end"),
            ("operators:\n- 'a.yaml'", "operators:\n- 'a.yaml'\n- b.yaml")):
        folder = FOLDER / "lists"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(FOLDER / "only/rect.yaml", folder / "a.yaml")
        head = (FOLDER / "only/plugin.yaml").read_text().split("operators")[0]
        (folder / "plugin.yaml").write_text(head + before + "\n")
        TENON.run("opgen", "new", "only.b", cwd=folder)
        tap.equal((folder / "plugin.yaml").read_text(), head + after + "\n",
                  before)


def only_missing_parts_are_added():
    folder = FOLDER / "deep"
    source = folder / "conv.c"
    text = source.read_text()
    at = text.index("/* Computes the gradients")
    source.write_text(text[:at] + "/* int32_t deep_conv_cpu_backward(x) { */\n"
                      "int32_t deep_conv_cpu_backward(const tn_frame *call);\n")
    before = tree(folder)
    said = TENON.run("opgen", "new", "deep.conv", "--missing", cwd=folder)
    assert "conv_stubs.c" in said, said
    after = tree(folder)
    stubs = after.pop("conv_stubs.c").decode()
    tap.equal(after, before, "other files")
    assert "deep_conv_cpu_backward" in stubs and "deep_conv_cpu(" not in stubs, stubs
    tap.equal(TENON.run("opgen", "new", "deep", "--missing", cwd=folder),
              "nothing is missing\n", "the second time")


def names_of_installed_plugins_are_refused():
    for name, file in ("elemwise", "elemwise.so"), ("blas", "blas/plugin.yaml"):
        refused("opgen", "new", f"{name}.mine", cwd=FOLDER,
                says=f"a plugin `{name}` is installed already: "
                f"{TENON.root.resolve()}/lib/tenon/{file}")
    folder = FOLDER / "own"
    TENON.run("opgen", "new", "elemwise2.mine", "-o", "own", cwd=FOLDER)
    text = (folder / "plugin.yaml").read_text()
    (folder / "plugin.yaml").write_text(text.replace("elemwise2", "elemwise"))
    TENON.run("opgen", "new", "elemwise.more", cwd=folder)


def every_command_is_printed_for_a_shell():
    """Typed as they are printed, in a shell that knows of no Tenon."""
    said = TENON.run("opgen", "new", "typed.op", cwd=FOLDER)
    commands = said.partition("next:\n")[2]
    assert "export" not in commands, "the search path is known here"
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("TENON_", "LD_", "PKG_CONFIG"))}
    shutil.rmtree(FOLDER / "typed")
    said = tap.output([TENON.root / "bin/opgen", "new", "typed.op"],
                      env=clean, cwd=FOLDER)
    commands = said.partition("next:\n")[2]
    assert "  export PKG_CONFIG_PATH=" in commands, said
    commands = commands.replace("meson setup build", "meson setup build "
                                "-Dcuda=disabled -Doptimization=0")
    done = tap.output(["sh", "-e", "-c", commands], env=clean, cwd=FOLDER)
    assert "Fail:               0" in done and "typed" in done, done


def nvcc_is_announced_before_it_is_used():
    folder = FOLDER / "bin"
    folder.mkdir()
    (folder / "nvcc").write_text("#!/bin/sh\nexit 1\n")
    (folder / "nvcc").chmod(0o755)
    environment = TENON.environment()
    environment["PATH"] = f"{folder}:{environment['PATH']}"

    def new(*args):
        return tap.output(["opgen", "new", *args], env=environment, cwd=FOLDER)

    said = new("devices.op")
    notice, _, _ = said.partition("next:\n")
    assert f"{folder}/nvcc will be used" in notice, said
    assert "`meson setup build -Dcuda=disabled` builds without it" in notice
    assert "nvcc" not in new("deeper.op", "--from", "convolution"), \
        "nothing there is for CUDA"
    text = tap.output(["meson", "setup", "build"], env=environment,
                      cwd=FOLDER / "devices")
    assert f"{folder}/nvcc compiles devices.cuda.so; -Dcuda=disabled builds " \
        "without it" in text, text
    shutil.rmtree(folder)


def plugins_are_installed_where_the_prefix_says():
    folder = FOLDER / "acme"
    other = tempfile.mkdtemp(dir=FOLDER)
    for name, files in ("acme", ["acme.so"]), ("c", ["c/plugin.yaml"]):
        folder = FOLDER / name
        options = ["-Dcuda=disabled"] if name == "acme" else []
        TENON.run("meson", "setup", f"--prefix={other}/root", "placed",
                  *options, "-Doptimization=0", cwd=folder)
        TENON.run("meson", "compile", "-C", "placed", cwd=folder)
        TENON.run("meson", "install", "-C", "placed", "--no-rebuild",
                  "--destdir", f"{other}/stage", cwd=folder)
        TENON.run("meson", "install", "-C", "placed", "--no-rebuild",
                  cwd=folder)
        for file in files:
            for root in f"{other}/root", f"{other}/stage{other}/root":
                assert (pathlib.Path(root) / "lib/tenon" / file).exists(), \
                    f"{file} below {root}"
        assert not (TENON.root / "lib/tenon" / files[0]).exists() or \
            name == "c", f"{name} beside Tenon's own plugins"
        shutil.rmtree(folder / "placed")
    said = TENON.run("tenon", "list", "--plugin",
                     f"{other}/root/lib/tenon/acme.so")
    assert "acme.quad" in said, said


def nothing_is_written_over_or_left_behind():
    refused("opgen", "new", "acme.quad", says="quad.yaml exists already")
    refused("opgen", "new", "acme.quad", cwd=FOLDER / "acme",
            says="quad.yaml exists already")
    refused("opgen", "new", "other.op", cwd=FOLDER / "acme",
            says="is the plugin `acme`, not `other`")
    for name in ("Acme.op", "acme", "acme.", ".op", "acme.a.b", "acme.1st",
                 "tn_x.op", "acme.plugin", "a" * 65 + ".op"):
        refused("opgen", "new", name, says=f"`{name}`")
    for name in ("test.op", "all.op", "install.op"):
        refused("opgen", "new", name, says="is a target that meson has itself")
    refused("opgen", "new", "x.op", "--from", "quadratc",
            says="did you mean `quadratic`?")
    refused("opgen", "new", "x.op", "--kernels", "rocm", says="`rocm`")
    for device in "cpu", "cuda":
        refused("opgen", "new", "x.op", "--from", "quadratic", "--kernels",
                device, says="--from relu")
    refused("opgen", "new", "x", "--missing", "--from", "relu",
            says="--missing")
    refused("opgen", "new", "x", "--missing", says="there is no x/plugin.yaml")
    folder = FOLDER / "half"
    folder.mkdir()
    (folder / "README.md").write_text("mine\n")
    refused("opgen", "new", "half.op", says="README.md exists already")
    tap.equal(os.listdir(folder), ["README.md"], "what is left")
    twice = FOLDER / "acme"
    (twice / "third.yaml").write_text(
        (twice / "quad.yaml").read_text().replace("op: quad", "op: fourth"))
    listed = (twice / "plugin.yaml").read_text()
    (twice / "plugin.yaml").write_text(
        listed.replace("  - half.yaml\n", "  - half.yaml\n  - third.yaml\n"))
    refused("opgen", "new", "acme.fourth", cwd=twice, says="`fourth` is defined twice",
            helps=False)


if __name__ == "__main__":
    with SCRATCH:
        tap.run([a_formula_builds_and_runs,
                 a_failed_case_is_shown_at_once,
                 functions_of_a_formula_are_linked,
                 a_kernel_says_that_it_is_not_written,
                 a_written_kernel_passes_and_a_wrong_one_fails,
                 a_kernel_that_forgets_to_add_fails,
                 a_function_that_no_source_has_is_missed_when_it_is_linked,
                 a_wrong_gradient_is_found_by_differences,
                 an_edited_text_compiles_no_kernel,
                 patterns_and_a_backward_kernel_build,
                 a_missing_plugin_is_reported_once,
                 a_binding_is_loaded_in_place_checked_and_installed,
                 a_binding_gets_another_and_its_mistakes_are_found,
                 compiled_and_bound_operators_do_not_mix,
                 kernels_for_cuda_and_formulas_are_one_companion,
                 a_formula_alone_has_a_companion,
                 an_edited_text_compiles_nothing_for_cuda,
                 kernels_for_cuda_without_a_formula_are_a_companion,
                 without_kernels_for_cuda_there_is_no_companion,
                 formulas_beside_kernels_for_cuda_alone_run,
                 templates_are_in_canonical_form_and_without_warnings,
                 an_operator_is_added_to_a_project,
                 lists_of_every_form_are_kept,
                 only_missing_parts_are_added,
                 names_of_installed_plugins_are_refused,
                 every_command_is_printed_for_a_shell,
                 nvcc_is_announced_before_it_is_used,
                 plugins_are_installed_where_the_prefix_says,
                 nothing_is_written_over_or_left_behind])
