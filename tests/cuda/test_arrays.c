/* SPDX-License-Identifier: Apache-2.0
 * The companions of tensor and random on the fake device, against the cpu: with
 * shapes, axes and layouts that a seed draws, large enough for several blocks
 * of threads, rows longer than a block and sums in pieces. SEED=n runs that
 * one.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "read_values.h"

enum { MOST_IN = 12, SEEDS = 12 };

typedef enum content {
  NUMBERS, /* multiples of 1/4 from -2 to 2 */
  SOME_NAN,
  FACTORS, /* products stay small; zeros are rare */
  PLACES,  /* indices of 7, and some beyond */
  INSIDE,  /* indices of 7, from the end where negative */
  TRUTHS
} content;

typedef enum layout { DENSE, STEPS, BACKWARDS, COLUMNS, N_LAYOUTS } layout;

/* An array as both devices get it. */
typedef struct operand {
  int32_t ndim;
  int64_t dims[4];
  tn_dtype dtype;
  content content;
  layout layout;
} operand;

/* One call. */
typedef struct trial {
  uint64_t seed;
  uint64_t state;
  const char *op;
  char params[200];
  size_t n_in, n_out;
  operand in[MOST_IN];
  uint32_t slopes; /* inputs with compared gradients, as bits */
} trial;

/* --------------------------------------------------------------------- draws
 */

/* From low up to, but not including, high. */
static int64_t draw(trial *t, int64_t low, int64_t high) {
  t->state = t->state * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((t->state >> 33) % (uint64_t)(high - low));
}

static tn_dtype draw_float(trial *t) {
  static const tn_dtype all[] = {TN_F32, TN_F16, TN_BF16, TN_F64};
  return all[draw(t, 0, 4)];
}

static tn_dtype draw_number(trial *t) {
  static const tn_dtype all[] = {TN_I8, TN_I32, TN_I64, TN_U16};
  return draw(t, 0, 2) ? draw_float(t) : all[draw(t, 0, 4)];
}

static void say(trial *t, const char *format, ...) {
  const size_t n = strlen(t->params);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(t->params + n, sizeof t->params - n, format, args);
  va_end(args);
}

static int64_t size_of(const operand *o) {
  int64_t n = 1;
  for (int32_t d = 0; d < o->ndim; ++d) n *= o->dims[d];
  return n;
}

/* An operand of some shape that is not small in every direction. */
static operand draw_operand(trial *t, tn_dtype dtype, content kind) {
  static const int64_t lengths[] = {1, 2, 3, 7, 33, 64, 131, 600};
  operand o = {.ndim = (int32_t)draw(t, 1, 4),
               .dtype = dtype,
               .content = kind,
               .layout = (layout)draw(t, 0, N_LAYOUTS)};
  do {
    for (int32_t d = 0; d < o.ndim; ++d) o.dims[d] = lengths[draw(t, 0, 8)];
  } while (size_of(&o) > 60000 || size_of(&o) < 400);
  return o;
}

/* A place of an axis, from the end in half of the cases. */
static int64_t draw_axis(trial *t, int32_t ndim, int32_t *axis) {
  *axis = (int32_t)draw(t, 0, ndim);
  return draw(t, 0, 2) ? *axis : *axis - ndim;
}

/* -------------------------------------------------------------------- values
 */

static double value_of(trial *t, content kind) {
  static const double factors[] = {1, -1, 2, 0.5, 1, -2, -0.5, 1};
  switch (kind) {
    case SOME_NAN:
      if (draw(t, 0, 9) == 0) return (double)NAN;
      return 0.25 * (double)draw(t, -8, 9);
    case FACTORS:
      return draw(t, 0, 700) == 0 ? 0 : factors[draw(t, 0, 8)];
    case PLACES:
      return (double)draw(t, -3, 10);
    case INSIDE:
      return (double)draw(t, -7, 7);
    case TRUTHS:
      return draw(t, 0, 9) == 0 ? (double)NAN : (double)draw(t, 0, 2);
    default:
      return 0.25 * (double)draw(t, -8, 9);
  }
}

