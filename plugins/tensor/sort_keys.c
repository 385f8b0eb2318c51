/* SPDX-License-Identifier: Apache-2.0
 * sort_keys.c: unsigned numbers in the order of elements. An integer is its
 * own key after its sign bit is flipped. The bits of a positive float grow with
 * it; those of a negative one shrink, so they are inverted. Descending order
 * inverts the keys, so a sort of them is stable in both directions.
 */
#include "sort_words.h"

#define RULE(field) (((const sort_key_rule *)params)->field)

#define WHOLE(name, type, key)                                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const key flip = (key)RULE(flip);                                          \
    const type *x = (const type *)block->in[0];                                \
    key *to = (key *)block->out;                                               \
    for (int64_t i = 0; i < block->n; ++i) to[i] = (key)x[i] ^ flip;           \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
WHOLE(key_8, uint8_t, uint32_t)
WHOLE(key_16, uint16_t, uint32_t)
WHOLE(key_32, uint32_t, uint32_t)
WHOLE(key_64, uint64_t, uint64_t)

static inline uint32_t half_bits(uint16_t half) {
  return half;
}

/* `top` is the sign bit of the type. */
#define FLOATING(name, type, key, bits_of, top)                                \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const key flip = (key)RULE(flip), infinity = (key)RULE(infinity);          \
    const key all = (key)((top) | ((top)-1));                                  \
    const type *x = (const type *)block->in[0];                                \
    key *to = (key *)block->out;                                               \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const key bits = bits_of(x[i]), magnitude = bits & ((top)-1);            \
      key k = bits & (top) ? bits ^ all : bits | (top);                        \
      k = magnitude == 0 ? (top) : k;                                          \
      k = magnitude > infinity ? all : k;                                      \
      to[i] = k ^ flip;                                                        \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
FLOATING(key_half, uint16_t, uint32_t, half_bits, 0x8000u)
FLOATING(key_f32, float, uint32_t, tn_kernel_f32_bits, 0x80000000u)
FLOATING(key_f64, double, uint64_t, tn_kernel_f64_bits, 0x8000000000000000u)

/* Body and infinity of a float type, or NULL. */
static const tn_kernel_bodies *find_float(tn_dtype dtype, uint64_t *infinity) {
  static const tn_kernel_bodies half = TN_KERNEL_BODIES(key_half),
                                single = TN_KERNEL_BODIES(key_f32),
                                wide = TN_KERNEL_BODIES(key_f64);
  switch (dtype) {
    case TN_F16:
      *infinity = 0x7c00;
      return &half;
    case TN_BF16:
      *infinity = 0x7f80;
      return &half;
    case TN_F32:
      *infinity = 0x7f800000;
      return &single;
    case TN_F64:
      *infinity = 0x7ff0000000000000;
      return &wide;
    default:
      *infinity = 0;
      return NULL;
  }
}

void sort_keys_init(sort_keys *keys, const tn_frame *call, tn_dtype dtype,
                    int descending) {
  static const tn_kernel_bodies whole[] = {
      TN_KERNEL_BODIES(key_8), TN_KERNEL_BODIES(key_16),
      TN_KERNEL_BODIES(key_32), TN_KERNEL_BODIES(key_64)};
  const int64_t bytes = tn_dtype_bytes(dtype);
  const uint64_t top = (uint64_t)1 << (bytes * 8 - 1), all = top | (top - 1);
  const tn_kernel_bodies *bodies = find_float(dtype, &keys->rule.infinity);
  const int is_signed =
      dtype == TN_I8 || dtype == TN_I16 || dtype == TN_I32 || dtype == TN_I64;
  if (!bodies)
    bodies = &whole[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
  keys->body = tn_kernel_body_at(bodies, tn_kernel_level(call));
  keys->rule.flip = (is_signed ? top : 0) ^ (descending ? all : 0);
  keys->bits = (int32_t)bytes * 8;
  keys->bytes = bytes;
}

/* ----------------------------------------------------------------- elements */

#define PACK(type)                                                          \
  do {                                                                      \
    const type *from = (const type *)(const void *)line->at;                \
    type *to = (type *)stage;                                               \
    for (int64_t i = 0; i < n; ++i) to[i] = from[(begin + i) * line->step]; \
  } while (0)

/* Copies elements of a line to adjacent ones. */
static void pack_elements(const sort_line *line, int64_t bytes, int64_t begin,
                          int64_t n, void *stage) {
  if (bytes == 1) PACK(uint8_t);
  if (bytes == 2) PACK(uint16_t);
  if (bytes == 4) PACK(uint32_t);
  if (bytes == 8) PACK(uint64_t);
}

static void convert_keys(const sort_keys *keys, const void *from, int64_t n,
                         sort_some_keys *to) {
  void *out = keys->bits == 64 ? (void *)to->wide : to->narrow;
  const tn_kernel_block block = {n, out, {from}};
  keys->body(&block, &keys->rule);
}

void sort_keys_read(const sort_keys *keys, const sort_line *line, int64_t begin,
                    int64_t n, sort_some_keys *to) {
  uint64_t stage[SORT_KEYS];
  if (line->step == 1) {
    convert_keys(keys, line->at + begin * keys->bytes, n, to);
    return;
  }
  pack_elements(line, keys->bytes, begin, n, stage);
  convert_keys(keys, stage, n, to);
}

void sort_keys_gather(const sort_keys *keys, const sort_line *line,
                      const uint64_t *words, int64_t n, sort_some_keys *to) {
  const int64_t distance = line->step * keys->bytes;
  uint64_t stage[SORT_KEYS];
  for (int64_t i = 0; i < n; ++i)
    memcpy(&stage[i], line->at + (int64_t)(uint32_t)words[i] * distance,
           sizeof *stage);
  convert_keys(keys, stage, n, to);
}
