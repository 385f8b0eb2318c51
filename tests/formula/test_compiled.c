/* SPDX-License-Identifier: Apache-2.0
 * The plugin elemwise twice: as a compiler made it, and its manifests without
 * the compiler. Every operator and every gradient has the same results in every
 * type: integers exactly, floats within a few units of the last place, because
 * only compiled code contracts a product and a sum.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../must.h"
#include "../plugins/host.h"
#include "tenon/define.h"

/* The same plugin in two runtimes. */
static struct twins {
  tn_runtime *compiled;
  tn_runtime *interpreted;
  char folder[64];
} twins;

/* Two files of the plugin have kernels written in C. */
static bool is_written(const char *line) {
  return strstr(line, "- relu.yaml") || strstr(line, "- other.yaml");
}

static void copy_file(const char *name) {
  char line[4096], path[512];
  (void)snprintf(path, sizeof path, "%s/%s", ELEMWISE_FOLDER, name);
  FILE *from = fopen(path, "r");
  (void)snprintf(path, sizeof path, "%s/%s", twins.folder, name);
  FILE *to = fopen(path, "w");
  must_hold(from && to, "a manifest cannot be copied");
  while (fgets(line, sizeof line, from)) {
    char *dash = strstr(line, "  - ");
    char *dot = strstr(line, ".yaml\n");
    if (is_written(line)) continue;
    fputs(line, to);
    if (strcmp(name, "plugin.yaml") || !dash || !dot) continue;
    dot[strlen(".yaml")] = '\0';
    copy_file(dash + 4);
  }
  fclose(from), fclose(to);
}

static void open_twins(void) {
  char path[512];
  strcpy(twins.folder, "/tmp/tn_twins_XXXXXX");
  must_hold(mkdtemp(twins.folder) != NULL, "no folder");
  copy_file("plugin.yaml");
  (void)snprintf(path, sizeof path, "%s/plugin.yaml", twins.folder);
  OK(tn_runtime_create(NULL, &twins.compiled));
  OK(tn_runtime_create(NULL, &twins.interpreted));
  OK(tn_plugin_load(twins.compiled, ELEMWISE_FILE));
  OK(tn_plugin_load(twins.interpreted, path));
}

static void close_twins(void) {
  char command[128];
  tn_runtime_release(twins.compiled);
  tn_runtime_release(twins.interpreted);
  (void)snprintf(command, sizeof command, "rm -r %s", twins.folder);
  must_hold(system(command) == 0, "the folder remains");
}

TestSuite(compiled, .init = open_twins, .fini = close_twins, .timeout = 100);

/* -------------------------------------------------------------------- calls */

/* Values for a required parameter. */
static tn_params *make_params(tn_operator *op) {
  const tn_op *desc = tn_operator_desc(op);
  tn_value values[16];
  size_t n = 0;
  tn_params *params = NULL;
  for (uint32_t i = 0; i < desc->n_params; ++i) {
    const tn_field *field = desc->params[i];
    if (field->default_text || field->flags & TN_FIELD_OPTIONAL) continue;
    values[n++] = (tn_value){.key = field->name,
                             .type = TN_FIELD_STRING,
                             .as.s = field->type == TN_FIELD_FLOAT   ? "2.5"
                                     : field->type == TN_FIELD_DTYPE ? "f32"
                                                                     : "2"};
  }
  OK(tn_params_create(op, values, n, &params));
  return params;
}

enum { MOST = 8, N = 300 };

/* One call in one runtime. */
typedef struct twin_call {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  tn_array *in[MOST], *out[MOST], *grads[MOST];
  uint32_t n_in, n_out;
  bool differentiates;
} twin_call;

static bool is_float(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 ||
         dtype == TN_F64;
}

