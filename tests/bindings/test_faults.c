/* SPDX-License-Identifier: Apache-2.0
 * Load, call and unload of a binding, and the same of an operator of the host's
 * own, with every allocation failing in turn: an error each time, nothing left.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../meter.h"
#include "lab.h"
#include "tenon/define.h"

/* One life of a runtime; the checked subject. */
typedef struct life {
  tn_runtime *rt;
  const char *path; /* of a manifest, a formula, or NULL: host.twice */
  tn_array *x, *y;
} life;

static int32_t twice(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *out = call->out[0].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) out[i] = 2 * x[i];
  return TN_OK;
}

static bool is_formula(const char *path) {
  return path && strchr(path, '(') != NULL;
}

static tn_code enter(life *l, tn_operator **op) {
  static const tn_host_kernel own[] = {{"twice", twice, NULL, NULL}};
  static const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 1, .v = own};
  tn_code rc = TN_OK;
  if (!l->path)
    return tn_operator_define(l->rt,
                              "opgen: 1\nop: twice\nsummary: Twice\n"
                              "inputs: [{name: x, dtype: f32}]\n"
                              "outputs: [{name: out, dtype: f32, shape: x}]\n"
                              "kernels: [{device: cpu, forward: twice}]\n",
                              &kernels, op);
  const tn_formula formula = {.struct_size = sizeof formula,
                              .expression = l->path};
  if (is_formula(l->path)) return tn_formula_define(l->rt, &formula, op);
  rc = tn_plugin_load(l->rt, l->path);
  return rc ? rc : tn_operator_at(l->rt, 0, op);
}

static tn_code use(life *l, tn_operator *op) {
  const float values[3] = {1, 2, 3};
  const tn_spec spec = {TN_F32, 1, (int64_t[]){3}};
  tn_code rc = tn_array_create(l->rt, &spec, &l->x);
  if (!rc) rc = tn_array_set(l->x, values, sizeof values);
  if (!rc) rc = tn_call(l->rt, op, TN_IN(l->x), NULL, TN_OUT(&l->y));
  tn_array_release(l->x), tn_array_release(l->y);
  return rc;
}

static tn_code live(life *l, meter *m) {
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 1,
                              .trust = TN_TRUST_BINDINGS,
                              .allocator = {m, meter_alloc, meter_free},
                              .log = quiet};
  tn_operator *op = NULL;
  tn_plugin_info info;
  tn_code rc = tn_runtime_create(&options, &l->rt);
  if (rc) return rc;
  rc = enter(l, &op);
  if (rc) {
    cr_assert_eq(tn_plugin_at(l->rt, 0, &info), TN_NOT_FOUND);
    return rc;
  }
  rc = use(l, op);
  if (rc) return rc;
  return l->path && !is_formula(l->path) ? tn_plugin_unload(l->rt, "lab")
                                         : tn_operator_remove(l->rt, op);
}

static size_t every_allocation_fails(const char *path, bool sticky) {
  for (size_t n = 1;; ++n) {
    meter m = {.fail_at = n, .sticky = sticky};
    life l = {.path = path};
    const tn_code rc = live(&l, &m);
    tn_runtime_release(l.rt);
    cr_assert_eq(m.n_living, 0, "%zu blocks leaked at allocation %zu",
                 (size_t)m.n_living, n);
    if (rc == TN_OK && m.n_allocated < n) return n;
    if (rc != TN_OK)
      cr_assert_eq(rc, TN_OUT_OF_MEMORY, "allocation %zu: %s: %s", n,
                   tn_code_name(rc), tn_error_text());
    cr_assert_lt(n, 100000);
  }
}

static void binding_survives(bool sticky) {
  char text[1024];
  lab l;
  strcpy(text, lab_simple("lib_square"));
  memcpy(strstr(text, "int32, pass"), "int16", 5);
  lab_open(&l, NULL);
  cr_assert_gt(every_allocation_fails(lab_file(&l, "op.yaml", text), sticky),
               30);
  lab_close(&l);
}

Test(faults, each_allocation_of_a_bindings_life_may_fail_once) {
  binding_survives(false);
}

Test(faults, every_allocation_of_a_bindings_life_may_fail_from_any_point_on) {
  binding_survives(true);
}

Test(faults, each_allocation_of_a_host_operators_life_may_fail_once) {
  cr_assert_gt(every_allocation_fails(NULL, false), 30);
}

Test(faults, every_allocation_of_a_host_operators_life_may_fail_on) {
  cr_assert_gt(every_allocation_fails(NULL, true), 30);
}

Test(faults, each_allocation_of_a_formulas_life_may_fail_once) {
  cr_expect_gt(every_allocation_fails("2*exp(x)", false), 30);
  cr_expect_gt(every_allocation_fails("x - logsumexp(x, axis)", false), 30);
}

Test(faults, every_allocation_of_a_formulas_life_may_fail_on) {
  cr_expect_gt(every_allocation_fails("2*exp(x)", true), 30);
}
