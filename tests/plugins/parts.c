/* SPDX-License-Identifier: Apache-2.0
 * parts.c: see parts.h.
 */
#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"

enum { MOST_PARTS = 512, FEW_PARTS = 12 };

static tn_runtime *rt;
static tn_place place; /* of new arrays */
static bool is_late;   /* nothing is looked at before the end */
static int n_blocks;

part live[MOST_PARTS];
size_t n_live;

/* Loads plugins from a list of files with colons, and sets the place for new
 * arrays. NULL: neither. */
static void parts_move(const char *files, const char *to) {
  char file[1000];
  place = (tn_place){TN_DEVICE_CPU, 0};
  is_late = getenv("PARTS_LATE") != NULL;
  while (files && *files) {
    const size_t n = strcspn(files, ":");
    (void)snprintf(file, sizeof file, "%.*s", (int)n, files);
    GOES(tn_plugin_load(rt, file));
    files += n + (files[n] == ':');
  }
  if (to) GOES(tn_place_parse(rt, to, &place));
}

tn_runtime *parts_open(uint32_t engine, uint32_t workers) {
  const tn_options options = {
      .struct_size = sizeof options, .engine = engine, .workers = workers};
  GOES(tn_runtime_create(&options, &rt));
  parts_move(getenv("PARTS_FILES"), getenv("PARTS_PLACE"));
  return rt;
}

bool parts_on_cpu(void) {
  return place.device_type == TN_DEVICE_CPU;
}

/* ------------------------------------------------------------------ shapes */

part part_shaped(int32_t ndim, const int64_t *shape) {
  part p = {.ndim = ndim};
  int64_t stride = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    p.shape[i] = shape[i];
    p.strides[i] = stride;
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
  return p;
}

int64_t part_size(const part *p) {
  int64_t n = 1;
  for (int32_t i = 0; i < p->ndim; ++i) n *= p->shape[i];
  return n;
}

