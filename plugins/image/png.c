/* SPDX-License-Identifier: Apache-2.0
 * png.c: PNG files by libpng, which is opened at run time. Its errors return to
 * the function that began the call (longjmp), and never further.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"

#if defined(IMAGE_HAS_PNG)

#include <dlfcn.h>
#include <png.h>
#include <setjmp.h>

static const char soname[] = "libpng16.so.16";

struct image_png_library {
  void *handle;
  png_structp (*create)(png_const_charp, png_voidp, png_error_ptr,
                        png_error_ptr);
  png_infop (*create_info)(png_const_structrp);
  void (*destroy)(png_structpp, png_infopp, png_infopp);
  void (*set_read)(png_structrp, png_voidp, png_rw_ptr);
  void (*set_most)(png_structrp, png_alloc_size_t);
  void (*read_info)(png_structrp, png_inforp);
  png_uint_32 (*get_head)(png_const_structrp, png_const_inforp, png_uint_32 *,
                          png_uint_32 *, int *, int *, int *, int *, int *);
  png_uint_32 (*get_valid)(png_const_structrp, png_const_inforp, png_uint_32);
  void (*set_expand)(png_structrp);
  void (*set_scale_16)(png_structrp);
  int (*set_interlace)(png_structrp);
  void (*update_info)(png_structrp, png_inforp);
  void (*read_row)(png_structrp, png_bytep, png_bytep);
  void (*read_end)(png_structrp, png_inforp);
};

/* A decoder. */
struct image_png {
  const struct image_png_library *library;
  png_structp png; /* of the opened file */
  png_infop info;
  image_file rest; /* bytes that were not read */
  int64_t height, width;
  int32_t channels;
  image_room rows; /* one, or all of an interlaced image */
  jmp_buf escape;
  image_scratch *scratch; /* gets the reason of a failure */
};

/* ----------------------------------------------------------------- library */

static bool find_functions(struct image_png_library *l, char why[IMAGE_WHY]) {
  const struct {
    const char *symbol;
    void *function;
  } all[] = {{"png_create_read_struct", &l->create},
             {"png_create_info_struct", &l->create_info},
             {"png_destroy_read_struct", &l->destroy},
             {"png_set_read_fn", &l->set_read},
             {"png_set_chunk_malloc_max", &l->set_most},
             {"png_read_info", &l->read_info},
             {"png_get_IHDR", &l->get_head},
             {"png_get_valid", &l->get_valid},
             {"png_set_expand", &l->set_expand},
             {"png_set_scale_16", &l->set_scale_16},
             {"png_set_interlace_handling", &l->set_interlace},
             {"png_read_update_info", &l->update_info},
             {"png_read_row", &l->read_row},
             {"png_read_end", &l->read_end}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    void *found = dlsym(l->handle, all[i].symbol);
    memcpy(all[i].function, &found, sizeof found);
    if (found) continue;
    (void)snprintf(why, IMAGE_WHY, "%s has no %s; install libpng 1.6", soname,
                   all[i].symbol);
    return false;
  }
  return true;
}

struct image_png_library *image_open_png(char why[IMAGE_WHY]) {
  struct image_png_library *l = calloc(1, sizeof *l);
  if (!l) {
    (void)snprintf(why, IMAGE_WHY, "there is no memory for libpng");
    return NULL;
  }
  l->handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (!l->handle) {
    (void)snprintf(why, IMAGE_WHY,
                   "libpng cannot be opened (%s); install libpng16-16",
                   dlerror());
    free(l);
    return NULL;
  }
  if (find_functions(l, why)) return l;
  image_close_png(l);
  return NULL;
}

void image_close_png(struct image_png_library *library) {
  if (!library) return;
  (void)dlclose(library->handle);
  free(library);
}

/* --------------------------------------------------------------- callbacks */

/* Most bytes of one chunk that is not pixels. */
enum { MOST_CHUNK = 8 << 20 };

/* Bytes of rows that a decoder keeps for the next file. */
enum { MOST_ROWS = 1 << 20 };

/* The decoder that this thread uses: libpng's own pointer to it needs another
 * function of the library. */
static _Thread_local image_png *current;

_Noreturn static void escape_with(image_png *own, const char *why) {
  (void)image_fail(own->scratch, TN_INVALID, "%s", why);
  longjmp(own->escape, 1);
}

static void handle_error(png_structp png, png_const_charp text) {
  (void)png;
  escape_with(current, text);
}

/* Warnings are about parts that are not pixels. */
static void ignore_warning(png_structp png, png_const_charp text) {
  (void)png, (void)text;
}

static void read_bytes(png_structp png, png_bytep to, size_t n) {
  image_file *rest = &current->rest;
  (void)png;
  if (n > (size_t)rest->size)
    escape_with(current, "the file ends too early: it is truncated");
  memcpy(to, rest->bytes, n);
  rest->bytes += n;
  rest->size -= (int64_t)n;
}

/* ---------------------------------------------------------------- decoding */

void image_destroy_png(image_png *png) {
  if (!png) return;
  free(png->rows.at);
  free(png);
}

/* Runs a step of a decoder. False if libpng reported an error; then the scratch
 * has the reason. */
static bool run_step(image_png *own, void (*step)(image_png *own, void *arg),
                     void *arg) {
  current = own;
  if (setjmp(own->escape)) return false;
  step(own, arg);
  return true;
}

