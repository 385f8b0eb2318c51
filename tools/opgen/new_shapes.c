/* SPDX-License-Identifier: Apache-2.0
 * new_shapes.c: the files of a new project, as templates. tests/product builds
 * and runs each of them.
 */
#include <inttypes.h>
#include <string.h>

#include "new.h"

/* ---------------------------------------------------------------- manifests */

static const char quadratic[] =
    "opgen: 1\n"
    "op: @OP@\n"
    "since: @SINCE@\n"
    "summary: Quadratic function of every element\n"
    "doc: |\n"
    "  Computes `a*data^2 + b*data + c`.\n"
    "params:                               # order is ABI, so a sequence\n"
    "  - {name: a, type: float, default: 0, doc: Quadratic coefficient}\n"
    "  - {name: b, type: float, default: 0, doc: Linear coefficient}\n"
    "  - {name: c, type: float, default: 0, doc: Constant term}\n"
    "dtypes:\n"
    "  T: [f16, bf16, f32, f64]            # f16 and bf16 compute in f32\n"
    "inputs:\n"
    "  - {name: data, dtype: T, doc: \"Any shape, any strides\"}\n"
    "outputs:\n"
    "  - {name: out, dtype: T, shape: data, inplace: data, doc: The result}\n"
    "forward:\n"
    "  out: a*data^2 + b*data + c          # `^` is power; this is not C\n"
    "gradient: auto                        # `opgen show` prints it\n"
    "examples:\n"
    "  - name: integers\n"
    "    params: {a: 1, b: 2, c: 3}\n"
    "    data: [[1, 2], [3, 4]]\n"
    "    out: [[6, 11], [18, 27]]\n"
    "    grad: {out: [[1, 1], [1, 1]], data: [[4, 6], [8, 10]]}\n"
    "  - {name: empty, data: [], out: []}\n";

static const char relu[] =
    "opgen: 1\n"
    "op: @OP@\n"
    "since: @SINCE@\n"
    "summary: Rectifier of every element\n"
    "doc: |\n"
    "  Computes `max(data, 0)`. The gradient at 0 is 0.\n"
    "dtypes:\n"
    "  T: [f16, bf16, f32, f64]\n"
    "inputs:\n"
    "  - {name: data, dtype: T, doc: \"Any shape, any strides\"}\n"
    "outputs:\n"
    "  - {name: out, dtype: T, shape: data, inplace: data, doc: The result}\n"
    "forward:                              # the result of the kernels\n"
    "  out: max(data, 0)\n"
    "gradient:\n"
    "  formula:\n"
    "    data: select(out > 0, grad.out, 0)\n"
    "@kernels kernels:\n"
    "@cpu   - device: cpu\n"
    "@cpu     forward: @PLUGIN@_@OP@_cpu  # in @OP@.c\n"
    "@cpu     dtypes: [f32, f64]                # others by the formula above\n"
    "@cpu     writes: [write]                   # the host does the other "
    "requests\n"
    "@cpu     flags: [reentrant, deterministic]\n"
    "@cuda   - device: cuda\n"
    "@cuda     forward: @PLUGIN@_@OP@_cuda  # in @OP@.cu\n"
    "@cuda     dtypes: [f32, f64]\n"
    "@cuda     writes: [write]\n"
    "@cuda     flags: [reentrant, deterministic, async]\n"
    "examples:\n"
    "  - name: integers\n"
    "    data: [[-2, -1, 0], [1, 2, 3]]\n"
    "    out: [[0, 0, 0], [1, 2, 3]]\n"
    "    grad: {out: [[1, 2, 3], [4, 5, 6]], data: [[0, 0, 0], [4, 5, 6]]}\n"
    "  - {name: empty, data: [], out: []}\n";

