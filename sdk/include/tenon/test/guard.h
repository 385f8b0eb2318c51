/* SPDX-License-Identifier: Apache-2.0
 * test/guard.h: a part of test.h: memory between two inaccessible pages, arrays
 * in it, and copies that show whether a call changed an operand that it may
 * only read.
 *
 *   | no access | filler ... elements ... filler | no access |
 *
 * An access beyond a page's end or before its begin ends the process at once,
 * and the handler of the signal names the operand. A write to the filler, or to
 * the gaps between the elements of a view, is found after the call.
 */
#ifndef TENON_TEST_GUARD_H_
#define TENON_TEST_GUARD_H_

#include <stdatomic.h>
#include <sys/mman.h>

#include "tenon/exchange.h"

/* Where the elements are in their pages. */
typedef enum tn_test_side {
  TN_TEST_LAST,   /* the last byte touches the second inaccessible page */
  TN_TEST_FIRST,  /* the first byte touches the first one */
  TN_TEST_SHIFTED /* one element after the begin of a page */
} tn_test_side;

enum { TN_TEST_FILLER = 0xa5 };

/* Pages that one array uses at a time. Regions are kept for reuse. */
typedef struct tn_test_region {
  struct tn_test_region *next;
  char *pages; /* the accessible ones */
  size_t bytes;
  char *first;      /* lowest byte of the elements */
  size_t n;         /* bytes from there to the last element's end */
  const char *name; /* of the operand */
  tn_dlpack object;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
  atomic_bool is_used;
} tn_test_region;

static tn_test_region *tn_test_regions;

static size_t tn_test_page(void) {
  static size_t bytes;
  if (bytes == 0) bytes = (size_t)sysconf(_SC_PAGESIZE);
  return bytes;
}

/* Any thread may release the last use of an array. */
static void tn_test_leave_region(tn_dlpack *object) {
  tn_test_region *region = (tn_test_region *)object->manager_ctx;
  atomic_store(&region->is_used, false);
}

static tn_test_region *tn_test_map_region(size_t bytes) {
  const size_t page = tn_test_page();
  tn_test_region *region = (tn_test_region *)calloc(1, sizeof *region);
  if (region == NULL) return NULL;
  char *all = (char *)mmap(NULL, bytes + 2 * page, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED ||
      mprotect(all + page, bytes, PROT_READ | PROT_WRITE) != 0) {
    free(region);
    return NULL;
  }
  region->pages = all + page;
  region->bytes = bytes;
  region->next = tn_test_regions;
  tn_test_regions = region;
  return region;
}

/* A region for `n` bytes of elements of `size`, filled with filler; NULL if
 * there is no memory. */
static tn_test_region *tn_test_use_region(size_t n, size_t size,
                                          tn_test_side side) {
  const size_t page = tn_test_page();
  const size_t bytes = (n + size + page - 1) / page * page;
  tn_test_region *region = tn_test_regions;
  while (region != NULL &&
         (region->bytes != bytes || atomic_load(&region->is_used)))
    region = region->next;
  if (region == NULL) region = tn_test_map_region(bytes);
  if (region == NULL) return NULL;
  memset(region->pages, TN_TEST_FILLER, bytes);
  region->first = region->pages + (side == TN_TEST_LAST      ? bytes - n
                                   : side == TN_TEST_SHIFTED ? size
                                                             : 0);
  region->n = n;
  region->name = NULL;
  return region;
}

/* The region of an address, inaccessible pages included. */
static const tn_test_region *tn_test_find_region(const char *address) {
  const tn_test_region *region = tn_test_regions;
  const size_t page = tn_test_page();
  while (region != NULL && (address < region->pages - page ||
                            address >= region->pages + region->bytes + page))
    region = region->next;
  return region;
}

/* ------------------------------------------------------------------- arrays */

/* Element type, shape and strides of an array that is wanted; the first element
 * is `start` elements after the lowest of `n`. */
typedef struct tn_test_form {
  tn_dtype dtype;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
  int64_t start;
  int64_t n;
} tn_test_form;

static void tn_test_form_dense(tn_test_form *f, const int64_t *shape) {
  f->start = 0;
  f->n = 1;
  for (int32_t i = f->ndim - 1; i >= 0; --i) {
    f->shape[i] = shape[i];
    f->strides[i] = f->n;
    f->n *= shape[i];
  }
}

