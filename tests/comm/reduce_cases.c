/* SPDX-License-Identifier: Apache-2.0
 * reduce_cases.c: reductions over ranks. Element i of rank r is mostly
 * (r + 1)*(i + 1), so that results have closed forms.
 */
#include <stdlib.h>

#include "ranks.h"

enum { N = 5 };

static const char *const op_names[] = {"sum", "max", "min", "mean", "prod"};

static double value_of(int32_t rank, int64_t i) {
  return (double)(rank + 1) * (double)(i + 1);
}

/* The result for element i over ranks 0 to n - 1. */
static double result_of(int op, int32_t n, int64_t i) {
  double prod = 1;
  switch (op) {
    case 0:
      return n * (n + 1) / 2.0 * (double)(i + 1);
    case 1:
      return n * (double)(i + 1);
    case 2:
      return (double)(i + 1);
    case 3:
      return (n + 1) / 2.0 * (double)(i + 1);
    default:
      for (int32_t r = 0; r < n; ++r) prod *= value_of(r, i);
      return prod;
  }
}

static const struct {
  const char *name;
  tn_dtype dtype;
  double most; /* values that the type represents exactly */
} types[] = {
    {"f16", TN_F16, 2048},  {"bf16", TN_BF16, 256}, {"f32", TN_F32, 1e7},
    {"f64", TN_F64, 1e15},  {"i8", TN_I8, 127},     {"u8", TN_U8, 255},
    {"i16", TN_I16, 32767}, {"u16", TN_U16, 65535}, {"i32", TN_I32, 1e9},
    {"u32", TN_U32, 1e9},   {"i64", TN_I64, 1e15},  {"u64", TN_U64, 1e15}};

static const char *reduces_one_type(member *me, size_t type, int op) {
  double mine[N], want[N];
  char params[40];
  tn_array *out = NULL;
  const int is_float = type < 4;
  int64_t n = 0;
  if (op == 3 && !is_float) return NULL;
  for (int64_t i = 0; i < N; ++i) {
    if (result_of(op, me->size, i) > types[type].most) break;
    mine[n] = value_of(me->rank, i);
    want[n++] = result_of(op, me->size, i);
  }
  snprintf(params, sizeof params, "op=%s", op_names[op]);
  tn_array *in = make_vector(me, types[type].dtype, n, mine);
  OK(call_one(me, "comm.all_reduce", params, in, &out));
  const char *failure = expect(me, out, want, n, 0);
  if (failure) FAIL("%s %s: element differs", types[type].name, params);
  tn_array_release(in);
  tn_array_release(out);
  return NULL;
}

static const char *reduces_every_type(member *me) {
  for (size_t type = 0; type < sizeof types / sizeof *types; ++type) {
    const tn_dtype dtype = types[type].dtype;
    /* NCCL has no reductions of 16-bit integers */
    if (on_cuda() && (dtype == TN_I16 || dtype == TN_U16)) continue;
    for (int op = 0; op < 5; ++op) TRY(reduces_one_type(me, type, op));
  }
  return NULL;
}

static const char *reduces_bools(member *me) {
  /* all true, one true, none true */
  const double mine[] = {1, me->rank == 1, 0};
  const double any[] = {1, 1, 0}, all[] = {1, 0, 0};
  tn_array *in = make_vector(me, TN_BOOL, 3, mine), *out[4] = {0};
  OK(call_one(me, "comm.all_reduce", "op=sum", in, &out[0]));
  OK(call_one(me, "comm.all_reduce", "op=max", in, &out[1]));
  OK(call_one(me, "comm.all_reduce", "op=min", in, &out[2]));
  OK(call_one(me, "comm.all_reduce", "op=prod", in, &out[3]));
  for (int k = 0; k < 4; ++k) TRY(expect(me, out[k], k < 2 ? any : all, 3, 0));
  for (int k = 0; k < 4; ++k) tn_array_release(out[k]);
  tn_array_release(in);
  return NULL;
}