static const char convolution[] =
    "opgen: 1\n"
    "op: @OP@\n"
    "since: @SINCE@\n"
    "summary: N-D convolution with strides\n"
    "doc: |\n"
    "  `out[n,k] = bias[k] + sum over c of data[n,c] * weight[k,c]` on each\n"
    "  window.\n"
    "params:\n"
    "  - {name: kernel, type: ints, rank: 1..3, min: 1, doc: Window size}\n"
    "  - {name: stride, type: ints, rank: kernel, default: 1, min: 1, doc: "
    "Step between windows}\n"
    "  - {name: num_filter, type: int, min: 1, doc: Output channels}\n"
    "dtypes: {T: [f32, f64]}\n"
    "inputs:                               # upper case is a dimension\n"
    "  - {name: data, dtype: T, shape: [N, C, S...], layout: contiguous}\n"
    "  - {name: weight, dtype: T, shape: [num_filter, C, kernel...], role: "
    "weight, layout: contiguous}\n"
    "  - {name: bias, dtype: T, shape: [num_filter], role: weight, optional: "
    "true, layout: contiguous}\n"
    "outputs:\n"
    "  - name: out\n"
    "    dtype: T\n"
    "    shape: [N, num_filter, ((S - kernel)/stride + 1)...]\n"
    "    layout: contiguous\n"
    "gradient:\n"
    "  kernel: backward                    # every kernel supplies it\n"
    "  needs:                              # the operands of each gradient\n"
    "    data: [grad.out, weight]\n"
    "    weight: [grad.out, data]\n"
    "    bias: [grad.out]\n"
    "kernels:\n"
    "  - device: cpu\n"
    "    forward: @PLUGIN@_@OP@_cpu          # in @OP@.c\n"
    "    backward: @PLUGIN@_@OP@_cpu_backward\n"
    "    writes: [write]                   # the host does the other requests\n"
    "    flags: [reentrant, deterministic]\n"
    "@cuda   - device: cuda\n"
    "@cuda     forward: @PLUGIN@_@OP@_cuda  # in @OP@.cu\n"
    "@cuda     backward: @PLUGIN@_@OP@_cuda_backward\n"
    "@cuda     writes: [write]\n"
    "@cuda     flags: [reentrant, deterministic, async]\n"
    "examples:\n"
    "  - name: two_by_two_window\n"
    "    params: {kernel: [2, 2], num_filter: 1}\n"
    "    data: [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]\n"
    "    weight: [[[[1, 1], [1, 1]]]]\n"
    "    bias: [0.5]\n"
    "    out: [[[[12.5, 16.5], [24.5, 28.5]]]]\n"
    "    grad:\n"
    "      out: [[[[1, 1], [1, 1]]]]\n"
    "      data: [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]\n"
    "      weight: [[[[12, 16], [24, 28]]]]\n"
    "      bias: [4]\n";

static const char binding[] =
    "opgen: 1\n"
    "op: @OP@\n"
    "since: @SINCE@\n"
    "summary: Bytes with every two of them swapped\n"
    "doc: |\n"
    "  The other byte order of numbers of 16 bits, by `swab` of the C "
    "library.\n"
    "inputs:\n"
    "  - {name: data, dtype: u8, doc: An even number of bytes}\n"
    "outputs:\n"
    "  - {name: out, dtype: u8, shape: data, doc: The bytes in their new "
    "order}\n"
    "require:\n"
    "  - {that: size(data) % 2 == 0, say: bytes are swapped two by two}\n"
    "binding:\n"
    "  library: [libc.so.6, libc.so]       # the first that opens; "
    "`./lib.so`: a file beside this one\n"
    "  symbol: swab                        # void swab(const void *from,\n"
    "  thread: any                         # `one`: calls take turns\n"
    "  args:\n"
    "    - {c: const uint8*, pass: data}\n"
    "    - {c: uint8*, pass: out}          #   void *to,\n"
    "    - {c: int64, pass: size(data)}    #   ssize_t n);\n"
    "gradient: {none: true, why: Bytes have no gradient}\n"
    "examples:                             # they run before every first "
    "use\n"
    "  - {name: pairs, data: [1, 2, 3, 4], out: [2, 1, 4, 3]}\n"
    "  - {name: matrix, data: [[0, 255], [7, 8]], out: [[255, 0], [8, 7]]}\n"
    "  - {name: empty, data: [], out: []}\n";

