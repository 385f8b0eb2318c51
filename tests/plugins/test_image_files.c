/* SPDX-License-Identifier: Apache-2.0
 * image.decode and image.decode_batch: pixels of Pillow (tests/reference/
 * image.py), damaged and hostile files, random choices, and messages. Cases of
 * a format are left out, with a line, if its library is absent.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct file_case {
  const char *name;
  const unsigned char *bytes;
  int64_t n;
  int channels;
  int64_t shape[3];
  const unsigned char *pixels;
} file_case;

typedef struct batch_case {
  const char *params;
  int64_t channels;
  const unsigned char *pixels; /* of 4 images of 4 x 5 */
} batch_case;

#include "image_files.inc"

enum {
  N_FILES = sizeof file_cases / sizeof *file_cases,
  N_BATCHES = sizeof batch_cases / sizeof *batch_cases,
  N = 4, /* files of a batch */
  PIXELS = 20
};

static const int64_t seeds[N] = {3, 1ll << 40, 77, 900};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(image_files, .init = open_all, .fini = close_all);

/* A vector of bytes or of i64. */
static tn_array *make_array(tn_dtype dtype, int64_t n, const void *data) {
  double *v = calloc((size_t)n + 1, sizeof *v);
  for (int64_t i = 0; i < n; ++i)
    v[i] = dtype == TN_U8 ? (double)((const unsigned char *)data)[i]
                          : (double)((const int64_t *)data)[i];
  tn_array *array = host_many(rt, dtype, 1, &n, v);
  free(v);
  return array;
}

/* ------------------------------------------------------------------ decode */

static tn_code decode(const void *bytes, int64_t n, const char *text,
                      tn_array **out) {
  tn_operator *op = host_operator(rt, "image.decode");
  tn_params *params = host_params(op, text);
  tn_array *in = make_array(TN_U8, n, bytes);
  *out = NULL;
  const tn_code code = tn_call(rt, op, TN_IN(in), params, TN_OUT(out));
  tn_array_release(in);
  tn_params_release(params);
  return code;
}

/* Whether the library for a file is absent; then it prints so. */
static bool lacks_library(const char *name, const void *bytes, int64_t n) {
  tn_array *out = NULL;
  const tn_code code = decode(bytes, n, "", &out);
  tn_array_release(out);
  if (code != TN_UNSUPPORTED) return false;
  printf("# left out: %s: %s\n", name, tn_error_text());
  return true;
}

Test(image_files, pixels_are_those_of_pillow) {
  for (int i = 0; i < N_FILES; ++i) {
    const file_case *c = &file_cases[i];
    char text[32];
    tn_array *out = NULL;
    if (lacks_library(c->name, c->bytes, c->n)) continue;
    (void)snprintf(text, sizeof text, "channels=%d", c->channels);
    OK(decode(c->bytes, c->n, text, &out));
    const host_shape want = {3, {c->shape[0], c->shape[1], c->shape[2]}};
    host_expect_shape(out, &want, c->name, text);
    double *v = host_many_values(out);
    for (int64_t k = 0; k < tn_array_size(out); ++k)
      cr_assert_eq(v[k], c->pixels[k], "%s %s: element %lld is %g, not %d",
                   c->name, text, (long long)k, v[k], c->pixels[k]);
    free(v);
    tn_array_release(out);
  }
}

static void expect_refusal(const void *bytes, int64_t n, const char *text,
                           tn_code code, const char *part) {
  tn_array *out = NULL;
  FAILS(decode(bytes, n, text, &out), code, part);
}

Test(image_files, other_bytes_are_refused_with_a_reason) {
  expect_refusal("", 0, "", TN_INVALID, "it is empty");
  expect_refusal("GIF89a", 6, "", TN_INVALID,
                 "neither a JPEG nor a PNG: its 6 bytes begin with 0x47");
  expect_refusal("\xff\xd8", 2, "", TN_INVALID, "neither a JPEG nor a PNG");
}

/* Every prefix is an error or a whole image, never a crash. */
static void check_prefixes(const char *name, const unsigned char *bytes,
                           int64_t n, int64_t spare) {
  if (lacks_library(name, bytes, n)) return;
  for (int64_t i = 1; i < n; ++i) {
    tn_array *out = NULL;
    const tn_code code = decode(bytes, i, "", &out);
    cr_assert(code == TN_INVALID || (code == TN_OK && i >= n - spare),
              "%s: %lld of %lld bytes: %d", name, (long long)i, (long long)n,
              code);
    tn_array_release(out);
  }
}

