/* SPDX-License-Identifier: Apache-2.0
 * register_loops.h: register kernels (registers.h) made of those bodies of
 * elementwise.h that compute in f32. Part of kernel.h, by elementwise.h.
 *
 * Draft: this header may change in any release.
 *
 *   TN_KERNEL_BODY void sum(...) as in elementwise.h
 *   TN_KERNEL_LEVELS(sum)
 *   TN_KERNEL_REGISTERS_2(sum)       for a body with two inputs
 *
 *   static const tn_kernel_map map = {
 *       .f32 = TN_KERNEL_BODIES(sum), .n_in = 2, .in = {0, 1},
 *       .registers = TN_KERNEL_IN_REGISTERS_2(sum)};
 *
 * and the flag TN_KERNEL_REGISTERS of the kernel; its `prepare` is
 * tn_kernel_map_prepare(). A body that works part by part (TN_KERNEL_PART) must
 * not be used so. Register kernels exist for AVX2 and AVX-512; elsewhere, and
 * at the lowest level, a map has none.
 */
#include "tenon/kernel/kernel.h" /* includes this file: before the guard */

#ifndef TENON_DRAFT_REGISTER_LOOPS_H_
#define TENON_DRAFT_REGISTER_LOOPS_H_

/* clang passes vectors in memory unless the whole file is compiled for them: it
 * makes register kernels only with -mavx512f. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && \
    (!defined(__clang__) || defined(__AVX512F__))
#define TN_KERNEL_HAS_REGISTERS 1

#ifdef __cplusplus
extern "C" {
#endif

typedef float tn_kernel_vector_avx2 __attribute__((vector_size(32)));
typedef float tn_kernel_vector_avx512 __attribute__((vector_size(64)));
/* The same anywhere in memory. */
typedef float tn_kernel_unaligned_avx2
    __attribute__((vector_size(32), aligned(4), may_alias));
typedef float tn_kernel_unaligned_avx512
    __attribute__((vector_size(64), aligned(4), may_alias));

/* Eight vectors, as many as the System V ABI passes in registers: with fewer,
 * out-of-order execution would not hide the latency of a run. X(vector,
 * number, more) for each. */
enum { TN_KERNEL_VECTORS = 8 };
#define TN_KERNEL_EACH(X, more) \
  X(a, 0, more)                 \
  X(b, 1, more)                 \
  X(c, 2, more)                 \
  X(d, 3, more) X(e, 4, more) X(f, 5, more) X(g, 6, more) X(h, 7, more)

/* The parameters of the functions of a level, and the call of the next one. */
#define TN_KERNEL_GO(V)                                                       \
  const tn_register_step *self, int64_t offset, V a, V b, V c, V d, V e, V f, \
      V g, V h