/* The type of an operand if type variable 0 is `dtype`. */
static tn_dtype type_of(const tn_op *desc, const tn_arg *arg, tn_dtype dtype) {
  if (arg->dtype_param != TN_NONE) return TN_F32;
  if (arg->dtype_var == TN_NONE) return arg->dtype;
  const uint64_t allowed = desc->dtype_vars[arg->dtype_var]->allowed;
  if (arg->dtype_var == 0) return dtype;
  return allowed & TN_BIT_F32 ? TN_F32 : TN_I32;
}

/* Numbers around the places where functions change. */
static void draw_values(double *values, uint32_t seed, tn_dtype dtype) {
  static const double special[] = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 1.5, 3};
  for (int i = 0; i < N; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = i < 10 ? special[i] : ((double)(seed >> 8) / 0x1p24 - 0.5) * 12;
    if (!is_float(dtype)) values[i] = trunc(values[i]);
    if (dtype == TN_U8 || dtype == TN_U16 || dtype == TN_U32 ||
        dtype == TN_U64 || dtype == TN_BOOL)
      values[i] = fabs(values[i]);
  }
  if (is_float(dtype)) values[11] = NAN, values[12] = INFINITY;
}

static tn_code record_call(twin_call *c) {
  const tn_inputs in = {c->n_in, c->in};
  const tn_outputs out = {c->n_out, c->out, NULL};
  tn_array *of[MOST] = {NULL}, *made[MOST] = {NULL};
  tn_tape *tape = NULL;
  size_t n = 0;
  if (!c->differentiates) return tn_call(c->rt, c->op, &in, c->params, &out);
  OK(tn_tape_create(c->rt, &tape));
  for (uint32_t i = 0; i < c->n_in; ++i) {
    if (!is_float(tn_array_tensor(c->in[i])->dtype)) continue;
    of[n++] = c->in[i];
    OK(tn_tape_watch(tape, c->in[i]));
  }
  tn_code rc = tn_tape_call(tape, c->op, &in, c->params, &out);
  const tn_tape_query query = {.struct_size = sizeof query,
                               .heads = {c->n_out, c->out},
                               .of = {n, of},
                               .gradients = {n, made, NULL}};
  if (rc == TN_OK) rc = tn_tape_gradient(tape, &query);
  memcpy(c->grads, made, sizeof made);
  tn_tape_release(tape);
  return rc;
}

static twin_call make_call(tn_runtime *rt, const char *name, tn_dtype dtype,
                           bool repeats) {
  twin_call c = {.rt = rt, .op = host_operator(rt, name)};
  const tn_op *desc = tn_operator_desc(c.op);
  double values[N];
  c.params = make_params(c.op);
  c.n_in = desc->n_inputs;
  c.n_out = desc->n_outputs;
  c.differentiates = is_float(dtype) && desc->gradient &&
                     desc->gradient->kind == TN_GRADIENT_KERNEL;
  cr_assert(c.n_in <= MOST && c.n_out <= MOST);
  for (uint32_t i = 0; i < c.n_in; ++i) {
    const tn_dtype own = type_of(desc, desc->inputs[i], dtype);
    const int64_t wide[] = {10, 30}, narrow[] = {1, 30};
    draw_values(values, 7 * i + 1, own);
    c.in[i] = host_many(rt, own, 2, repeats && i > 0 ? narrow : wide, values);
  }
  return c;
}

static void end_call(twin_call *c) {
  for (uint32_t i = 0; i < MOST; ++i) {
    tn_array_release(c->in[i]);
    tn_array_release(c->out[i]);
    tn_array_release(c->grads[i]);
  }
  tn_params_release(c->params);
}

/* --------------------------------------------------------------- comparison */

/* Units of the last place of a type, as a part of the value: a function is
 * within 5 units of the last place of f32 or f64 in each of the two, and
 * rounding to a half may go either way. */
static double find_tolerance(tn_dtype dtype) {
  if (dtype == TN_F64) return 64 * 0x1p-53;
  if (dtype == TN_F32) return 64 * 0x1p-24;
  if (dtype == TN_F16) return 0x1p-10;
  return dtype == TN_BF16 ? 0x1p-7 : 0;
}

