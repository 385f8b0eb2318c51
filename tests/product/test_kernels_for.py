# SPDX-License-Identifier: Apache-2.0
"""Kernels for operators of other plugins pass the examples of those.

    test_kernels_for.py SOURCE_ROOT BUILD_ROOT

Everything happens outside the tree, against an installed copy that was moved: a
project of `opgen new --for` gets its examples from the manifests that are
installed, and its kernels alone are asked.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from installed import Installed  # noqa: E402

BUILD = pathlib.Path(sys.argv[2])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
TENON = Installed(BUILD, FOLDER)
PROJECT = FOLDER / "quick"

MANIFEST = """opgen: 1
kernels_for: nn.fully_connected@1
kernels:
  - device: cpu
    priority: 100
    forward: quick_dense_cpu
    backward: quick_dense_cpu_backward
    dtypes: [f32]
    flags: [reentrant, deterministic]
"""

# out[n,h] = bias[h] + sum over k of data[n,k] * weight[h,k], and its gradients.
SOURCE = """#include "dense.gen.h"

int32_t quick_dense_cpu(const tn_frame *call) {
  const tn_tensor *w = &call->in[NN_FULLY_CONNECTED_IN_WEIGHT];
  const float *x = call->in[NN_FULLY_CONNECTED_IN_DATA].data, *m = w->data;
  const int absent =
      call->in_flags[NN_FULLY_CONNECTED_IN_BIAS] & TN_IN_ABSENT;
  const float *b = absent ? 0 : call->in[NN_FULLY_CONNECTED_IN_BIAS].data;
  float *y = call->out[0].data;
  const int64_t rows = w->shape[0] == 0 ? 0
                       : tn_tensor_size(&call->out[0]) / w->shape[0];
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t h = 0; h < w->shape[0]; ++h) {
      float sum = b ? b[h] : 0;
      for (int64_t k = 0; k < w->shape[1]; ++k)
        sum += x[n * w->shape[1] + k] * m[h * w->shape[1] + k];
      y[n * w->shape[0] + h] = sum;
    }
  return TN_OK;
}

static void add(const tn_frame *call, int which, int64_t at, float x) {
  if (call->req[which] != TN_REQ_NULL) ((float *)call->out[which].data)[at] += x;
}

int32_t quick_dense_cpu_backward(const tn_frame *call) {
  /* Operands that no gradient needs are absent, without a shape. */
  const float *w = call->in[NN_FULLY_CONNECTED_BACKWARD_IN_WEIGHT].data;
  const tn_tensor *g = &call->in[NN_FULLY_CONNECTED_BACKWARD_GRAD_OUT];
  const float *x = call->in[NN_FULLY_CONNECTED_BACKWARD_IN_DATA].data;
  const int64_t hidden = g->shape[g->ndim - 1];
  const int64_t width =
      call->req[0] != TN_REQ_NULL
          ? call->in[NN_FULLY_CONNECTED_BACKWARD_IN_WEIGHT].shape[1]
          : call->req[1] != TN_REQ_NULL ? call->out[1].shape[1] : 0;
  const int64_t rows = hidden == 0 ? 0 : tn_tensor_size(g) / hidden;
  for (int i = 0; i < (int)call->n_out; ++i)
    for (int64_t k = 0; call->req[i] != TN_REQ_NULL &&
                        k < tn_tensor_size(&call->out[i]); ++k)
      ((float *)call->out[i].data)[k] = 0;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t h = 0; h < hidden; ++h) {
      const float s = ((const float *)g->data)[n * hidden + h];
      for (int64_t k = 0; k < width; ++k) {
        if (call->req[0] != TN_REQ_NULL)
          add(call, 0, n * width + k, s * w[h * width + k]);
        if (call->req[1] != TN_REQ_NULL)
          add(call, 1, h * width + k, s * x[n * width + k]);
      }
      if (call->n_out > 2) add(call, 2, h, s);
    }
  return TN_OK;
}
"""


def build(project=PROJECT):
    again = ["--reconfigure"] if (project / "build").exists() else []
    # The test is that it compiles, not its speed.
    TENON.run("meson", "setup", *again, "build", "-Dcuda=disabled",
              "-Doptimization=0", cwd=project)
    TENON.run("meson", "compile", "-C", "build", cwd=project)


def tests(project=PROJECT):
    """Status and log of the project's own tests."""
    status = subprocess.run(["meson", "test", "-C", "build"], cwd=project,
                            env=TENON.environment(), check=False,
                            capture_output=True).returncode
    return status, (project / "build/meson-logs/testlog.txt").read_text()


