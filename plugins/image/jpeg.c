/* SPDX-License-Identifier: Apache-2.0
 * jpeg.c: JPEG files by libjpeg-turbo, which is opened at run time. Its errors
 * return to the function that began the call (longjmp), and never further.
 */
#include <stdio.h> /* before jpeglib.h */
#include <stdlib.h>
#include <string.h>

#include "codec.h"

#if defined(IMAGE_HAS_JPEG)

#include <dlfcn.h>
#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>

/* The layout of libjpeg's structs belongs to its soname. */
#if JPEG_LIB_VERSION >= 80
static const char soname[] = "libjpeg.so.8";
#else
static const char soname[] = "libjpeg.so.62";
#endif

struct image_jpeg_library {
  void *handle;
  struct jpeg_error_mgr *(*std_error)(struct jpeg_error_mgr *);
  void (*create)(j_decompress_ptr, int, size_t);
  void (*destroy)(j_decompress_ptr);
  int (*read_header)(j_decompress_ptr, boolean);
  boolean (*start)(j_decompress_ptr);
  JDIMENSION (*read_lines)(j_decompress_ptr, JSAMPARRAY, JDIMENSION);
  boolean (*finish)(j_decompress_ptr);
  void (*reset)(j_decompress_ptr);
  boolean (*resync)(j_decompress_ptr, int);
  JDIMENSION (*skip_lines)(j_decompress_ptr, JDIMENSION);
  void (*crop_lines)(j_decompress_ptr, JDIMENSION *, JDIMENSION *);
};

/* A decoder. libjpeg leads back to it by client_data. */
struct image_jpeg {
  const struct image_jpeg_library *library;
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  image_room row;
  jmp_buf escape;
  image_scratch *scratch; /* gets the reason of a failure */
};

/* ----------------------------------------------------------------- library */

struct image_jpeg_library *image_open_jpeg(char why[IMAGE_WHY]) {
  struct image_jpeg_library *l = calloc(1, sizeof *l);
  if (!l) {
    (void)snprintf(why, IMAGE_WHY, "there is no memory for libjpeg");
    return NULL;
  }
  const struct {
    const char *symbol;
    void *function;
  } all[] = {{"jpeg_std_error", &l->std_error},
             {"jpeg_CreateDecompress", &l->create},
             {"jpeg_destroy_decompress", &l->destroy},
             {"jpeg_read_header", &l->read_header},
             {"jpeg_start_decompress", &l->start},
             {"jpeg_read_scanlines", &l->read_lines},
             {"jpeg_finish_decompress", &l->finish},
             {"jpeg_abort_decompress", &l->reset},
             {"jpeg_resync_to_restart", &l->resync},
             {"jpeg_skip_scanlines", &l->skip_lines},
             {"jpeg_crop_scanline", &l->crop_lines}};
  l->handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (!l->handle) {
    (void)snprintf(why, IMAGE_WHY,
                   "libjpeg-turbo cannot be opened (%s); install "
                   "libjpeg62-turbo or libjpeg-turbo8",
                   dlerror());
    free(l);
    return NULL;
  }
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    void *found = dlsym(l->handle, all[i].symbol);
    memcpy(all[i].function, &found, sizeof found);
    if (found) continue;
    (void)snprintf(why, IMAGE_WHY,
                   "%s has no %s; install libjpeg-turbo 1.5 or newer", soname,
                   all[i].symbol);
    image_close_jpeg(l);
    return NULL;
  }
  return l;
}

void image_close_jpeg(struct image_jpeg_library *library) {
  if (!library) return;
  (void)dlclose(library->handle);
  free(library);
}

/* --------------------------------------------------------------- callbacks */

/* A file with more scans than this takes long without need. */
enum { MOST_SCANS = 500 };

_Noreturn static void escape_with(image_jpeg *jpeg, const char *why) {
  (void)image_fail(jpeg->scratch, TN_INVALID, "%s", why);
  longjmp(jpeg->escape, 1);
}

static void handle_error(j_common_ptr info) {
  image_jpeg *jpeg = (image_jpeg *)info->client_data;
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  escape_with(jpeg, text);
}

/* Damage ends the call; other oddities and traces are ignored. */
static void handle_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level >= 0) return;
  if (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC ||
      code == JWRN_BOGUS_PROGRESSION)
    handle_error(info);
}

static void ignore_message(j_common_ptr info) {
  (void)info;
}

static void begin_source(j_decompress_ptr info) {
  (void)info;
}

/* All bytes are in memory, so there are no more. A file that lacks only its end
 * marker gets one. */
