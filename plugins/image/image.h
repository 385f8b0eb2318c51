/* SPDX-License-Identifier: Apache-2.0
 * image.h: the plugin in one runtime: libraries that it has opened, and scratch
 * memory that slices of calls borrow, so that no call allocates for each image.
 */
#ifndef IMAGE_IMAGE_H_
#define IMAGE_IMAGE_H_

#include <pthread.h>
#include <stdbool.h>

#include "tenon/plugin/op.h"

/* Memory that grows. */
typedef struct image_room {
  void *at;
  size_t bytes;
} image_room;

/* Makes room for count * size bytes; the old content is lost. Returns NULL
 * without memory, or if the product overflows. */
void *image_reserve(image_room *room, int64_t count, int64_t size);

typedef struct image_jpeg image_jpeg; /* jpeg.c */
typedef struct image_png image_png;   /* png.c */

enum { IMAGE_WHY = 256 }; /* bytes of the description of a failure */

/* Memory and decoders that one slice of a call uses at a time. */
typedef struct image_scratch {
  struct image_scratch *next;
  image_jpeg *jpeg;
  image_png *png;
  image_room pixels; /* a decoded part */
  image_room middle; /* between two passes of a resampling */
  image_room sums;   /* of a row */
  image_room taps[2];
  image_room result;
  char why[IMAGE_WHY];
} image_scratch;

typedef struct image_instance {
  struct image_jpeg_library *jpeg; /* NULL: there is none */
  struct image_png_library *png;
  char no_jpeg[IMAGE_WHY], no_png[IMAGE_WHY]; /* reasons */
  pthread_mutex_t lock;
  image_scratch *free;
} image_instance;

/* Borrows a scratch; image_return_scratch gives it back. NULL without memory.
 * [worker] */
image_scratch *image_borrow_scratch(image_instance *self);
void image_return_scratch(image_instance *self, image_scratch *scratch);

#endif /* IMAGE_IMAGE_H_ */