static const char kernels_for[] =
    "opgen: 1\n"
    "kernels_for: @TARGET@\n"
    "kernels:\n"
    "  - device: cpu\n"
    "    priority: 100                     # above its own, so that this one "
    "is taken\n"
    "    forward: @PLUGIN@_@OP@_cpu          # in @OP@.c\n"
    "    writes: [write]                   # the host does the other requests\n"
    "    flags: [reentrant, deterministic]\n";

const new_shape new_shape_for = {NULL, kernels_for, true, false, false};

static const new_shape shapes[NEW_N_SHAPES] = {
    {"quadratic", quadratic, false, true, false},
    {"relu", relu, true, true, false},
    {"convolution", convolution, true, false, false},
    {"binding", binding, false, false, true},
};

const new_shape *new_shape_find(const char *name, const char **names) {
  const new_shape *found = NULL;
  for (size_t i = 0; i < NEW_N_SHAPES; ++i) {
    names[i] = shapes[i].name;
    if (strcmp(shapes[i].name, name) == 0) found = &shapes[i];
  }
  return found;
}

/* -------------------------------------------------------------- the project */

const char new_plugin_yaml[] =
    "opgen: 1\n"
    "plugin: @PLUGIN@\n"
    "release: 1\n"
    "@own summary: Operators of @PLUGIN@\n"
    "@for summary: Kernels of @PLUGIN@\n"
    "license: Apache-2.0\n"
    "operators:                            # order is ABI: add at the end\n"
    "  - @OP@.yaml\n";

/* The lines of both meson files that follow `project`. */
const char new_find_tenon[] =
    "tenon = dependency('tenon', required: false)\n"
    "if not tenon.found()\n"
    "  error('Tenon is not found: opgen is PREFIX/bin/opgen, say',\n"
    "    'export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig')\n"
    "endif\n"
    "# pkg-config writes a blank in a path as `\\ `.\n"
    "opgen = find_program(tenon.get_variable('opgen').replace('\\\\ ', ' '))\n"
    "# Plugins are installed into the folder of Tenon's own, or into the same "
    "one\n"
    "# of `meson setup --prefix`. DESTDIR stages both.\n"
    "plugindir = tenon.get_variable('plugindir').replace('\\\\ ', ' ')\n"
    "below = tenon.get_variable('prefix').replace('\\\\ ', ' ') + '/'\n"
    "installdir = plugindir\n"
    "if get_option('prefix') != '/usr/local'\n"
    "  installdir = plugindir.replace(below, '')\n"
    "endif\n";

const char new_project[] =
    "project('@PLUGIN@', 'c',\n"
    "  default_options: ['c_std=c11', 'buildtype=release'])\n";

