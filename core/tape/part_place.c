/* SPDX-License-Identifier: Apache-2.0
 * part_place.c: finds the position of one view of a block inside of another.
 * The sorted strides of the outer view are the radix of a number system; the
 * positions of the inner view are numbers in it. If no digit carries over, the
 * digits are the indices of the elements.
 */
#include "tape.h"

/* One dimension of the outer view: the distance of its elements in memory, and
 * in a dense array of its shape. */
typedef struct digit {
  int64_t stride; /* > 0 */
  int64_t size;
  int64_t weight;
} digit;

typedef struct radix {
  int32_t n;
  int64_t lowest; /* position of the lowest element, counted from the first */
  int64_t origin; /* the same in the dense array */
  digit d[TN_MAX_NDIM + 1]; /* largest strides first */
} radix;

/* The inner view, counted from the lowest element of the outer one. */
typedef struct walk {
  int64_t first; /* its lowest position */
  int64_t span;  /* distance to the highest */
  int64_t size[TN_MAX_NDIM];
  int64_t stride[TN_MAX_NDIM]; /* >= 0 */
} walk;

static void insert_digit(radix *r, digit new) {
  int32_t i = r->n++;
  for (; i > 0 && r->d[i - 1].stride < new.stride; --i) r->d[i] = r->d[i - 1];
  r->d[i] = new;
}

/* Merges dimensions that follow each other without a gap in both arrays. */
static void merge_digits(radix *r) {
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

static void init_radix(radix *r, const tn__layout *of) {
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
    insert_digit(r, d);
  }
  merge_digits(r);
  if (r->n == 0 || r->d[r->n - 1].stride > 1) r->d[r->n++] = (digit){1, 1, 0};
}

static void init_walk(walk *w, const tn__layout *part, int64_t first) {
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

/* Removes one digit from a number. Only the first digit may be negative or too
 * large. */
static int64_t take_digit(int64_t *rest, int64_t stride) {
  int64_t k = *rest / stride;
  if (*rest % stride < 0) --k;
  *rest -= k * stride;
  return k;
}

/* The lowest and highest value of every digit over the inner view. */
typedef struct extent {
  int64_t low[TN_MAX_NDIM + 1];
  int64_t high[TN_MAX_NDIM + 1];
} extent;

static bool init_extent(extent *b, const radix *r, const walk *w, int32_t ndim,
                        int64_t *strides) {
  int64_t rest = w->first;
  for (int32_t i = 0; i < r->n; ++i)
    b->low[i] = b->high[i] = take_digit(&rest, r->d[i].stride);
  for (int32_t j = 0; j < ndim; ++j) {
    rest = w->stride[j];
    strides[j] = 0;
    for (int32_t i = 0; i < r->n; ++i) {
      const int64_t k = take_digit(&rest, r->d[i].stride);
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

static int compare_extent(const extent *b, const radix *r) {
  int how = TN__PART_INSIDE;
  for (int32_t i = 0; i < r->n; ++i) {
    if (b->high[i] < 0 || b->low[i] >= r->d[i].size) return TN__PART_DISJOINT;
    if (b->low[i] < 0 || b->high[i] >= r->d[i].size) how = TN__PART_ACROSS;
  }
  return how;
}

static int64_t count_elements(const tn__layout *layout) {
  int64_t n = 1;
  for (int32_t i = 0; i < layout->ndim; ++i) n *= layout->shape[i];
  return n;
}

static void finish_view(const tn__layout *of, const tn__layout *part,
                        tn__part_place *out) {
  out->view.ndim = part->ndim;
  out->view.shape = part->shape;
  out->view.strides = out->strides;
  out->repeats = false;
  for (int32_t j = 0; j < part->ndim; ++j)
    out->repeats |= part->shape[j] > 1 && out->strides[j] == 0;
  out->whole = tn__layout_is_same(of, part);
  out->covers = !out->repeats && count_elements(of) == count_elements(part);
}

/* Both views have elements and the same type. `first` is the position of part's
 * first element, counted in elements from the first one of `of`. */
static int place_elements(const tn__layout *of, const tn__layout *part,
                          int64_t first, tn__part_place *out) {
  radix r;
  walk w;
  extent b;
  init_radix(&r, of);
  init_walk(&w, part, first - r.lowest);
  int64_t span = 0;
  for (int32_t i = 0; i < r.n; ++i) span += (r.d[i].size - 1) * r.d[i].stride;
  if (w.first + w.span < 0 || w.first > span) return TN__PART_DISJOINT;
  if (!init_extent(&b, &r, &w, part->ndim, out->strides))
    return TN__PART_ACROSS;
  const int how = compare_extent(&b, &r);
  if (how != TN__PART_INSIDE) return how;
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

int tn__layout_find_part(const tn__layout *of, const tn__layout *part,
                         tn__part_place *out) {
  *out = (tn__part_place){0};
  const int64_t bytes = tn_dtype_bytes(of->dtype);
  const int64_t far = part->offset - of->offset;
  const bool packed = tn_dtype_is_packed(of->dtype);
  int how = TN__PART_INSIDE;
  if (count_elements(part) == 0) {
    finish_view(of, part, out);
    return how;
  }
  if (count_elements(of) == 0) return TN__PART_DISJOINT;
  if (of->dtype != part->dtype || (!packed && far % bytes != 0))
    return TN__PART_ACROSS;
  how = place_elements(
      of, part, packed ? far * (8 / tn_dtype_bits(of->dtype)) : far / bytes,
      out);
  if (how == TN__PART_INSIDE) finish_view(of, part, out);
  return how;
}