Test(image_files, truncated_files_are_refused) {
  check_prefixes("420", file_420, sizeof file_420, 2);
  check_prefixes("progressive", file_progressive, sizeof file_progressive, 0);
  check_prefixes("rgb", file_rgb, sizeof file_rgb, 0);
  check_prefixes("interlaced", file_interlaced, sizeof file_interlaced, 0);
  if (lacks_library("420", file_420, sizeof file_420)) return;
  expect_refusal(file_420, sizeof file_420 - 20, "", TN_INVALID,
                 "`bytes` cannot be decoded: the file ends too early: it is "
                 "truncated");
}

/* Changes bytes of a file; each result is an image or an error. */
static void damage(const char *name, const unsigned char *bytes, size_t n) {
  unsigned char copy[2048];
  uint32_t random = 1;
  cr_assert(n <= sizeof copy);
  if (lacks_library(name, bytes, (int64_t)n)) return;
  for (int i = 0; i < 400; ++i) {
    tn_array *out = NULL;
    memcpy(copy, bytes, n);
    for (int k = 0; k <= i % 4; ++k) {
      random = random * 1664525 + 1013904223;
      copy[(random >> 8) % n] = (unsigned char)(random >> 24);
    }
    const tn_code code = decode(copy, (int64_t)n, "max_pixels=100000", &out);
    cr_assert(code == TN_OK || code == TN_INVALID || code == TN_OUT_OF_RANGE ||
                  code == TN_UNSUPPORTED,
              "%s, change %d: %d %s", name, i, code, tn_error_text());
    tn_array_release(out);
  }
}

Test(image_files, damaged_files_do_no_harm) {
  damage("420", file_420, sizeof file_420);
  damage("progressive", file_progressive, sizeof file_progressive);
  damage("cmyk", file_cmyk, sizeof file_cmyk);
  damage("palette", file_palette, sizeof file_palette);
  damage("interlaced", file_interlaced, sizeof file_interlaced);
}

/* Finds the two bytes of a frame header and writes another size. */
static void write_jpeg_size(unsigned char *bytes, size_t n, int height,
                            int width) {
  for (size_t i = 0; i + 8 < n; ++i) {
    if (bytes[i] != 0xff || (bytes[i + 1] != 0xc0 && bytes[i + 1] != 0xc2))
      continue;
    bytes[i + 5] = (unsigned char)(height >> 8);
    bytes[i + 6] = (unsigned char)height;
    bytes[i + 7] = (unsigned char)(width >> 8);
    bytes[i + 8] = (unsigned char)width;
    return;
  }
  cr_assert_fail("the file has no frame");
}

Test(image_files, absurd_sizes_are_refused_before_memory_is_allocated) {
  unsigned char copy[sizeof file_420];
  memcpy(copy, file_420, sizeof copy);
  write_jpeg_size(copy, sizeof copy, 65500, 65500);
  if (!lacks_library("420", file_420, sizeof file_420)) {
    expect_refusal(copy, sizeof copy, "", TN_OUT_OF_RANGE,
                   "the image has 65500 x 65500 pixels, but `max_pixels` is "
                   "67108864");
    expect_refusal(file_420, sizeof file_420, "max_pixels=98", TN_OUT_OF_RANGE,
                   "the image has 9 x 11 pixels, but `max_pixels` is 98");
  }
  if (!lacks_library("rgb", file_rgb, sizeof file_rgb))
    expect_refusal(file_rgb, sizeof file_rgb, "max_pixels=29", TN_OUT_OF_RANGE,
                   "the image has 6 x 5 pixels, but `max_pixels` is 29");
}

/* ------------------------------------------------------------------- batch */

typedef struct batch {
  unsigned char bytes[8192];
  int64_t offsets[N + 1];
} batch;