/* The view that an operand is of its memory. */
static tn_array *view_of(const operand *o, tn_array *base) {
  const int32_t last = o->ndim - 1;
  tn_array *view = NULL;
  if (o->layout == STEPS)
    OK(tn_array_slice(
        base, &(tn_range){.axis = last, .end = INT64_MAX, .step = 2}, &view));
  else if (o->layout == BACKWARDS)
    OK(tn_array_slice(
        base,
        &(tn_range){.axis = 0, .begin = -1, .end = -o->dims[0] - 1, .step = -1},
        &view));
  else if (o->layout == COLUMNS)
    OK(tn_array_transpose(base, NULL, &view));
  else
    view = tn_array_retain(base);
  tn_array_release(base);
  return view;
}

static void memory_of(const operand *o, int64_t *dims) {
  for (int32_t d = 0; d < o->ndim; ++d)
    dims[d] = o->dims[o->layout == COLUMNS ? o->ndim - 1 - d : d];
  if (o->layout == STEPS) dims[o->ndim - 1] *= 2;
}

/* The same elements in the same layout on the cpu and on the other device. */
static void both(trial *t, const operand *o, tn_array **here,
                 tn_array **there) {
  tn_array *wide = NULL, *base = NULL, *far = NULL;
  int64_t dims[4] = {0}, n = 1;
  memory_of(o, dims);
  for (int32_t d = 0; d < o->ndim; ++d) n *= dims[d];
  double *v = malloc((size_t)(n + 1) * sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) v[i] = value_of(t, o->content);
  OK(tn_array_create(fixture, &(tn_spec){TN_F64, o->ndim, dims}, &wide));
  OK(tn_array_set(wide, v, (size_t)n * sizeof *v));
  OK(tn_array_cast(wide, o->dtype, &base));
  OK(tn_array_to(base, fixture_place("cuda(0)"), &far));
  free(v);
  tn_array_release(wide);
  *here = view_of(o, base);
  *there = view_of(o, far);
}

static double tolerance_of(tn_dtype dtype) {
  return dtype == TN_F64    ? 1e-12
         : dtype == TN_F32  ? 1e-6
         : dtype == TN_F16  ? 1e-3
         : dtype == TN_BF16 ? 8e-3
                            : 0;
}

static void compare(const trial *t, const char *what, size_t k, tn_array *here,
                    tn_array *there) {
  const double tolerance = tolerance_of(tn_array_tensor(here)->dtype);
  int64_t n, m;
  double *want = read_values(here, &n), *have = read_values(there, &m);
  cr_assert_eq(n, m);
  for (int64_t i = 0; i < n; ++i) {
    if (have[i] == want[i] || (have[i] != have[i] && want[i] != want[i]))
      continue;
    cr_assert(fabs(have[i] - want[i]) <= tolerance * fmax(1, fabs(want[i])),
              "seed %llu: %s %s: %s %zu, element %lld of %lld is %.9g, on the "
              "cpu %.9g",
              (unsigned long long)t->seed, t->op, t->params, what, k,
              (long long)i, (long long)n, have[i], want[i]);
  }
  free(want);
  free(have);
}

/* -------------------------------------------------------------------- trials
 */

/* The arrays of a call on one device. */
typedef struct side {
  tn_array *in[MOST_IN], *out[MOST_IN], *head[MOST_IN], *slope[MOST_IN];
} side;

static void run_forward(const trial *t, tn_operator *op, tn_params *params,
                        side *s) {
  const tn_code rc = tn_call(fixture, op, &(tn_inputs){t->n_in, s->in}, params,
                             &(tn_outputs){t->n_out, s->out, NULL});
  cr_assert_eq(rc, TN_OK, "seed %llu: %s %s: %s", (unsigned long long)t->seed,
               t->op, t->params, tn_error_text());
}