typedef void tn_kernel_register_avx2(TN_KERNEL_GO(tn_kernel_vector_avx2));
typedef void tn_kernel_register_avx512(TN_KERNEL_GO(tn_kernel_vector_avx512));
#define TN_KERNEL_GO_ON(level)                                                \
  ((tn_kernel_register_##level *)self[1].go)(self + 1, offset, a, b, c, d, e, \
                                             f, g, h)

/* The address of memory number `k` of a step. [any] */
static inline char *tn_kernel_register_at(const tn_register_step *self, int k,
                                          int64_t offset) {
  return self->memory[k].at + (offset & self->memory[k].moves);
}

/* ----------------------------------------------------------------- vector
 * interface */

#define TN_KERNEL_LOAD(v, k, unaligned) v = unaligned[k];
#define TN_KERNEL_SAVE(v, k, unaligned) unaligned[k] = v;
#define TN_KERNEL_UNUSED(v, k, more) (void)v;
#define TN_KERNEL_COMPUTED(v, k, kernel) v = kernel(self, offset, k, v);

#define TN_KERNEL_INTERFACE(LEVEL, level, kind)                                \
  TN_KERNEL_ONCE LEVEL void tn_kernel_load_##level(                            \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                                \
    const tn_kernel_unaligned_##level *unaligned =                             \
        (const tn_kernel_unaligned_##level *)tn_kernel_register_at(self, 0,    \
                                                                   offset);    \
    TN_KERNEL_EACH(TN_KERNEL_LOAD, unaligned) TN_KERNEL_GO_ON(level);          \
  }                                                                            \
                                                                               \
  TN_KERNEL_ONCE LEVEL void tn_kernel_save_##level(                            \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                                \
    tn_kernel_unaligned_##level *unaligned =                                   \
        (tn_kernel_unaligned_##level *)tn_kernel_register_at(self, 0, offset); \
    TN_KERNEL_EACH(TN_KERNEL_SAVE, unaligned) TN_KERNEL_GO_ON(level);          \
  }                                                                            \
                                                                               \
  TN_KERNEL_ONCE LEVEL void tn_kernel_end_##level(                             \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                                \
    (void)self, (void)offset;                                                  \
    TN_KERNEL_EACH(TN_KERNEL_UNUSED, none)                                     \
  }                                                                            \
                                                                               \
  TN_KERNEL_ONCE LEVEL void tn_kernel_registers_##level(                       \
      const tn_register_step *first, int64_t begin, int64_t end) {             \
    const int64_t block =                                                      \
        TN_KERNEL_VECTORS * (int64_t)sizeof(tn_kernel_vector_##level);         \
    const tn_kernel_vector_##level none = {0};                                 \
    for (; begin < end; begin += block)                                        \
      ((tn_kernel_register_##level *)first->go)(                               \
          first, begin, none, none, none, none, none, none, none, none);       \
    _mm256_zeroupper();                                                        \
  }                                                                            \
                                                                               \
  static const tn_register_interface tn_kernel_interface_##level = {           \
      sizeof(tn_register_interface),                                           \
      kind,                                                                    \
      TN_KERNEL_VECTORS * sizeof(tn_kernel_vector_##level),                    \
      0,                                                                       \
      (tn_register_kernel *)tn_kernel_load_##level,                            \
      (tn_register_kernel *)tn_kernel_save_##level,                            \
      (tn_register_kernel *)tn_kernel_end_##level,                             \
      tn_kernel_registers_##level};

TN_KERNEL_INTERFACE(TN_KERNEL_AVX2, avx2, TN_REGISTER_AVX2)
TN_KERNEL_INTERFACE(TN_KERNEL_AVX512, avx512, TN_REGISTER_AVX512)

/* ------------------------------------------------------------------- register
 * kernels */

/* Vector number `part` of each input of a block; `value` is that of input
 * `which`. gcc keeps all of it in registers, as in body_forms.h. */
#define TN_KERNEL_REGISTER(name, body, inputs, which, LEVEL, level)        \
  TN_KERNEL_INLINE LEVEL                                                   \
      tn_kernel_vector_##level name##_vector##which##_##level(             \
          const tn_register_step *self, int64_t offset, int part,          \
          tn_kernel_vector_##level value) {                                \
    enum { WIDTH = sizeof value / sizeof(float) };                         \
    float in[inputs][WIDTH], out[WIDTH];                                   \
    tn_kernel_block piece;                                                 \
    piece.n = WIDTH;                                                       \
    piece.out = out;                                                       \
    for (int k = 0, other = 0; k < (inputs); ++k) {                        \
      tn_kernel_vector_##level own = value;                                \
      if (k != (which))                                                    \
        own = ((const tn_kernel_unaligned_##level *)tn_kernel_register_at( \
            self, other++, offset))[part];                                 \
      memcpy(in[k], &own, sizeof own);                                     \
      piece.in[k] = in[k];                                                 \
    }                                                                      \
    body(&piece, self->params);                                            \
    memcpy(&value, out, sizeof value);                                     \
    return value;                                                          \
  }                                                                        \
                                                                           \
  static LEVEL void name##_registers##which##_##level(                     \
      TN_KERNEL_GO(tn_kernel_vector_##level)) {                            \
    TN_KERNEL_EACH(TN_KERNEL_COMPUTED, name##_vector##which##_##level)     \
    TN_KERNEL_GO_ON(level);                                                \
  }

#define TN_KERNEL_REGISTER_LEVELS(name, highest, inputs, which)       \
  TN_KERNEL_REGISTER(name, name, inputs, which, TN_KERNEL_AVX2, avx2) \
  TN_KERNEL_REGISTER(name, highest, inputs, which, TN_KERNEL_AVX512, avx512)
#define TN_KERNEL_REGISTERS_OF_1(name, highest) \
  TN_KERNEL_REGISTER_LEVELS(name, highest, 1, 0)
#define TN_KERNEL_REGISTERS_OF_2(name, highest)  \
  TN_KERNEL_REGISTER_LEVELS(name, highest, 2, 0) \
  TN_KERNEL_REGISTER_LEVELS(name, highest, 2, 1)
#define TN_KERNEL_REGISTERS_OF_3(name, highest)  \
  TN_KERNEL_REGISTER_LEVELS(name, highest, 3, 0) \
  TN_KERNEL_REGISTER_LEVELS(name, highest, 3, 1) \
  TN_KERNEL_REGISTER_LEVELS(name, highest, 3, 2)

#define TN_KERNEL_IN_REGISTERS(name, which, level) \
  (tn_register_kernel *)name##_registers##which##_##level
#define TN_KERNEL_IN_REGISTERS_1(name)           \
  {                                              \
    {                                            \
      {TN_KERNEL_IN_REGISTERS(name, 0, avx2)}, { \
        TN_KERNEL_IN_REGISTERS(name, 0, avx512)  \
      }                                          \
    }                                            \
  }
#define TN_KERNEL_IN_REGISTERS_2(name)              \
  {                                                 \
    {                                               \
      {TN_KERNEL_IN_REGISTERS(name, 0, avx2),       \
       TN_KERNEL_IN_REGISTERS(name, 1, avx2)},      \
      {                                             \
        TN_KERNEL_IN_REGISTERS(name, 0, avx512),    \
            TN_KERNEL_IN_REGISTERS(name, 1, avx512) \
      }                                             \
    }                                               \
  }
#define TN_KERNEL_IN_REGISTERS_3(name)               \
  {                                                  \
    {                                                \
      {TN_KERNEL_IN_REGISTERS(name, 0, avx2),        \
       TN_KERNEL_IN_REGISTERS(name, 1, avx2),        \
       TN_KERNEL_IN_REGISTERS(name, 2, avx2)},       \
      {                                              \
        TN_KERNEL_IN_REGISTERS(name, 0, avx512),     \
            TN_KERNEL_IN_REGISTERS(name, 1, avx512), \
            TN_KERNEL_IN_REGISTERS(name, 2, avx512)  \
      }                                              \
    }                                                \
  }

/* The vector interface of a level; NULL at the lowest. [any] */
static inline const tn_register_interface *tn_kernel_interface(uint32_t level) {
  if (level == 0) return NULL;
  return level == 1 ? &tn_kernel_interface_avx2 : &tn_kernel_interface_avx512;
}

#ifdef __cplusplus
}
#endif

#else
#define TN_KERNEL_HAS_REGISTERS 0
#define TN_KERNEL_REGISTERS_OF_1(name, highest)
#define TN_KERNEL_REGISTERS_OF_2(name, highest)
#define TN_KERNEL_REGISTERS_OF_3(name, highest)
#define TN_KERNEL_IN_REGISTERS_1(name) \
  {                                    \
    {                                  \
      {NULL}, {                        \
        NULL                           \
      }                                \
    }                                  \
  }
#define TN_KERNEL_IN_REGISTERS_2(name) TN_KERNEL_IN_REGISTERS_1(name)
#define TN_KERNEL_IN_REGISTERS_3(name) TN_KERNEL_IN_REGISTERS_1(name)
static inline const tn_register_interface *tn_kernel_interface(uint32_t level) {
  (void)level;
  return NULL;
}
#endif

/* Those of a body, and of one that has another at the highest level
 * (cpu_levels.h on TN_KERNEL_LEVELS_WIDE). */
#define TN_KERNEL_REGISTERS_1(name) TN_KERNEL_REGISTERS_OF_1(name, name)
#define TN_KERNEL_REGISTERS_2(name) TN_KERNEL_REGISTERS_OF_2(name, name)
#define TN_KERNEL_REGISTERS_3(name) TN_KERNEL_REGISTERS_OF_3(name, name)
#define TN_KERNEL_REGISTERS_WIDE_1(name) \
  TN_KERNEL_REGISTERS_OF_1(name, TN_KERNEL_WIDEST(name))
#define TN_KERNEL_REGISTERS_WIDE_2(name) \
  TN_KERNEL_REGISTERS_OF_2(name, TN_KERNEL_WIDEST(name))
#define TN_KERNEL_REGISTERS_WIDE_3(name) \
  TN_KERNEL_REGISTERS_OF_3(name, TN_KERNEL_WIDEST(name))

/* ------------------------------------------------------------------- offers */

#ifdef __cplusplus
extern "C" {
#endif

/* Describes one output of a call; returns 1 if register kernels can
 * compute it. */
static inline int tn_kernel_map_output(const tn_frame *call,
                                       const tn_kernel_map *map, uint32_t level,
                                       tn_register_output *output) {
  tn_register_kernel *const *kernels = map->registers.at[level - 1];
  if (!kernels[0] || call->out[map->out].dtype != TN_F32) return 0;
  output->out = map->out;
  output->n_in = map->n_in;
  output->element = sizeof(float);
  for (uint32_t i = 0; i < map->n_in; ++i) {
    if (call->in[map->in[i]].dtype != TN_F32) return 0;
    output->in[i] = map->in[i];
    output->kernels[i] = kernels[i];
  }
  return 1;
}

/* The `prepare` for TN_CALL_REGISTERS. [any] */
static inline int32_t tn_kernel_map_offer(const tn_frame *call, tn_plan *plan,
                                          const tn_kernel_map *maps,
                                          uint32_t n_maps) {
  const uint32_t level = tn_kernel_level(call);
  const tn_register_interface *interface = tn_kernel_interface(level);
  if (!interface) return TN_OK;
  tn_register_offer *offer = (tn_register_offer *)calloc(1, sizeof *offer);
  if (!offer) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for an offer");
  int all = 1;
  for (uint32_t i = 0; all && i < n_maps; ++i) {
    if (maps[i].out >= call->n_out || call->req[maps[i].out] == TN_REQ_NULL)
      continue;
    all = offer->n_outputs < TN_REGISTER_OUTPUTS &&
          tn_kernel_map_output(call, &maps[i], level,
                               &offer->outputs[offer->n_outputs++]);
  }
  if (!all || offer->n_outputs == 0) {
    free(offer);
    return TN_OK;
  }
  offer->struct_size = sizeof *offer;
  offer->interface = interface;
  plan->prepared = offer;
  plan->destroy = free;
  return TN_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_DRAFT_REGISTER_LOOPS_H_ */
