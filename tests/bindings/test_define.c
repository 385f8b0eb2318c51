/* SPDX-License-Identifier: Apache-2.0
 * Operators of the host's own functions: tn_operator_define, and its promises
 * about names, functions, lifetimes and removal.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "tenon/define.h"

/* The instance of the functions. */
typedef struct mine {
  double factor;
  int prepared;
  int destroyed;
} mine;

static int32_t times(const tn_frame *call) {
  const mine *m = call->instance;
  const float *x = call->in[0].data;
  float *out = call->out[0].data;
  if (call->prepared != m) return TN_FAIL(call, TN_INTERNAL, "not prepared");
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    out[i] = (float)m->factor * x[i];
  return TN_OK;
}

static int32_t times_prepare(const tn_frame *call, tn_plan *plan) {
  mine *m = call->instance;
  ++m->prepared;
  plan->prepared = m;
  return TN_OK;
}

/* The gradient of out for x. */
static int32_t times_backward(const tn_frame *call) {
  const mine *m = call->instance;
  const float *head = call->in[0].data;
  float *out = call->out[0].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    out[i] = (float)m->factor * head[i];
  return TN_OK;
}

static int32_t small_only(const tn_frame *call) {
  if (call->in[0].ndim == 1) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED, "one dimension is enough for everybody");
}

static void count_end(void *instance) {
  mine *m = instance;
  ++m->destroyed;
}

static const char text[] =
    "opgen: 1\n"
    "op: times\n"
    "summary: Times a factor that the host knows\n"
    "inputs: [{name: x, dtype: f32}]\n"
    "outputs: [{name: out, dtype: f32, shape: x}]\n"
    "kernels:\n"
    "  - {device: cpu, forward: times, backward: times_backward}\n"
    "gradient: {kernel: backward, needs: {x: [grad.out]}}\n";

static const tn_host_kernel functions[] = {
    {"times", times, times_prepare, small_only},
    {"times_backward", times_backward, NULL, NULL}};

static tn_host_kernels kernels_of(mine *m) {
  return (tn_host_kernels){.struct_size = sizeof(tn_host_kernels),
                           .n = 2,
                           .v = functions,
                           .instance = m,
                           .destroy = count_end};
}

static const double values[] = {1, -2, 0.5};

Test(define, an_operator_of_the_host_is_called_like_any_other) {
  mine m = {.factor = 3};
  const tn_host_kernels kernels = kernels_of(&m);
  tn_operator *op = NULL, *found = NULL;
  tn_array *y = NULL, *dx = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, text, &kernels, &op));
  OK(tn_operator_get(l.rt, "host.times", &found));
  cr_expect_eq(op, found);
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){1, {3}}, values);
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  host_expect(y, (const double[]){3, -6, 1.5}, 3, 0);
  cr_expect_eq(m.prepared, 1);
  OK(tn_call_backward(l.rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .inputs = *TN_IN(x),
                                     .outputs = *TN_IN(y),
                                     .out_grads = *TN_IN(x),
                                     .in_grads = *TN_OUT(&dx)}));
  host_expect(dx, (const double[]){3, -6, 1.5}, 3, 0);
  tn_array_release(x), tn_array_release(y), tn_array_release(dx);
  lab_close(&l);
  cr_expect_eq(m.destroyed, 1);
}

/* An operator with all that a kernel may have: a workspace, data that is
 * prepared once, and a state of the caller. It reverses x by way of the
 * workspace, adds the state, and counts the call in it. */
typedef struct prepared_size {
  int64_t n;
  mine *of;
} prepared_size;

static void size_destroy(void *prepared) {
  prepared_size *size = prepared;
  ++size->of->destroyed;
  free(size);
}

static int32_t reverse_prepare(const tn_frame *call, tn_plan *plan) {
  mine *m = call->instance;
  prepared_size *size = malloc(sizeof *size);
  if (size == NULL) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory");
  *size = (prepared_size){tn_tensor_size(&call->in[0]), m};
  ++m->prepared;
  plan->n_ws = 1;
  plan->ws[0].bytes = (uint64_t)size->n * sizeof(float);
  plan->prepared = size;
  plan->destroy = size_destroy;
  return TN_OK;
}

static int32_t reverse(const tn_frame *call) {
  const prepared_size *size = call->prepared;
  const float *x = call->in[0].data;
  float *out = call->out[0].data, *count = call->aux[0].data;
  float *copy = call->ws[0];
  memcpy(copy, x, (size_t)size->n * sizeof *copy);
  for (int64_t i = 0; i < size->n; ++i) out[i] = copy[size->n - 1 - i] + *count;
  *count += 1;
  return TN_OK;
}