static void run_backward(const trial *t, tn_operator *op, tn_params *params,
                         side *s) {
  tn_req req[MOST_IN];
  for (size_t i = 0; i < t->n_in; ++i)
    req[i] = t->slopes >> i & 1 ? TN_REQ_WRITE : TN_REQ_NULL;
  const tn_code rc =
      tn_call_backward(fixture, op,
                       &(tn_backward){.struct_size = sizeof(tn_backward),
                                      .params = params,
                                      .inputs = {t->n_in, s->in},
                                      .outputs = {t->n_out, s->out},
                                      .out_grads = {t->n_out, s->head},
                                      .in_grads = {t->n_in, s->slope, req}});
  cr_assert_eq(rc, TN_OK, "seed %llu: %s %s: %s", (unsigned long long)t->seed,
               t->op, t->params, tn_error_text());
}

/* Gradients of the outputs: small numbers in their shapes, in any layout. */
static void draw_heads(trial *t, side *here, side *there) {
  for (size_t i = 0; i < t->n_out; ++i) {
    const tn_tensor *out = tn_array_tensor(here->out[i]);
    operand o = {.ndim = out->ndim,
                 .dtype = out->dtype,
                 .layout = (layout)draw(t, 0, N_LAYOUTS)};
    memcpy(o.dims, out->shape, (size_t)out->ndim * sizeof *o.dims);
    if (o.ndim == 0 || size_of(&o) == 0) o.layout = DENSE;
    both(t, &o, &here->head[i], &there->head[i]);
  }
}

static void release(side *s) {
  for (size_t i = 0; i < MOST_IN; ++i) {
    tn_array_release(s->in[i]);
    tn_array_release(s->out[i]);
    tn_array_release(s->head[i]);
    tn_array_release(s->slope[i]);
  }
}

static void run(trial *t) {
  side here = {0}, there = {0};
  tn_operator *op = NULL;
  tn_params *params = NULL;
  OK(tn_operator_get(fixture, t->op, &op));
  cr_assert_eq(tn_params_parse(op, t->params, &params), TN_OK, "%s %s: %s",
               t->op, t->params, tn_error_text());
  for (size_t i = 0; i < t->n_in; ++i)
    both(t, &t->in[i], &here.in[i], &there.in[i]);
  run_forward(t, op, params, &here);
  run_forward(t, op, params, &there);
  for (size_t i = 0; i < t->n_out; ++i)
    compare(t, "output", i, here.out[i], there.out[i]);
  if (t->slopes) {
    draw_heads(t, &here, &there);
    run_backward(t, op, params, &here);
    run_backward(t, op, params, &there);
  }
  for (size_t i = 0; i < t->n_in; ++i)
    if (t->slopes >> i & 1)
      compare(t, "gradient", i, here.slope[i], there.slope[i]);
  release(&here);
  release(&there);
  tn_params_release(params);
}

TestSuite(arrays, .init = fixture_init, .fini = fixture_close);

/* Calls as `make` draws them, for each seed. */
static void try_all(void (*make)(trial *t)) {
  const char *given = getenv("SEED");
  const uint64_t first = given ? strtoull(given, NULL, 0) : 1;
  for (uint64_t seed = first; seed < first + (given ? 1 : SEEDS); ++seed) {
    trial t = {.seed = seed, .state = seed * 977, .n_in = 1, .n_out = 1};
    fixture_open(&(fake_cuda_options){.devices = 1, .seed = seed});
    OK(tn_plugin_load(fixture, TENSOR_FILE));
    OK(tn_plugin_load(fixture, TENSOR_CUDA_FILE));
    make(&t);
    run(&t);
    fixture_close();
  }
}

/* ------------------------------------------------------------------- moves */

static void make_transpose(trial *t) {
  operand o = {.ndim = 4, .dims = {3, 37, 5, 66}};
  o.dtype = draw_number(t);
  o.layout = (layout)draw(t, 0, N_LAYOUTS);
  int64_t axes[] = {0, 1, 2, 3};
  for (int i = 3; i > 0; --i) {
    const int64_t k = draw(t, 0, i + 1), axis = axes[i];
    axes[i] = axes[k];
    axes[k] = axis;
  }
  t->op = "tensor.transpose";
  t->in[0] = o;
  say(t, "axes=[%d,%d,%d,%d]", (int)axes[0], (int)axes[1], (int)axes[2],
      (int)axes[3]);
}

