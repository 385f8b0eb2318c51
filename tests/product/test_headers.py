# SPDX-License-Identifier: Apache-2.0
"""The code in the comments of the public headers: it compiles, and the lines
that a host would write are run.

    test_headers.py SOURCE_ROOT LIBTENON ELEMWISE NN

A block is a run of lines that are indented by three blanks within a comment. It
is code if a line ends in a semicolon or a brace, or has two blanks after it. Each such block has an entry in
BLOCKS, by its header and its first line.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, LIBTENON, ELEMWISE, NN = (
    pathlib.Path(each).resolve() for each in sys.argv[1:5])
LIBRARY_OF_GRAPHS = LIBTENON.parent / "libtenon-graph.so.0"
INCLUDE = SOURCE / "sdk" / "include"
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)

COMMENT = re.compile(r"/\*.*?\*/", re.S)
INDENTED = re.compile(r" *\*   (.*\S)$")
CODE = re.compile(r"[;{}](  .*)?$")
EMPTY = re.compile(r" *\*\s*$")
WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic",
            "-Werror", "-Wno-unused-function", "-Wno-unused-variable"]


def blocks_of(comment):
    """The indented runs of a comment, each as a list of lines."""
    found, block = [], []
    for line in [*comment.split("\n"), "end"]:
        indented = INDENTED.match(line)
        if indented:
            block.append(indented[1])
        elif block and EMPTY.match(line):
            block.append("")
        else:
            while block and not block[-1]:
                block.pop()
            found += [block] if block else []
            block = []
    return found


def is_code(block):
    return any(CODE.search(line) for line in block)


def code_blocks():
    """(header, first line) -> text, of every public header."""
    found = {}
    for path in sorted((INCLUDE / "tenon").rglob("*.h")):
        for comment in COMMENT.findall(path.read_text()):
            for block in blocks_of(comment):
                if is_code(block):
                    key = (str(path.relative_to(INCLUDE)), block[0])
                    found[key] = "\n".join(block) + "\n"
    return found


# --------------------------------------------------------------- around them

SUM_BODY = """TN_KERNEL_BODY void sum(const tn_kernel_block *block,
                        const void *params) {
  const float *a = block->in[0], *b = block->in[1];
  float *y = block->out;
  (void)params;
  for (int64_t i = 0; i < block->n; ++i) y[i] = a[i] + b[i];
}
"""
KERNEL = '#define TN_KERNEL_PLUGIN acme\n#define TN_KERNEL_HOME\n' \
         '#include <tenon/kernel/kernel.h>\n'

HOST = """#include <stdio.h>
#include <tenon/exchange.h>
#include <tenon/graph.h>

static tn_array *made(tn_runtime *rt, const tn_spec *spec, const float *v) {
  tn_array *array = NULL;
  tn_code rc = tn_array_create(rt, spec, &array);
  if (!rc) rc = tn_array_set(array, v, sizeof(float) *
                                           (size_t)tn_array_size(array));
  if (rc) fprintf(stderr, "%s\\n", tn_error_text());
  return array;
}

static float first(tn_array *array) {
  float values[64] = {0};
  const size_t bytes = sizeof(float) * (size_t)tn_array_size(array);
  if (bytes > sizeof values || tn_array_get(array, values, bytes))
    fprintf(stderr, "%s\\n", tn_error_text());
  return values[0];
}