static const char reverse_text[] =
    "opgen: 1\n"
    "op: reverse\n"
    "summary: The elements backwards, plus the number of calls before\n"
    "inputs: [{name: x, dtype: f32, layout: contiguous}]\n"
    "outputs: [{name: out, dtype: f32, shape: x, inplace: x, "
    "layout: contiguous}]\n"
    "aux: [{name: count, dtype: f32, shape: [], init: 0}]\n"
    "kernels: [{device: cpu, forward: reverse, writes: [write, inplace]}]\n"
    "gradient: none\n";

Test(define, an_operator_of_the_host_has_workspace_and_states) {
  static const tn_host_kernel one[] = {
      {"reverse", reverse, reverse_prepare, NULL}};
  mine m = {0};
  const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 1, .v = one, .instance = &m};
  tn_operator *op = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, reverse_text, &kernels, &op));
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){1, {3}}, values);
  tn_array *count =
      host_array(l.rt, TN_F32, (host_shape){0, {0}}, (const double[]){10});
  for (int k = 0; k < 2; ++k)
    OK(tn_call(l.rt, op, TN_IN(x, count), NULL, TN_OUT(&x)));
  host_expect(x, (const double[]){22, 19, 21.5}, 3, 0);
  host_expect(count, (const double[]){12}, 1, 0);
  cr_expect_eq(m.prepared, 1);
  tn_array_release(x), tn_array_release(count);
  lab_close(&l);
  cr_expect_eq(m.destroyed, 1);
}

/* A manifest in a file would have it in a companion; a host has it at hand. */
Test(define, a_kernel_for_another_device_is_the_hosts_too) {
  static const char cuda_text[] =
      "opgen: 1\n"
      "op: times\n"
      "summary: Times a factor that the host knows\n"
      "inputs: [{name: x, dtype: f32}]\n"
      "outputs: [{name: out, dtype: f32, shape: x}]\n"
      "kernels: [{device: cuda, forward: times}]\n"
      "gradient: none\n";
  mine m = {.factor = 3};
  tn_host_kernels kernels = kernels_of(&m);
  kernels.n = 1;
  tn_operator *op = NULL;
  tn_plugin_info info;
  lab l;
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, cuda_text, &kernels, &op));
  OK(tn_plugin_at(l.rt, 0, &info));
  cr_assert_eq(info.plugin->n_kernels, 1);
  cr_expect_eq(info.plugin->kernels[0]->device_type, TN_DEVICE_CUDA);
  lab_close(&l);
}

Test(define, supports_is_asked) {
  mine m = {.factor = 3};
  const tn_host_kernels kernels = kernels_of(&m);
  tn_operator *op = NULL;
  tn_array *y = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, text, &kernels, &op));
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){2, {1, 3}}, values);
  FAILS(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_UNSUPPORTED,
        "one dimension is enough for everybody");
  tn_array_release(x);
  lab_close(&l);
}

Test(define, a_removed_operator_is_a_name_and_may_be_defined_again) {
  mine m = {.factor = 2}, other = {.factor = 5};
  const tn_host_kernels kernels = kernels_of(&m), others = kernels_of(&other);
  tn_operator *op = NULL, *again = NULL;
  tn_params *params = NULL;
  tn_array *y = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, text, &kernels, &op));
  FAILS(tn_operator_define(l.rt, text, &others, &again), TN_EXISTS,
        "the operator host.times@1 is defined already, by this host; remove it "
        "first");
  cr_expect_null(strstr(tn_error_text(), "(host)"));
  cr_expect_eq(other.destroyed, 0);
  OK(tn_params_parse(op, "", &params));
  FAILS(tn_operator_remove(l.rt, op), TN_BUSY, "1 params of host.times@1");
  tn_params_release(params);
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){1, {3}}, values);
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  OK(tn_operator_remove(l.rt, op));
  cr_expect_eq(m.destroyed, 1);
  FAILS(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_NOT_FOUND,
        "host.times@1");
  FAILS(tn_operator_remove(l.rt, op), TN_NOT_FOUND, "is not defined");
  OK(tn_operator_define(l.rt, text, &others, &again));
  cr_expect_eq(op, again);
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  host_expect(y, (const double[]){5, -10, 2.5}, 3, 0);
  tn_array_release(x), tn_array_release(y);
  lab_close(&l);
  cr_expect_eq(other.destroyed, 1);
}

Test(define, several_operators_share_the_name_host) {
  mine m = {.factor = 2}, other = {.factor = 5};
  const tn_host_kernels kernels = kernels_of(&m), others = kernels_of(&other);
  char second[sizeof text];
  tn_operator *op = NULL, *two = NULL;
  lab l;
  strcpy(second, text);
  memcpy(strstr(second, "op: times"), "op: other", 9);
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, text, &kernels, &op));
  OK(tn_operator_define(l.rt, second, &others, &two));
  FAILS(tn_plugin_unload(l.rt, "host"), TN_NOT_FOUND, "\"host\"");
  OK(tn_operator_remove(l.rt, op));
  cr_expect_eq(m.destroyed, 1);
  cr_expect_eq(other.destroyed, 0);
  cr_expect_str_eq(tn_operator_name(two), "host.other@1");
  cr_expect_not_null(tn_operator_desc(two));
  lab_close(&l);
}

