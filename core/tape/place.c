/* SPDX-License-Identifier: Apache-2.0
 * place.c: where one view of a block lies inside of another. The strides
 * of the outer one, sorted, are a number system in which the positions of the
 * inner one are written: as long as no digit carries over to the next, the
 * digits say which elements they are.
 */
#include "tape.h"

/* One dimension of the outer view: how far apart its elements lie in memory,
 * and in a dense array of its shape. */
typedef struct digit {
  int64_t stride; /* > 0 */
  int64_t size;
  int64_t weight;
} digit;

typedef struct radix {
  int32_t n;
  int64_t lowest; /* position of the lowest element from the first one */
  int64_t origin; /* the same in the dense array */
  digit d[TN_MAX_NDIM + 1]; /* largest strides first */
} radix;

/* The inner view from the lowest element of the outer one on. */
typedef struct walk {
  int64_t first; /* its lowest position */
  int64_t span;  /* from there to the highest */
  int64_t size[TN_MAX_NDIM];
  int64_t stride[TN_MAX_NDIM]; /* >= 0 */
} walk;

static void radix_insert(radix *r, digit new) {
  int32_t i = r->n++;
  for (; i > 0 && r->d[i - 1].stride < new.stride; --i) r->d[i] = r->d[i - 1];
  r->d[i] = new;
}

/* Dimensions that lie one behind the other, in both places, are one. */
static void radix_merge(radix *r) {
  int32_t n = 0;
  for (int32_t i = 0; i < r->n; ++i) {
    digit *last = n > 0 ? &r->d[n - 1] : NULL;
    const digit d = r->d[i];
    if (last && last->stride == d.stride * d.size &&
        last->weight == d.weight * d.size)
      *last = (digit){d.stride, last->size * d.size, d.weight};
    else
      r->d[n++] = d;
  }
  r->n = n;
}

static void radix_init(radix *r, const tn__layout *of) {
  int64_t weight = 1;
  *r = (radix){0};
  for (int32_t i = of->ndim - 1; i >= 0; --i) {
    digit d = {of->strides[i], of->shape[i], weight};
    weight *= d.size;
    if (d.size == 1) continue;
    if (d.stride < 0) {
      r->lowest += (d.size - 1) * d.stride;
      r->origin += (d.size - 1) * d.weight;
      d.stride = -d.stride;
      d.weight = -d.weight;
    }
    radix_insert(r, d);
  }
  radix_merge(r);
  if (r->n == 0 || r->d[r->n - 1].stride > 1) r->d[r->n++] = (digit){1, 1, 0};
}

static void walk_init(walk *w, const tn__layout *part, int64_t first) {
  *w = (walk){.first = first};
  for (int32_t j = 0; j < part->ndim; ++j) {
    int64_t reach = (part->shape[j] - 1) * part->strides[j];
    w->size[j] = part->shape[j];
    w->stride[j] = part->shape[j] > 1 ? part->strides[j] : 0;
    if (w->stride[j] < 0) {
      w->stride[j] = -w->stride[j];
      w->first += reach;
      reach = -reach;
    }
    w->span += part->shape[j] > 1 ? reach : 0;
  }
}

/* Takes a number apart; only the first digit may be negative or too large. */
static int64_t digit_take(int64_t *rest, int64_t stride) {
  int64_t k = *rest / stride;
  if (*rest % stride < 0) --k;
  *rest -= k * stride;
  return k;
}

/* The lowest and the highest value of every digit over the inner view, and its
 * strides in the dense array. False if digits carry over. */
typedef struct box {
  int64_t low[TN_MAX_NDIM + 1];
  int64_t high[TN_MAX_NDIM + 1];
} box;

static bool box_init(box *b, const radix *r, const walk *w, int32_t ndim,
                     int64_t *strides) {
  int64_t rest = w->first;
  for (int32_t i = 0; i < r->n; ++i)
    b->low[i] = b->high[i] = digit_take(&rest, r->d[i].stride);
  for (int32_t j = 0; j < ndim; ++j) {
    rest = w->stride[j];
    strides[j] = 0;
    for (int32_t i = 0; i < r->n; ++i) {
      const int64_t k = digit_take(&rest, r->d[i].stride);
      b->high[i] += (w->size[j] - 1) * k;
      strides[j] += k * r->d[i].weight;
    }
  }
  for (int32_t i = r->n - 1; i > 0; --i) {
    rest += b->high[i] * r->d[i].stride;
    if (rest >= r->d[i - 1].stride) return false;
  }
  return true;
}

static int box_compare(const box *b, const radix *r) {
  int how = TN__PLACE_INSIDE;
  for (int32_t i = 0; i < r->n; ++i) {
    if (b->high[i] < 0 || b->low[i] >= r->d[i].size) return TN__PLACE_APART;
    if (b->low[i] < 0 || b->high[i] >= r->d[i].size) how = TN__PLACE_ACROSS;
  }
  return how;
}

static int64_t size_of(const tn__layout *layout) {
  int64_t n = 1;
  for (int32_t i = 0; i < layout->ndim; ++i) n *= layout->shape[i];
  return n;
}

static void view_finish(const tn__layout *of, const tn__layout *part,
                        tn__place *out) {
  out->view.ndim = part->ndim;
  out->view.shape = part->shape;
  out->view.strides = out->strides;
  out->repeats = false;
  for (int32_t j = 0; j < part->ndim; ++j)
    out->repeats |= part->shape[j] > 1 && out->strides[j] == 0;
  out->whole = tn__layout_same(of, part);
  out->covers = !out->repeats && size_of(of) == size_of(part);
}

/* Both have elements and the same type; `first` is the first of `part`, counted
 * in elements from the first of `of`. */
static int place(const tn__layout *of, const tn__layout *part, int64_t first,
                 tn__place *out) {
  radix r;
  walk w;
  box b;
  radix_init(&r, of);
  walk_init(&w, part, first - r.lowest);
  int64_t span = 0;
  for (int32_t i = 0; i < r.n; ++i) span += (r.d[i].size - 1) * r.d[i].stride;
  if (w.first + w.span < 0 || w.first > span) return TN__PLACE_APART;
  if (!box_init(&b, &r, &w, part->ndim, out->strides)) return TN__PLACE_ACROSS;
  const int how = box_compare(&b, &r);
  if (how != TN__PLACE_INSIDE) return how;
  out->view.offset = r.origin;
  for (int32_t i = 0; i < r.n; ++i)
    out->view.offset += b.low[i] * r.d[i].weight;
  for (int32_t j = 0; j < part->ndim; ++j) {
    if (part->shape[j] < 2 || part->strides[j] >= 0) continue;
    out->view.offset += (part->shape[j] - 1) * out->strides[j];
    out->strides[j] = -out->strides[j];
  }
  return how;
}

int tn__layout_place(const tn__layout *of, const tn__layout *part,
                     tn__place *out) {
  *out = (tn__place){0};
  const int64_t bytes = tn_dtype_bytes(of->dtype);
  const int64_t far = part->offset - of->offset;
  int how = TN__PLACE_INSIDE;
  if (size_of(part) == 0) {
    view_finish(of, part, out);
    return how;
  }
  if (size_of(of) == 0) return TN__PLACE_APART;
  if (of->dtype != part->dtype || far % bytes != 0) return TN__PLACE_ACROSS;
  how = place(of, part, far / bytes, out);
  if (how == TN__PLACE_INSIDE) view_finish(of, part, out);
  return how;
}