const char new_meson[] =
    "headers = tenon.get_variable('includedir').replace('\\\\ ', ' ')\n"
    "manifestdir = tenon.get_variable('manifestdir').replace('\\\\ ', ' ')\n"
    "libm = meson.get_compiler('c').find_library('m')\n"
    "# Built plugins that this one needs: those of operators that "
    "`kernels_for` names or\n"
    "# a gradient calls, such as plugindir / 'elemwise.so'.\n"
    "@own others = []\n"
    "@for others = [@OTHERS@]\n"
    "# Folders with their manifests, where the examples are that kernels for "
    "their\n"
    "# operators must pass, such as manifestdir / 'elemwise'.\n"
    "@own manifests = []\n"
    "@for manifests = [@MANIFESTS@]\n"
    "with = []\n"
    "foreach other : others + manifests\n"
    "  with += ['--with', other]\n"
    "endforeach\n"
    "generate = [opgen, 'generate', '@INPUT@', '-o', '@OUTDIR@',\n"
    "  '--depfile', '@DEPFILE@'] + with\n"
    "plugin = {\n"
    "  'name_prefix': '',\n"
    "  'gnu_symbol_visibility': 'hidden',\n"
    "  'c_args': tenon.get_variable('plugin_cflags').split(),\n"
    "  'dependencies': [libm,\n"
    "    tenon.partial_dependency(compile_args: true, includes: true)],\n"
    "  'install': true,\n"
    "  'install_dir': installdir,\n"
    "}\n"
    "exports = '-Wl,-z,now,--version-script=' + meson.current_build_dir()\n"
    "\n"
    "# The plugin. `opgen outputs` runs when meson configures: after a change "
    "of\n"
    "# `operators` in plugin.yaml, run `meson setup --reconfigure`.\n"
    "outputs = run_command(opgen, 'outputs', files('plugin.yaml'), with,\n"
    "  check: false)\n"
    "if outputs.returncode() != 0\n"
    "  error('opgen says\\n' + outputs.stderr())\n"
    "endif\n"
    "gen = custom_target('@PLUGIN@.gen', input: 'plugin.yaml', depfile: "
    "'@PLUGIN@.d',\n"
    "  output: outputs.stdout().split(), command: generate)\n"
    "sources = [\n"
    "@cpu   '@OP@.c',\n"
    "]\n"
    "whole = get_option('b_sanitize') == 'none' ? '-Wl,-z,defs' : []\n"
    "plugins = [shared_module('@PLUGIN@', gen, sources, kwargs: plugin,\n"
    "  link_args: [exports / 'plugin.gen.map', whole])]\n"
    "\n"
    "# Its companion @PLUGIN@.cuda.so, where nvcc is: the same formulas on "
    "CUDA\n"
    "# devices, and the kernels in cuda_sources. -Dcuda=disabled leaves it "
    "out.\n"
    "cuda_sources = files(\n"
    "@cuda   '@OP@.cu',\n"
    ")\n"
    "nvcc = find_program('nvcc', required: get_option('cuda'))\n"
    "cuda_outputs = run_command(opgen, 'outputs', '--cuda', "
    "files('plugin.yaml'),\n"
    "  with, check: true).stdout().split()\n"
    "if nvcc.found() and cuda_outputs.length() > 0\n"
    "  message(nvcc.full_path(), 'compiles @PLUGIN@.cuda.so;',\n"
    "    '-Dcuda=disabled builds without it')\n"
    "  cuda_gen = custom_target('@PLUGIN@.cuda.gen', input: 'plugin.yaml',\n"
    "    depfile: '@PLUGIN@.cuda.d', output: cuda_outputs, depends: gen,\n"
    "    command: [generate, '--cuda'])\n"
    "  cuda_tables = []\n"
    "  cuda_headers = []\n"
    "  foreach i : range(cuda_outputs.length())\n"
    "    if cuda_outputs[i].endswith('.cu')\n"
    "      cuda_sources += cuda_gen[i]\n"
    "    else\n"
    "      cuda_tables += cuda_gen[i]\n"
    "    endif\n"
    "  endforeach\n"
    "  foreach file : gen.to_list() + cuda_gen.to_list()\n"
    "    if file.full_path().endswith('.h')\n"
    "      cuda_headers += file\n"
    "    endif\n"
    "  endforeach\n"
    "  cuda_objects = []\n"
    "  foreach source : cuda_sources\n"
    "    name = '@0@.cu.o'.format(cuda_objects.length())\n"
    "    cuda_objects += custom_target(name, output: name,\n"
    "      input: [source, cuda_headers], depfile: name + '.d',\n"
    "      command: [nvcc, '-arch=sm_80', '-O3', '-std=c++17', '-Xcompiler',\n"
    "        '-fPIC,-fvisibility=hidden', '-I', '@OUTDIR@',\n"
    "        '-I', headers, '-MD', '-MF', '@DEPFILE@', '-c', '@INPUT0@',\n"
    "        '-o', '@OUTPUT@'])\n"
    "  endforeach\n"
    "  fs = import('fs')\n"
    "  plugins += shared_module('@PLUGIN@.cuda', cuda_tables, cuda_objects,\n"
    "    kwargs: plugin, link_args: [exports / 'cuda.gen.map',\n"
    "      '-L' + fs.parent(fs.parent(nvcc.full_path())) / 'lib64',\n"
    "      '-lcudart_static', '-lstdc++', '-ldl', '-lrt', '-lpthread'])\n"
    "endif\n"
    "\n"
    "# Examples, gradients; for operators of others with each kernel of this "
    "plugin.\n"
    "tests = custom_target('@PLUGIN@_test.gen', input: 'plugin.yaml',\n"
    "  output: '@PLUGIN@_test.gen.c', depfile: '@PLUGIN@_test.d',\n"
    "  command: [generate, '--tests'])\n"
    "test('examples', executable('@PLUGIN@_test', tests,\n"
    "    dependencies: [tenon, libm]),\n"
    "  args: ['--brief', others, plugins], protocol: 'tap', verbose: true)\n";