Test(arrays, are_transposed) {
  try_all(make_transpose);
}

static void make_reverse(trial *t) {
  int32_t axis;
  t->op = "tensor.reverse";
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  say(t, "axis=[%d]", (int)draw_axis(t, t->in[0].ndim, &axis));
}

Test(arrays, are_reversed) {
  try_all(make_reverse);
}

static void make_reshape(trial *t) {
  t->op = "tensor.reshape";
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  say(t, draw(t, 0, 2) ? "shape=[-1]" : "shape=[-1,1,-2]");
  if (t->in[0].ndim == 1) (void)strcpy(t->params, "shape=[-1]");
}

Test(arrays, get_other_shapes) {
  try_all(make_reshape);
}

static void make_concat(trial *t) {
  int32_t axis;
  t->op = "tensor.concat";
  t->n_in = (size_t)draw(t, 1, 5);
  t->slopes = (1u << t->n_in) - 1;
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  say(t, "dim=%d", (int)draw_axis(t, t->in[0].ndim, &axis));
  for (size_t k = 1; k < t->n_in; ++k) {
    t->in[k] = t->in[0];
    t->in[k].dims[axis] = draw(t, 1, 9);
    t->in[k].layout = (layout)draw(t, 0, N_LAYOUTS);
  }
}

Test(arrays, are_joined) {
  try_all(make_concat);
}

static void make_split(trial *t) {
  int32_t axis;
  t->op = "tensor.split";
  t->slopes = 1;
  t->n_out = (size_t)draw(t, 1, 4);
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  say(t, "num_outputs=%d axis=%d", (int)t->n_out,
      (int)draw_axis(t, t->in[0].ndim, &axis));
  t->in[0].dims[axis] = (int64_t)t->n_out * draw(t, 1, 40);
}

Test(arrays, are_taken_apart) {
  try_all(make_split);
}

static void make_slice(trial *t) {
  t->op = "tensor.slice";
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  say(t, "begin=[%d] end=[%d] step=[%d]", (int)draw(t, 0, 2),
      (int)draw(t, 3, 1000), (int)draw(t, 1, 4));
  if (draw(t, 0, 2)) (void)strcpy(t->params, "begin=[-1] end=[-999] step=[-2]");
}

Test(arrays, are_cut) {
  try_all(make_slice);
}

static void make_copies(trial *t) {
  int32_t axis;
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  t->in[0].dims[0] = draw(t, 1, 40);
  if (draw(t, 0, 2)) {
    t->op = "tensor.tile";
    say(t, "reps=[%d,%d]", (int)draw(t, 1, 5), (int)draw(t, 1, 4));
    return;
  }
  t->op = "tensor.repeat";
  say(t, "repeats=%d", (int)draw(t, 1, 5));
  if (draw(t, 0, 2))
    say(t, " axis=%d", (int)draw_axis(t, t->in[0].ndim, &axis));
}

Test(arrays, are_repeated) {
  try_all(make_copies);
}

static void make_pad(trial *t) {
  static const char *const modes[] = {"constant", "edge", "reflect"};
  t->op = "tensor.pad";
  t->slopes = 1;
  t->in[0] = (operand){.ndim = 3,
                       .dims = {draw(t, 4, 20), draw(t, 4, 70), draw(t, 4, 9)},
                       .dtype = draw_number(t),
                       .layout = (layout)draw(t, 0, N_LAYOUTS)};
  say(t, "mode=%s constant_value=3 pad_width=[%d,%d,%d,%d,%d,%d]",
      modes[draw(t, 0, 3)], (int)draw(t, 0, 4), (int)draw(t, 0, 4),
      (int)draw(t, 0, 4), (int)draw(t, 0, 4), (int)draw(t, 0, 4),
      (int)draw(t, 0, 4));
}