/* The effect of `destroy` of one on the other. */
typedef struct removal {
  tn_runtime *rt;
  tn_operator *other;
  tn_code rc;
} removal;

static void remove_other(void *instance) {
  removal *p = instance;
  p->rc = tn_operator_remove(p->rt, p->other);
}

/* In the middle of one removal and at the runtime's end, where it would have
 * waited for itself. */
Test(define, nothing_is_removed_while_something_is_destroyed, .timeout = 100) {
  for (int at_end = 0; at_end < 2; ++at_end) {
    mine m = {.factor = 2};
    removal p = {0};
    const tn_host_kernels kernels = kernels_of(&m);
    tn_host_kernels others = kernels;
    others.instance = &p;
    others.destroy = remove_other;
    char second[sizeof text];
    tn_operator *op = NULL;
    lab l;
    strcpy(second, text);
    memcpy(strstr(second, "op: times"), "op: other", 9);
    lab_open(&l, NULL);
    p.rt = l.rt;
    OK(tn_operator_define(l.rt, text, &kernels, &p.other));
    OK(tn_operator_define(l.rt, second, &others, &op));
    if (!at_end) OK(tn_operator_remove(l.rt, op));
    if (!at_end) OK(tn_operator_remove(l.rt, p.other));
    lab_close(&l);
    cr_expect_eq(p.rc, TN_INVALID);
    cr_expect_eq(m.destroyed, 1);
  }
}

Test(define, mistakes_in_the_text_have_a_place) {
  mine m = {.factor = 2};
  const tn_host_kernels kernels = kernels_of(&m);
  char wrong[sizeof text];
  tn_operator *op = NULL;
  lab l;
  strcpy(wrong, text);
  memcpy(strstr(wrong, "shape: x"), "shape: y", 8);
  lab_open(&l, NULL);
  FAILS(tn_operator_define(l.rt, wrong, &kernels, &op), TN_INVALID,
        "(manifest):5:42: error[E0026]: unknown shape `y`");
  FAILS(tn_operator_define(l.rt, "", &kernels, &op), TN_INVALID,
        "this manifest is empty");
  cr_expect_null(op);
  cr_expect_eq(m.destroyed, 0);
  lab_close(&l);
}

Test(define, functions_that_are_missing_are_named) {
  mine m = {.factor = 2};
  tn_host_kernels kernels = kernels_of(&m);
  const tn_host_kernel empty[] = {{"times", NULL, NULL, NULL}};
  lab l;
  lab_open(&l, NULL);
  kernels.n = 1;
  FAILS(tn_operator_define(l.rt, text, &kernels, NULL), TN_NOT_FOUND,
        "the function `times_backward` is not among the passed functions: "
        "times");
  kernels.v = empty;
  FAILS(tn_operator_define(l.rt, text, &kernels, NULL), TN_INVALID,
        "`compute` of the function `times` is NULL");
  kernels.struct_size = 4;
  FAILS(tn_operator_define(l.rt, text, &kernels, NULL), TN_INVALID,
        "tn_host_kernels.struct_size is 4");
  FAILS(tn_operator_define(l.rt, text, NULL, NULL), TN_PLUGIN,
        "operator times has no formula, no binding and no kernels of the host; "
        "list "
        "`kernels` in it and give their functions in tn_host_kernels");
  FAILS(tn_operator_define(l.rt, NULL, NULL, NULL), TN_INVALID, "manifest");
  lab_close(&l);
}