const char new_readme[] =
    "# @PLUGIN@\n"
    "\n"
    "@own A plugin of operators for Tenon, which meson finds by pkg-config: "
    "where `opgen`\n"
    "@for A plugin of kernels for Tenon, which meson finds by pkg-config: "
    "where "
    "`opgen`\n"
    "is `PREFIX/bin/opgen`, say `export "
    "PKG_CONFIG_PATH=PREFIX/lib/pkgconfig`. Its pages are\n"
    "in `PREFIX/share/doc/tenon`; `author.md` comes first.\n"
    "\n"
    "    meson setup build\n"
    "    meson compile -C build\n"
    "    meson test -C build\n"
    "    tenon inspect build/@PLUGIN@.so\n"
    "    meson install -C build\n"
    "\n"
    "It is installed beside Tenon's own plugins, or with `meson setup "
    "--prefix` "
    "into\n"
    "`lib/tenon` of that prefix.\n"
    "\n"
    "Next:\n"
    "\n"
    "@own - Define the operator in `@OP@.yaml`. `opgen check` finds "
    "mistakes,\n"
    "@own   `opgen show @OP@.yaml` shows its formulas and needs.\n"
    "@own - Give it examples: `meson test` runs them with every element type, "
    "request and\n"
    "@own   layout, and checks the gradients numerically.\n"
    "@for - Say in `@OP@.yaml` what the kernel for `@TARGET@` takes: "
    "`dtypes`, `when`,\n"
    "@for   `writes`; and add `backward` where a kernel computes the "
    "gradient.\n"
    "@for   `opgen check --with PATH .` finds mistakes; PATH is what "
    "describes the operator,\n"
    "@for   its plugin or the folder of its manifests, as in `meson.build`.\n"
    "@for - `meson test` runs the operator's examples with this kernel alone. "
    "Where it\n"
    "@for   takes none of them, write `examples` beside `kernels`.\n"
    "@cpu - Write the functions of `@OP@.c`. Until then their cases are "
    "listed by\n"
    "@cpu   `meson test -v -C build` as expected failures.\n"
    "@cuda - Write the functions of `@OP@.cu`.\n"
    "@own - Where `nvcc` is, formulas and the kernels in `.cu` files are built "
    "into\n"
    "@own   `build/@PLUGIN@.cuda.so`, the companion: load it after "
    "`build/@PLUGIN@.so`.\n"
    "@own - `opgen new @PLUGIN@.NAME` adds an operator, `opgen new @PLUGIN@ "
    "--missing` the\n"
    "@own   functions that manifests name and no file defines.\n"
    "@for - `opgen new @PLUGIN@.NAME --for OTHER.OP` adds a kernel, `opgen new "
    "@PLUGIN@\n"
    "@for   --missing` the functions that manifests name and no file defines; "
    "with\n"
    "@for   `--with PATH` for each plugin that is not installed with Tenon.\n";

const char new_gitignore[] = "/build*/\n";

const char new_meson_options[] =
    "option('cuda', type: 'feature', value: 'auto',\n"
    "  description: 'compile kernels for CUDA with nvcc; auto: where it is')"
    "\n";

/* ------------------------------------------------------ nothing is compiled */