Test(arrays, get_borders) {
  try_all(make_pad);
}

static void make_broadcast(trial *t) {
  t->op = "tensor.broadcast_to";
  t->slopes = 1;
  t->in[0] = (operand){.ndim = 3,
                       .dims = {draw(t, 1, 20), draw(t, 1, 40), draw(t, 1, 60)},
                       .dtype = draw_number(t),
                       .layout = (layout)draw(t, 0, N_LAYOUTS)};
  say(t, "shape=[%d", (int)draw(t, 1, 4));
  for (int d = 0; d < 3; ++d)
    if (draw(t, 0, 2)) {
      t->in[0].dims[d] = 1;
      say(t, ",%d", (int)draw(t, 1, 40));
    } else {
      say(t, ",0");
    }
  say(t, "]");
}

Test(arrays, are_broadcast) {
  try_all(make_broadcast);
}

/* -------------------------------------------------------------- reductions */

static void draw_axes(trial *t) {
  int n = 0;
  say(t, "keepdims=%s", draw(t, 0, 2) ? "true" : "false");
  for (int32_t d = 0; d < t->in[0].ndim; ++d)
    if (draw(t, 0, 2)) say(t, n++ == 0 ? " axis=[%d" : ",%d", (int)d);
  if (n > 0) say(t, "]");
}

static void make_sum(trial *t) {
  static const char *const ops[] = {"tensor.sum",  "tensor.mean",
                                    "tensor.max",  "tensor.min",
                                    "tensor.norm", "tensor.nansum"};
  const int64_t which = draw(t, 0, 6);
  const int floats = which == 1 || which == 4;
  t->op = ops[which];
  t->slopes = 1;
  t->in[0] = draw_operand(t, floats ? draw_float(t) : draw_number(t),
                          which == 5 ? SOME_NAN : NUMBERS);
  if (which == 4) say(t, "ord=%d ", (int)draw(t, 1, 3));
  draw_axes(t);
}

Test(arrays, are_summed) {
  try_all(make_sum);
}

static void make_prod(trial *t) {
  t->op = draw(t, 0, 2) ? "tensor.prod" : "tensor.nanprod";
  t->slopes = 1;
  t->in[0] = draw_operand(t, TN_F64, FACTORS);
  draw_axes(t);
}

Test(arrays, are_multiplied) {
  try_all(make_prod);
}

/* Long lines, of which blocks have pieces: few and dense, or side by side. */
static void make_long(trial *t) {
  static const char *const ops[] = {"tensor.sum", "tensor.max", "tensor.argmin",
                                    "tensor.mean"};
  t->op = ops[draw(t, 0, 4)];
  t->in[0] = (operand){.ndim = 2,
                       .dims = {draw(t, 9000, 30000), draw(t, 1, 6)},
                       .dtype = draw_float(t)};
  if (draw(t, 0, 2)) t->in[0].layout = COLUMNS;
  say(t, strcmp(t->op, "tensor.argmin") == 0 ? "axis=0" : "axis=[0]");
}

Test(arrays, have_long_lines) {
  try_all(make_long);
}

static void make_arg(trial *t) {
  int32_t axis;
  t->op = draw(t, 0, 2) ? "tensor.argmax" : "tensor.argmin";
  t->in[0] = draw_operand(t, draw_number(t), SOME_NAN);
  if (draw(t, 0, 3)) say(t, "axis=%d", (int)draw_axis(t, t->in[0].ndim, &axis));
}

Test(arrays, know_their_largest) {
  try_all(make_arg);
}

/* ---------------------------------------------------------- places, choices */

