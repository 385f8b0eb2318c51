/* SPDX-License-Identifier: Apache-2.0
 * codec.c: the parts of codec.h that the formats share: the choice of a format,
 * limits, messages, and conversions of channels.
 */
#include "codec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int32_t image_fail(image_scratch *scratch, int32_t code, const char *format,
                   ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(scratch->why, sizeof scratch->why, format, args);
  va_end(args);
  return code;
}

int32_t image_check_size(image_scratch *scratch, const image_file *file,
                         const image_head *head) {
  if (head->width < 1 || head->height < 1)
    return image_fail(scratch, TN_INVALID, "the image has no pixels");
  if (head->width <= file->max_pixels / head->height) return TN_OK;
  return image_fail(scratch, TN_OUT_OF_RANGE,
                    "the image has %lld x %lld pixels, but `max_pixels` is "
                    "%lld; raise it if the file is trusted",
                    (long long)head->width, (long long)head->height,
                    (long long)file->max_pixels);
}

/* ---------------------------------------------------------------- channels */

static uint8_t mix_grey(const uint8_t *p) {
  return (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >>
                   16);
}

/* Writes red, green, blue and opacity of one pixel. */
static void expand_pixel(const uint8_t *p, int32_t from, uint8_t out[4]) {
  out[3] = 255;
  if (from <= 2) {
    out[0] = out[1] = out[2] = p[0];
    if (from == 2) out[3] = p[1];
  } else if (from == IMAGE_CMYK) {
    for (int c = 0; c < 3; ++c) {
      const uint32_t x = (255u - p[c]) * p[3] + 128;
      out[c] = (uint8_t)(p[3] - ((x + (x >> 8)) >> 8));
    }
  } else {
    memcpy(out, p, 3);
    if (from == 4) out[3] = p[3];
  }
}

static void reduce_pixel(const uint8_t p[4], uint8_t *out, int32_t to) {
  if (to >= 3) {
    memcpy(out, p, (size_t)to);
    return;
  }
  out[0] = mix_grey(p);
  if (to == 2) out[1] = p[3];
}

void image_convert_row(const uint8_t *row, int32_t from, int64_t n,
                       uint8_t *out, int32_t to) {
  const int32_t step = from == IMAGE_CMYK ? 4 : from;
  if (from == to) {
    memcpy(out, row, (size_t)(n * to));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint8_t whole[4];
    expand_pixel(row + i * step, from, whole);
    reduce_pixel(whole, out + i * to, to);
  }
}

/* ------------------------------------------------------------------ formats */

int32_t image_open_file(const image_instance *self, image_scratch *scratch,
                        const image_file *file, image_head *head) {
  static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};
  static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (file->size >= 8 && memcmp(file->bytes, png, sizeof png) == 0) {
    if (self->png) return image_start_png(self->png, scratch, file, head);
    return image_fail(scratch, TN_UNSUPPORTED, "it is a PNG, and %s",
                      self->no_png);
  }
  if (file->size >= 3 && memcmp(file->bytes, jpeg, sizeof jpeg) == 0) {
    if (self->jpeg) return image_start_jpeg(self->jpeg, scratch, file, head);
    return image_fail(scratch, TN_UNSUPPORTED, "it is a JPEG, and %s",
                      self->no_jpeg);
  }
  if (file->size == 0) return image_fail(scratch, TN_INVALID, "it is empty");
  return image_fail(scratch, TN_INVALID,
                    "it is neither a JPEG nor a PNG: its %lld bytes begin with "
                    "0x%02x",
                    (long long)file->size, file->bytes[0]);
}

int32_t image_read_part(image_scratch *scratch, const image_head *head,
                        const image_part *part, uint8_t *to, int64_t stride) {
  return head->is_jpeg ? image_read_jpeg(scratch, part, to, stride)
                       : image_read_png(scratch, part, to, stride);
}

void image_close_file(image_scratch *scratch, const image_head *head) {
  if (head->is_jpeg)
    image_stop_jpeg(scratch);
  else
    image_stop_png(scratch);
}
