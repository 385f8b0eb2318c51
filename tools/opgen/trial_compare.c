/* SPDX-License-Identifier: Apache-2.0
 * trial_compare.c: compares the results of the first turn of an example with
 * the same call made again: equal inputs give equal results.
 */
#include <string.h>

#include "tenon/kernel/storage.h"
#include "trial_child.h"

static tn_code read_storage(tn_array *array, double *values, size_t n) {
  const tn_tensor *t = tn_array_tensor(array);
  const size_t bytes = (size_t)tn_tensor_bytes(t);
  void *elements = tn__alloc(tn__env_default(), bytes);
  if (elements == NULL) return tn__fail_memory(bytes, "a result");
  const tn_code code = tn_array_get(array, elements, bytes);
  for (size_t i = 0; i < n && code == TN_OK; ++i)
    values[i] = (double)tn_storage_read(elements, t->dtype, (int64_t)i);
  tn__free(tn__env_default(), elements);
  return code;
}

static tn_code read_values(tn_array *array, double *values, size_t n) {
  tn_array *wide = NULL;
  if (tn__dtype_is_storage(tn_array_tensor(array)->dtype))
    return read_storage(array, values, n);
  tn_code code = tn_array_cast(array, TN_F64, &wide);
  if (code == TN_OK) code = tn_array_get(wide, values, n * sizeof *values);
  tn_array_release(wide);
  return code;
}

static bool alloc_result(trial_result *to, const tn_tensor *t, size_t n) {
  size_t bytes = 0;
  if (!tn__mul(n, sizeof *to->values, &bytes) ||
      !tn__tensor_bytes(t->dtype, t->ndim, t->shape, &to->n_bytes))
    return false;
  to->n = n;
  to->bytes = tn__alloc(tn__env_default(), to->n_bytes);
  to->values = tn__alloc(tn__env_default(), bytes);
  return to->bytes != NULL && to->values != NULL;
}

tn_code trial_keep(trial_result *result, tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  *result = (trial_result){.dtype = t->dtype, .ndim = t->ndim};
  memcpy(result->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  if (!alloc_result(result, t, (size_t)tn_array_size(array))) {
    trial_result_free(result);
    return tn__fail_memory(result->n, "a result");
  }
  TN__TRY(tn_array_get(array, result->bytes, result->n_bytes));
  return read_values(array, result->values, result->n);
}

void trial_result_free(trial_result *result) {
  tn__free(tn__env_default(), result->bytes);
  tn__free(tn__env_default(), result->values);
  result->bytes = NULL;
  result->values = NULL;
}

/* ---------------------------------------------------------------- comparing */

static bool is_deterministic(const trial_run *r) {
  const tnm_operator *m = r->manifest;
  for (size_t i = 0; i < m->n_kernels; ++i) {
    const tn_kernel *passes[] = {m->kernels[i].forward, m->kernels[i].backward};
    for (size_t k = 0; k < 2; ++k)
      if (passes[k] != NULL && passes[k]->device_type == TN_DEVICE_CPU &&
          (passes[k]->flags & TN_KERNEL_DETERMINISTIC) == 0)
        return false;
  }
  return true;
}

/* Tests whether equal inputs must give equal bits: only in memory of the same
 * alignment, and only if the kernel promises it. */
static bool needs_same_bits(const trial_run *r) {
  return r->turn == TURN_AGAIN && is_deterministic(r);
}

static const char *name_difference(const trial_run *r, const char *code) {
  if (strcmp(code, "E0204") == 0) return "";
  return r->turn == TURN_AGAIN ? "in a second call, " : "in other memory, ";
}

static void report_difference(const trial_run *r, const trial_result *was,
                              const char *name, const char *code,
                              const double *now, size_t at) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_add(&text, "%selement %zu of `%s` is ", name_difference(r, code), at,
              name);
  tn__buf_double(&text, now[at]);
  tn__buf_add(&text,
              strcmp(code, "E0204") == 0 ? ", with the others " : ", and was ");
  tn__buf_double(&text, was->values[at]);
  if (!text.failed) trial_find(code, "%s", text.s);
  tn__buf_deinit(&text);
}

static bool is_near(const trial_run *r, const trial_result *was,
                    const double *now, size_t at) {
  if (trial_is_near(r->example, was->dtype, was->values[at], now[at]))
    return true;
  return was->dtype != TN_F16 && was->dtype != TN_BF16
             ? false
             : trial_is_near(&(tnm_example){.tol = 4e-2}, was->dtype,
                             was->values[at], now[at]);
}

static void compare_values(const trial_run *r, const trial_result *was,
                           const char *name, const char *code,
                           const double *now, const void *bytes) {
  const size_t size = (size_t)tn_dtype_bytes(was->dtype); /* 0: packed */
  for (size_t i = 0; i < was->n; ++i) {
    const bool same = size > 0
                          ? memcmp((const char *)was->bytes + i * size,
                                   (const char *)bytes + i * size, size) == 0
                          : was->values[i] == now[i];
    if (same || (!needs_same_bits(r) && is_near(r, was, now, i))) continue;
    report_difference(r, was, name, code, now, i);
    return;
  }
}

static bool is_same_shape(const trial_result *was, tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  return t->ndim == was->ndim && t->dtype == was->dtype &&
         memcmp(t->shape, was->shape, (size_t)t->ndim * sizeof *t->shape) == 0;
}

tn_code trial_compare(const trial_run *r, const trial_result *result,
                      const char *name, tn_array *array, const char *code) {
  if (result->bytes == NULL || array == NULL) return TN_OK;
  if (!is_same_shape(result, array)) {
    trial_find(code, "%s`%s` has another shape", name_difference(r, code),
               name);
    return TN_OK;
  }
  double *now = tn__alloc(tn__env_default(), result->n * sizeof *now);
  void *bytes = tn__alloc(tn__env_default(), result->n_bytes);
  tn_code rc = now != NULL && bytes != NULL
                   ? TN_OK
                   : tn__fail_memory(result->n_bytes, "a result");
  if (rc == TN_OK) rc = tn_array_get(array, bytes, result->n_bytes);
  if (rc == TN_OK) rc = read_values(array, now, result->n);
  if (rc == TN_OK) compare_values(r, result, name, code, now, bytes);
  tn__free(tn__env_default(), now);
  tn__free(tn__env_default(), bytes);
  return rc;
}