static boolean fill_source(j_decompress_ptr info) {
  static const JOCTET end[] = {0xff, JPEG_EOI};
  if (info->output_height == 0 || info->output_scanline < info->output_height)
    escape_with((image_jpeg *)info->client_data,
                "the file ends too early: it is truncated");
  info->src->next_input_byte = end;
  info->src->bytes_in_buffer = sizeof end;
  return TRUE;
}

static void skip_source(j_decompress_ptr info, long n) {
  if (n <= 0) return;
  if ((size_t)n > info->src->bytes_in_buffer)
    escape_with((image_jpeg *)info->client_data,
                "the file ends too early: it is truncated");
  info->src->next_input_byte += n;
  info->src->bytes_in_buffer -= (size_t)n;
}

static void watch_progress(j_common_ptr info) {
  if (((j_decompress_ptr)info)->input_scan_number > MOST_SCANS)
    escape_with((image_jpeg *)info->client_data,
                "the file has more than 500 scans");
}

/* ---------------------------------------------------------------- decoding */

void image_destroy_jpeg(image_jpeg *jpeg) {
  if (!jpeg) return;
  jpeg->library->destroy(&jpeg->info);
  free(jpeg->row.at);
  free(jpeg);
}

/* Returns the decoder of a scratch, and creates it at first; NULL after a
 * failure. */
static image_jpeg *find_decoder(const struct image_jpeg_library *library,
                                image_scratch *scratch) {
  image_jpeg *jpeg = scratch->jpeg;
  if (jpeg) return jpeg;
  jpeg = calloc(1, sizeof *jpeg);
  if (!jpeg) {
    (void)image_fail(scratch, TN_OUT_OF_MEMORY, "there is no memory");
    return NULL;
  }
  jpeg->library = library;
  jpeg->scratch = scratch;
  jpeg->info.err = library->std_error(&jpeg->errors);
  jpeg->errors.error_exit = handle_error;
  jpeg->errors.emit_message = handle_message;
  jpeg->errors.output_message = ignore_message;
  jpeg->info.client_data = jpeg;
  if (setjmp(jpeg->escape)) {
    free(jpeg);
    return NULL;
  }
  library->create(&jpeg->info, JPEG_LIB_VERSION, sizeof jpeg->info);
  jpeg->source.init_source = begin_source;
  jpeg->source.fill_input_buffer = fill_source;
  jpeg->source.skip_input_data = skip_source;
  jpeg->source.resync_to_restart = library->resync;
  jpeg->source.term_source = begin_source;
  jpeg->progress.progress_monitor = watch_progress;
  scratch->jpeg = jpeg;
  return jpeg;
}

static int32_t check_components(image_scratch *scratch, int n) {
  if (n == 1 || n == 3 || n == 4) return TN_OK;
  return image_fail(scratch, TN_UNSUPPORTED,
                    "the JPEG has %d components, but 1, 3 and 4 are known", n);
}

int32_t image_start_jpeg(const struct image_jpeg_library *library,
                         image_scratch *scratch, const image_file *file,
                         image_head *head) {
  image_jpeg *jpeg = find_decoder(library, scratch);
  if (!jpeg) return TN_OUT_OF_MEMORY;
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (setjmp(jpeg->escape)) {
    library->reset(info);
    return TN_INVALID;
  }
  info->src = &jpeg->source;
  info->progress = &jpeg->progress;
  info->output_height = 0; /* both are still those of the file before */
  info->output_scanline = 0;
  jpeg->source.next_input_byte = file->bytes;
  jpeg->source.bytes_in_buffer = (size_t)file->size;
  (void)library->read_header(info, TRUE);
  *head = (image_head){.is_jpeg = true,
                       .height = (int64_t)info->image_height,
                       .width = (int64_t)info->image_width,
                       .channels = info->num_components == 1 ? 1 : 3};
  int32_t code = check_components(scratch, info->num_components);
  if (code == TN_OK) code = image_check_size(scratch, file, head);
  if (code != TN_OK) library->reset(info);
  return code;
}

/* Chooses the form in which libjpeg delivers pixels. Returns their kind, as
 * image_convert_row names it. */
static int32_t choose_form(struct jpeg_decompress_struct *info,
                           const image_part *part) {
  info->scale_num = 1;
  info->scale_denom = (unsigned)part->reduce;
  info->dct_method = JDCT_ISLOW;
  info->do_fancy_upsampling = TRUE;
  if (info->num_components == 4) {
    info->out_color_space = JCS_CMYK;
    return IMAGE_CMYK;
  }
  if (part->channels <= 2) {
    info->out_color_space = JCS_GRAYSCALE;
    return 1;
  }
  info->out_color_space = JCS_RGB;
  return 3;
}

/* Leaves out columns beside the part. Chroma near a cut would differ, so a
 * block more remains at each side. Returns the first column of a row. */
