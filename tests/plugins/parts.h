/* SPDX-License-Identifier: Apache-2.0
 * parts.h: arrays of f64 with their expected values. A block is memory with one
 * number of scalar_tape.h per element. A part is an array in it, with an offset
 * and strides that are computed here, not read from the library.
 */
#ifndef TENON_TESTS_PLUGINS_PARTS_H_
#define TENON_TESTS_PLUGINS_PARTS_H_

#include "scalar_tape.h"
#include "tenon/tenon.h"

enum { MOST_DIMS = 4 };

typedef struct block {
  number *cells;
  int64_t n;
  int id;
  bool failed; /* it carries the error of a call */
  bool dirty;  /* a tape's gradients of it may be those of something older */
} block;

typedef struct part {
  tn_array *array;
  block *block; /* NULL: only a shape so far */
  int64_t offset;
  int32_t ndim;
  int64_t shape[MOST_DIMS];
  int64_t strides[MOST_DIMS];
} part;

/* A runtime, and the trials' arrays in it. It has only the plugins in the files
 * that PARTS_FILES lists, separated by colons. The arrays are on the device
 * PARTS_PLACE, "cuda(0)", or on the cpu. */
tn_runtime *parts_open(uint32_t engine, uint32_t workers);
bool parts_on_cpu(void);

/* ------------------------------------------------------------------ shapes */

part part_shaped(int32_t ndim, const int64_t *shape);
int64_t part_size(const part *p);
bool part_alike(const part *a, const part *b); /* in shape */
bool part_same(const part *a, const part *b);  /* the same view */
bool part_repeats(const part *p);
bool part_whole(const part *p); /* every cell of the block, once */
/* The cells that its elements are, in order. */
const int64_t *part_cells(const part *p);
const char *part_text(const part *p);

/* ------------------------------------------------------------------ values */

/* Room for the elements of a part. */
number *part_room(const part *p);
number *part_read(const part *p);
void part_write(const part *p, const number *values);
/* Constants that are drawn. */
number *part_draw(const part *p);
/* Writes them to the array, and nowhere else. */
tn_code part_set(const part *p, const number *values);
/* Fails the test unless the array has the expected values, or the expected
 * error. With PARTS_LATE in the environment only live_check looks. */
void part_check(const part *p, const char *what);

/* ------------------------------------------------------------------- live
 * arrays */

/* The arrays of a trial, which owns them. */
extern part live[];
extern size_t n_live;

/* A new array that was just made, of this shape; its cells are no numbers. */
part live_adopt(const part *shape, tn_array *array);
/* A new one with values that are drawn. */
part live_new(int32_t ndim, const int64_t *shape);
part live_pick(void);
bool live_has(const tn_array *array);
/* Releases one of them, if there are enough. */
void live_drop(void);
/* A view of one of them; if the library may and does refuse it, nothing. */
void live_view(void);
void live_check(void);
void live_clear(void);

#endif /* TENON_TESTS_PLUGINS_PARTS_H_ */
