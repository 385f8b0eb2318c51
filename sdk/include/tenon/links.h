/* SPDX-License-Identifier: Apache-2.0
 * links.h: links of chains (chain.h) made of the bodies of elementwise.h that
 * compute in f32. Part of kernel.h, by elementwise.h.
 *
 *   TN_KERNEL_BODY void sum(...) as in elementwise.h
 *   TN_KERNEL_LEVELS(sum)
 *   TN_KERNEL_LINKS_2(sum)       for a body with two inputs
 *
 *   static const tn_kernel_map map = {
 *       .f32 = TN_KERNEL_BODIES(sum), .n_in = 2, .in = {0, 1},
 *       .links = TN_KERNEL_LINKED_2(sum)};
 *
 * and the flag TN_KERNEL_CHAIN of the kernel; its `prepare` is
 * tn_kernel_map_prepare(). A body that works part by part (TN_KERNEL_PART) must
 * not be used so. Links exist for AVX2 and AVX-512; elsewhere, and at the
 * lowest level, a map has none.
 */
#include "tenon/kernel.h" /* which includes this file: so before the guard */

#ifndef TENON_LINKS_H_
#define TENON_LINKS_H_

/* clang passes vectors in memory unless the whole file is compiled for them: it
 * makes links only with -mavx512f. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && \
    (!defined(__clang__) || defined(__AVX512F__))
#define TN_KERNEL_HAS_LINKS 1

#ifdef __cplusplus
extern "C" {
#endif

typedef float tn_kernel_vector_avx2 __attribute__((vector_size(32)));
typedef float tn_kernel_vector_avx512 __attribute__((vector_size(64)));
/* The same anywhere in memory. */
typedef float tn_kernel_lying_avx2
    __attribute__((vector_size(32), aligned(4), may_alias));
typedef float tn_kernel_lying_avx512
    __attribute__((vector_size(64), aligned(4), may_alias));

/* Eight vectors, as many as the System V ABI passes in registers: with fewer,
 * out-of-order execution would not hide the latency of a chain. X(vector,
 * number, more) for each. */
enum { TN_KERNEL_VECTORS = 8 };
#define TN_KERNEL_EACH(X, more) \
  X(a, 0, more)                 \
  X(b, 1, more)                 \
  X(c, 2, more)                 \
  X(d, 3, more) X(e, 4, more) X(f, 5, more) X(g, 6, more) X(h, 7, more)

/* The parameters of the functions of a level, and the call of the next one. */
#define TN_KERNEL_GO(V)                                                    \
  const tn_chain_link *self, int64_t offset, V a, V b, V c, V d, V e, V f, \
      V g, V h