/* 1 + 2^-11 per rank: in f16 each partial sum would lose the small part. */
static const char *sums_halves_in_f32(member *me) {
  const double mine[] = {me->rank == 0 ? 1 : 1.0 / 2048};
  const double want[] = {me->size == 2 ? 1 : 1 + 2.0 / 1024};
  if (me->size != 2 && me->size != 4) return NULL;
  tn_array *in = make_vector(me, TN_F16, 1, mine), *out = NULL;
  /* 1 + 3/2048 is between 1 + 1/1024 and 1 + 2/1024: to even, the latter. */
  OK(call_one(me, "comm.all_reduce", "", in, &out));
  TRY(expect(me, out, want, 1, 0));
  tn_array_release(in);
  tn_array_release(out);
  return NULL;
}

static const char *passes_nan_on(member *me) {
  const double mine[] = {me->rank == 1 ? 0.0 / 0.0 : 3};
  tn_array *in = make_vector(me, TN_F32, 1, mine);
  static const char *const ops[] = {"op=max", "op=min", "op=sum"};
  for (int k = 0; k < 3; ++k) {
    tn_array *out = NULL;
    float found = 0;
    OK(call_one(me, "comm.all_reduce", ops[k], in, &out));
    OK(tn_array_get(out, &found, sizeof found));
    if (found == found) FAIL("%s is %g, not NaN", ops[k], (double)found);
    tn_array_release(out);
  }
  tn_array_release(in);
  return NULL;
}

/* Several arrays of one call, empty and long ones among them. */
static const char *reduces_several(member *me, const char *params) {
  static const int64_t lengths[] = {3, 0, 70000, 1, 40000, 17};
  enum { ARRAYS = 6 };
  tn_array *in[ARRAYS], *out[ARRAYS] = {0};
  double *values = malloc(70000 * sizeof *values);
  for (int k = 0; k < ARRAYS; ++k) {
    for (int64_t i = 0; i < lengths[k]; ++i)
      values[i] = value_of(me->rank, i % 1000) + k;
    in[k] = make_vector(me, TN_F32, lengths[k], values);
  }
  OK(call_many(me, "comm.all_reduce", params, ARRAYS, in, out));
  for (int k = 0; k < ARRAYS; ++k) {
    for (int64_t i = 0; i < lengths[k]; ++i)
      values[i] = result_of(0, me->size, i % 1000) + k * me->size;
    const char *failure = expect(me, out[k], values, lengths[k], 0);
    if (failure) FAIL("%s: array %d: an element differs", params, k);
    tn_array_release(in[k]);
    tn_array_release(out[k]);
  }
  free(values);
  return NULL;
}

static const char *reduces_several_arrays(member *me) {
  TRY(reduces_several(me, "num_arrays=6"));
  TRY(reduces_several(me, "num_arrays=6 pack=0"));
  TRY(reduces_several(me, "num_arrays=6 pack=64"));
  return reduces_several(me, "num_arrays=6 pack=100000000");
}

static const char *reduces_in_place(member *me) {
  double mine[N], want[N];
  for (int64_t i = 0; i < N; ++i) {
    mine[i] = value_of(me->rank, i);
    want[i] = result_of(0, me->size, i);
  }
  static const tn_dtype dtypes[] = {TN_F32, TN_BF16, TN_I64};
  for (int k = 0; k < 3; ++k) {
    tn_array *array = make_vector(me, dtypes[k], N, mine), *out = array;
    OK(call_one(me, "comm.all_reduce", "", array, &out));
    HOLDS(out == array);
    TRY(expect(me, array, want, N, 0));
    tn_array_release(array);
  }
  return NULL;
}

/* The input is a transposed view, the output a column of a matrix. */
static const char *reduces_views(member *me) {
  const int64_t shape[] = {2, 3}, wide[] = {3, 2, 2};
  const double before[12] = {0};
  double mine[6], want[12] = {0};
  tn_array *view = NULL, *part = NULL;
  for (int64_t i = 0; i < 6; ++i) mine[i] = value_of(me->rank, i);
  tn_array *in = make_array(me, TN_F32, 2, shape, mine);
  tn_array *all = make_array(me, TN_F32, 3, wide, before);
  OK(tn_array_transpose(in, NULL, &view));
  OK(tn_array_index(all, 2, 1, &part));
  OK(call_one(me, "comm.all_reduce", "op=max", view, &part));
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j)
      want[(i * 2 + j) * 2 + 1] = result_of(1, me->size, j * 3 + i);
  TRY(expect(me, all, want, 12, 0));
  tn_array_release(view);
  tn_array_release(part);
  tn_array_release(in);
  tn_array_release(all);
  return NULL;
}