Test(define, operators_for_opgen_are_refused) {
  mine m = {.factor = 2};
  const tn_host_kernels kernels = kernels_of(&m);
  lab l;
  lab_open(&l, NULL);
  FAILS(tn_operator_define(l.rt,
                           "opgen: 1\nop: twice\nsummary: Twice\n"
                           "inputs: [{name: x, dtype: f32}]\n"
                           "outputs: [{name: out, dtype: f32, shape: x}]\n"
                           "kernels:\n"
                           "  - device: cpu\n"
                           "    forward: times\n"
                           "    workspace: {bytes: times_bytes}\n",
                           &kernels, NULL),
        TN_UNSUPPORTED, "give the function a `prepare` of your own");
  FAILS(tn_operator_define(l.rt,
                           "opgen: 1\nop: twice\nsummary: Twice\n"
                           "inputs: [{name: x, dtype: f32}]\n"
                           "outputs: [{name: out, dtype: f32, shape: x}]\n"
                           "kernels: [{device: cpu, forward: times, "
                           "supports: takes}]\n",
                           &kernels, NULL),
        TN_UNSUPPORTED, "set `supports` of the function instead");
  FAILS(tn_operator_define(l.rt,
                           "opgen: 1\nop: one\nsummary: One\n"
                           "inputs: [{name: x, dtype: f32}]\n"
                           "outputs: [{name: out, dtype: f32, shape: x}]\n"
                           "kernels: [{device: cpu, forward: times}]\n"
                           "---\n"
                           "opgen: 1\nop: two\nsummary: Two\n"
                           "inputs: [{name: x, dtype: f32}]\n"
                           "outputs: [{name: out, dtype: f32, shape: x}]\n"
                           "kernels: [{device: cpu, forward: times}]\n",
                           &kernels, NULL),
        TN_INVALID, "it describes 2 operators; define one at a time");
  FAILS(tn_operator_define(l.rt,
                           "opgen: 1\nop: thrice\nsummary: Thrice\n"
                           "inputs: [{name: x, dtype: f32}]\n"
                           "outputs: [{name: out, dtype: f32, shape: x}]\n"
                           "kernels: [{device: cpu, forward: times}]\n",
                           NULL, NULL),
        TN_PLUGIN, "operator thrice has no formula, no binding and no kernels");
  lab_close(&l);
}

static int32_t pair_shape(const tn_frame *call) {
  const int64_t shape[] = {2, call->in[0].ndim < 1 ? -1 : call->in[0].shape[0]};
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 2, shape);
}

static int32_t pair(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *out = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = out[n + i] = x[i];
  return TN_OK;
}

Test(define, a_shape_may_be_a_function_of_the_host) {
  const tn_host_kernel own[] = {{"pair", pair, NULL, NULL},
                                {"pair_shape", pair_shape, NULL, NULL}};
  const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 2, .v = own};
  tn_operator *op = NULL;
  tn_array *out = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_operator_define(
      l.rt,
      "opgen: 1\nop: pair\nsummary: Twice the same\n"
      "inputs: [{name: x, dtype: f32}]\n"
      "outputs: [{name: out, dtype: f32, shape: {c: pair_shape}}]\n"
      "kernels: [{device: cpu, forward: pair}]\n",
      &kernels, &op));
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){1, {3}}, values);
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&out)));
  cr_expect_eq(tn_array_tensor(out)->ndim, 2);
  host_expect(out, (const double[]){1, -2, 0.5, 1, -2, 0.5}, 6, 0);
  tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

/* The text goes to the other process, too. */
Test(define, a_binding_may_be_defined_and_is_tried) {
  char good[1024];
  tn_operator *op = NULL;
  lab l;
  strcpy(good, lab_simple("lib_square"));
  memcpy(strstr(good, "int32, pass"), "int16", 5);
  lab_open(&l, NULL);
  FAILS(tn_operator_define(l.rt, lab_text(good), NULL, &op), TN_PLUGIN,
        "(manifest): example `doc` of host.simple: element 1 of `out` is 4, "
        "expected 2");
  FAILS(tn_operator_define(l.rt, lab_text(lab_simple("lib_crash")), NULL, &op),
        TN_PLUGIN, "(manifest): its examples were tried");
  memcpy(strstr(good, "out: [1, 2, 3]"), "out: [1, 4, 9]", 14);
  OK(tn_operator_define(l.rt, lab_text(good), NULL, &op));
  cr_expect_str_eq(tn_operator_name(op), "host.simple@1");
  lab_close(&l);
}

Test(define, a_text_has_no_folder_for_a_library) {
  const char *simple = lab_simple("lib_square");
  const char *at = strchr(simple, '@');
  char wrong[1100];
  lab l;
  cr_assert_not_null(at);
  (void)snprintf(wrong, sizeof wrong, "%.*s./libmine.so%s", (int)(at - simple),
                 simple, at + 1);
  lab_open(&l, NULL);
  FAILS(tn_operator_define(l.rt, wrong, NULL, NULL), TN_INVALID,
        "the library ./libmine.so of operator simple is in the folder of its "
        "manifest, "
        "but a text has no folder; write the whole path");
  lab_close(&l);
}

Test(define, only_defined_operators_are_removed) {
  char good[1024];
  tn_operator *op = NULL;
  lab l;
  strcpy(good, lab_simple("lib_square"));
  memcpy(strstr(good, "int32, pass"), "int16", 5);
  memcpy(strstr(good, "out: [1, 2, 3]"), "out: [1, 4, 9]", 14);
  lab_open(&l, NULL);
  OK(lab_load(&l, good));
  OK(tn_operator_at(l.rt, 0, &op));
  FAILS(tn_operator_remove(l.rt, op), TN_INVALID, "unload its plugin \"lab\"");
  lab_close(&l);
}