/* An array of the form in a region of its own; the elements are filler. */
static tn_code tn_test_guarded(tn_runtime *rt, const tn_test_form *form,
                               tn_test_side side, tn_array **out) {
  const size_t bytes = (size_t)tn_dtype_bytes_of(form->dtype, form->n);
  const size_t size = (size_t)tn_dtype_bytes_of(form->dtype, 1);
  tn_test_region *region = tn_test_use_region(bytes, size, side);
  *out = NULL;
  if (region == NULL) return TN_OUT_OF_MEMORY;
  memcpy(region->shape, form->shape, sizeof region->shape);
  memcpy(region->strides, form->strides, sizeof region->strides);
  region->object = (tn_dlpack){
      .tensor = {.data = form->n > 0
                             ? region->first + form->start * (int64_t)size
                             : NULL,
                 .device_type = TN_DEVICE_CPU,
                 .ndim = form->ndim,
                 .dtype = form->dtype,
                 .shape = region->shape,
                 .strides = region->strides},
      .manager_ctx = region,
      .deleter = tn_test_leave_region};
  atomic_store(&region->is_used, true);
  const tn_code rc =
      tn_array_from_dlpack(rt, &region->object, TN_DLPACK_BORROW, out);
  if (rc != TN_OK) atomic_store(&region->is_used, false);
  return rc;
}

/* The region of an array that tn_test_guarded made; NULL for others. */
static tn_test_region *tn_test_region_of(const tn_array *array) {
  const tn_tensor *tensor = tn_array_tensor(array);
  tn_test_region *region = tn_test_regions;
  if (tensor->device_type != TN_DEVICE_CPU || tensor->data == NULL) return NULL;
  while (region != NULL && (!atomic_load(&region->is_used) ||
                            (char *)tensor->data < region->first ||
                            (char *)tensor->data >= region->first + region->n))
    region = region->next;
  return region;
}

/* ----------------------------------------------------------------- elements */

/* Calls `visit` with each element of a CPU tensor, in row-major order; with
 * each byte if elements share bytes. */
typedef void tn_test_visit(void *element, size_t size, void *arg);

static void tn_test_each_element(const tn_tensor *t, tn_test_visit *visit,
                                 void *arg) {
  const size_t size = (size_t)tn_dtype_bytes(t->dtype);
  int64_t at[TN_MAX_NDIM] = {0};
  char *element = (char *)t->data;
  if (size == 0) {
    const char *end = element + tn_tensor_bytes(t);
    for (; element < end; ++element) visit(element, 1, arg);
    return;
  }
  for (int64_t left = tn_tensor_size(t); left > 0; --left) {
    visit(element, size, arg);
    for (int32_t i = t->ndim - 1; i >= 0; --i) {
      element += t->strides[i] * (int64_t)size;
      if (++at[i] < t->shape[i]) break;
      element -= at[i] * t->strides[i] * (int64_t)size;
      at[i] = 0;
    }
  }
}

static void tn_test_put(void *element, size_t size, void *arg) {
  const char **from = (const char **)arg;
  memcpy(element, *from, size);
  *from += size;
}

static void tn_test_pick(void *element, size_t size, void *arg) {
  char **to = (char **)arg;
  memcpy(*to, element, size);
  *to += size;
}

/* Writes elements, dense and row-major, into a CPU array. */
static void tn_test_scatter(tn_array *array, const void *bytes) {
  const char *from = (const char *)bytes;
  tn_test_each_element(tn_array_tensor(array), tn_test_put, &from);
}

static size_t tn_test_bytes(const tn_array *array) {
  return (size_t)tn_tensor_bytes(tn_array_tensor(array));
}

/* Copies the elements out, from any device. The caller frees *out. */
static tn_code tn_test_gather(tn_array *array, void **out) {
  const tn_tensor *tensor = tn_array_tensor(array);
  const size_t n = tn_test_bytes(array);
  tn_code rc = tn_array_wait(array);
  *out = NULL;
  if (rc != TN_OK) return rc;
  char *to = (char *)malloc(n + 1);
  if (to == NULL) return TN_OUT_OF_MEMORY;
  *out = to;
  if (tensor->device_type != TN_DEVICE_CPU || tensor->data == NULL)
    return tn_array_get(array, to, n);
  tn_test_each_element(tensor, tn_test_pick, &to);
  return TN_OK;
}

/* -------------------------------------------------------------------- notes */