static void make_take(trial *t) {
  int32_t axis;
  t->op = "tensor.take";
  t->n_in = 2;
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  const int64_t place = draw_axis(t, t->in[0].ndim, &axis);
  t->in[0].dims[axis] = 7;
  for (int32_t d = 0; d < t->in[0].ndim; ++d)
    if (t->in[0].dims[d] > 40) t->in[0].dims[d] = draw(t, 1, 6);
  t->in[1] = (operand){.ndim = 1,
                       .dims = {draw(t, 1, 1500)},
                       .dtype = draw(t, 0, 2) ? TN_I32 : TN_F32,
                       .content = PLACES};
  say(t, "axis=%d mode=%s", (int)place, draw(t, 0, 2) ? "clip" : "wrap");
}

Test(arrays, are_taken_from) {
  try_all(make_take);
}

/* One or two places that thousands of indices name. In bf16 the cpu, which
 * rounds after each, would have other sums. */
static void make_hot(trial *t) {
  tn_dtype dtype;
  do dtype = draw_number(t);
  while (dtype == TN_BF16);
  t->op = "tensor.take";
  t->n_in = 2;
  t->slopes = 1;
  t->in[0] = (operand){.ndim = 3,
                       .dims = {draw(t, 1, 4), draw(t, 1, 3), draw(t, 1, 40)},
                       .dtype = dtype,
                       .layout = (layout)draw(t, 0, N_LAYOUTS)};
  t->in[1] = (operand){.ndim = 1,
                       .dims = {draw(t, 2000, 4000)},
                       .dtype = TN_I64,
                       .content = PLACES};
  say(t, "axis=1 mode=clip");
}

Test(arrays, are_taken_from_at_one_place) {
  try_all(make_hot);
}

static void make_pick(trial *t) {
  int32_t axis;
  t->op = "tensor.pick";
  t->n_in = 2;
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  say(t, "axis=%d keepdims=true", (int)draw_axis(t, t->in[0].ndim, &axis));
  t->in[1] = t->in[0];
  t->in[1].dims[axis] = 1;
  t->in[1].content = PLACES;
  t->in[1].dtype = draw(t, 0, 2) ? TN_I64 : TN_F32;
}

Test(arrays, are_picked_from) {
  try_all(make_pick);
}

/* Updates of places that repeat: elements along an axis of length 7. */
static void make_scatter(trial *t) {
  static const char *const ops[] = {
      "tensor.scatter_elements", "tensor.scatter_add", "tensor.scatter_reduce"};
  static const char *const reductions[] = {"mul", "max", "min"};
  const int64_t which = draw(t, 0, 3);
  const int multiplies = which == 2 && draw(t, 0, 3) == 0;
  int32_t axis;
  t->op = ops[which];
  t->n_in = 3;
  t->slopes = 5;
  t->in[0] = draw_operand(t, multiplies ? TN_F64 : draw_number(t),
                          multiplies ? FACTORS : NUMBERS);
  say(t, "axis=%d", (int)draw_axis(t, t->in[0].ndim, &axis));
  if (which == 2)
    say(t, " reduction=%s", reductions[multiplies ? 0 : draw(t, 1, 3)]);
  t->in[0].dims[axis] = 7;
  t->in[1] = t->in[2] = t->in[0];
  t->in[1].dims[axis] = t->in[2].dims[axis] = draw(t, 1, 30);
  t->in[1].content = INSIDE;
  t->in[1].dtype = draw(t, 0, 2) ? TN_I64 : TN_I8;
}

Test(arrays, change_at_places) {
  try_all(make_scatter);
}

/* Tuples of one or two indices in an array of (7,7,...). */
static void make_tuples(trial *t) {
  static const char *const ops[] = {
      "tensor.gather_nd", "tensor.scatter_nd_update", "tensor.scatter_nd_add",
      "tensor.scatter_nd_reduce"};
  const int64_t which = draw(t, 0, 4), depth = draw(t, 1, 3);
  const int64_t n = draw(t, 1, 600), inner = draw(t, 1, 40);
  t->op = ops[which];
  t->n_in = which == 0 ? 2 : 3;
  t->slopes = which == 0 ? 1 : 5;
  t->in[0] = (operand){.ndim = (int32_t)depth + 1,
                       .dims = {7, depth == 1 ? inner : 7, inner},
                       .dtype = draw_number(t),
                       .layout = (layout)draw(t, 0, N_LAYOUTS)};
  t->in[1] = (operand){
      .ndim = 2, .dims = {n, depth}, .dtype = TN_I32, .content = INSIDE};
  t->in[2] = t->in[0];
  t->in[2].ndim = 2;
  t->in[2].dims[0] = n;
  t->in[2].dims[1] = inner;
  say(t, "index_axis=-1%s", which == 3 ? " reduction=max" : "");
}