def writes(manifest=MANIFEST, source=SOURCE):
    (PROJECT / "dense.yaml").write_text(manifest)
    (PROJECT / "dense.c").write_text(source)
    build()


def fails(*parts):
    status, log = tests()
    assert status != 0, log
    for part in parts:
        assert part in log, f"no `{part}` in\n{log}"


def a_project_begins_with_a_kernel_that_is_not_written():
    said = TENON.run("opgen", "new", "quick.dense", "--for",
                     "nn.fully_connected", cwd=FOLDER)
    for name in "dense.yaml", "dense.c", "plugin.yaml", "meson.build":
        assert f"wrote quick/{name}\n" in said, said
    described = TENON.root / "share/tenon/manifests/nn"
    TENON.run("opgen", "check", "-Werror", "--with", described, cwd=PROJECT)
    TENON.run("opgen", "fmt", "--check", "dense.yaml", "plugin.yaml",
              cwd=PROJECT)
    build()
    status, log = tests()
    assert status == 0, log
    assert ("nn.fully_connected@1 rows: f64, cpu, dense, new "
            "(quick.fully_connected.cpu) # TODO") in log, log


def the_operators_examples_run_with_the_kernel_alone():
    writes()
    status, log = tests()
    assert status == 0, log
    for case in ("rows: f32, cpu, dense, new", "flattened: f32, cpu, dense, add",
                 "kept: f32, cpu, columns, write",
                 "rows: f32, cpu, dense, null out",
                 "rows gradient: f32, cpu, dense, null weight",
                 "rows: f32, cpu, repeated, new",
                 "rows: numeric gradient, f32, point 1"):
        assert re.search(rf"^# ok: nn.fully_connected@1 {re.escape(case)} "
                         r"\(quick.fully_connected.cpu\)$", log, re.M), case
    # Types that it does not accept are no test cases, rather than cases for
    # other kernels.
    assert "f64" not in log and "not ok" not in log, log


def a_kernel_that_is_wrong_fails():
    wrong = SOURCE.replace("float sum = b ? b[h] : 0", "float sum = 0")
    assert wrong != SOURCE
    writes(source=wrong)
    fails("rows: f32, cpu, dense, new (quick.fully_connected.cpu)",
          "`out` (f32), element (0,0): expected 11, got 1")
    wrong = SOURCE.replace("add(call, 2, h, s)", "add(call, 2, h, 2 * s)")
    assert wrong != SOURCE
    writes(source=wrong)
    fails("not ok", "rows gradient: f32, cpu, dense, new", "`bias` (f32)")