static void destroy_file(image_png *own, void *arg) {
  (void)arg;
  own->library->destroy(&own->png, &own->info, NULL);
}

void image_stop_png(image_scratch *scratch) {
  image_png *own = scratch->png;
  if (own->png) (void)run_step(own, destroy_file, NULL);
  own->png = NULL;
  own->info = NULL;
  if (own->rows.bytes <= MOST_ROWS) return;
  free(own->rows.at);
  own->rows = (image_room){NULL, 0};
}

/* Opens the file, and reads its head. */
static void read_head(image_png *own, void *arg) {
  const struct image_png_library *l = own->library;
  png_uint_32 width = 0, height = 0;
  int depth, kind;
  (void)arg;
  own->png =
      l->create(PNG_LIBPNG_VER_STRING, own, handle_error, ignore_warning);
  own->info = own->png ? l->create_info(own->png) : NULL;
  if (!own->info) escape_with(own, "libpng has no memory, or is another one");
  l->set_read(own->png, NULL, read_bytes);
  l->set_most(own->png, MOST_CHUNK);
  l->read_info(own->png, own->info);
  (void)l->get_head(own->png, own->info, &width, &height, &depth, &kind, NULL,
                    NULL, NULL);
  own->width = (int64_t)width;
  own->height = (int64_t)height;
  own->channels = kind & PNG_COLOR_MASK_COLOR ? 3 : 1;
  if ((kind & PNG_COLOR_MASK_ALPHA) ||
      l->get_valid(own->png, own->info, PNG_INFO_tRNS))
    ++own->channels;
}

/* Returns the decoder of a scratch, and creates it at first. */
static image_png *find_decoder(const struct image_png_library *library,
                               image_scratch *scratch) {
  if (!scratch->png) scratch->png = calloc(1, sizeof *scratch->png);
  if (!scratch->png) return NULL;
  scratch->png->library = library;
  scratch->png->scratch = scratch;
  return scratch->png;
}

int32_t image_start_png(const struct image_png_library *library,
                        image_scratch *scratch, const image_file *file,
                        image_head *head) {
  image_png *own = find_decoder(library, scratch);
  if (!own) return image_fail(scratch, TN_OUT_OF_MEMORY, "there is no memory");
  own->rest = *file;
  if (!run_step(own, read_head, NULL)) {
    image_stop_png(scratch);
    return TN_INVALID;
  }
  *head = (image_head){
      .height = own->height, .width = own->width, .channels = own->channels};
  const int32_t code = image_check_size(scratch, file, head);
  if (code != TN_OK) image_stop_png(scratch);
  return code;
}

/* Where the rows of a part go. */
typedef struct png_target {
  const image_part *part;
  uint8_t *to;
  int64_t stride;
} png_target;

/* Reads the rows of the part. An interlaced image needs all of its rows in
 * memory, because each of its passes fills in more pixels. */
static void read_rows(image_png *own, void *arg) {
  const struct image_png_library *l = own->library;
  const png_target *target = arg;
  const image_part *part = target->part;
  const int64_t bytes = own->width * own->channels;
  const int64_t end = part->top + part->height;
  l->set_expand(own->png);
  l->set_scale_16(own->png);
  const int passes = l->set_interlace(own->png);
  const int64_t step = passes > 1 ? bytes : 0;
  uint8_t *rows =
      image_reserve(&own->rows, passes > 1 ? own->height : 1, bytes);
  if (!rows) escape_with(own, "there is no memory for its rows");
  l->update_info(own->png, own->info);
  for (int pass = 0; pass + 1 < passes; ++pass)
    for (int64_t i = 0; i < own->height; ++i)
      l->read_row(own->png, rows + i * step, NULL);
  for (int64_t i = 0; i < end; ++i) {
    l->read_row(own->png, rows + i * step, NULL);
    if (i < part->top) continue;
    image_convert_row(rows + i * step + part->left * own->channels,
                      own->channels, part->width,
                      target->to + (i - part->top) * target->stride,
                      part->channels);
  }
  if (end == own->height) l->read_end(own->png, NULL);
}

int32_t image_read_png(image_scratch *scratch, const image_part *part,
                       uint8_t *to, int64_t stride) {
  png_target target = {part, to, stride};
  const bool is_read = run_step(scratch->png, read_rows, &target);
  image_stop_png(scratch);
  return is_read ? TN_OK : TN_INVALID;
}

#else /* the headers of libpng were absent */

struct image_png_library *image_open_png(char why[IMAGE_WHY]) {
  (void)snprintf(why, IMAGE_WHY,
                 "this plugin was built without png.h; install libpng-dev and "
                 "build it again");
  return NULL;
}

void image_close_png(struct image_png_library *library) {
  (void)library;
}

void image_destroy_png(image_png *png) {
  (void)png;
}

int32_t image_start_png(const struct image_png_library *library,
                        image_scratch *scratch, const image_file *file,
                        image_head *head) {
  (void)library, (void)file, (void)head;
  return image_fail(scratch, TN_UNSUPPORTED, "it is a PNG");
}

int32_t image_read_png(image_scratch *scratch, const image_part *part,
                       uint8_t *to, int64_t stride) {
  (void)part, (void)to, (void)stride;
  return image_fail(scratch, TN_UNSUPPORTED, "it is a PNG");
}

void image_stop_png(image_scratch *scratch) {
  (void)scratch;
}

#endif