Test(arrays, have_slices_at_tuples) {
  try_all(make_tuples);
}

/* Products of pairs, of any kinds of dimensions. */
static void make_einsum(trial *t) {
  static const char *const texts[] = {"ijk,kjl->lij", "ijk,kjl->il"};
  t->op = "tensor.einsum";
  t->n_in = 2;
  t->slopes = 3;
  t->in[0] = (operand){.ndim = 3,
                       .dims = {draw(t, 1, 20), draw(t, 1, 30), draw(t, 1, 20)},
                       .dtype = draw(t, 0, 2) ? TN_F64 : TN_F32,
                       .layout = (layout)draw(t, 0, N_LAYOUTS)};
  t->in[1] = t->in[0];
  t->in[1].dims[0] = t->in[0].dims[2];
  t->in[1].dims[2] = draw(t, 1, 9);
  say(t, "equation=%s", texts[draw(t, 0, 2)]);
}

Test(arrays, are_summed_products) {
  try_all(make_einsum);
}

static void make_dft(trial *t) {
  t->op = "tensor.dft";
  t->slopes = 1;
  t->in[0] = (operand){.ndim = 3,
                       .dims = {draw(t, 1, 40), draw(t, 1, 40), draw(t, 1, 3)},
                       .dtype = TN_F64,
                       .layout = (layout)draw(t, 0, N_LAYOUTS)};
  say(t, "axis=%d length=%d inverse=%s", (int)draw(t, 0, 2),
      (int)draw(t, 1, 60), draw(t, 0, 2) ? "true" : "false");
}

Test(arrays, are_transformed) {
  try_all(make_dft);
}

static void make_one_hot(trial *t) {
  t->op = "tensor.one_hot";
  t->in[0] = draw_operand(t, draw(t, 0, 2) ? TN_I32 : TN_F64, PLACES);
  say(t, "depth=7 on_value=5 off_value=-1 dtype=%s",
      draw(t, 0, 2) ? "f16" : "i64");
}

Test(arrays, become_one_hot) {
  try_all(make_one_hot);
}

static void make_where(trial *t) {
  t->op = "tensor.where";
  t->n_in = 3;
  t->slopes = 6;
  t->in[1] = draw_operand(t, draw_number(t), NUMBERS);
  t->in[0] = t->in[2] = t->in[1];
  t->in[0].content = TRUTHS;
  t->in[0].dtype = draw(t, 0, 2) ? TN_BOOL : TN_F32;
  t->in[2].layout = (layout)draw(t, 0, N_LAYOUTS);
  if (draw(t, 0, 2)) t->in[0].ndim = 1;
}

Test(arrays, are_chosen_from) {
  try_all(make_where);
}

static void make_add_n(trial *t) {
  t->op = "tensor.add_n";
  t->n_in = (size_t)draw(t, 1, MOST_IN);
  t->slopes = 1u << (t->n_in - 1);
  t->in[0] = draw_operand(t, draw_number(t), NUMBERS);
  for (size_t k = 1; k < t->n_in; ++k) t->in[k] = t->in[0];
}

Test(arrays, are_added) {
  try_all(make_add_n);
}

