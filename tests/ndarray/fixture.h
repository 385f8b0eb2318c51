/* SPDX-License-Identifier: Apache-2.0
 * fixture.h: shared parts of the tests of arrays and calls: an allocator that
 * counts and fails on demand, a registry with the probe plugin, and short
 * functions that create and read arrays.
 */
#ifndef TESTS_NDARRAY_FIXTURE_H_
#define TESTS_NDARRAY_FIXTURE_H_

#include "loading.h"
#include "ndarray.h"

/* Counts living allocations. Refuses number `fail_at` (from 1; 0: none), and
 * all later ones if `for_ever`. */
typedef struct meter {
  _Atomic int64_t living;
  _Atomic int64_t asked;
  int64_t fail_at; /* set while nothing runs */
  bool for_ever;
} meter;

typedef struct world {
  meter memory;
  tn__env env; /* with `engine` and `cpu` */
  tn__devices *devices;
  tn__registry *registry;
  tn__caller caller;
} world;

extern world w;
extern uint32_t world_cpus;     /* cpu devices of the next world: 1 */
extern uint64_t world_features; /* features of the cpu that plugins see: none */

void world_open(void); /* opens it with the probe plugin and two workers */
/* The same with another engine. */
void world_open_with(const tn__engine_options *options);
void world_close(void); /* asserts that no allocation is left */

tn_operator *op_get(const char *name);

/* Arrays of f32; `shape` in the list form (2, 3). The macros count the elements
 * of the lists. */
#define SHAPE(...)                                                        \
  sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) { \
    __VA_ARGS__                                                           \
  }
#define VALUES(...)                                                 \
  sizeof((float[]){__VA_ARGS__}) / sizeof(float), (const float[]) { \
    __VA_ARGS__                                                     \
  }
tn_array *floats(size_t ndim, const int64_t *shape, size_t n,
                 const float *values);
tn_array *empty(tn_dtype dtype, size_t ndim, const int64_t *shape);
tn_array *scalar(float value); /* 0-d */

/* Asserts the elements, in row-major order. */
void expect(tn_array *array, size_t n, const float *values);
/* Asserts that the thread's error text contains each of the parts. */
#define EXPECT_TEXT(...) expect_text((const char *const[]){__VA_ARGS__, NULL})
void expect_text(const char *const *parts);

/* A forward call that is not training. */
static inline tn_code call_of(tn__caller *caller, tn_operator *op,
                              const tn_inputs *in, const tn_params *params,
                              const tn_outputs *out) {
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  return tn__call(&target, in, out);
}

/* A call with one output: `*out` is used or receives the new array. */
tn_code call(const char *op, size_t n, tn_array *const *in, tn_array **out);
#define IN(...)                                                              \
  sizeof((tn_array *[]){__VA_ARGS__}) / sizeof(tn_array *), (tn_array *[]) { \
    __VA_ARGS__                                                              \
  }
/* The same with a request. */
tn_code call_req(const char *op, size_t n, tn_array *const *in, tn_array **out,
                 tn_req req);

#endif /* TESTS_NDARRAY_FIXTURE_H_ */
