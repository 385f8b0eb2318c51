/* SPDX-License-Identifier: Apache-2.0
 * codec.h: reads JPEG and PNG files in memory, or a part of their pixels. A
 * failure leaves its reason in the scratch; no error of a library leaves these
 * functions in another way.
 */
#ifndef IMAGE_CODEC_H_
#define IMAGE_CODEC_H_

#include "image.h"

/* A file in memory. */
typedef struct image_file {
  const uint8_t *bytes;
  int64_t size;
  int64_t max_pixels; /* a larger image is refused */
} image_file;

/* The head of a file. */
typedef struct image_head {
  bool is_jpeg;
  int64_t height, width;
  int32_t channels; /* 1: grey, 2: with opacity, 3: colours, 4: with opacity */
} image_head;

/* The pixels that a caller wants: a rectangle of the image, or of the image
 * that is `reduce` times smaller. */
typedef struct image_part {
  int64_t top, left, height, width;
  int32_t channels;
  int32_t reduce; /* 1; of a JPEG also 2, 4 or 8 */
} image_part;

/* Opens a file and reads its head. After success the caller ends with
 * image_read_part or image_close_file. [worker] */
int32_t image_open_file(const image_instance *self, image_scratch *scratch,
                        const image_file *file, image_head *head);

/* Writes the rows of a part of the opened file, `stride` bytes apart, and
 * closes it. The part is inside of the image. [worker] */
int32_t image_read_part(image_scratch *scratch, const image_head *head,
                        const image_part *part, uint8_t *to, int64_t stride);
void image_close_file(image_scratch *scratch, const image_head *head);

/* ----------------------------------------------------------------- formats */

/* Open a library; NULL with the reason. [load] */
struct image_jpeg_library *image_open_jpeg(char why[IMAGE_WHY]);
struct image_png_library *image_open_png(char why[IMAGE_WHY]);
void image_close_jpeg(struct image_jpeg_library *library);
void image_close_png(struct image_png_library *library);
void image_destroy_jpeg(image_jpeg *jpeg); /* of a scratch, or NULL */
void image_destroy_png(image_png *png);

/* The functions above for one format. */
int32_t image_start_jpeg(const struct image_jpeg_library *library,
                         image_scratch *scratch, const image_file *file,
                         image_head *head);
int32_t image_read_jpeg(image_scratch *scratch, const image_part *part,
                        uint8_t *to, int64_t stride);
void image_stop_jpeg(image_scratch *scratch);
int32_t image_start_png(const struct image_png_library *library,
                        image_scratch *scratch, const image_file *file,
                        image_head *head);
int32_t image_read_png(image_scratch *scratch, const image_part *part,
                       uint8_t *to, int64_t stride);
void image_stop_png(image_scratch *scratch);

/* Stores the reason of a failure; returns `code`. */
int32_t image_fail(image_scratch *scratch, int32_t code, const char *format,
                   ...) TN_PRINTF(3, 4);

/* Refuses an image of 0 or too many pixels. */
int32_t image_check_size(image_scratch *scratch, const image_file *file,
                         const image_head *head);

/* Converts n pixels of `from` channels to `to` channels. `from` is 1 to 4, or
 * IMAGE_CMYK for inverted cyan, magenta, yellow and black. */
enum { IMAGE_CMYK = 5 };
void image_convert_row(const uint8_t *row, int32_t from, int64_t n,
                       uint8_t *out, int32_t to);

#endif /* IMAGE_CODEC_H_ */
