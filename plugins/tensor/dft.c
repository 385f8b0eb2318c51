/* SPDX-License-Identifier: Apache-2.0
 * dft.c: dft.h on the CPU, and the shapes of its operators. Lines are
 * transformed several at a time (fourier.h), in f64 for f64 and in f32 for the
 * others.
 */
#include "dft.h"

#include <string.h>

#include "dft.gen.h"
#include "fourier.h"
#include "move.h"
#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"

/* ------------------------------------------------------------------ shapes */

static int32_t check_parts(const tn_frame *call, const tn_tensor *t,
                           const char *name, int onesided) {
  const int64_t c = t->shape[t->ndim - 1];
  if (c >= 0 && (c < 1 || c > 2))
    return TN_FAIL(call, TN_SHAPE,
                   "the last dimension of `%s` has length %lld; it is 1 for "
                   "real numbers, and 2 for pairs",
                   name, (long long)c);
  if (c == 2 && onesided)
    return TN_FAIL(call, TN_SHAPE,
                   "`%s` has pairs, so that the second half of the results is "
                   "not the conjugate of the first one; pass onesided=false",
                   name);
  return TN_OK;
}

static int64_t count_results(int64_t length, int onesided) {
  return onesided && length >= 0 ? length / 2 + 1 : length;
}

