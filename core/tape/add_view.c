/* SPDX-License-Identifier: Apache-2.0
 * add_view.c: adds an array to another one, or to a view that repeats elements.
 * Each element of such a view gets the sum of all elements for it, computed in
 * f64 and rounded once. The sum runs at once if nothing else uses the arrays,
 * otherwise as a job of the engine.
 */
#include "tape.h"

/* --------------------------------------------------------------- schedule */

/* Sums of at most so many bytes may run inside of the push. */
enum { SMALL_BYTES = 1 << 16 };

/* A pushed sum. It holds its arrays. */
typedef struct job {
  tn_array *to;
  tn_array *from;
} job;

static tn_tensor tensor_with_data(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* An array without memory was never written; its elements are zeros. */
static void sum_now(const tn_array *to, const tn_array *from) {
  const tn_tensor y = tensor_with_data(to), x = tensor_with_data(from);
  if (!x.data) return;
  if (tn__tensor_has_repeats(&y))
    tn__tensor_sum(NULL, &y, &x, true);
  else
    tn__tensor_add(&y, &x);
}

static tn_code run_job(void *arg, tn__token *token) {
  const job *j = arg;
  tn__device *device = j->to->block->device;
  const tn_tensor y = tensor_with_data(j->to), x = tensor_with_data(j->from);
  if (device->table)
    return tn__elements_sum(&(tn__site){device, token, NULL}, &y, &x, true);
  sum_now(j->to, j->from);
  return TN_OK;
}

static void drop_job(void *arg) {
  job *j = arg;
  const tn__env *env = j->to->env;
  tn__array_unhold(j->to);
  tn__array_unhold(j->from);
  tn__free(env, j);
}

static tn_code push_sum(tn_array *to, tn_array *from, bool small) {
  const tn__access access[] = {{&from->block->var, TN__READ, 0},
                               {&to->block->var, TN__UPDATE, 0}};
  job *j = tn__alloc(to->env, sizeof *j);
  if (!j) return tn__fail_memory(sizeof *j, "a sum of arrays");
  tn__array_hold(to);
  tn__array_hold(from);
  *j = (job){to, from};
  return tn__push(to->env->engine,
                  &(tn__job){.name = "sum of gradients",
                             .run = run_job,
                             .arg = j,
                             .drop = drop_job,
                             .access = access,
                             .n_access = 2,
                             .flags = small ? TN__JOB_SMALL : 0,
                             .queue = to->block->device->compute});
}

/* Adds at once if nothing else uses the arrays. */
static bool try_sum_now(tn_array *to, tn_array *from) {
  tn__engine *engine = to->env->engine;
  if (!tn__gate_enter(engine)) return false;
  const bool free = tn__var_is_writable(&to->block->var) &&
                    tn__var_is_readable(&from->block->var);
  if (free) sum_now(to, from);
  tn__gate_leave(engine);
  return free;
}

static tn_code check_device(const tn_array *to, const tn_array *from) {
  const tn__device *device = to->block->device;
  char place[TN__DEVICE_TEXT];
  if (device == from->block->device &&
      tn__elements_can_add(device, to->tensor.dtype))
    return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "gradients of broadcast or added arrays cannot be summed on"
                  " %s; use operators that broadcast and add there themselves",
                  tn__device_text(device, place));
}

tn_code tn__array_accumulate(tn_array *to, tn_array *from) {
  const int64_t n = tn_tensor_size(&to->tensor);
  const bool small = tn__dense_bytes(&to->tensor) <= SMALL_BYTES;
  if (n == 0) return TN_OK;
  TN__TRY(check_device(to, from));
  TN__TRY(tn__array_materialise(to));
  tn__array_count_write(to);
  if (!to->block->device->table && small && to->block != from->block &&
      try_sum_now(to, from))
    return TN_OK;
  return push_sum(to, from, small);
}