static int64_t crop_columns(image_jpeg *jpeg, const image_part *part) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  const int64_t all = (int64_t)info->output_width;
  const int64_t margin = 2 * DCTSIZE * (int64_t)info->max_h_samp_factor;
  const int64_t left = part->left > margin ? part->left - margin : 0;
  const int64_t end = part->left + part->width + margin;
  JDIMENSION first = (JDIMENSION)left;
  JDIMENSION n = (JDIMENSION)((end < all ? end : all) - left);
  if (part->width + 2 * margin >= all) return 0;
  jpeg->library->crop_lines(info, &first, &n);
  return (int64_t)first;
}

/* Skips the rows before the part, but for some, for the same reason. */
static int64_t skip_rows(image_jpeg *jpeg, const image_part *part) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  const int64_t margin = 2 * DCTSIZE * (int64_t)info->max_v_samp_factor;
  if (part->top <= margin) return 0;
  return (int64_t)jpeg->library->skip_lines(info,
                                            (JDIMENSION)(part->top - margin));
}

/* One row of libjpeg. */
typedef struct row_form {
  int32_t kind;
  int32_t bytes; /* of a pixel */
  int64_t first; /* column */
} row_form;

/* Reads the rows of the part. The rows before it go to the row of the decoder,
 * and all rows if they need a conversion. */
static void read_rows(image_jpeg *jpeg, const image_part *part,
                      const row_form *form, uint8_t *to, int64_t stride) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  uint8_t *row = (uint8_t *)jpeg->row.at;
  const bool is_direct = form->kind == part->channels && form->first == 0 &&
                         part->width == (int64_t)info->output_width;
  while ((int64_t)info->output_scanline < part->top)
    (void)jpeg->library->read_lines(info, &row, 1);
  for (int64_t i = 0; i < part->height;) {
    uint8_t *lines[16];
    int64_t n = is_direct && part->height - i > 1 ? part->height - i : 1;
    if (n > 16) n = 16;
    for (int64_t k = 0; k < n; ++k) lines[k] = to + (i + k) * stride;
    if (!is_direct) lines[0] = row;
    n = (int64_t)jpeg->library->read_lines(info, lines, (JDIMENSION)n);
    if (n == 0) escape_with(jpeg, "libjpeg returned no row");
    if (!is_direct)
      image_convert_row(row + (part->left - form->first) * form->bytes,
                        form->kind, part->width, to + i * stride,
                        part->channels);
    i += n;
  }
}

int32_t image_read_jpeg(image_scratch *scratch, const image_part *part,
                        uint8_t *to, int64_t stride) {
  image_jpeg *jpeg = scratch->jpeg;
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (setjmp(jpeg->escape)) {
    jpeg->library->reset(info);
    return TN_INVALID;
  }
  row_form form = {.kind = choose_form(info, part)};
  (void)jpeg->library->start(info);
  if (!image_reserve(&jpeg->row, (int64_t)info->output_width + 64, 4)) {
    jpeg->library->reset(info);
    return image_fail(scratch, TN_OUT_OF_MEMORY, "there is no memory");
  }
  form.bytes = info->output_components;
  form.first = crop_columns(jpeg, part);
  (void)skip_rows(jpeg, part);
  read_rows(jpeg, part, &form, to, stride);
  if (info->output_scanline < info->output_height)
    jpeg->library->reset(info);
  else
    (void)jpeg->library->finish(info);
  return TN_OK;
}

void image_stop_jpeg(image_scratch *scratch) {
  image_jpeg *jpeg = scratch->jpeg;
  if (setjmp(jpeg->escape)) return;
  jpeg->library->reset(&jpeg->info);
}

#else /* the headers of libjpeg-turbo were absent */

struct image_jpeg_library *image_open_jpeg(char why[IMAGE_WHY]) {
  (void)snprintf(why, IMAGE_WHY,
                 "this plugin was built without jpeglib.h; install "
                 "libjpeg-dev and build it again");
  return NULL;
}

void image_close_jpeg(struct image_jpeg_library *library) {
  (void)library;
}

void image_destroy_jpeg(image_jpeg *jpeg) {
  (void)jpeg;
}

int32_t image_start_jpeg(const struct image_jpeg_library *library,
                         image_scratch *scratch, const image_file *file,
                         image_head *head) {
  (void)library, (void)file, (void)head;
  return image_fail(scratch, TN_UNSUPPORTED, "it is a JPEG");
}

int32_t image_read_jpeg(image_scratch *scratch, const image_part *part,
                        uint8_t *to, int64_t stride) {
  (void)part, (void)to, (void)stride;
  return image_fail(scratch, TN_UNSUPPORTED, "it is a JPEG");
}

void image_stop_jpeg(image_scratch *scratch) {
  (void)scratch;
}

#endif