/* An operand before a call. */
typedef struct tn_test_note {
  tn_array *array;
  const char *list; /* "input", "state" ... */
  const char *name;
  bool is_written; /* its elements may change, but nothing around them */
  void *elements;  /* of one that is only read */
  const tn_test_region *region;
  char *around; /* a copy of the region's pages */
} tn_test_note;

enum { TN_TEST_NOTES = 320 };

typedef struct tn_test_notes {
  size_t n;
  bool is_blind; /* to arrays of other devices: reading them takes long */
  tn_test_note v[TN_TEST_NOTES];
} tn_test_notes;

static void tn_test_drop_notes(tn_test_notes *notes) {
  for (size_t i = 0; i < notes->n; ++i) {
    free(notes->v[i].elements);
    free(notes->v[i].around);
  }
  notes->n = 0;
}

/* Remembers an operand; NULL arrays are passed over. `about` has list, name and
 * is_written. */
static tn_code tn_test_note_array(tn_test_notes *notes, tn_array *array,
                                  const tn_test_note *about) {
  if (array == NULL || notes->n == TN_TEST_NOTES) return TN_OK;
  if (notes->is_blind && tn_array_tensor(array)->device_type != TN_DEVICE_CPU)
    return TN_OK;
  tn_test_note *note = &notes->v[notes->n];
  tn_test_region *region = tn_test_region_of(array);
  *note = *about;
  note->array = array;
  note->region = region;
  if (region != NULL) {
    region->name = about->name;
    note->around = (char *)malloc(region->bytes);
    if (note->around == NULL) return TN_OUT_OF_MEMORY;
    memcpy(note->around, region->pages, region->bytes);
  }
  ++notes->n;
  return note->is_written || region != NULL
             ? TN_OK
             : tn_test_gather(array, &note->elements);
}

/* Copies the elements of an output into the copy of its pages, so that the rest
 * can be compared. */
static void tn_test_allow_element(void *element, size_t size, void *arg) {
  const tn_test_note *note = (const tn_test_note *)arg;
  memcpy(note->around + ((char *)element - note->region->pages), element, size);
}

/* Says where the first changed byte of the pages is. */
static void tn_test_describe_change(const tn_test_note *note, char *out,
                                    size_t size) {
  const tn_test_region *r = note->region;
  size_t i = 0;
  while (note->around[i] == r->pages[i]) ++i;
  const char *at = r->pages + i;
  if (at < r->first)
    (void)snprintf(out, size, "%zu bytes before the first element of `%s`",
                   (size_t)(r->first - at), note->name);
  else if (at >= r->first + r->n)
    (void)snprintf(out, size, "%zu bytes after the last element of `%s`",
                   (size_t)(at - r->first - (ptrdiff_t)r->n) + 1, note->name);
  else if (note->is_written)
    (void)snprintf(out, size, "between the elements of `%s`", note->name);
  else
    (void)snprintf(out, size, "to %s `%s`", note->list, note->name);
}

static bool tn_test_check_note(tn_test_note *note, char *out, size_t size) {
  if (note->region != NULL) {
    const tn_test_region *r = note->region;
    char where[256];
    if (note->is_written)
      tn_test_each_element(tn_array_tensor(note->array), tn_test_allow_element,
                           note);
    if (memcmp(note->around, r->pages, r->bytes) == 0) return true;
    tn_test_describe_change(note, where, sizeof where);
    (void)snprintf(out, size, "the kernel wrote %s%s", where,
                   note->is_written ? "" : ", which it may only read");
    return false;
  }
  void *now = NULL;
  if (note->is_written || note->elements == NULL) return true;
  const bool same =
      tn_test_gather(note->array, &now) == TN_OK &&
      memcmp(now, note->elements, tn_test_bytes(note->array)) == 0;
  free(now);
  if (!same)
    (void)snprintf(out, size,
                   "the kernel wrote to %s `%s`, which it may only "
                   "read",
                   note->list, note->name);
  return same;
}

/* Compares every operand with its note; the first difference goes to `out`.
 * True if there is none. */
static bool tn_test_check_notes(tn_test_notes *notes, char *out, size_t size) {
  bool same = true;
  for (size_t i = 0; i < notes->n && same; ++i)
    same = tn_test_check_note(&notes->v[i], out, size);
  return same;
}

#endif /* TENON_TEST_GUARD_H_ */