static int32_t check_dft(const tn_frame *call, const tn_tensor *data,
                         int32_t *axis) {
  const tensor_dft_params *p = tensor_dft_params_of(call);
  if (data->ndim < 2)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` has %d dimensions; it needs an axis, and a last "
                   "dimension of 1 or 2",
                   (int)data->ndim);
  const int32_t code = tensor_axis(call, "axis", p->axis, data->ndim, axis);
  if (code != TN_OK) return code;
  if (*axis == data->ndim - 1)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "axis=%lld is the last dimension, which has the parts of a "
                   "number",
                   (long long)p->axis);
  if (data->shape[*axis] == 0 && !p->has_length)
    return TN_FAIL(call, TN_SHAPE,
                   "axis %d of `data` has length 0: there is no transform of "
                   "no elements; pass `length`",
                   (int)*axis);
  return check_parts(call, data, "data", p->onesided);
}

int32_t tensor_dft_infer(const tn_frame *call) {
  const tensor_dft_params *p = tensor_dft_params_of(call);
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  int64_t from[TN_MAX_NDIM], to[TN_MAX_NDIM];
  int32_t axis;
  if (data->ndim < 0) return TN_OK;
  int32_t code = check_dft(call, data, &axis);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < data->ndim; ++d) {
    from[d] = data->shape[d];
    if (from[d] < 0 && out->ndim == data->ndim && d != axis &&
        d < data->ndim - 1)
      from[d] = out->shape[d];
    to[d] = from[d];
  }
  to[axis] = count_results(p->has_length ? p->length : from[axis], p->onesided);
  to[data->ndim - 1] = 2;
  code = call->host->set_shape(call, TN_OPERAND_IN, 0, data->ndim, from);
  return code == TN_OK
             ? call->host->set_shape(call, TN_OPERAND_OUT, 0, data->ndim, to)
             : code;
}

enum { SIGNAL_NDIM = 3, FRAMES_NDIM = 4 };

int32_t tensor_stft_infer(const tn_frame *call) {
  const tensor_stft_params *p = tensor_stft_params_of(call);
  const tn_tensor *signal = &call->in[TENSOR_STFT_IN_SIGNAL];
  const tn_tensor *out = &call->out[0];
  int64_t from[SIGNAL_NDIM], to[FRAMES_NDIM] = {-1, -1, -1, 2};
  int32_t code = TN_OK;
  if (call->n_in > TENSOR_STFT_IN_WINDOW &&
      !(call->in_flags[TENSOR_STFT_IN_WINDOW] & TN_IN_ABSENT))
    code = call->host->set_shape(call, TN_OPERAND_IN, TENSOR_STFT_IN_WINDOW, 1,
                                 &p->frame_length);
  if (code != TN_OK || signal->ndim < 0) return code;
  if (signal->ndim != SIGNAL_NDIM)
    return TN_FAIL(call, TN_SHAPE,
                   "`signal` has %d dimensions; it needs three: (batch,n,1) or "
                   "(batch,n,2)",
                   (int)signal->ndim);
  code = check_parts(call, signal, "signal", p->onesided);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < SIGNAL_NDIM; ++d) from[d] = signal->shape[d];
  if (from[0] < 0 && out->ndim == FRAMES_NDIM) from[0] = out->shape[0];
  to[0] = from[0];
  to[2] = count_results(p->frame_length, p->onesided);
  if (from[1] >= 0)
    to[1] = from[1] < p->frame_length
                ? 0
                : (from[1] - p->frame_length) / p->frame_step + 1;
  code = call->host->set_shape(call, TN_OPERAND_IN, TENSOR_STFT_IN_SIGNAL,
                               SIGNAL_NDIM, from);
  return code == TN_OK
             ? call->host->set_shape(call, TN_OPERAND_OUT, 0, FRAMES_NDIM, to)
             : code;
}

/* ------------------------------------------------------------------- plans */

/* The state of both operators is a tensor_fourier. */
static tn_dtype find_dtype(const tn_frame *call) {
  return call->in[0].dtype == TN_F64 ? TN_F64 : TN_F32;
}

int32_t tensor_dft_create(const tn_frame *call, tensor_dft_state **out) {
  const tensor_dft_params *p = tensor_dft_params_of(call);
  const int is_backward = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = is_backward ? &call->out[0] : &call->in[0];
  tensor_fourier *plan = NULL;
  int32_t axis;
  int32_t code = tensor_axis(call, "axis", p->axis, data->ndim, &axis);
  *out = NULL;
  if (code == TN_OK)
    code = tensor_fourier_create(call,
                                 p->has_length ? p->length : data->shape[axis],
                                 find_dtype(call), &plan);
  *out = (tensor_dft_state *)plan;
  return code;
}

void tensor_dft_destroy(tensor_dft_state *state) {
  tensor_fourier_destroy((tensor_fourier *)state);
}

int32_t tensor_stft_create(const tn_frame *call, tensor_stft_state **out) {
  tensor_fourier *plan = NULL;
  const int32_t code = tensor_fourier_create(
      call, tensor_stft_params_of(call)->frame_length, find_dtype(call), &plan);
  *out = (tensor_stft_state *)plan;
  return code;
}

void tensor_stft_destroy(tensor_stft_state *state) {
  tensor_fourier_destroy((tensor_fourier *)state);
}

/* --------------------------------------------------------------- workspace */

enum { SLICES = 16, ARRAYS = 4 };

/* The division of lines: into groups, and groups into slices, each with arrays
 * of its own. */
typedef struct division {
  int64_t lanes, groups, slices;
  int64_t bytes; /* of an array of a slice */
  int64_t room;  /* of a slice: its arrays, and the memory for a transform */
} division;

static division divide_lines(const tensor_fourier *plan, int64_t n_lines) {
  const int64_t most = tensor_fourier_lanes(plan);
  division d = {.lanes = n_lines < most ? n_lines : most};
  d.groups = (n_lines + most - 1) / most;
  d.slices = d.groups < SLICES ? d.groups : SLICES;
  d.bytes =
      tensor_fourier_elements(plan) * d.lanes * tn_dtype_bytes(plan->dtype);
  d.bytes = (d.bytes + 63) / 64 * 64;
  d.room = ARRAYS * d.bytes + (tensor_fourier_room(plan) + 63) / 64 * 64;
  return d;
}

int32_t tensor_dft_count_bytes(const tn_frame *call, int64_t n_lines,
                               uint64_t *bytes) {
  const tensor_fourier *plan = (const tensor_fourier *)call->prepared;
  *bytes = 0;
  if (n_lines == 0) return TN_OK;
  if (tn_size_times(plan->size,
                    tensor_fourier_lanes(plan) * ARRAYS * 32 * SLICES) < 0)
    return TN_FAIL(call, TN_OUT_OF_MEMORY,
                   "a transform of length %lld needs more memory than 64 bits "
                   "count",
                   (long long)plan->length);
  const division d = divide_lines(plan, n_lines);
  *bytes = (uint64_t)(d.slices * d.room);
  return TN_OK;
}

static int64_t count_lines(const tn_tensor *t, int32_t axis) {
  int64_t n = 1;
  for (int32_t d = 0; d < t->ndim - 1; ++d)
    if (d != axis) n *= t->shape[d];
  return n;
}

int32_t tensor_dft_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *out = &call->out[0];
  int32_t axis;
  *bytes = 0;
  const int32_t code = tensor_axis(
      call, "axis", tensor_dft_params_of(call)->axis, out->ndim, &axis);
  if (code != TN_OK || tn_tensor_size(out) == 0) return code;
  return tensor_dft_count_bytes(call, count_lines(out, axis), bytes);
}

int32_t tensor_stft_bytes(const tn_frame *call, uint64_t *bytes) {
  const int is_backward = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *frames = is_backward ? &call->in[0] : &call->out[0];
  *bytes = 0;
  if (tn_tensor_size(frames) == 0) return TN_OK;
  return tensor_dft_count_bytes(call, frames->shape[0] * frames->shape[1],
                                bytes);
}

/* ------------------------------------------------------------- transforms */

/* Where the parts of the elements of a line are in memory. */
typedef struct line_place {
  char *at;
  int64_t step; /* between elements, in parts */
  int64_t n;    /* elements; others are 0, or are not written */
  int64_t c;    /* parts: 1 or 2, next to each other */
  tn_dtype dtype;
} line_place;

/* A call. The functions find the places of line i. */
typedef struct task {
  const tn_frame *call;
  const tensor_fourier *plan;
  division d;
  int64_t n_lines;
  int64_t sign;
  double scale;
  const tensor_dft_lines *lines;
  const tensor_stft_frames *frames;
  const tn_tensor *from, *to, *window;
} task;

static int64_t limit_count(int64_t n, int64_t most) {
  return n < most ? n : most;
}

enum { CHUNK = 256 };

/* One part of a line, to or from a lane of an array. */
typedef struct lane {
  char *array;
  int64_t number, lanes;
  tn_kernel_mode mode;
} lane;

#define MOVE_LANE(name, type)                                               \
  static void load_##name(const lane *to, const line_place *p, int part) {  \
    type some[CHUNK];                                                       \
    type *array = (type *)(void *)to->array + to->number;                   \
    const int64_t bytes = tn_dtype_bytes(p->dtype);                         \
    for (int64_t i = 0; i < p->n; i += CHUNK) {                             \
      const int64_t n = limit_count(p->n - i, CHUNK);                       \
      const tn_kernel_line line = {p->at + (i * p->step + part) * bytes,    \
                                   p->step, n, p->dtype};                   \
      tn_kernel_load(some, &to->mode, &line);                               \
      for (int64_t k = 0; k < n; ++k) array[(i + k) * to->lanes] = some[k]; \
    }                                                                       \
  }                                                                         \
  static void store_##name(const lane *from, const line_place *p, int part, \
                           double scale) {                                  \
    type some[CHUNK];                                                       \
    const type *array = (const type *)(void *)from->array + from->number;   \
    const int64_t bytes = tn_dtype_bytes(p->dtype);                         \
    for (int64_t i = 0; i < p->n; i += CHUNK) {                             \
      const int64_t n = limit_count(p->n - i, CHUNK);                       \
      const tn_kernel_line line = {p->at + (i * p->step + part) * bytes,    \
                                   p->step, n, p->dtype};                   \
      for (int64_t k = 0; k < n; ++k)                                       \
        some[k] = array[(i + k) * from->lanes] * (type)scale;               \
      tn_kernel_store(&line, &from->mode, some);                            \
    }                                                                       \
  }                                                                         \
  /* Elements [begin, end) become 0. */                                     \
  static void clear_##name(const lane *to, int64_t begin, int64_t end) {    \
    type *array = (type *)(void *)to->array + to->number;                   \
    for (int64_t i = begin; i < end; ++i) array[i * to->lanes] = 0;         \
  }                                                                         \
  static void negate_##name(const lane *to, int64_t n) {                    \
    type *array = (type *)(void *)to->array + to->number;                   \
    for (int64_t i = 0; i < n; ++i)                                         \
      array[i * to->lanes] = -array[i * to->lanes];                         \
  }                                                                         \
  static void weigh_##name(const lane *to, const void *window, int64_t n) { \
    type *array = (type *)(void *)to->array + to->number;                   \
    for (int64_t i = 0; i < n; ++i)                                         \
      array[i * to->lanes] *= ((const type *)window)[i];                    \
  }                                                                         \
  /* Adds to a line of the same type. */                                    \
  static void add_##name(const lane *from, const line_place *p, int part) { \
    const type *array = (const type *)(void *)from->array + from->number;   \
    type *to = (type *)(void *)p->at + part;                                \
    for (int64_t i = 0; i < p->n; ++i)                                      \
      to[i * p->step] += array[i * from->lanes];                            \
  }
MOVE_LANE(f32, float)
MOVE_LANE(f64, double)

#define CALL(t, name, ...)          \
  do {                              \
    if ((t)->plan->dtype == TN_F32) \
      name##_f32(__VA_ARGS__);      \
    else                            \
      name##_f64(__VA_ARGS__);      \
  } while (0)

static tensor_fourier_lines find_arrays(const task *t, int64_t slice) {
  char *at = (char *)t->call->ws[0] + slice * t->d.room;
  const int64_t next = t->d.bytes;
  const double turned = t->sign > 0 ? -1 : 1;
  return (tensor_fourier_lines){.real = at,
                                .imaginary = at + next,
                                .other_real = at + 2 * next,
                                .other_imaginary = at + 3 * next,
                                .lanes = t->d.lanes,
                                .level = tn_kernel_level(t->call),
                                .room = at + ARRAYS * next,
                                .sign = turned,
                                .factor = {t->scale, turned * t->scale}};
}

static lane find_lane(const task *t, void *array, int64_t number) {
  return (lane){(char *)array,
                number,
                t->d.lanes,
                {t->plan->dtype, tn_kernel_level(t->call)}};
}

/* Whether a line consists of pairs that the transform can use itself. */
static int has_pairs(const task *t, const line_place *p) {
  return tensor_fourier_takes_pairs(t->plan) && p->c == 2 && p->step == 2 &&
         p->n == t->plan->length && p->dtype == t->plan->dtype;
}

/* Reads a line; it becomes its conjugate for a positive sign. */
static void load_line(const task *t, const tensor_fourier_lines *l,
                      int64_t number, const line_place *p) {
  const int64_t length = t->plan->length;
  const lane re = find_lane(t, l->real, number);
  const lane im = find_lane(t, l->imaginary, number);
  CALL(t, load, &re, p, 0);
  CALL(t, clear, &re, p->n, length);
  if (p->c == 2) CALL(t, load, &im, p, 1);
  CALL(t, clear, &im, p->c == 2 ? p->n : 0, length);
  if (p->c == 2 && t->sign > 0) CALL(t, negate, &im, p->n);
}

/* ------------------------------------------------------------- whole lines */

/* The part of line i of an array that the transform reads or writes. */
static line_place find_line(const task *t, const tn_tensor *array, int64_t i,
                            int is_out) {
  const tensor_dft_lines *l = t->lines;
  const int64_t n = is_out ? l->n_out : l->n_in;
  const int64_t c = is_out ? l->c_out : l->c_in;
  const int64_t first = (i / l->inner * n * l->inner + i % l->inner) * c;
  return (line_place){
      (char *)array->data + first * tn_dtype_bytes(array->dtype), l->inner * c,
      limit_count(n, l->length), c, array->dtype};
}

/* Writes a line. */
static void store_line(const task *t, const tensor_fourier_lines *l,
                       int64_t number, const line_place *p) {
  const lane re = find_lane(t, l->real, number);
  const lane im = find_lane(t, l->imaginary, number);
  CALL(t, store, &re, p, 0, t->scale);
  if (p->c == 2) CALL(t, store, &im, p, 1, t->sign > 0 ? -t->scale : t->scale);
}

/* Transforms lines [first, first + n). */
static void transform_lines(const task *t, tensor_fourier_lines *l,
                            int64_t first, int64_t n) {
  const line_place one = find_line(t, t->to, first, 1);
  l->to_pairs = has_pairs(t, &one) ? one.at : NULL;
  for (int64_t k = 0; k < n; ++k) {
    const line_place from = find_line(t, t->from, first + k, 0);
    l->from_pairs = has_pairs(t, &from) ? from.at : NULL;
    if (l->from_pairs == NULL) load_line(t, l, k, &from);
  }
  tensor_fourier_run(t->plan, l);
  for (int64_t k = 0; l->to_pairs == NULL && k < n; ++k) {
    const line_place to = find_line(t, t->to, first + k, 1);
    store_line(t, l, k, &to);
  }
}

static int32_t line_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  for (int64_t s = begin; s < end; ++s) {
    tensor_fourier_lines l = find_arrays(t, s);
    const int64_t last = (s + 1) * t->d.groups / t->d.slices;
    for (int64_t g = s * t->d.groups / t->d.slices; g < last; ++g)
      transform_lines(t, &l, g * t->d.lanes,
                      limit_count(t->n_lines - g * t->d.lanes, t->d.lanes));
  }
  return TN_OK;
}

int32_t tensor_dft_run(const tn_frame *call, const tensor_dft_lines *l,
                       const tn_tensor *from, const tn_tensor *to) {
  task t = {.call = call,
            .plan = (const tensor_fourier *)call->prepared,
            .n_lines = l->outer * l->inner,
            .sign = l->sign,
            .scale = l->scale,
            .lines = l,
            .from = from,
            .to = to};
  t.d = divide_lines(t.plan, t.n_lines);
  /* Elements from the length of the transform on have no gradient. */
  const int32_t code =
      l->n_out > l->length ? tensor_fill_zeros(call, to) : TN_OK;
  return code == TN_OK
             ? call->host->parallel_for(call, t.d.slices, 1, line_slice, &t)
             : code;
}

/* ------------------------------------------------------------------ frames */

static line_place find_frame(const task *t, const tn_tensor *signal,
                             int64_t i) {
  const tensor_stft_frames *f = t->frames;
  const int64_t first = (i / f->frames * f->n + i % f->frames * f->step) * f->c;
  return (line_place){
      (char *)signal->data + first * tn_dtype_bytes(signal->dtype), f->c,
      f->length, f->c, signal->dtype};
}

static line_place find_results(const task *t, const tn_tensor *results,
                               int64_t i) {
  const tensor_stft_frames *f = t->frames;
  return (line_place){
      (char *)results->data + i * f->bins * 2 * tn_dtype_bytes(results->dtype),
      2, f->bins, 2, results->dtype};
}

static void transform_frames(const task *t, tensor_fourier_lines *l,
                             int64_t first, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const line_place from = find_frame(t, t->from, first + k);
    const lane re = find_lane(t, l->real, k);
    const lane im = find_lane(t, l->imaginary, k);
    load_line(t, l, k, &from);
    if (t->window == NULL) continue;
    CALL(t, weigh, &re, t->window->data, from.n);
    if (from.c == 2) CALL(t, weigh, &im, t->window->data, from.n);
  }
  tensor_fourier_run(t->plan, l);
  for (int64_t k = 0; k < n; ++k) {
    const line_place to = find_results(t, t->to, first + k);
    store_line(t, l, k, &to);
  }
}

static int32_t frame_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  for (int64_t s = begin; s < end; ++s) {
    tensor_fourier_lines l = find_arrays(t, s);
    for (int64_t g = s; g < t->d.groups; g += t->d.slices)
      transform_frames(t, &l, g * t->d.lanes,
                       limit_count(t->n_lines - g * t->d.lanes, t->d.lanes));
  }
  return TN_OK;
}

static task make_frame_task(const tn_frame *call, const tensor_stft_frames *f,
                            const tn_tensor *window) {
  task t = {.call = call,
            .plan = (const tensor_fourier *)call->prepared,
            .n_lines = f->batch * f->frames,
            .sign = -1,
            .scale = 1,
            .frames = f,
            .window = window};
  t.d = divide_lines(t.plan, t.n_lines);
  return t;
}

int32_t tensor_stft_run(const tn_frame *call, const tensor_stft_frames *f,
                        const tn_tensor *signal, const tn_tensor *window,
                        const tn_tensor *out) {
  task t = make_frame_task(call, f, window);
  t.from = signal;
  t.to = out;
  return call->host->parallel_for(call, t.d.slices, 1, frame_slice, &t);
}

/* Adds the gradients of frames [first, first + n) of one signal, in order. */
static void add_frames(const task *t, tensor_fourier_lines *l, int64_t first,
                       int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const line_place from = find_results(t, t->from, first + k);
    load_line(t, l, k, &from);
  }
  tensor_fourier_run(t->plan, l);
  for (int64_t k = 0; k < n; ++k) {
    const line_place to = find_frame(t, t->to, first + k);
    const lane re = find_lane(t, l->real, k);
    const lane im = find_lane(t, l->imaginary, k);
    if (t->window != NULL) CALL(t, weigh, &re, t->window->data, to.n);
    CALL(t, add, &re, &to, 0);
    if (to.c == 1) continue;
    CALL(t, negate, &im, to.n);
    if (t->window != NULL) CALL(t, weigh, &im, t->window->data, to.n);
    CALL(t, add, &im, &to, 1);
  }
}

/* Whole signals, since their frames overlap. */
static int32_t signal_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const int64_t frames = t->frames->frames;
  for (int64_t s = begin; s < end; ++s) {
    tensor_fourier_lines l = find_arrays(t, s);
    for (int64_t b = s; b < t->frames->batch; b += t->d.slices)
      for (int64_t i = 0; i < frames; i += t->d.lanes)
        add_frames(t, &l, b * frames + i, limit_count(frames - i, t->d.lanes));
  }
  return TN_OK;
}

int32_t tensor_stft_run_back(const tn_frame *call, const tensor_stft_frames *f,
                             const tn_tensor *gradient, const tn_tensor *window,
                             const tn_tensor *to) {
  task t = make_frame_task(call, f, window);
  const int32_t code = tensor_fill_zeros(call, to);
  t.from = gradient;
  t.to = to;
  t.sign = 1;
  return code == TN_OK
             ? call->host->parallel_for(call, limit_count(t.d.slices, f->batch),
                                        1, signal_slice, &t)
             : code;
}
