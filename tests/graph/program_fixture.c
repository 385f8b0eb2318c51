/* SPDX-License-Identifier: Apache-2.0
 * program_fixture.c: see program_fixture.h.
 */
#include "program_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

double number_at(int64_t i) {
  return (double)((i * 37 + 11) % 257 - 128) / 64;
}

tn_array *create_filled(tn_dtype dtype, size_t ndim, const int64_t *shape) {
  return numbers_of(dtype, ndim, shape, number_at);
}

void same_bits(tn_array *a, tn_array *b, const char *what) {
  size_t n = 0, m = 0;
  void *one = bytes_of(a, &n), *two = bytes_of(b, &m);
  cr_assert_eq(n, m);
  cr_assert_eq(memcmp(one, two, n), 0, "%s: results differ", what);
  free(one), free(two);
}

tn_argument given[MOST_GIVEN];
size_t n_given;

void give_array(const char *name, tn_array *array) {
  given[n_given++] = (tn_argument){.name = name, .array = array};
}

void drop_arrays(void) {
  for (size_t i = 0; i < n_given; ++i) tn__array_release(given[i].array);
  n_given = 0;
}

tn_program *bind_given(tn_bind how) {
  tn_program *p = NULL;
  how.struct_size = sizeof how;
  how.arguments = given;
  how.n_arguments = n_given;
  OK(tn__program_bind(g, &how, &p));
  return p;
}
tn_array *head_of(const tn_program *p, size_t i) {
  tn_array *array = NULL;
  OK(tn__program_output(p, i, &array));
  return array;
}

tn_array *slope_of(const tn_program *p, const char *name) {
  tn_array *array = NULL;
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, name, &array));
  return array;
}

tn_program_stats stats_of(const tn_program *p) {
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  return stats;
}

void has_text(const tn_program *p, const char *part) {
  tn_text *text = NULL;
  OK(tn__program_text(p, 1, &text));
  cr_assert(strstr(tn_text_get(text), part) != NULL, "no \"%s\" in\n%s", part,
            tn_text_get(text));
  tn_text_release(text);
}

void run_training(tn_program *p, tn_array *weight) {
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, &weight, 1));
}
