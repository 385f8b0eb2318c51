/* SPDX-License-Identifier: Apache-2.0
 * A whole life of a runtime (create, load, parameters, call, backward, explain,
 * unload) with every allocation failing in turn, once and from then on: an
 * error each time, nothing leaked, and a registry as it was before.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../meter.h"
#include "host.h"

enum { N_OPERATORS = 261 }; /* 134 for users, 127 for gradients of theirs */

typedef struct life {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  tn_array *x, *y, *dx;
  tn_text *text;
} life;

static tn_code call(life *l) {
  const float values[3] = {1, 2, 3};
  const tn_spec spec = {TN_F32, 1, (int64_t[]){3}};
  tn_code rc = tn_operator_get(l->rt, "elemwise.quadratic", &l->op);
  if (!rc) rc = tn_params_parse(l->op, "a=1 b=2 c=3", &l->params);
  if (!rc) rc = tn_array_create(l->rt, &spec, &l->x);
  if (!rc) rc = tn_array_set(l->x, values, sizeof values);
  if (!rc) rc = tn_call(l->rt, l->op, TN_IN(l->x), l->params, TN_OUT(&l->y));
  tn_backward back = {.struct_size = sizeof back,
                      .params = l->params,
                      .inputs = {1, &l->x},
                      .outputs = {1, &l->y},
                      .out_grads = {1, &l->y},
                      .in_grads = {1, &l->dx, NULL}};
  if (!rc) rc = tn_call_backward(l->rt, l->op, &back);
  if (!rc) rc = tn_operator_explain(l->op, NULL, NULL, &l->text);
  return rc;
}

static void end_call(life *l) {
  tn_text_release(l->text);
  tn_array_release(l->x), tn_array_release(l->y), tn_array_release(l->dx);
  tn_params_release(l->params);
  l->text = NULL, l->params = NULL;
  l->x = l->y = l->dx = NULL;
}

static size_t n_plugins(tn_runtime *rt) {
  tn_plugin_info info;
  size_t n = 0;
  while (tn_plugin_at(rt, n, &info) == TN_OK) ++n;
  return n;
}

static size_t n_operators(tn_runtime *rt) {
  tn_operator *op = NULL;
  size_t n = 0;
  while (tn_operator_at(rt, n, &op) == TN_OK) ++n;
  return n;
}

/* A failed load leaves no plugin and no operator; a failed unload leaves both.
 */
static tn_code live(life *l, meter *m) {
  const tn_options options = {.struct_size = sizeof options,
                              .allocator = {m, meter_alloc, meter_free},
                              .log = quiet};
  tn_code rc = tn_runtime_create(&options, &l->rt);
  if (rc) return rc;
  rc = tn_plugin_load(l->rt, PLUGIN_FILE);
  if (rc) {
    cr_assert_eq(n_plugins(l->rt), 0);
    cr_assert_eq(n_operators(l->rt), 0);
    return rc;
  }
  cr_assert_eq(n_operators(l->rt), N_OPERATORS);
  rc = call(l);
  end_call(l);
  if (rc) return rc;
  rc = tn_plugin_unload(l->rt, "elemwise");
  cr_assert_eq(n_plugins(l->rt), rc == TN_OK ? 0 : 1);
  cr_assert_eq(n_operators(l->rt), rc == TN_OK ? 0 : N_OPERATORS);
  return rc;
}

static size_t every_allocation_fails(bool sticky) {
  for (size_t n = 1;; ++n) {
    meter m = {.fail_at = n, .sticky = sticky};
    life l = {0};
    const tn_code rc = live(&l, &m);
    tn_runtime_release(l.rt);
    cr_assert_eq(m.n_living, 0, "%zu blocks leaked at allocation %zu",
                 m.n_living, n);
    if (rc == TN_OK && m.n_allocated < n) return n;
    if (rc != TN_OK)
      cr_assert_eq(rc, TN_OUT_OF_MEMORY, "allocation %zu: %s: %s", n,
                   tn_code_name(rc), tn_error_text());
    cr_assert_lt(n, 100000);
  }
}

Test(faults, each_allocation_of_a_life_may_fail_once) {
  cr_assert_gt(every_allocation_fails(false), 10);
}

Test(faults, every_allocation_from_any_point_on_may_fail) {
  cr_assert_gt(every_allocation_fails(true), 10);
}