static batch join_files(void) {
  static const struct {
    const unsigned char *bytes;
    size_t n;
  } files[N] = {{batch_0, sizeof batch_0},
                {batch_1, sizeof batch_1},
                {batch_2, sizeof batch_2},
                {batch_3, sizeof batch_3}};
  batch b = {.offsets = {0}};
  for (int i = 0; i < N; ++i) {
    const int64_t end = b.offsets[i] + (int64_t)files[i].n;
    cr_assert(end <= (int64_t)sizeof b.bytes);
    memcpy(b.bytes + b.offsets[i], files[i].bytes, files[i].n);
    b.offsets[i + 1] = end;
  }
  return b;
}

static bool lacks_a_library(void) {
  return lacks_library("420", file_420, sizeof file_420) ||
         lacks_library("rgb", file_rgb, sizeof file_rgb);
}

/* Files [first, end) of a batch. */
static tn_code decode_some(const batch *b, int first, int end, const char *text,
                           bool is_seeded, tn_array **out) {
  tn_operator *op = host_operator(rt, "image.decode_batch");
  tn_params *params = host_params(op, text);
  tn_array *in[3] = {make_array(TN_U8, b->offsets[N], b->bytes),
                     make_array(TN_I64, end - first + 1, b->offsets + first),
                     NULL};
  if (is_seeded) in[2] = make_array(TN_I64, end - first, seeds + first);
  *out = NULL;
  const tn_code code =
      tn_call(rt, op, &(tn_inputs){3, in}, params, TN_OUT(out));
  for (int i = 0; i < 3; ++i) tn_array_release(in[i]);
  tn_params_release(params);
  return code;
}

Test(image_files, batches_are_those_of_pillow) {
  const batch b = join_files();
  if (lacks_a_library()) return;
  for (int i = 0; i < N_BATCHES; ++i) {
    const batch_case *c = &batch_cases[i];
    char text[200];
    tn_array *out = NULL;
    (void)snprintf(
        text, sizeof text, "%s%s", c->params,
        c->channels == 3 || strstr(c->params, "channels") ? "" : " channels=1");
    OK(decode_some(&b, 0, N, text, true, &out));
    const host_shape want = {4, {N, 4, 5, c->channels}};
    host_expect_shape(out, &want, "image.decode_batch", text);
    double *v = host_many_values(out);
    for (int64_t k = 0; k < N * PIXELS * c->channels; ++k)
      cr_assert_eq(v[k], c->pixels[k], "%s: element %lld is %g, not %d", text,
                   (long long)k, v[k], c->pixels[k]);
    free(v);
    tn_array_release(out);
  }
}

Test(image_files, planes_of_floats_are_the_same_pixels) {
  const batch b = join_files();
  tn_array *bytes = NULL, *planes = NULL;
  if (lacks_a_library()) return;
  OK(decode_some(&b, 0, N, "height=4 width=5", false, &bytes));
  OK(decode_some(&b, 0, N,
                 "height=4 width=5 layout=chw dtype=f32 mean=[0.5,0.25,0] "
                 "std=[0.5,0.125,2]",
                 false, &planes));
  double *u = host_many_values(bytes), *f = host_many_values(planes);
  const double mean[] = {0.5, 0.25, 0}, std[] = {0.5, 0.125, 2};
  for (int i = 0; i < N; ++i)
    for (int c = 0; c < 3; ++c)
      for (int k = 0; k < PIXELS; ++k)
        cr_assert_float_eq(
            f[(i * 3 + c) * PIXELS + k],
            (u[(i * PIXELS + k) * 3 + c] / 255 - mean[c]) / std[c], 1e-6);
  free(u), free(f);
  tn_array_release(bytes), tn_array_release(planes);
}

/* A seed alone decides: not the place in the batch, and not the workers. */
Test(image_files, seeds_decide_random_choices) {
  static const char text[] = "height=4 width=5 mode=random mirror=0.5";
  const batch b = join_files();
  tn_array *all = NULL, *some = NULL;
  if (lacks_a_library()) return;
  OK(decode_some(&b, 0, N, text, true, &all));
  OK(decode_some(&b, 2, N, text, true, &some));
  double *u = host_many_values(all), *v = host_many_values(some);
  for (int i = 0; i < 2 * PIXELS * 3; ++i)
    cr_assert_eq(v[i], u[2 * PIXELS * 3 + i]);
  free(u), free(v);
  tn_array_release(all), tn_array_release(some);
}