bool part_alike(const part *a, const part *b) {
  return a->ndim == b->ndim &&
         memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

bool part_same(const part *a, const part *b) {
  const size_t bytes = (size_t)part_size(a) * sizeof(int64_t);
  return a->block == b->block && part_alike(a, b) &&
         memcmp(part_cells(a), part_cells(b), bytes) == 0;
}

bool part_repeats(const part *p) {
  bool repeats = false;
  for (int32_t i = 0; i < p->ndim; ++i)
    repeats |= p->shape[i] > 1 && p->strides[i] == 0;
  return repeats && part_size(p) > 0;
}

bool part_whole(const part *p) {
  return !part_repeats(p) && part_size(p) == p->block->n;
}

const int64_t *part_cells(const part *p) {
  const int64_t n = part_size(p);
  int64_t *cells = dice_take((size_t)n * sizeof *cells);
  for (int64_t k = 0; k < n; ++k) {
    int64_t rest = k;
    cells[k] = p->offset;
    for (int32_t i = p->ndim - 1; i >= 0; --i) {
      cells[k] += rest % p->shape[i] * p->strides[i];
      rest /= p->shape[i];
    }
  }
  return cells;
}

/* b3+2(2:3 4:1): block, offset, sizes and strides. */
const char *part_text(const part *p) {
  enum { ROOM = 200 };
  char *text = dice_take(ROOM);
  int n = snprintf(text, ROOM, "b%d+%lld(", p->block ? p->block->id : -1,
                   (long long)p->offset);
  for (int32_t i = 0; i < p->ndim; ++i)
    n += snprintf(text + n, (size_t)(ROOM - n), "%s%lld:%lld", i ? " " : "",
                  (long long)p->shape[i], (long long)p->strides[i]);
  (void)snprintf(text + n, (size_t)(ROOM - n), ")");
  return text;
}

/* ------------------------------------------------------------------ values */

number *part_room(const part *p) {
  return dice_take((size_t)part_size(p) * sizeof(number));
}

number *part_read(const part *p) {
  const int64_t n = part_size(p), *cells = part_cells(p);
  number *values = part_room(p);
  for (int64_t i = 0; i < n; ++i) values[i] = p->block->cells[cells[i]];
  return values;
}

void part_write(const part *p, const number *values) {
  const int64_t n = part_size(p), *cells = part_cells(p);
  for (int64_t i = 0; i < n; ++i) p->block->cells[cells[i]] = values[i];
}

number *part_draw(const part *p) {
  const int64_t n = part_size(p);
  number *values = part_room(p);
  for (int64_t i = 0; i < n; ++i) values[i] = number_constant(dice_value());
  return values;
}

tn_code part_set(const part *p, const number *values) {
  const int64_t n = part_size(p);
  const size_t bytes = (size_t)n * sizeof(double);
  double *doubles = dice_take(bytes);
  for (int64_t i = 0; i < n; ++i) doubles[i] = number_value(values[i]);
  return tn_array_set(p->array, doubles, bytes);
}

/* The parts of a sum may be larger than the sum; an unwritten element is NaN.
 */
static void compare(const part *p, const double *have, const char *what) {
  const int64_t n = part_size(p);
  const number *want = part_read(p);
  double most = 1;
  for (int64_t i = 0; i < n; ++i)
    most = fmax(most, fabs(number_value(want[i])));
  for (int64_t i = 0; i < n; ++i) {
    const double v = number_value(want[i]);
    if (!isnan(v) && !(fabs(have[i] - v) <= 1e-8 * most))
      dice_fail("%s: element %lld of %s is %.17g, not %.17g", what,
                (long long)i, part_text(p), have[i], v);
  }
}

static void look_at(const part *p, const char *what) {
  const size_t bytes = (size_t)part_size(p) * sizeof(double);
  double *have = dice_take(bytes);
  const tn_code rc = tn_array_get(p->array, have, bytes);
  if (p->block->failed && rc == TN_OK)
    dice_fail("%s: %s should be an error", what, part_text(p));
  if (!p->block->failed && rc)
    dice_fail("%s: %s: %s", what, part_text(p), tn_error_text());
  if (rc == TN_OK) compare(p, have, what);
}

void part_check(const part *p, const char *what) {
  if (!is_late) look_at(p, what);
}

/* ------------------------------------------------------------------- live
 * arrays */

static part live_put(const part *p) {
  if (n_live == MOST_PARTS) dice_fail("there are too many arrays");
  return live[n_live++] = *p;
}

part live_adopt(const part *shape, tn_array *array) {
  part p = part_shaped(shape->ndim, shape->shape);
  p.array = array;
  p.block = dice_take(sizeof *p.block);
  *p.block =
      (block){.cells = part_room(&p), .n = part_size(&p), .id = n_blocks};
  ++n_blocks;
  for (int64_t i = 0; i < p.block->n; ++i)
    p.block->cells[i] = number_constant(NAN);
  const tn_tensor *t = tn_array_tensor(array);
  part made = {.ndim = t->ndim};
  if (t->ndim <= MOST_DIMS && t->ndim > 0)
    memcpy(made.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  if (!part_alike(&made, &p))
    dice_fail("a new array has another shape than %s", part_text(&p));
  return live_put(&p);
}

part live_new(int32_t ndim, const int64_t *shape) {
  const part like = part_shaped(ndim, shape);
  tn_array *array = NULL;
  GOES(tn_array_create_on(rt, &(tn_spec){TN_F64, ndim, shape}, place, &array));
  const part p = live_adopt(&like, array);
  number *values = part_draw(&p);
  GOES(part_set(&p, values));
  part_write(&p, values);
  return p;
}

part live_pick(void) {
  return live[dice_below((uint32_t)n_live)];
}

bool live_has(const tn_array *array) {
  for (size_t i = 0; i < n_live; ++i)
    if (live[i].array == array) return true;
  return false;
}

void live_drop(void) {
  if (n_live < FEW_PARTS) return;
  part *p = &live[dice_below((uint32_t)n_live)];
  dice_tell("release %s", part_text(p));
  tn_array_release(p->array);
  *p = live[--n_live];
}

void live_check(void) {
  for (size_t i = 0; i < n_live; ++i) look_at(&live[i], "at the end");
}

void live_clear(void) {
  while (n_live > 0) tn_array_release(live[--n_live].array);
  n_blocks = 0;
}

/* ------------------------------------------------------------------- views */

/* Each makes `v`, a copy of `of` so far, into a view of it, and the library's
 * array of that. */

static bool view_slice(const part *of, part *v) {
  if (of->ndim == 0) return false;
  const uint32_t axis = dice_below((uint32_t)of->ndim);
  const int64_t n = of->shape[axis], step = 1 + dice_below(2);
  const int64_t a = dice_below((uint32_t)n + 1),
                b = dice_below((uint32_t)n + 1);
  const int64_t low = a < b ? a : b, high = a < b ? b : a;
  tn_range r = {(int32_t)axis, 0, low, high, step};
  int64_t length = high - low;
  if (n > 0 && dice_once_in(3)) { /* backwards, often to the first */
    const bool all = dice_once_in(2);
    r.begin = high < n ? high : n - 1;
    r.end = all ? -n - 1 : low;
    r.step = -step;
    length = r.begin - (all ? -1 : low);
  }
  v->shape[axis] = length > 0 ? (length + step - 1) / step : 0;
  if (v->shape[axis] > 0) v->offset += r.begin * of->strides[axis];
  v->strides[axis] *= r.step;
  GOES(tn_array_slice(of->array, &r, &v->array));
  return true;
}

static bool view_index(const part *of, part *v) {
  if (of->ndim == 0) return false;
  const int32_t axis = (int32_t)dice_below((uint32_t)of->ndim);
  const int64_t n = of->shape[axis];
  if (n == 0) return false;
  const int64_t index = dice_below((uint32_t)n);
  v->offset += index * of->strides[axis];
  --v->ndim;
  for (int32_t i = axis; i < v->ndim; ++i) {
    v->shape[i] = of->shape[i + 1];
    v->strides[i] = of->strides[i + 1];
  }
  GOES(tn_array_index(of->array, axis, index - (dice_once_in(2) ? n : 0),
                      &v->array));
  return true;
}

/* Finds strides by which the elements of `of` have this shape, if any. */
static bool strides_find(const part *of, part *v) {
  const int64_t n = part_size(of), *cells = part_cells(of);
  int64_t apart = 1;
  v->offset = n > 0 ? cells[0] : 0;
  for (int32_t i = v->ndim - 1; i >= 0; --i) {
    v->strides[i] = n > 0 && v->shape[i] > 1 ? cells[apart] - cells[0] : 0;
    apart *= v->shape[i];
  }
  return memcmp(part_cells(v), cells, (size_t)n * sizeof *cells) == 0;
}

static bool view_reshape(const part *of, part *v) {
  const int64_t n = part_size(of);
  *v = part_shaped(1, &n);
  if (dice_once_in(2))
    *v = n > 0 && n % 2 == 0 ? part_shaped(2, (int64_t[]){n / 2, 2})
                             : part_shaped(2, (int64_t[]){1, n});
  v->block = of->block;
  const bool possible = strides_find(of, v);
  const tn_code rc = tn_array_reshape(of->array, v->ndim, v->shape, &v->array);
  if (possible) GOES(rc);
  if (!possible && rc != TN_INVALID)
    dice_fail("%s has no view of %s", part_text(of), part_text(v));
  return possible;
}

static bool view_transpose(const part *of, part *v) {
  for (int32_t i = 0; i < of->ndim; ++i) {
    v->shape[i] = of->shape[of->ndim - 1 - i];
    v->strides[i] = of->strides[of->ndim - 1 - i];
  }
  GOES(tn_array_transpose(of->array, NULL, &v->array));
  return true;
}

static bool view_broadcast(const part *of, part *v) {
  const int32_t more = of->ndim < 2 && dice_once_in(2) ? 1 : 0;
  v->ndim = of->ndim + more;
  v->shape[0] = 2, v->strides[0] = 0; /* where there is one more */
  for (int32_t i = 0; i < of->ndim; ++i) {
    const bool repeat = of->shape[i] == 1 && dice_once_in(2);
    v->shape[i + more] = repeat ? 2 + dice_below(2) : of->shape[i];
    v->strides[i + more] = repeat ? 0 : of->strides[i];
  }
  if (part_size(v) > 12) return false;
  GOES(tn_array_broadcast(of->array, v->ndim, v->shape, &v->array));
  return true;
}

void live_view(void) {
  static bool (*const kinds[])(const part *, part *) = {
      view_slice, view_index, view_reshape, view_transpose, view_broadcast};
  const part of = live_pick();
  part v = of;
  if (!kinds[dice_below(5)](&of, &v)) return;
  dice_tell("view %s of %s", part_text(&v), part_text(&of));
  (void)live_put(&v);
}
