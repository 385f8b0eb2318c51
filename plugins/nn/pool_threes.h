/* SPDX-License-Identifier: Apache-2.0
 * pool_threes.h: the gradient of the largest of 3 x 3 windows that are two
 * apart and at most one element outside, of floats, for AVX-512. Included by
 * pool_lines.c only.
 *
 * A line of windows has the columns 2*o - 1, 2*o and 2*o + 1, if those of a
 * line are counted from one more than they are where nothing is padded. These
 * are three vectors for 16 windows, which are compared with what was largest in
 * registers; what they get goes back the same way. A line of windows shares its
 * last line of data with the next one, which finishes it.
 */
#define IN_REGISTERS \
  static inline __attribute__((always_inline)) TN_KERNEL_AVX512

enum { THREES = 3, PATCH = 16, PATCH_COLUMNS = 2 * PATCH };

typedef struct threes {
  const nn_pool_image *image;
  int64_t shift;   /* columns that are in front of column 0 of windows */
  int64_t columns; /* others */
  int64_t patches;
  int past;       /* whether whole lines of the cache go past it as they are */
  float *nothing; /* a line of NaN, which nothing is equal to */
  float *shared;  /* what the last lines of windows got so far */
} threes;

/* A line of windows, or of none, and its lines of data. */
typedef struct threes_line {
  int64_t windows;
  const float *out;
  const float *head;
  const float *from[THREES];
  float *to[2]; /* NULL: there is no such line */
} threes_line;

/* The elements of 16 windows on a line, or what they get. */
typedef struct threes_part {
  __m512 left;
  __m512 middle;
  __m512 right;
} threes_part;

/* The first n of as many bits as there are. */
static inline uint32_t threes_bits(int64_t n) {
  if (n <= 0) return 0;
  return n < 32 ? (1u << n) - 1 : ~0u;
}

/* Elements of a line for its next 16 windows; `before` are the odd ones for the
 * 16 before. */
IN_REGISTERS threes_part threes_load(const float *from, uint32_t bits,
                                     __m512 *before) {
  const __m512 nothing = _mm512_set1_ps(NAN);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                         22, 24, 26, 28, 30);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512 a = _mm512_mask_loadu_ps(nothing, (__mmask16)bits, from);
  const __m512 b =
      _mm512_mask_loadu_ps(nothing, (__mmask16)(bits >> 16), from + PATCH);
  const __m512 right =
      _mm512_permutex2var_ps(a, _mm512_add_epi32(even, one), b);
  const threes_part part = {
      .left = _mm512_castsi512_ps(_mm512_alignr_epi32(
          _mm512_castps_si512(right), _mm512_castps_si512(*before), 15)),
      .middle = _mm512_permutex2var_ps(a, even, b),
      .right = right};
  *before = right;
  return part;
}

/* What elements get of `head`, of which nothing is left for the next ones. */
IN_REGISTERS __m512 threes_claim(__m512 x, __m512 largest, __m512i *head) {
  const __mmask16 hit = _mm512_cmp_ps_mask(x, largest, _CMP_EQ_OQ);
  const __m512i gets = _mm512_maskz_mov_epi32(hit, *head);
  *head = _mm512_xor_si512(*head, gets);
  return _mm512_castsi512_ps(gets);
}

IN_REGISTERS threes_part threes_claims(const threes_part *x, __m512 largest,
                                       __m512i *head) {
  threes_part gets;
  gets.left = threes_claim(x->left, largest, head);
  gets.middle = threes_claim(x->middle, largest, head);
  gets.right = threes_claim(x->right, largest, head);
  return gets;
}

/* Columns of 16 windows, the left ones of the next 16 being known. */
IN_REGISTERS void threes_store(const threes *t, float *to,
                               const threes_part *part, __m512 left,
                               uint32_t bits) {
  const __m512i low =
      _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i eight = _mm512_set1_epi32(8);
  const __m512 odd =
      _mm512_castsi512_ps(_mm512_alignr_epi32(
          _mm512_castps_si512(left), _mm512_castps_si512(part->left), 1)) +
      part->right;
  const __m512 a = _mm512_permutex2var_ps(part->middle, low, odd);
  const __m512 b =
      _mm512_permutex2var_ps(part->middle, _mm512_add_epi32(low, eight), odd);
  if (t->past) {
    if ((bits & 1) != 0) _mm512_stream_ps(to, a);
    if ((bits >> PATCH) != 0) _mm512_stream_ps(to + PATCH, b);
  } else if (bits == ~0u) {
    _mm512_storeu_ps(to, a);
    _mm512_storeu_ps(to + PATCH, b);
  } else {
    _mm512_mask_storeu_ps(to, (__mmask16)bits, a);
    _mm512_mask_storeu_ps(to + PATCH, (__mmask16)(bits >> 16), b);
  }
}

/* Adds what the line before gave to the first line of windows, and leaves what
 * this one gives to its last. */
IN_REGISTERS void threes_share(float *shared, threes_part *first,
                               const threes_part *last) {
  first->left += _mm512_loadu_ps(shared);
  first->middle += _mm512_loadu_ps(shared + PATCH);
  first->right += _mm512_loadu_ps(shared + 2 * PATCH);
  _mm512_storeu_ps(shared, last->left);
  _mm512_storeu_ps(shared + PATCH, last->middle);
  _mm512_storeu_ps(shared + 2 * PATCH, last->right);
}