static bool is_near(double a, double b, double tolerance) {
  if (a == b || (isnan(a) && isnan(b))) return true;
  return fabs(a - b) <= tolerance * (1 + fabs(b));
}

static void compare_arrays(tn_array *a, tn_array *b, const char *name,
                           const char *what) {
  const tn_dtype dtype = tn_array_tensor(a)->dtype;
  cr_assert_eq(dtype, tn_array_tensor(b)->dtype);
  cr_assert_eq(tn_array_size(a), tn_array_size(b));
  double *x = host_many_values(a), *y = host_many_values(b);
  for (int64_t i = 0; i < tn_array_size(a); ++i)
    cr_expect(is_near(x[i], y[i], find_tolerance(dtype)),
              "%s of %s, type 0x%x, element %lld: %.17g without, %.17g with a "
              "compiler",
              what, name, (unsigned)dtype, (long long)i, x[i], y[i]);
  free(x), free(y);
}

static void compare_calls(const char *name, tn_dtype dtype, bool repeats) {
  twin_call a = make_call(twins.interpreted, name, dtype, repeats);
  twin_call b = make_call(twins.compiled, name, dtype, repeats);
  const tn_code rc = record_call(&b);
  cr_expect_eq(record_call(&a), rc, "%s: %s", name, tn_error_text());
  for (uint32_t i = 0; rc == TN_OK && i < a.n_out; ++i)
    compare_arrays(a.out[i], b.out[i], name, "the result");
  for (uint32_t i = 0; rc == TN_OK && i < a.n_in && a.grads[i]; ++i)
    compare_arrays(a.grads[i], b.grads[i], name, "a gradient");
  end_call(&a), end_call(&b);
}

static void compare_types(const tn_op *op, bool repeats) {
  static const tn_dtype types[] = {TN_F16, TN_BF16, TN_F32, TN_F64, TN_BOOL,
                                   TN_I8,  TN_U8,   TN_I16, TN_U16, TN_I32,
                                   TN_U32, TN_I64,  TN_U64};
  static const uint64_t bits[] = {
      TN_BIT_F16, TN_BIT_BF16, TN_BIT_F32, TN_BIT_F64, TN_BIT_BOOL,
      TN_BIT_I8,  TN_BIT_U8,   TN_BIT_I16, TN_BIT_U16, TN_BIT_I32,
      TN_BIT_U32, TN_BIT_I64,  TN_BIT_U64};
  char name[128];
  (void)snprintf(name, sizeof name, "elemwise.%s", op->name);
  for (size_t t = 0; t < sizeof types / sizeof *types; ++t)
    if (op->n_dtype_vars == 0 || op->dtype_vars[0]->allowed & bits[t])
      compare_calls(name, types[t], repeats);
}

/* Its gradient jumps where 0.2*x + 0.5 is 0. At -2.5 that is so, but not if a
 * compiler contracts the product and the sum. */
static bool jumps(const tn_op *op) {
  return !strncmp(op->name, "hard_sigmoid", strlen("hard_sigmoid"));
}

static uint32_t compare_operators(bool repeats) {
  tn_plugin_info info;
  uint32_t n = 0;
  OK(tn_plugin_at(twins.interpreted, 0, &info));
  for (uint32_t i = 0; i < info.plugin->n_operators; ++i) {
    const tn_op *op = info.plugin->operators[i];
    if (repeats && op->outputs[0]->shape_kind != TN_SHAPE_BROADCAST) continue;
    if (jumps(op)) continue;
    compare_types(op, repeats);
    ++n;
  }
  return n;
}

Test(compiled, interpreted_operators_have_the_results_of_compiled_ones) {
  cr_expect_geq(compare_operators(false), 150);
}

Test(compiled, broadcast_inputs_too) {
  cr_expect_geq(compare_operators(true), 20);
}