static const char *reduces_on_the_root(member *me) {
  double mine[N], want[N];
  const int32_t root = me->size - 1;
  char params[40];
  tn_array *out = NULL;
  for (int64_t i = 0; i < N; ++i) {
    mine[i] = value_of(me->rank, i);
    want[i] = me->rank == root ? result_of(4, me->size, i) : 0;
  }
  snprintf(params, sizeof params, "op=prod root=%d", (int)root);
  tn_array *in = make_vector(me, TN_F64, N, mine);
  OK(call_one(me, "comm.reduce", params, in, &out));
  TRY(expect(me, out, want, N, 0));
  tn_array_release(out);
  out = in; /* in place */
  OK(call_one(me, "comm.reduce", params, in, &out));
  TRY(expect(me, in, want, N, 0));
  tn_array_release(in);
  return NULL;
}

static const char *scatters_sums(member *me) {
  const int64_t shape[] = {2 * me->size, 3};
  const int64_t n = shape[0] * shape[1];
  double *mine = malloc((size_t)n * sizeof *mine), want[6];
  for (int64_t i = 0; i < n; ++i) mine[i] = value_of(me->rank, i);
  for (int64_t i = 0; i < 6; ++i)
    want[i] = result_of(0, me->size, 6 * me->rank + i);
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_I32, TN_U8};
  for (int k = 0; k < 4; ++k) {
    tn_array *in = make_array(me, dtypes[k], 2, shape, mine), *out = NULL;
    OK(call_one(me, "comm.reduce_scatter", "", in, &out));
    HOLDS(tn_array_tensor(out)->shape[0] == 2);
    if (k < 3 || me->size == 2) TRY(expect(me, out, want, 6, 0));
    tn_array_release(in);
    tn_array_release(out);
  }
  free(mine);
  return NULL;
}

/* Many calls without a wait between them. */
static const char *keeps_the_order_of_calls(member *me) {
  enum { CALLS = 100 };
  tn_array *out[CALLS] = {0};
  for (int64_t k = 0; k < CALLS; ++k) {
    const double mine[] = {value_of(me->rank, k), (double)k};
    tn_array *in = make_vector(me, TN_F64, 1 + k % 2, mine);
    OK(call_one(me, k % 3 ? "comm.all_reduce" : "comm.broadcast", "", in,
                &out[k]));
    tn_array_release(in);
  }
  for (int64_t k = 0; k < CALLS; ++k) {
    const double sum = result_of(0, me->size, k), first = value_of(0, k);
    const double want[] = {k % 3 ? sum : first,
                           (double)k * (k % 3 ? me->size : 1)};
    TRY(expect(me, out[k], want, 1 + k % 2, 0));
    tn_array_release(out[k]);
  }
  return NULL;
}

static const char *waits_at_a_barrier(member *me) {
  tn_array *done = NULL;
  const double want[] = {me->size};
  OK(call_one(me, "comm.barrier", "", NULL, &done));
  TRY(expect(me, done, want, 1, 0));
  tn_array_release(done);
  return NULL;
}

const test_case reduce_cases[] = {
    {.name = "reduces_every_type", .run = reduces_every_type},
    {.name = "reduces_bools", .run = reduces_bools},
    {.name = "sums_halves_in_f32", .run = sums_halves_in_f32},
    {.name = "passes_nan_on", .run = passes_nan_on},
    {.name = "reduces_several_arrays", .run = reduces_several_arrays},
    {.name = "reduces_in_place", .run = reduces_in_place},
    {.name = "reduces_views", .run = reduces_views},
    {.name = "reduces_on_the_root", .run = reduces_on_the_root},
    {.name = "scatters_sums", .run = scatters_sums},
    {.name = "keeps_the_order_of_calls", .run = keeps_the_order_of_calls},
    {.name = "waits_at_a_barrier", .run = waits_at_a_barrier},
    {.name = NULL}};