/* Returns whether there is NaN, which is equal to nothing. */
static TN_KERNEL_AVX512 int threes_windows(const threes *t,
                                           const threes_line *l) {
  const __m512 none = _mm512_setzero_ps(), nothing = _mm512_set1_ps(NAN);
  threes_part done[2] = {{none, none, none}, {none, none, none}};
  __m512 before[THREES];
  uint32_t bits = 0, nan = 0;
  for (int k = 0; k < THREES; ++k)
    before[k] = t->shift > 0 ? _mm512_set1_ps(l->from[k][0]) : nothing;
  for (int64_t p = 0; p < t->patches; ++p) {
    const int64_t at = t->shift + p * PATCH_COLUMNS;
    const __mmask16 windows = (__mmask16)threes_bits(l->windows - p * PATCH);
    __m512i head = _mm512_maskz_loadu_epi32(windows, l->head + p * PATCH);
    const __m512 largest =
        _mm512_mask_loadu_ps(nothing, windows, l->out + p * PATCH);
    const uint32_t own = threes_bits(t->columns - p * PATCH_COLUMNS);
    nan |= _mm512_mask_cmp_ps_mask(windows, largest, largest, _CMP_UNORD_Q);
    threes_part gets[THREES];
    for (int k = 0; k < THREES; ++k) {
      gets[k] = threes_load(l->from[k] + at, own, &before[k]);
      gets[k] = threes_claims(&gets[k], largest, &head);
    }
    threes_share(t->shared + p * THREES * PATCH, &gets[0], &gets[2]);
    for (int k = 0; k < 2; ++k) {
      if (l->to[k] && p > 0)
        threes_store(t, l->to[k] + at - PATCH_COLUMNS, &done[k], gets[k].left,
                     bits);
      else if (l->to[k] && t->shift > 0)
        l->to[k][0] = _mm512_cvtss_f32(gets[k].left);
      done[k] = gets[k];
    }
    bits = own;
  }
  for (int k = 0; k < 2; ++k)
    if (l->to[k])
      threes_store(t, l->to[k] + t->shift + (t->patches - 1) * PATCH_COLUMNS,
                   &done[k], none, bits);
  return nan != 0;
}

/* Whether windows are such ones. */
static inline int threes_can(const nn_pool_image *image) {
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  if (image->level != TN_KERNEL_N_LEVELS - 1 || image->dtype != TN_F32 ||
      p->kind != NN_POOL_MAX || image->add)
    return 0;
  if (w->kernel[0] != 1 || w->stride[0] != 1 || w->pad[0] != 0) return 0;
  for (int d = 1; d < NN_WINDOW_RANK; ++d)
    if (w->kernel[d] != THREES || w->stride[d] != 2 || w->pad[d] > 1) return 0;
  return 1;
}

/* Where a patch's columns are counted from, and how many there are. */
static inline int64_t threes_patches(const nn_window *w) {
  const int64_t columns = w->in[2] - (1 - w->pad[2]);
  return (nn_most((columns + 1) / 2, w->out[2]) + PATCH - 1) / PATCH;
}

static inline int64_t threes_scratch(const nn_window *w) {
  return w->in[2] + threes_patches(w) * THREES * PATCH;
}

/* One plane of an image; returns whether there is NaN. */
static int threes_plane(const threes *t, const float *data, int64_t plane,
                        nn_writer *writer) {
  const nn_window *w = &t->image->pool->window;
  const int64_t n = w->in[2], at = plane * w->out[1] * w->out[2];
  const float *out = (const float *)t->image->out + at;
  const float *head = (const float *)t->image->head + at;
  memset(t->shared, 0,
         (size_t)(t->patches * THREES * PATCH) * sizeof *t->shared);
  int64_t line = -w->pad[1];
  int nan = 0;
  for (int64_t o = 0; line < w->in[1]; ++o, line += 2) {
    const int some = o < w->out[1];
    threes_line l = {.windows = some ? w->out[2] : 0,
                     .out = out + (some ? o * w->out[2] : 0),
                     .head = head + (some ? o * w->out[2] : 0)};
    float *to = nn_writer_line(writer);
    int64_t lines = 0;
    for (int64_t k = 0; k < THREES; ++k) {
      const int there = line + k >= 0 && line + k < w->in[1];
      l.from[k] = there ? data + (line + k) * n : t->nothing;
      if (there && k < 2) l.to[k] = to + lines++ * n;
    }
    expect_f32(data + (line + AHEAD) * n, 2 * n);
    expect_f32(l.out + w->out[1] * w->out[2], w->out[2]);
    expect_f32(l.head + w->out[1] * w->out[2], w->out[2]);
    nan |= threes_windows(t, &l);
    nn_writer_next(writer, lines * n * (int64_t)sizeof *to);
  }
  return nan;
}

/* The gradient of an image that threes_can take; returns 0 if there is NaN, and
 * what was written is of no use. */
static int threes_backward(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const uintptr_t at =
      (uintptr_t)image->to | (uintptr_t)w->in[2] * sizeof(float);
  threes t = {.image = image,
              .shift = 1 - w->pad[2],
              .columns = w->in[2] - (1 - w->pad[2]),
              .patches = threes_patches(w),
              .past = image->room && w->pad[2] == 1 && at % NN_WRITER_LINE == 0,
              .nothing = image->scratch};
  nn_writer writer =
      nn_writer_open(image->to, t.past ? NULL : image->room, image->level);
  int nan = 0;
  t.shared = t.nothing + w->in[2];
  for (int64_t i = 0; i < w->in[2]; ++i) t.nothing[i] = NAN;
  for (int64_t plane = 0; plane < w->in[0]; ++plane)
    nan |= threes_plane(
        &t, (const float *)image->data + plane * w->in[1] * w->in[2], plane,
        &writer);
  nn_writer_close(&writer);
  if (t.past) _mm_sfence();
  return !nan;
}
