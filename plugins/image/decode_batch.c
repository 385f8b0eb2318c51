/* SPDX-License-Identifier: Apache-2.0
 * decode_batch.c: image.decode_batch. Each file passes through all steps while
 * it is in the cache of one worker: decoding of the part that is used,
 * resampling, mirroring, and conversion to the layout and type of the result.
 */
#include <stdio.h>
#include <string.h>

#include "codec.h"
#include "decode.gen.h"
#include "dice.h"
#include "resample.h"
#include "view.h"

/* ------------------------------------------------------------------ checks */

static int32_t check_params(const tn_frame *call) {
  const image_decode_batch_params *p = image_decode_batch_params_of(call);
  int32_t code = image_check_list(call, "mean", p->mean.n, p->channels);
  if (code == TN_OK)
    code = image_check_list(call, "std", p->std.n, p->channels);
  if (code == TN_OK) code = image_check_range(call, "area", &p->area);
  if (code == TN_OK) code = image_check_range(call, "ratio", &p->ratio);
  if (code == TN_OK && p->dtype == TN_U8 && p->mean.n + p->std.n > 0)
    code = TN_FAIL(call, TN_INVALID,
                   "`mean` and `std` need dtype=f32; the result is u8");
  return code;
}

int32_t image_decode_batch_infer(const tn_frame *call) {
  const image_decode_batch_params *p = image_decode_batch_params_of(call);
  const tn_tensor *offsets = &call->in[IMAGE_DECODE_BATCH_IN_OFFSETS];
  const bool is_chw = p->layout == IMAGE_DECODE_BATCH_LAYOUT_CHW;
  int64_t shape[] = {-1, p->height, p->width, p->channels};
  const int32_t code = check_params(call);
  if (code != TN_OK) return code;
  if (offsets->ndim == 1 && offsets->shape[0] > 0)
    shape[0] = offsets->shape[0] - 1;
  if (is_chw) {
    shape[1] = p->channels;
    shape[2] = p->height;
    shape[3] = p->width;
  }
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 4, shape);
}

/* ------------------------------------------------------------------- parts */

/* Geometry of one image. The part of the file becomes `rows` x `columns`
 * pixels; the window of the result begins at (top, left) of these. */
typedef struct batch_view {
  image_box box;
  int64_t rows, columns;
  int64_t top, left;
  bool is_mirrored;
} batch_view;

static int64_t round_half_even(int64_t twice) {
  return (int64_t)nearbyint((double)twice / 2);
}

/* The sizes of torchvision's Resize and CenterCrop. */
static void view_center(const image_decode_batch_params *p, batch_view *v) {
  const double h = (double)v->box.height, w = (double)v->box.width;
  if (p->short_side > 0) {
    const double side = (double)p->short_side;
    v->rows = h <= w ? p->short_side : (int64_t)(side * h / w);
    v->columns = h <= w ? (int64_t)(side * w / h) : p->short_side;
  } else if (h * (double)p->width <= w * (double)p->height) {
    v->rows = p->height;
    v->columns = (int64_t)nearbyint((double)p->height * w / h);
  } else {
    v->rows = (int64_t)nearbyint((double)p->width * h / w);
    v->columns = p->width;
  }
  if (v->rows < p->height) v->rows = p->height;
  if (v->columns < p->width) v->columns = p->width;
  v->top = round_half_even(v->rows - p->height);
  v->left = round_half_even(v->columns - p->width);
}

static batch_view choose_view(const image_decode_batch_params *p,
                              const image_head *head, const image_dice *dice) {
  batch_view v = {.box = {0, 0, head->height, head->width},
                  .rows = p->height,
                  .columns = p->width};
  if (p->mirror > 0)
    v.is_mirrored = image_happens(image_roll(dice, 0).word[0], p->mirror);
  if (p->mode == IMAGE_DECODE_BATCH_MODE_CENTER)
    view_center(p, &v);
  else if (p->mode == IMAGE_DECODE_BATCH_MODE_RANDOM)
    v.box = image_draw_box(dice, &(image_box_rule){p->area.v, p->ratio.v, 1},
                           head->height, head->width);
  return v;
}

/* The factor by which a JPEG is decoded smaller. */
static int32_t choose_reduction(const image_decode_batch_params *p,
                                const image_head *head, const batch_view *v) {
  int32_t reduce = 1;
  if (!p->draft || !head->is_jpeg) return 1;
  while (reduce < 8 && v->box.height >= 4 * reduce * v->rows &&
         v->box.width >= 4 * reduce * v->columns)
    reduce *= 2;
  return reduce;
}

/* The pixels of one axis that a window of the result depends on; [begin, end)
 * in pixels of the (reduced) image. */
typedef struct batch_span {
  int64_t begin, end;
} batch_span;