typedef void tn_kernel_link_avx2(TN_KERNEL_GO(tn_kernel_vector_avx2));
typedef void tn_kernel_link_avx512(TN_KERNEL_GO(tn_kernel_vector_avx512));
#define TN_KERNEL_GO_ON(level)                                               \
  ((tn_kernel_link_##level *)self[1].go)(self + 1, offset, a, b, c, d, e, f, \
                                         g, h)

/* The address of memory number `k` of a link. [any] */
static inline char *tn_kernel_link_at(const tn_chain_link *self, int k,
                                      int64_t offset) {
  return self->memory[k].at + (offset & self->memory[k].moves);
}

/* ----------------------------------------------------------------- the kit */

#define TN_KERNEL_LOAD(v, k, lying) v = lying[k];
#define TN_KERNEL_SAVE(v, k, lying) lying[k] = v;
#define TN_KERNEL_UNUSED(v, k, more) (void)v;
#define TN_KERNEL_MADE(v, k, made) v = made(self, offset, k, v);

#define TN_KERNEL_KIT(LEVEL, level, kind)                                    \
  TN_KERNEL_ONCE LEVEL void tn_kernel_load_##level(                          \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                              \
    const tn_kernel_lying_##level *lying =                                   \
        (const tn_kernel_lying_##level *)tn_kernel_link_at(self, 0, offset); \
    TN_KERNEL_EACH(TN_KERNEL_LOAD, lying) TN_KERNEL_GO_ON(level);            \
  }                                                                          \
                                                                             \
  TN_KERNEL_ONCE LEVEL void tn_kernel_save_##level(                          \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                              \
    tn_kernel_lying_##level *lying =                                         \
        (tn_kernel_lying_##level *)tn_kernel_link_at(self, 0, offset);       \
    TN_KERNEL_EACH(TN_KERNEL_SAVE, lying) TN_KERNEL_GO_ON(level);            \
  }                                                                          \
                                                                             \
  TN_KERNEL_ONCE LEVEL void tn_kernel_end_##level(                           \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                              \
    (void)self, (void)offset;                                                \
    TN_KERNEL_EACH(TN_KERNEL_UNUSED, none)                                   \
  }                                                                          \
                                                                             \
  TN_KERNEL_ONCE LEVEL void tn_kernel_chain_##level(                         \
      const tn_chain_link *first, int64_t begin, int64_t end) {              \
    const int64_t block =                                                    \
        TN_KERNEL_VECTORS * (int64_t)sizeof(tn_kernel_vector_##level);       \
    const tn_kernel_vector_##level none = {0};                               \
    for (; begin < end; begin += block)                                      \
      ((tn_kernel_link_##level *)first->go)(first, begin, none, none, none,  \
                                            none, none, none, none, none);   \
    _mm256_zeroupper();                                                      \
  }                                                                          \
                                                                             \
  static const tn_chain_kit tn_kernel_kit_##level = {                        \
      sizeof(tn_chain_kit),                                                  \
      kind,                                                                  \
      TN_KERNEL_VECTORS * sizeof(tn_kernel_vector_##level),                  \
      0,                                                                     \
      (tn_link *)tn_kernel_load_##level,                                     \
      (tn_link *)tn_kernel_save_##level,                                     \
      (tn_link *)tn_kernel_end_##level,                                      \
      tn_kernel_chain_##level};

TN_KERNEL_KIT(TN_KERNEL_AVX2, avx2, TN_CHAIN_AVX2)
TN_KERNEL_KIT(TN_KERNEL_AVX512, avx512, TN_CHAIN_AVX512)

/* ------------------------------------------------------------------- links */

/* Vector number `part` of each input of a block; `value` is that of input
 * `which`. gcc keeps all of it in registers, as in body.h. */
#define TN_KERNEL_LINK(name, body, inputs, which, LEVEL, level)    \
  TN_KERNEL_INLINE LEVEL                                           \
      tn_kernel_vector_##level name##_vector##which##_##level(     \
          const tn_chain_link *self, int64_t offset, int part,     \
          tn_kernel_vector_##level value) {                        \
    enum { WIDTH = sizeof value / sizeof(float) };                 \
    float in[inputs][WIDTH], out[WIDTH];                           \
    tn_kernel_block piece;                                         \
    piece.n = WIDTH;                                               \
    piece.out = out;                                               \
    for (int k = 0, other = 0; k < (inputs); ++k) {                \
      tn_kernel_vector_##level own = value;                        \
      if (k != (which))                                            \
        own = ((const tn_kernel_lying_##level *)tn_kernel_link_at( \
            self, other++, offset))[part];                         \
      memcpy(in[k], &own, sizeof own);                             \
      piece.in[k] = in[k];                                         \
    }                                                              \
    body(&piece, self->params);                                    \
    memcpy(&value, out, sizeof value);                             \
    return value;                                                  \
  }                                                                \
                                                                   \
  static LEVEL void name##_link##which##_##level(                  \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                    \
    TN_KERNEL_EACH(TN_KERNEL_MADE, name##_vector##which##_##level) \
    TN_KERNEL_GO_ON(level);                                        \
  }

#define TN_KERNEL_LINK_LEVELS(name, highest, inputs, which)       \
  TN_KERNEL_LINK(name, name, inputs, which, TN_KERNEL_AVX2, avx2) \
  TN_KERNEL_LINK(name, highest, inputs, which, TN_KERNEL_AVX512, avx512)
#define TN_KERNEL_LINKS_OF_1(name, highest) \
  TN_KERNEL_LINK_LEVELS(name, highest, 1, 0)
#define TN_KERNEL_LINKS_OF_2(name, highest)  \
  TN_KERNEL_LINK_LEVELS(name, highest, 2, 0) \
  TN_KERNEL_LINK_LEVELS(name, highest, 2, 1)
#define TN_KERNEL_LINKS_OF_3(name, highest)  \
  TN_KERNEL_LINK_LEVELS(name, highest, 3, 0) \
  TN_KERNEL_LINK_LEVELS(name, highest, 3, 1) \
  TN_KERNEL_LINK_LEVELS(name, highest, 3, 2)

#define TN_KERNEL_LINKED(name, which, level) \
  (tn_link *)name##_link##which##_##level
#define TN_KERNEL_LINKED_1(name)           \
  {                                        \
    {                                      \
      {TN_KERNEL_LINKED(name, 0, avx2)}, { \
        TN_KERNEL_LINKED(name, 0, avx512)  \
      }                                    \
    }                                      \
  }
#define TN_KERNEL_LINKED_2(name)                                             \
  {                                                                          \
    {                                                                        \
      {TN_KERNEL_LINKED(name, 0, avx2), TN_KERNEL_LINKED(name, 1, avx2)}, {  \
        TN_KERNEL_LINKED(name, 0, avx512), TN_KERNEL_LINKED(name, 1, avx512) \
      }                                                                      \
    }                                                                        \
  }
#define TN_KERNEL_LINKED_3(name)                                              \
  {                                                                           \
    {                                                                         \
      {TN_KERNEL_LINKED(name, 0, avx2), TN_KERNEL_LINKED(name, 1, avx2),      \
       TN_KERNEL_LINKED(name, 2, avx2)},                                      \
      {                                                                       \
        TN_KERNEL_LINKED(name, 0, avx512), TN_KERNEL_LINKED(name, 1, avx512), \
            TN_KERNEL_LINKED(name, 2, avx512)                                 \
      }                                                                       \
    }                                                                         \
  }

/* The kit of a level; NULL at the lowest. [any] */
static inline const tn_chain_kit *tn_kernel_kit(uint32_t level) {
  if (level == 0) return NULL;
  return level == 1 ? &tn_kernel_kit_avx2 : &tn_kernel_kit_avx512;
}

#ifdef __cplusplus
}
#endif

#else
#define TN_KERNEL_HAS_LINKS 0
#define TN_KERNEL_LINKS_OF_1(name, highest)
#define TN_KERNEL_LINKS_OF_2(name, highest)
#define TN_KERNEL_LINKS_OF_3(name, highest)
#define TN_KERNEL_LINKED_1(name) \
  {                              \
    {                            \
      {NULL}, {                  \
        NULL                     \
      }                          \
    }                            \
  }
#define TN_KERNEL_LINKED_2(name) TN_KERNEL_LINKED_1(name)
#define TN_KERNEL_LINKED_3(name) TN_KERNEL_LINKED_1(name)
static inline const tn_chain_kit *tn_kernel_kit(uint32_t level) {
  (void)level;
  return NULL;
}
#endif

/* Those of a body, and of one that has another at the highest level (level.h on
 * TN_KERNEL_LEVELS_WIDE). */
#define TN_KERNEL_LINKS_1(name) TN_KERNEL_LINKS_OF_1(name, name)
#define TN_KERNEL_LINKS_2(name) TN_KERNEL_LINKS_OF_2(name, name)
#define TN_KERNEL_LINKS_3(name) TN_KERNEL_LINKS_OF_3(name, name)
#define TN_KERNEL_LINKS_WIDE_1(name) \
  TN_KERNEL_LINKS_OF_1(name, TN_KERNEL_WIDEST(name))
#define TN_KERNEL_LINKS_WIDE_2(name) \
  TN_KERNEL_LINKS_OF_2(name, TN_KERNEL_WIDEST(name))
#define TN_KERNEL_LINKS_WIDE_3(name) \
  TN_KERNEL_LINKS_OF_3(name, TN_KERNEL_WIDEST(name))

/* ------------------------------------------------------------------- offers */

#ifdef __cplusplus
extern "C" {
#endif

/* Describes one output of a call; returns 1 if links can compute it. */
static inline int tn_kernel_map_made(const tn_frame *call,
                                     const tn_kernel_map *map, uint32_t level,
                                     tn_chain_made *made) {
  tn_link *const *links = map->links.at[level - 1];
  if (!links[0] || call->out[map->out].dtype != TN_F32) return 0;
  made->out = map->out;
  made->n_in = map->n_in;
  made->element = sizeof(float);
  for (uint32_t i = 0; i < map->n_in; ++i) {
    if (call->in[map->in[i]].dtype != TN_F32) return 0;
    made->in[i] = map->in[i];
    made->links[i] = links[i];
  }
  return 1;
}

/* The `prepare` for TN_CALL_CHAIN. [any] */
static inline int32_t tn_kernel_map_offer(const tn_frame *call, tn_plan *plan,
                                          const tn_kernel_map *maps,
                                          uint32_t n_maps) {
  const uint32_t level = tn_kernel_level(call);
  const tn_chain_kit *kit = tn_kernel_kit(level);
  if (!kit) return TN_OK;
  tn_chain_offer *offer = (tn_chain_offer *)calloc(1, sizeof *offer);
  if (!offer) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for an offer");
  int all = 1;
  for (uint32_t i = 0; all && i < n_maps; ++i) {
    if (maps[i].out >= call->n_out || call->req[maps[i].out] == TN_REQ_NULL)
      continue;
    all = offer->n_made < TN_CHAIN_OUTPUTS &&
          tn_kernel_map_made(call, &maps[i], level,
                             &offer->made[offer->n_made++]);
  }
  if (!all || offer->n_made == 0) {
    free(offer);
    return TN_OK;
  }
  offer->struct_size = sizeof *offer;
  offer->kit = kit;
  plan->prepared = offer;
  plan->destroy = free;
  return TN_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_LINKS_H_ */