/* Lines of few elements, and of several runs. */
static void make_sort(trial *t) {
  static const char *const names[] = {"sort", "argsort", "topk", "topk_mask"};
  static char name[32];
  int32_t axis;
  const int64_t which = draw(t, 0, 4);
  (void)snprintf(name, sizeof name, "tensor.%s", names[which]);
  t->op = name;
  t->slopes = which % 2 == 0;
  t->n_out = t->slopes ? 2 : 1;
  t->in[0] = draw_operand(t, draw_number(t), SOME_NAN);
  const int64_t at = draw_axis(t, t->in[0].ndim, &axis);
  say(t, "is_ascend=%d", (int)draw(t, 0, 2));
  if (which > 1) say(t, " k=%d", (int)draw(t, 0, t->in[0].dims[axis] + 1));
  say(t, " axis=%d", (int)at);
}

Test(arrays, are_sorted) {
  try_all(make_sort);
}

/* Lines of a block, of several pieces, and of a thread each. */
static void make_scan(trial *t) {
  int32_t axis;
  const int is_product = (int)draw(t, 0, 2);
  t->op = is_product ? "tensor.cumprod" : "tensor.cumsum";
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw_number(t), is_product ? FACTORS : NUMBERS);
  const int64_t at = draw_axis(t, t->in[0].ndim, &axis);
  say(t, "axis=%d exclusive=%d reverse=%d", (int)at, (int)draw(t, 0, 2),
      (int)draw(t, 0, 2));
  if (is_product && t->in[0].dims[axis] > 64) t->in[0].dims[axis] = 64;
  if (is_product || t->seed % 4 > 0) return;
  t->in[0].ndim = 1;
  t->in[0].dims[0] = 40000;
  (void)strcpy(t->params, t->seed % 8 ? "reverse=true" : "exclusive=true");
}

Test(arrays, are_scanned) {
  try_all(make_scan);
}

static void make_logsumexp(trial *t) {
  t->op = "tensor.logsumexp";
  t->slopes = 1;
  t->in[0] = draw_operand(t, draw(t, 0, 2) ? TN_F32 : TN_F64, NUMBERS);
  draw_axes(t);
}

Test(arrays, become_logarithms_of_sums) {
  try_all(make_logsumexp);
}

/* With `raise`, an index out of range gives NaN here (0 for integers) and has
 * no gradient: no call waits for the device to report it. */
Test(arrays, have_no_slice_out_of_range) {
  const float data[] = {1, 2, 3, 4}, head[] = {1, 2, 4, 8, 16, 32};
  const int32_t places[] = {1, 2, -1};
  const int64_t two[] = {2, 2}, three[] = {3}, six[] = {3, 2};
  side s = {0};
  tn_operator *op = NULL;
  tn_params *params = NULL;
  float got[6];
  trial t = {.op = "tensor.take", .n_in = 2, .n_out = 1, .slopes = 1};
  const tn_place place = {TN_DEVICE_CUDA, 0};
  fixture_open(&(fake_cuda_options){.devices = 1, .seed = 1});
  OK(tn_plugin_load(fixture, TENSOR_FILE));
  OK(tn_plugin_load(fixture, TENSOR_CUDA_FILE));
  OK(tn_operator_get(fixture, t.op, &op));
  OK(tn_params_parse(op, "mode=raise", &params));
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, 2, two}, place, &s.in[0]));
  OK(tn_array_create_on(fixture, &(tn_spec){TN_I32, 1, three}, place,
                        &s.in[1]));
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, 2, six}, place,
                        &s.head[0]));
  OK(tn_array_set(s.in[0], data, sizeof data));
  OK(tn_array_set(s.in[1], places, sizeof places));
  OK(tn_array_set(s.head[0], head, sizeof head));
  run_forward(&t, op, params, &s);
  OK(tn_array_get(s.out[0], got, sizeof got));
  cr_assert(got[0] == 3 && got[1] == 4);
  for (int i = 2; i < 6; ++i) cr_assert(isnan(got[i]));
  run_backward(&t, op, params, &s);
  OK(tn_array_get(s.slope[0], got, 4 * sizeof *got));
  cr_assert(got[0] == 0 && got[1] == 0 && got[2] == 1 && got[3] == 2);
  release(&s);
  tn_params_release(params);
  fixture_close();
}