static batch_span reduce_span(int64_t begin, int64_t length, int64_t all,
                              int32_t reduce) {
  const int64_t most = (all + reduce - 1) / reduce;
  batch_span s = {begin / reduce, (begin + length + reduce - 1) / reduce};
  if (s.end > most) s.end = most;
  return s;
}

/* ------------------------------------------------------------------- batch */

/* One call. */
typedef struct batch {
  const tn_frame *call;
  const image_decode_batch_params *p;
  image_instance *self;
  const uint8_t *bytes;
  const int64_t *offsets;
  const int64_t *seeds; /* NULL: the stream of the call */
  int64_t n;
  bool is_direct; /* the result has the bytes of the pixels, in their order */
  uint32_t level;
  pthread_mutex_t lock;
  int64_t failed; /* least number of a file that failed; n: none */
  int32_t code;
  char why[IMAGE_WHY];
} batch;

static image_dice find_dice(const batch *b, int64_t i) {
  if (b->seeds) return (image_dice){(uint64_t)b->seeds[i], 0};
  return image_call_dice(b->call, i);
}

/* Writes pixels as the layout and type of the result demand. */
static void store_pixels(const batch *b, const uint8_t *from, int64_t i) {
  const image_decode_batch_params *p = b->p;
  const int64_t n = p->height * p->width, channels = p->channels;
  const int64_t first = i * n * channels;
  const bool is_chw = p->layout == IMAGE_DECODE_BATCH_LAYOUT_CHW;
  const int64_t step = is_chw ? 1 : channels, plane = is_chw ? n : 1;
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t at = first + c * plane;
    float table[256];
    if (p->dtype == TN_U8) {
      uint8_t *to = (uint8_t *)b->call->out[0].data + at;
      for (int64_t k = 0; k < n; ++k) to[k * step] = from[k * channels + c];
      continue;
    }
    const double mean = image_list_value(&p->mean, c, 0);
    const double std = image_list_value(&p->std, c, 1);
    float *to = (float *)b->call->out[0].data + at;
    for (int x = 0; x < 256; ++x)
      table[x] = (float)((x * p->scale - mean) / std);
    for (int64_t k = 0; k < n; ++k)
      to[k * step] = table[from[k * channels + c]];
  }
}

static image_axis make_axis(const batch *b, int64_t begin, int64_t length,
                            batch_span span, int32_t reduce) {
  const double each = reduce;
  image_axis a = image_whole_axis(span.end - span.begin, 0, b->p->filter,
                                  b->p->antialias != 0);
  a.first = (double)begin / each - (double)span.begin;
  a.last = (double)(begin + length) / each - (double)span.begin;
  return a;
}

/* Reads the part of an opened file, and resamples it to `to`. */
static int32_t read_view(const batch *b, image_scratch *s,
                         const image_head *head, const batch_view *v,
                         uint8_t *to) {
  const image_decode_batch_params *p = b->p;
  const int32_t reduce = choose_reduction(p, head, v);
  const batch_span y =
      reduce_span(v->box.top, v->box.height, head->height, reduce);
  const batch_span x =
      reduce_span(v->box.left, v->box.width, head->width, reduce);
  const image_part part = {.top = y.begin,
                           .left = x.begin,
                           .height = y.end - y.begin,
                           .width = x.end - x.begin,
                           .channels = (int32_t)p->channels,
                           .reduce = reduce};
  const int64_t stride = part.width * p->channels;
  image_axis down = make_axis(b, v->box.top, v->box.height, y, reduce);
  image_axis across = make_axis(b, v->box.left, v->box.width, x, reduce);
  image_resampling r = {.channels = p->channels,
                        .from_stride = stride,
                        .to = to,
                        .to_stride = p->width * p->channels,
                        .level = b->level};
  down.n_all = v->rows, down.begin = v->top, down.n_out = p->height;
  across.n_all = v->columns, across.begin = v->left, across.n_out = p->width;
  across.is_mirrored = v->is_mirrored;
  if (!image_make_taps(&down, true, &s->taps[0], &r.down) ||
      !image_make_taps(&across, true, &s->taps[1], &r.across)) {
    image_close_file(s, head);
    return image_fail(s, TN_OUT_OF_MEMORY, "no memory for weights");
  }
  if (r.down.is_identity && r.across.is_identity)
    return image_read_part(s, head, &part, to, stride);
  uint8_t *pixels = image_reserve(&s->pixels, part.height, stride);
  if (!pixels) {
    image_close_file(s, head);
    return image_fail(s, TN_OUT_OF_MEMORY, "no memory for its pixels");
  }
  const int32_t code = image_read_part(s, head, &part, pixels, stride);
  if (code != TN_OK) return code;
  r.from = pixels;
  return image_resample_u8(&r, 0, p->height, &s->middle)
             ? TN_OK
             : image_fail(s, TN_OUT_OF_MEMORY, "no memory for its rows");
}