Test(image_files, the_stream_gives_other_choices_in_each_call) {
  static const char text[] = "height=4 width=5 mode=random";
  const batch b = join_files();
  double *v[3];
  if (lacks_a_library()) return;
  for (int i = 0; i < 3; ++i) {
    tn_array *out = NULL;
    if (i == 2) { /* a new runtime begins at the same place */
      tn_runtime_release(rt);
      OK(tn_runtime_create(
          &(tn_options){.struct_size = sizeof(tn_options), .workers = 3}, &rt));
      OK(tn_plugin_load(rt, PLUGIN_FILE));
    }
    OK(decode_some(&b, 0, N, text, false, &out));
    v[i] = host_many_values(out);
    tn_array_release(out);
  }
  cr_assert_neq(memcmp(v[0], v[1], N * PIXELS * 3 * sizeof(double)), 0);
  cr_assert_eq(memcmp(v[0], v[2], N * PIXELS * 3 * sizeof(double)), 0);
  for (int i = 0; i < 3; ++i) free(v[i]);
}

/* A loader prefetches batches while other calls draw numbers, and a resumed one
 * decodes some of them again. */
Test(image_files, seeds_leave_the_stream_to_other_calls) {
  const char *text = "height=4 width=5 mode=random mirror=0.5";
  const batch b = join_files();
  tn_random_state before, seeded, drawn;
  tn_array *out = NULL;
  if (lacks_a_library()) return;
  OK(tn_random_get(rt, &before));
  OK(decode_some(&b, 0, N, text, true, &out));
  OK(tn_random_get(rt, &seeded));
  cr_assert_eq(seeded.drawn, before.drawn);
  tn_array_release(out);
  OK(decode_some(&b, 0, N, text, false, &out));
  OK(tn_random_get(rt, &drawn));
  cr_assert_gt(drawn.drawn, seeded.drawn);
  tn_array_release(out);
}

Test(image_files, drafts_are_near) {
  const batch b = join_files();
  tn_array *exact = NULL, *draft = NULL;
  double sum = 0, most = 0;
  if (lacks_a_library()) return;
  OK(decode_some(&b, 0, N, "height=8 width=8", false, &exact));
  OK(decode_some(&b, 0, N, "height=8 width=8 draft=true", false, &draft));
  double *u = host_many_values(exact), *v = host_many_values(draft);
  const int64_t n = tn_array_size(exact);
  for (int64_t i = 0; i < n; ++i) {
    sum += fabs(u[i] - v[i]);
    most = fmax(most, fabs(u[i] - v[i]));
  }
  cr_assert(sum > 0, "nothing was decoded at a fraction of its size");
  cr_assert(sum / (double)n < 1 && most < 12, "%g %g", sum / (double)n, most);
  free(u), free(v);
  tn_array_release(exact), tn_array_release(draft);
}

/* The first damaged file is named, for every number of workers. */
Test(image_files, an_error_names_the_file) {
  batch b = join_files();
  tn_array *out = NULL;
  if (lacks_a_library()) return;
  b.bytes[b.offsets[1]] = 0;
  b.bytes[b.offsets[3]] = 0;
  FAILS(decode_some(&b, 0, N, "height=4 width=5", false, &out), TN_INVALID,
        "file 1 of 4 cannot be decoded: it is neither a JPEG nor a PNG");
}

Test(image_files, messages_name_the_rule) {
  batch b = join_files();
  tn_array *out = NULL;
  FAILS(decode_some(&b, 0, N, "height=4 width=5 mean=[1]", false, &out),
        TN_INVALID, "`mean` and `std` need dtype=f32");
  FAILS(decode_some(&b, 0, N, "height=4 width=5 dtype=f32 std=[1,2]", false,
                    &out),
        TN_INVALID, "`std` has 2 numbers, but there are 3 channels");
  FAILS(decode_some(&b, 0, N, "height=4 width=5 ratio=[2,1]", false, &out),
        TN_INVALID, "`ratio` is [2, 1]");
  FAILS(decode_some(&b, 0, N, "height=4 width=5 mode=center short_side=4",
                    false, &out),
        TN_SHAPE, "`short_side` must be 0, or at least `height` and `width`");
  b.offsets[2] = 1;
  FAILS(decode_some(&b, 0, N, "height=4 width=5", false, &out), TN_OUT_OF_RANGE,
        "element 2 of `offsets` is 1; it must be at least");
}