def one_that_takes_none_of_the_examples_fails_until_it_has_its_own():
    narrow = MANIFEST.replace("    forward:", "    when: num_hidden == 4\n"
                              "    forward:")
    writes(manifest=narrow)
    fails("nn.fully_connected@1: an example that runs forward "
          "(quick.fully_connected.cpu)", "this kernel took no forward call",
          "num_hidden == 4", "write `examples` beside it",
          "an example that runs backward")
    writes(manifest=narrow + """examples:
  - name: four
    params: {num_hidden: 4, no_bias: true}
    data: [[2]]
    weight: [[1], [2], [3], [4]]
    out: [[2, 4, 6, 8]]
    grad: {out: [[1, 0, 0, 1]], data: [[5]], weight: [[2], [0], [0], [2]]}
""")
    status, log = tests()
    assert status == 0, log
    assert "four: f32, cpu, dense, new (quick.fully_connected.cpu)" in log, log
    assert "an example that runs" not in log, log
    # And by opgen, beside the installed plugins.
    manifest = PROJECT / "dense.yaml"
    check = ["opgen", "check", "--with",
             TENON.root / "share/tenon/manifests/nn", ".", "build/quick.so"]
    TENON.run(*check, cwd=PROJECT)
    manifest.write_text(manifest.read_text().replace("[5]", "[6]"))
    result = subprocess.run(check, cwd=PROJECT, env=TENON.environment(),
                            capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "error[E0083]: example `four`: " \
        "`grad.data` comes out as [[5]]" in result.stderr, result.stderr


def one_pass_may_be_for_calls_that_examples_do_not_make():
    writes(manifest=MANIFEST.replace("    forward:", "    supports: quick_takes\n"
                                     "    forward:"),
           source=SOURCE + """
int32_t quick_takes(const tn_frame *call) {
  if (call->flags & TN_CALL_BACKWARD)
    return TN_FAIL(call, TN_UNSUPPORTED, "gradients are for tomorrow");
  return TN_OK;
}
""")
    status, log = tests()
    assert status == 0, log
    assert re.search("^ok .*an example that runs backward .*# SKIP this kernel "
                     "took no backward call .*gradients are for tomorrow", log,
                     re.M), log


def without_manifests_a_skip_names_the_missing_option():
    build_file = PROJECT / "meson.build"
    kept = build_file.read_text()
    assert "\nmanifests = [manifestdir / 'nn']\n" in kept, kept
    build_file.write_text(kept.replace("manifests = [manifestdir / 'nn']",
                                       "manifests = []"))
    writes()
    status, log = tests()
    assert status == 0, log
    assert "# SKIP no example of it is known: say `opgen generate" in log, log
    build_file.write_text(kept)


def the_operators_plugin_has_to_be_there():
    build()
    program, plugin = PROJECT / "build/quick_test", PROJECT / "build/quick.so"
    result = subprocess.run([program, plugin], capture_output=True, text=True,
                            env=TENON.environment(), check=False)
    assert result.returncode == 1, result.stdout
    assert "name the plugin that has it on the command line, before this one" \
        in result.stdout, result.stdout
    result = subprocess.run(
        [program, TENON.root / "lib/tenon/nn.so"], capture_output=True,
        text=True, env=TENON.environment(), check=False)
    assert result.returncode == 1, result.stdout
    assert "no plugin on the command line has the kernel" in result.stdout, \
        result.stdout


def the_same_project_has_kernels_for_several_plugins():
    """Each command finds the operators of those that are there already."""
    for name, source in ("dense.yaml", MANIFEST), ("dense.c", SOURCE):
        (PROJECT / name).write_text(source)
    build_file = PROJECT / "meson.build"
    said = TENON.run("opgen", "new", "quick.rect", "--for", "elemwise.relu",
                     cwd=PROJECT)
    assert "wrote rect.c\n" in said, said
    for line in said.splitlines():
        if line.startswith("add to "):
            where, what = line.removeprefix("add to ").split(": ")
            name = where.split()[0]
            text = build_file.read_text()
            assert f"\n{name} = [" in text, text
            build_file.write_text(text.replace(f"\n{name} = [",
                                               f"\n{name} = [{what} ", 1))
    build()
    status, log = tests()
    assert status == 0, log
    assert "elemwise.relu@1" in log and "(quick.relu.cpu) # TODO" in log, log
    assert "rows: f32, cpu, dense, new (quick.fully_connected.cpu)\n" in log, log
    # A function that is not written yet, of a declared kernel.
    (PROJECT / "rect.c").unlink()
    said = TENON.run("opgen", "new", "quick", "--missing", cwd=PROJECT)
    assert "wrote rect.c\n" in said, said
    # One plugin after `--with` does not hide the others.
    TENON.run("opgen", "new", "quick.soft", "--for", "nn.softmax",
              "--with", TENON.root / "share/tenon/manifests/nn", cwd=PROJECT)
    said = TENON.run("opgen", "new", "quick.square", cwd=PROJECT)
    assert "wrote square.yaml\n" in said, said


def lists(project):
    """The values of `others` and `manifests` in the build file."""
    text = (project / "meson.build").read_text()
    return [re.search(rf"(?m)^{name} = \[(.*)\]$", text)[1]
            for name in ("others", "manifests")]


def a_plugin_that_is_not_installed_is_at_the_named_path():
    TENON.run("opgen", "new", "acme.twice", "-o", "it's acme", cwd=FOLDER)
    acme, project = FOLDER / "it's acme", FOLDER / "mine"
    written = str(acme).replace("'", "\\'")
    said = TENON.run("opgen", "new", "mine.twice", "--for", "acme.twice",
                     "--with", "it's acme", cwd=FOLDER)
    tap.equal(lists(project), ["", f"'{written}'"])
    edit, end = said.index("edit others in meson.build: "), said.index("next:\n")
    assert edit < end and "the built plugin `acme`" in said[edit:end], said
    assert "edit manifests" not in said, said
    build(project)
    status, log = tests(project)
    assert status != 0 and "name the plugin that has it on the command line" \
        in log, log
    # The built file alone: the tests have nothing to compute.
    build(acme)
    shutil.rmtree(project)
    said = TENON.run("opgen", "new", "mine.twice", "--for", "acme.twice",
                     "--with", "it's acme/build/acme.so", cwd=FOLDER)
    tap.equal(lists(project), [f"'{written}/build/acme.so'", ""])
    edit, end = said.index("edit manifests in meson.build: "), \
        said.index("next:\n")
    assert edit < end and "edit others" not in said, said
    # Both.
    shutil.rmtree(project)
    said = TENON.run("opgen", "new", "mine.twice", "--for", "acme.twice",
                     "--with", acme / "plugin.yaml", "--with",
                     "it's acme/build/acme.so", cwd=FOLDER)
    assert "edit" not in said, said
    build(project)
    status, log = tests(project)
    assert status == 0, log
    assert "acme.twice@1 integers: f32, cpu, dense, new (mine.twice.cpu) " \
        "# TODO" in log, log
    # Lines to add to an existing project.
    said = TENON.run("opgen", "new", "mine.rect", "--for", "elemwise.relu",
                     "--with", "../it's acme", cwd=project)
    assert "add to others in meson.build, unless it is there: plugindir / " \
        "'elemwise.so',\n" in said and "edit" not in said, said


def a_binding_to_a_library_is_loaded_in_place():
    TENON.run("opgen", "new", "swap.pairs", "--from", "binding", cwd=FOLDER)
    said = TENON.run("opgen", "new", "fast.pairs", "--for", "swap.pairs",
                     "--with", "swap", cwd=FOLDER)
    assert "edit" not in said, said
    project = FOLDER / "fast"
    tap.equal(lists(project), [f"'{FOLDER / 'swap/plugin.yaml'}'", ""])
    build(project)
    status, log = tests(project)
    assert status == 0, log
    assert "swap.pairs@1 pairs: any, cpu, dense, new (fast.pairs.cpu) # TODO" \
        in log, log
    # An installed one, with the operators that its gradient calls.
    said = TENON.run("opgen", "new", "line.axpy", "--for", "blas.axpy",
                     cwd=FOLDER)
    assert "edit" not in said, said
    tap.equal(lists(FOLDER / "line"), ["plugindir / 'blas/plugin.yaml', "
                                       "plugindir / 'elemwise.so'", ""])


def every_plugin_with_operators_is_described():
    """The installed files can be read in place, and are those of the build."""
    folder = TENON.root / "share/tenon/manifests"
    lapack = TENON.root / "lib/tenon/openblas.so"
    for plugin in sorted((TENON.root / "lib/tenon").glob("*.so")):
        said = json.loads(TENON.run("tenon", "inspect", plugin, "--json"))
        if said["plugin"]["operators"]:
            needs = ["--with", lapack] if plugin.stem == "linalg" else []
            TENON.run("opgen", "check", folder / plugin.stem, plugin, *needs)


if __name__ == "__main__":
    with SCRATCH:
        tap.run([a_project_begins_with_a_kernel_that_is_not_written,
                 the_operators_examples_run_with_the_kernel_alone,
                 a_kernel_that_is_wrong_fails,
                 one_that_takes_none_of_the_examples_fails_until_it_has_its_own,
                 one_pass_may_be_for_calls_that_examples_do_not_make,
                 without_manifests_a_skip_names_the_missing_option,
                 the_operators_plugin_has_to_be_there,
                 the_same_project_has_kernels_for_several_plugins,
                 a_plugin_that_is_not_installed_is_at_the_named_path,
                 a_binding_to_a_library_is_loaded_in_place,
                 every_plugin_with_operators_is_described])