static int32_t decode_file(const batch *b, image_scratch *s, int64_t i) {
  const image_decode_batch_params *p = b->p;
  const image_file file = {.bytes = b->bytes + b->offsets[i],
                           .size = b->offsets[i + 1] - b->offsets[i],
                           .max_pixels = p->max_pixels};
  const int64_t size = p->height * p->width * p->channels;
  const image_dice dice = find_dice(b, i);
  image_head head;
  int32_t code = image_open_file(b->self, s, &file, &head);
  if (code != TN_OK) return code;
  const batch_view v = choose_view(p, &head, &dice);
  uint8_t *to = b->is_direct ? (uint8_t *)b->call->out[0].data + i * size
                             : image_reserve(&s->result, size, 1);
  if (!to) {
    image_close_file(s, &head);
    return image_fail(s, TN_OUT_OF_MEMORY, "no memory for the result");
  }
  code = read_view(b, s, &head, &v, to);
  if (code == TN_OK && !b->is_direct) store_pixels(b, to, i);
  return code;
}

/* Keeps the failure of the least number. */
static void note_failure(batch *b, int64_t i, int32_t code, const char *why) {
  (void)pthread_mutex_lock(&b->lock);
  if (i < b->failed) {
    b->failed = i;
    b->code = code;
    (void)snprintf(b->why, sizeof b->why, "%s", why);
  }
  (void)pthread_mutex_unlock(&b->lock);
}

static int32_t decode_files(void *arg, int64_t begin, int64_t end) {
  batch *b = (batch *)arg;
  image_scratch *s = image_borrow_scratch(b->self);
  if (!s) {
    note_failure(b, begin, TN_OUT_OF_MEMORY, "no memory for a decoder");
    return TN_OK;
  }
  for (int64_t i = begin; i < end; ++i) {
    const int32_t code = decode_file(b, s, i);
    if (code != TN_OK) note_failure(b, i, code, s->why);
  }
  image_return_scratch(b->self, s);
  return TN_OK;
}

static int32_t check_offsets(const tn_frame *call, const int64_t *offsets,
                             int64_t n, int64_t size) {
  for (int64_t i = 0; i <= n; ++i)
    if (offsets[i] < (i > 0 ? offsets[i - 1] : 0) || offsets[i] > size)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "element %lld of `offsets` is %lld; it must be at least "
                     "%lld, and at most %lld, the number of bytes",
                     (long long)i, (long long)offsets[i],
                     (long long)(i > 0 ? offsets[i - 1] : 0), (long long)size);
  return TN_OK;
}

/* Whether the caller passes `seeds`. */
static bool has_seeds(const tn_frame *call) {
  return !(call->in_flags[IMAGE_DECODE_BATCH_IN_SEEDS] & TN_IN_ABSENT);
}

int32_t image_decode_batch_has_seeds(const tn_frame *call) {
  if (has_seeds(call)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED, "without `seeds` it needs the stream");
}

int32_t image_decode_batch(const tn_frame *call) {
  const image_decode_batch_params *p = image_decode_batch_params_of(call);
  const tn_tensor *bytes = &call->in[IMAGE_DECODE_BATCH_IN_BYTES];
  const tn_tensor *offsets = &call->in[IMAGE_DECODE_BATCH_IN_OFFSETS];
  const int64_t n = tn_tensor_size(offsets) - 1;
  batch b = {.call = call,
             .p = p,
             .self = (image_instance *)call->instance,
             .bytes = (const uint8_t *)bytes->data,
             .offsets = (const int64_t *)offsets->data,
             .n = n,
             .is_direct = p->dtype == TN_U8 &&
                          (p->layout == IMAGE_DECODE_BATCH_LAYOUT_HWC ||
                           p->channels == 1),
             .level = tn_kernel_level(call),
             .failed = n};
  if (has_seeds(call))
    b.seeds = (const int64_t *)call->in[IMAGE_DECODE_BATCH_IN_SEEDS].data;
  int32_t code = check_offsets(call, b.offsets, n, tn_tensor_size(bytes));
  if (code != TN_OK || n == 0) return code;
  if (pthread_mutex_init(&b.lock, NULL) != 0)
    return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for a lock");
  code = call->host->parallel_for(call, n, 1, decode_files, &b);
  (void)pthread_mutex_destroy(&b.lock);
  if (code == TN_OK && b.failed < n)
    code = TN_FAIL(call, b.code, "file %lld of %lld cannot be decoded: %s",
                   (long long)b.failed, (long long)n, b.why);
  return code;
}