int main(void) {
  tn_runtime *rt = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugin_load(rt, ELEMWISE);
  if (!rc) rc = tn_plugin_load(rt, NN);
  if (rc) fprintf(stderr, "%s\\n", tn_error_text());
"""
HOST_END = """
  if (rc) fprintf(stderr, "%s\\n", tn_error_text());
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
"""


class File:
    """Code of files: it follows `before`, and `instead` replaces its parts.
    """

    def __init__(self, before="", instead=()):
        self.before, self.instead = before, dict(instead)

    def text(self, block):
        for old, new in self.instead.items():
            assert old in block, f"{old!r} is not there any more"
            block = block.replace(old, new)
        return self.before + block

    def check(self, block):
        compile_text(self.text(block), "-fsyntax-only")


class Lines(File):
    """Statements of a function; its other names are its `parameters`."""

    def __init__(self, before, parameters, instead=()):
        super().__init__(f"{before}\nvoid acme({parameters});\n"
                         f"void acme({parameters}) {{\n", instead)

    def text(self, block):
        return super().text(block) + "}\n"


class Run(File):
    """Lines of a host's main(), which prints `expected`."""

    def __init__(self, before, after, expected):
        super().__init__(HOST + before)
        self.after, self.expected = after, expected

    def check(self, block):
        program = FOLDER / "program"
        compile_text(self.text(block) + self.after + HOST_END,
                     f'-DELEMWISE="{ELEMWISE}"', f'-DNN="{NN}"',
                     LIBRARY_OF_GRAPHS, LIBTENON,
                     f"-Wl,-rpath,{LIBTENON.parent}", "-o", program)
        done = subprocess.run([program], text=True, capture_output=True,
                              timeout=300, check=False)
        tap.equal((done.returncode, done.stdout, done.stderr),
                  (0, self.expected, ""))


class Program(File):
    """A whole program of a host, which prints `expected`."""

    def __init__(self, expected):
        super().__init__()
        self.expected = expected

    def check(self, block):
        program = FOLDER / "program"
        compile_text(block, LIBTENON, f"-Wl,-rpath,{LIBTENON.parent}", "-o",
                     program)
        done = subprocess.run([program], text=True, capture_output=True,
                              timeout=300, check=False)
        tap.equal((done.returncode, done.stdout, done.stderr),
                  (0, self.expected, ""))


class Words:
    """No code, although it looks like some."""

    def check(self, block):
        pass


# The softmax of zeros is 1/64 for every class, so the gradient of the bias of
# class 0 is 2/64 where no row has it: two rows, each with 1/64.
GRAPH = Run("""  const float rows[] = {1, 2, 3, 4, 5, 6}, classes[] = {5, 7};
  tn_array *images =
      made(rt, &(tn_spec){TN_F32, 2, (const int64_t[]){2, 3}}, rows);
  tn_array *labels =
      made(rt, &(tn_spec){TN_F32, 1, (const int64_t[]){2}}, classes);
""", """  tn_array *bias = NULL;
  if (!rc) rc = tn_program_array(p, TN_PROGRAM_GRADIENT, "fc1_bias", &bias);
  if (!rc) printf("%g\\n", (double)first(bias));
  tn_program_release(p), tn_graph_release(net);
  tn_array_release(images), tn_array_release(labels);
""", "0.03125\n")

TAPE = Run("""  const float three = 3, five = 5;
  const tn_spec scalar = {TN_F32, 0, NULL};
  tn_array *w = made(rt, &scalar, &three), *x = made(rt, &scalar, &five);
  tn_array *y = NULL, *loss = NULL, *gradient = NULL;
  tn_operator *mul = NULL, *sum = NULL;
  tn_tape *tape = NULL;
  if (tn_operator_get(rt, "elemwise.mul", &mul) ||
      tn_operator_get(rt, "elemwise.make_loss", &sum))
    fprintf(stderr, "%s\\n", tn_error_text());
""", """  if (!rc) printf("%g\\n", (double)first(gradient));
  tn_array_release(gradient), tn_array_release(loss), tn_array_release(y);
  tn_array_release(x), tn_array_release(w), tn_tape_release(tape);
""", "5\n")

ACME = "#include <string.h>\n#include <tenon/plugin/op.h>\n"
BLOCKS = {
    ("tenon/plugin/blas.h", "int32_t acme_init(const tn_host *host, tn_registrar "
     "*registrar,"): File("#include <tenon/plugin/blas.h>\n"),
    ("tenon/plugin/lapack.h",
     "tn_lapack_task task = {.struct_size = sizeof task,"):
        Lines("#include <tenon/plugin/lapack.h>",
              "const tn_lapack *lapack, const tn_frame *call, void *a, int64_t n"),
    ("tenon/kernel/body_forms.h", "TN_KERNEL_BODY void sum(...) as in elementwise.h"):
        File(KERNEL + SUM_BODY,
             [("TN_KERNEL_BODY void sum(...) as in elementwise.h\n", "")]),
    ("tenon/draft/capture.h",
     "__global__ void step(view v) {          // const acme_step_params *live"):
        Words(),  # of CUDA
    ("tenon/draft/registers.h",
     "void go(const tn_register_step *self, int64_t offset, V a, V b, V c ...);"): Words(),
    ("tenon/draft/registers.h",
     "y = a * x + b        { interface->load, x }   x to registers"): Words(),
    ("tenon/define.h", 'const tn_value scale = tn_value_float("scale", 2);'):
        Lines("#include <tenon/define.h>", "tn_formula *out",
              [("\"scale*data^3\"};", "\"scale*data^3\"};\n*out = cube;")]),
    ("tenon/define.h",
     "static int32_t twice(const tn_frame *call) { ... }"):
        File("#include <tenon/define.h>\n"
             "static int32_t twice(const tn_frame *call) {\n"
             "  (void)call;\n  return TN_OK;\n}\n"
             "tn_code acme(tn_runtime *rt, const char *manifest);\n"
             "tn_code acme(tn_runtime *rt, const char *manifest) {\n",
             [("static int32_t twice(const tn_frame *call) { ... }\n", ""),
              ("&all, &op);\n", "&all, &op);\n  return rc;\n}\n")]),
    ("tenon/plugin/call.h", "int32_t acme_receive(const tn_frame *call) {"):
        File("#include <tenon/plugin/op.h>\n"
             "int32_t acme_start(const tn_frame *call, tn_later *later);\n"),
    ("tenon/plugin/device.h",
     "registrar->provide(registrar, TN_DEVICE_EXTENSION, &my_device);"):
        Lines("#include <tenon/plugin/device.h>\nstatic const tn_device my_device;",
              "tn_registrar *registrar"),
    ("tenon/plugin/device_blas.h",
     "int32_t acme_create(const tn_frame *call, acme_state *state) {"):
        File("#include <tenon/plugin/device_blas.h>\n"
             "typedef struct acme_state {\n  const tn_device_blas *blas;\n"
             "  void *plan;\n  uint64_t bytes;\n} acme_state;\n",
             [("sizeof what, ...}", "sizeof what}"),
              ("sizeof with, ...,", "sizeof with,")]),
    ("tenon/plugin/device_lapack.h",
     "int32_t acme_bytes(const tn_frame *call, uint64_t *bytes) {"):
        File("#include <tenon/plugin/device_lapack.h>\n"
             "tn_device_task describe_task(const tn_frame *call);\n"),
    ("tenon/plugin/device_scope.h", "int32_t acme_compute(const tn_frame *call) {"):
        File("#include <tenon/plugin/device_scope.h>\ntypedef struct acme {\n"
             "  const tn_device_scope *scope;\n} acme;\n",
             [("  ... enqueue on call->run->stream ...\n", "")]),
    ("tenon/kernel/elementwise.h",
     "TN_KERNEL_BODY void cube(const tn_kernel_block *block,"): File(KERNEL),
    ("tenon/engine.h", "#include <stdio.h>"): Program("1.5\n"),
    ("tenon/engine.h",
     "static tn_code begin_request(void *arg, tn_token *token) {"):
        File("#include <stdio.h>\n#include <tenon/engine.h>\n"
             "typedef struct acme_request {\n  tn_token *token;\n"
             "} acme_request;\n"
             "tn_code acme_send(acme_request *request);\n"),
    ("tenon/data.h", "tn_record_reader *file = NULL;"):
        Lines("#include <tenon/data.h>\n"
              "tn_code use(const void *data, uint64_t bytes);", "tn_runtime *rt"),
    ("tenon/data.h", "tn_data *data = NULL;"):
        Lines("#include <tenon/data.h>\n"
              "tn_code train(tn_array *data, tn_array *labels);", "tn_runtime *rt"),
    ("tenon/comm.h", "// mpirun -n 4 ./program"):
        Lines("#include <tenon/call.h>\n#include <tenon/comm.h>",
              "tn_runtime *rt, tn_array *gradient"),
    ("tenon/kvstore.h", "#include <stdio.h>"): File(),
    ("tenon/exchange.h", "tn_bundle *file = NULL;"):
        Lines("#include <tenon/exchange.h>", "tn_runtime *rt"),
    ("tenon/draft/reduction.h", "for each extent, in any order and at the same time, a call "
     "with"): Words(),
    ("tenon/graph.h", "tn_graph *net = NULL;"): GRAPH,
    ("tenon/draft/register_loops.h", "TN_KERNEL_BODY void sum(...) as in elementwise.h"):
        File(KERNEL + SUM_BODY,
             [("TN_KERNEL_BODY void sum(...) as in elementwise.h\n", ""),
              ("       for a body with two inputs", "")]),
    ("tenon/kernel/operand.h", "tn_dense x = {.dtype = TN_F32, .ndim = 2, .shape = {-1, 64}};"):
        Lines("#include <tenon/kernel/operand.h>", "const tn_frame *call",
              [("return code", "return")]),
    ("tenon/kernel/storage.h", "tn_storage_rule rule = {TN_F8E4M3FN, 1, TN_STORAGE_UP};"):
        Lines("#include <tenon/kernel/storage.h>", "void *data, int64_t i"),
    ("tenon/kernel/storage_loops.h", "float x[256];"):
        Lines("#include <tenon/kernel/storage_loops.h>",
              "const tn_frame *call, const void *data"),
    ("tenon/kernel/math.h", "TN_KERNEL_INDEPENDENT"):
        Lines("#include <tenon/kernel/kernel.h>", "const float *x, float *y, int64_t n"),
    ("tenon/kernel/math/wide.h", "TN_WIDE_FN tn_wide steep(tn_wide x) {"):
        Words(),  # needs the flags of one level
    ("tenon/plugin/op.h", "int32_t acme_cube(const tn_frame *call) {"): File(ACME),
    ("tenon/draft/pass.h", "static const tn_passes *passes;"):
        File("#include <string.h>\n#include <tenon/draft/pass.h>\n",
             [("static int32_t square(void *ctx, tn_rewrite *net) {\n",
               "static int32_t square(void *ctx, tn_rewrite *net) {\n"
               "  (void)ctx, (void)acme_init;\n"),
              ("static const tn_passes *passes;\n",
               "static const tn_passes *passes;\n"
               "int32_t acme_init(const tn_host *host, tn_registrar "
               "*registrar, void **i);\n"),
              ("void **i) {\n", "void **i) {\n  (void)i;\n")]),
    ("tenon/kernel/philox.h", "uint32_t word[1024];"):
        Lines("#include <tenon/kernel/kernel.h>\n#include <tenon/kernel/philox.h>",
              "const tn_frame *call, uint64_t begin, uint32_t level"),
    ("tenon/kernel/product.h",
     "int32_t code = tn_product_by(blas, call, &product);"):
        Lines("#include <tenon/plugin/blas.h>\n#include <tenon/kernel/product.h>",
              "const tn_blas *blas, const tn_frame *call, "
              "tn_blas_gemm product"),
    ("tenon/kernel/copy_row.h", "tn_copy_row_avx2(to, from, NULL, bytes);    in a function "
     "for AVX2"): Words(),
    ("tenon/tenon.h", "#include <stdio.h>"): File(),
    ("tenon/tape.h", "rc = tn_tape_create(rt, &tape);"): TAPE,
    ("tenon/kernel_options.h", "tn_operator *conv = NULL;"):
        Lines("#include <tenon/kernel_options.h>", "tn_runtime *rt"),
    ("tenon/kernel/transpose.h",
     "const tn_transpose part = {to,          from, to_stride,"):
        Lines("#include <tenon/kernel/kernel.h>\n#include <tenon/kernel/transpose.h>",
              "const tn_frame *call, char *to, const char *from, "
              "int64_t to_stride, int64_t from_stride, int64_t rows, "
              "int64_t columns"),
}


CPP_JOB = """#include <tenon/engine.h>
tn_code push(tn_runtime *rt, tn_variable *x, tn_code (*run)(void *arg));
tn_code push(tn_runtime *rt, tn_variable *x, tn_code (*run)(void *arg)) {
  const tn_access access[] = {{x, TN_UPDATE}};
  tn_job job = {};
  job.struct_size = sizeof job;
  job.run = run;
  job.access = access;
  job.n_access = 1;
  return tn_push(rt, &job);
}
"""


def compile_text(text, *more):
    source = FOLDER / "block.c"
    source.write_text(text)
    done = subprocess.run(["cc", *WARNINGS, "-I", INCLUDE, source, *more],
                          text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"


def cases():
    found = code_blocks()

    def every_block_has_an_entry():
        tap.equal(sorted(set(found) - set(BLOCKS)), [],
                  "blocks of code without an entry in BLOCKS")
        tap.equal(sorted(set(BLOCKS) - set(found)), [],
                  "entries of BLOCKS without a block")

    def a_job_can_be_pushed_from_cpp():
        source = FOLDER / "job.cpp"
        source.write_text(CPP_JOB)
        tap.output(["c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic",
                    "-Werror", "-I", INCLUDE, "-fsyntax-only", source])

    return [every_block_has_an_entry, a_job_can_be_pushed_from_cpp] + [
        (f"{header}: {line}".replace("#", ""),
         lambda k=(header, line): BLOCKS[k].check(found[k]))
        for header, line in sorted(BLOCKS) if (header, line) in found]


if __name__ == "__main__":
    with SCRATCH:
        tap.run(cases())