const char new_bound_project[] =
    "# Nothing is compiled: the manifests are the plugin. They are checked,\n"
    "# tried and installed.\n"
    "project('@PLUGIN@')\n";

const char new_bound_meson[] =
    "program = find_program(tenon.get_variable('tenon').replace('\\\\ ', ' "
    "'))\n"
    "manifests = files(\n"
    "  'plugin.yaml',\n"
    "  '@OP@.yaml',\n"
    ")\n"
    "custom_target('@PLUGIN@.check', input: manifests, output: "
    "'@PLUGIN@.checked',\n"
    "  command: [opgen, 'check', '-Werror', '@INPUT0@'], capture: true,\n"
    "  build_by_default: true)\n"
    "install_data(manifests, install_dir: installdir / '@PLUGIN@')\n"
    "\n"
    "# Loading the plugin runs its examples first.\n"
    "test('examples', program,\n"
    "  args: ['list', 'operators', '--plugin', manifests[0]])\n";

const char new_bound_readme[] =
    "# @PLUGIN@\n"
    "\n"
    "A plugin for Tenon with operators that are functions of existing "
    "libraries.\n"
    "There is nothing to compile: it can be loaded directly.\n"
    "\n"
    "    tenon show @PLUGIN@.@OP@ --plugin plugin.yaml\n"
    "\n"
    "With meson it is checked, tried and installed:\n"
    "\n"
    "    meson setup build\n"
    "    meson compile -C build\n"
    "    meson test -C build\n"
    "\n"
    "Next:\n"
    "\n"
    "- Name your library and function in `@OP@.yaml`, and its arguments in "
    "the order\n"
    "  of its prototype. `opgen check` finds mistakes in types and widths.\n"
    "- Give it examples with outputs. They run in a process of their own "
    "before the\n"
    "  operator may be used: nothing else can tell whether a prototype is "
    "right.\n"
    "- `opgen new @PLUGIN@.NAME --from binding` adds an operator.\n";

/* ---------------------------------------------------------------- expansion */

static const char *const placeholders[] = {
    "@PLUGIN@", "@OP@", "@TARGET@", "@OTHERS@", "@MANIFESTS@", "@SINCE@"};

static void add_word(tn__buf *out, const char *word, const new_words *words,
                     size_t n) {
  const char *const texts[] = {words->plugin, words->op, words->target,
                               words->others, words->manifests};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    if (n == strlen(placeholders[i]) && memcmp(word, placeholders[i], n) == 0)
      tn__buf_add(out, "%s", texts[i]);
  if (n == strlen("@SINCE@") && memcmp(word, "@SINCE@", n) == 0)
    tn__buf_add(out, "%" PRIu32, words->since);
}

/* Length of a placeholder at `s`, 0 if there is none. */
static size_t placeholder_length(const char *s) {
  for (size_t i = 0; i < sizeof placeholders / sizeof *placeholders; ++i)
    if (strncmp(s, placeholders[i], strlen(placeholders[i])) == 0)
      return strlen(placeholders[i]);
  return 0;
}

/* Tests whether a line with a condition is kept; *line moves past the mark. */
static bool is_kept(const char **line, const new_words *words) {
  static const char *const marks[] = {"@kernels ", "@cpu ", "@cuda ", "@for ",
                                      "@own "};
  const bool holds[] = {words->cpu || words->cuda, words->cpu, words->cuda,
                        words->target != NULL, words->target == NULL};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; ++i) {
    const size_t n = strlen(marks[i]);
    if (strncmp(*line, marks[i], n) != 0) continue;
    *line += n;
    return holds[i];
  }
  return true;
}

void new_expand(tn__buf *out, const char *text, const new_words *words) {
  for (const char *next = text; *next != '\0'; text = next) {
    next = text + strcspn(text, "\n");
    if (*next == '\n') ++next;
    if (!is_kept(&text, words)) continue;
    while (text < next) {
      const size_t n = placeholder_length(text);
      if (n > 0)
        add_word(out, text, words, n);
      else
        tn__buf_bytes(out, text, 1);
      text += n > 0 ? n : 1;
    }
  }
}
