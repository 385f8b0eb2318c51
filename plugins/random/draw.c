/* SPDX-License-Identifier: Apache-2.0
 * draw.c: draw.h on the CPU. It cuts a call into parts. For each part it
 * fetches random words, a loop turns them into elements, and the part is
 * stored.
 */
#include "draw_loops.h"

/* Elements of a part: each uses at most two words, and a block has four. */
enum { PART = 1024 };

/* One call. */
typedef struct drawing {
  const tn_frame *call;
  const draw_params *params;
  tn_kernel_mode mode; /* output type of the loop */
  tn_kernel_body *loop;
  int64_t words; /* for an element */
} drawing;

/* Loops that make f32, and f64 or i64. */
typedef struct loops {
  tn_kernel_bodies single, twice;
} loops;

#define BOTH(name) \
  { TN_KERNEL_BODIES(name##_f32), TN_KERNEL_BODIES(name##_f64) }
static const loops ways[] = {
    [DRAW_UNIFORM] = BOTH(draw_uniform),
    [DRAW_NORMAL] = BOTH(draw_normal),
    [DRAW_EXPONENTIAL] = BOTH(draw_exponential),
    [DRAW_BERNOULLI] = BOTH(draw_bernoulli),
    [DRAW_RANDINT] = {TN_KERNEL_BODIES(draw_randint),
                      TN_KERNEL_BODIES(draw_randint)},
};

/* Draws part `index`: n elements from PART*index on. */
static void draw_part(const drawing *d, int64_t index, int64_t n) {
  TN_KERNEL_LINED uint32_t word[2 * PART];
  TN_KERNEL_LINED char room[(PART + 1) * sizeof(double)];
  const tn_tensor *out = &d->call->out[0];
  const int64_t first = index * PART;
  char *to = (char *)out->data + first * tn_dtype_bytes(out->dtype);
  const int direct = out->dtype == d->mode.compute && n % 2 == 0;
  const tn_kernel_block block = {n, direct ? to : room, {word}};
  tn_philox_words(word, d->call->run->random[0],
                  (uint64_t)(first * d->words / 4), (n * d->words + 3) / 4,
                  d->mode.level);
  d->loop(&block, d->params);
  if (!direct) tn_kernel_store_dense(to, out->dtype, room, &d->mode, n);
}

static int32_t draw_slice(void *arg, int64_t begin, int64_t end) {
  const drawing *d = (const drawing *)arg;
  const int64_t size = tn_tensor_size(&d->call->out[0]);
  for (int64_t i = begin; i < end; ++i)
    draw_part(d, i, size - i * PART < PART ? size - i * PART : PART);
  return TN_OK;
}

/* Output type of the loop. Integers that f32 cannot hold pass through f64. */
static tn_dtype made_of(draw_kind kind, tn_dtype dtype) {
  const tn_dtype own = tn_kernel_compute(dtype);
  if (kind == DRAW_RANDINT) return TN_I64;
  return own == TN_F64 || own == TN_I64 ? TN_F64 : TN_F32;
}

int32_t draw(const tn_frame *call, draw_kind kind, const draw_params *params) {
  const tn_tensor *out = &call->out[0];
  const int64_t n = (tn_tensor_size(out) + PART - 1) / PART;
  const tn_dtype made = made_of(kind, out->dtype);
  drawing d = {.call = call,
               .params = params,
               .mode = {made, tn_kernel_level(call)},
               .words = made == TN_F32 || kind == DRAW_BERNOULLI ? 1 : 2};
  const loops *way = &ways[kind];
  d.loop = tn_kernel_body_at(made == TN_F32 ? &way->single : &way->twice,
                             d.mode.level);
  if (n == 0) return TN_OK;
  return call->host->parallel_for(call, n, TN_KERNEL_GRAIN / PART, draw_slice,
                                  &d);
}
