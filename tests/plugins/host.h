/* SPDX-License-Identifier: Apache-2.0
 * host.h: a small host for the tests of plugins: a runtime with one plugin
 * file, arrays from doubles, and back. Sees tenon.h only.
 */
#ifndef TENON_TESTS_PLUGINS_HOST_H_
#define TENON_TESTS_PLUGINS_HOST_H_

#include "tenon/tenon.h"

/* Fails the test with the library's own text unless `call` returns TN_OK. */
#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

/* Fails the test unless `call` returns `code` and its text has `part`. */
#define FAILS(call, code, part)                                          \
  do {                                                                   \
    cr_assert_eq((call), (code), "%s: %s", #call, tn_error_text());      \
    cr_assert_not_null(strstr(tn_error_text(), (part)), "%s lacks `%s`", \
                       tn_error_text(), (part));                         \
  } while (0)

/* A runtime with the plugin that this test is about (PLUGIN_FILE). */
tn_runtime *host_open(void);

/* Loads the plugins in these files, with a colon between two. */
void host_load_all(tn_runtime *rt, const char *files);

tn_operator *host_operator(tn_runtime *rt, const char *name);
tn_params *host_params(tn_operator *op, const char *text);

enum { HOST_MAX = 64 };

/* A new dense array with these values, rounded to its dtype. */
typedef struct host_shape {
  int32_t ndim;
  int64_t dims[4];
} host_shape;
tn_array *host_array(tn_runtime *rt, tn_dtype dtype, host_shape shape,
                     const double *values);

/* The elements as doubles, row-major; returns how many (at most HOST_MAX). */
int64_t host_values(tn_array *array, double *values);

/* Fails the test unless the array holds these values (within `tolerance`,
 * relative to magnitudes above 1). */
void host_expect(tn_array *array, const double *values, int64_t n,
                 double tolerance);

/* An array of a case, as tests/reference/operands.py writes it. */
typedef struct host_operand {
  host_shape shape;
  double v[HOST_MAX];
} host_operand;

/* A new array with these values, rounded by the library. */
tn_array *host_operand_array(tn_runtime *rt, tn_dtype dtype,
                             const host_operand *from);

/* Elements of a shape. */
int64_t host_count(const host_shape *shape);

/* Fails the test unless the array has this shape, and these values. */
void host_expect_shape(tn_array *array, const host_shape *want, const char *op,
                       const char *params);
void host_expect_operand(tn_array *array, const host_operand *want,
                         double tolerance, const char *op, const char *params);

/* host_array and host_values for arrays of any size and rank; values are
 * rounded by the library. The caller frees the result of host_many_values. */
tn_array *host_many(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                    const int64_t *dims, const double *values);
double *host_many_values(tn_array *array);

/* host_many_values of an array on any device. */
double *host_near_values(tn_array *array);

/* n numbers of -1, -0.75, ... 1, others for another seed; the caller frees
 * them. Few of them multiplied and added are exact in f32. */
double *host_draw(int64_t n, uint64_t seed);

#endif /* TENON_TESTS_PLUGINS_HOST_H_ */
