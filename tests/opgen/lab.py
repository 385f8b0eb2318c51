# SPDX-License-Identifier: Apache-2.0
"""A plugin `lab` of one operator, written and compiled by a test of opgen.

    lab = Lab(opgen, cc, folder)
    lab.build(lab.write(RISKY), RISKY_C)
"""

import pathlib
import subprocess
import tempfile

import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = """\
opgen: 1
plugin: lab
release: 1
summary: Operators of a test
license: Apache-2.0
operators: [op.yaml]
"""
RISKY = """\
opgen: 1
op: risky
summary: A kernel that does what its parameter says
doc: Nothing of use.
params: [{name: how, type: int, default: 0, doc: What}]
dtypes: {T: [f32]}
inputs: [{name: data, dtype: T, doc: Any}]
outputs: [{name: out, dtype: T, shape: data, doc: Twice the input}]
gradient: {none: true, why: it is a test}
kernels:
  - {device: cpu, forward: lab_risky, writes: [write]}
examples:
  - {name: fine, data: [1, 2.5], out: [2, 5]}
"""
RISKY_C = """\
#include <stdlib.h>
#include "op.gen.h"
int32_t lab_risky(const tn_frame *call) {
  const lab_risky_params *params = call->params;
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  if (params->how == 1) abort();
  if (params->how == 2) return TN_FAIL(call, TN_INVALID, "no, thanks");
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) y[i] = 2 * x[i];
  return TN_OK;
}
"""


class Lab:
    """`opgen` and `cc` are the beginnings of commands."""

    def __init__(self, opgen, cc, folder):
        self.opgen, self.cc, self.folder = opgen, cc, folder

    def write(self, op):
        """A new folder with the manifests of the plugin."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "plugin.yaml").write_text(PLUGIN)
        (folder / "op.yaml").write_text(op)
        return folder

    def build(self, folder, source="", hidden=True, given=()):
        """Makes lab.so beside the manifests; returns the folder. `given` are
        paths after `--with`."""
        out = folder / "generated"
        tap.output([*self.opgen, "generate", folder / "plugin.yaml",
                    "-o", out, *(f"--with={each}" for each in given)])
        (out / "kernels.c").write_text(source)
        visibility = ["-fvisibility=hidden"] if hidden else []
        tap.output([*self.cc, "-shared", "-fPIC", *visibility, "-I",
                    ROOT / "sdk/include", "-I", out,
                    "-o", folder / "lab.so", *sorted(out.glob("*.c")), "-lm"])
        return folder

    def tests(self, folder, library, *plugins, given=()):
        """Makes the program that `generate --tests` writes and runs it with
        `plugins`, or lab.so: its exit status and its output."""
        out = folder / "generated"
        program = folder / "lab_test"
        tap.output([*self.opgen, "generate", "--tests",
                    folder / "plugin.yaml", "-o", out,
                    *(f"--with={each}" for each in given)])
        tap.output([*self.cc, "-O0", "-I", ROOT / "sdk/include", "-o", program,
                    out / "lab_test.gen.c", library,
                    f"-Wl,-rpath,{pathlib.Path(library).resolve().parent}",
                    "-lm"])
        return self.again(folder, *(plugins or [folder / "lab.so"]))

    def again(self, folder, *words):
        """Runs the program of `tests` once more, with these words."""
        done = subprocess.run(
            [str(each) for each in [folder / "lab_test", *words]], text=True,
            check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=300)
        return done.returncode, done.stdout
