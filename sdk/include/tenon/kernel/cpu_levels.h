/* SPDX-License-Identifier: Apache-2.0
 * cpu_levels.h: the levels of instructions that loops are compiled for. Part of
 * kernel.h; macros only.
 *
 * A body is written once, as a function that is always inlined, and compiled
 * for each level in TN_KERNEL_LEVELS(name); TN_KERNEL_BODIES(name) initialises
 * the table of the results. The features that the host reports decide the level
 * of a call, so that it can be lowered, and no file needs its own compiler
 * flags. Other architectures have one level.
 *
 * Some functions need another body at one end. TN_KERNEL_LEVELS_FROM(name,
 * lowest) uses `lowest` for the baseline of x86, which lacks instructions
 * (math.h on tn_math_floor_direct_f32). TN_KERNEL_LEVELS_WIDE(name) uses
 * name_wide for AVX-512, where coefficients can be looked up in registers
 * (math/wide.h); it need only exist where TN_KERNEL_HAS_WIDE is 1.
 *
 * A file that is compiled with TN_KERNEL_LOWEST_ONLY has the baseline only, in
 * a third of the time: for builds that do not need speed. One with
 * TN_KERNEL_NO_WIDE has AVX-512 without bodies of that name. Halves
 * (body_forms.h) are made of the other one: use both macros only for bodies
 * with equal bits.
 */
#ifndef TENON_KERNEL_CPU_LEVELS_H_
#define TENON_KERNEL_CPU_LEVELS_H_

enum { TN_KERNEL_N_LEVELS = 3 }; /* baseline, AVX2 with FMA, AVX-512 */

#if defined(__GNUC__)
#define TN_KERNEL_BODY static inline __attribute__((always_inline, unused))
#else
#define TN_KERNEL_BODY static inline
#endif

/* Precedes a function with completely unrolled loops: if a sanitizer checks
 * every sum of indices in them, clang needs minutes to compile it. */
#if defined(__clang__)
#define TN_KERNEL_UNCHECKED \
  __attribute__((no_sanitize("signed-integer-overflow")))
#else
#define TN_KERNEL_UNCHECKED
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#define TN_KERNEL_AVX2 __attribute__((target("avx2,fma,f16c")))
#if defined(TN_KERNEL_EMULATED) /* tests/emulate */
#define TN_KERNEL_AVX512 TN_KERNEL_AVX2
#elif defined(__clang__)
#define TN_KERNEL_AVX512                                                     \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"), \
                 min_vector_width(512)))
#else
#define TN_KERNEL_AVX512                                \
  __attribute__((                                       \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx2," \
             "fma,f16c,prefer-vector-width=512")))
#endif
#define TN_KERNEL_LOWEST(name, lowest) lowest
#else
#define TN_KERNEL_LOWEST(name, lowest) name
#endif

/* 1 if the level AVX-512 exists with all its parts. */
#if defined(__GNUC__) && defined(__x86_64__) && !defined(__CUDACC__) && \
    !defined(TN_KERNEL_LOWEST_ONLY) && !defined(TN_KERNEL_NO_WIDE)
#define TN_KERNEL_HAS_WIDE 1
#define TN_KERNEL_WIDEST(name) name##_wide
#else
#define TN_KERNEL_HAS_WIDE 0
#define TN_KERNEL_WIDEST(name) name
#endif

#if defined(TN_KERNEL_LOWEST_ONLY) || !defined(__GNUC__) || !defined(__x86_64__)
#define TN_KERNEL_LEVELS_OF(name, lowest, highest)                            \
  static void name##_base(const tn_kernel_block *block, const void *params) { \
    TN_KERNEL_LOWEST(name, lowest)(block, params);                            \
  }
#define TN_KERNEL_BODIES(name)  \
  {                             \
    { name##_base, NULL, NULL } \
  }
#else
#define TN_KERNEL_LEVELS_OF(name, lowest, highest)                            \
  static void name##_base(const tn_kernel_block *block, const void *params) { \
    lowest(block, params);                                                    \
  }                                                                           \
  static TN_KERNEL_AVX2 void name##_avx2(const tn_kernel_block *block,        \
                                         const void *params) {                \
    name(block, params);                                                      \
  }                                                                           \
  static TN_KERNEL_AVX512 void name##_avx512(const tn_kernel_block *block,    \
                                             const void *params) {            \
    highest(block, params);                                                   \
  }
#define TN_KERNEL_BODIES(name)                  \
  {                                             \
    { name##_base, name##_avx2, name##_avx512 } \
  }
#endif
#define TN_KERNEL_LEVELS(name) TN_KERNEL_LEVELS_OF(name, name, name)
#define TN_KERNEL_LEVELS_FROM(name, lowest) \
  TN_KERNEL_LEVELS_OF(name, lowest, name)
#define TN_KERNEL_LEVELS_WIDE(name) \
  TN_KERNEL_LEVELS_OF(name, name, TN_KERNEL_WIDEST(name))

#endif /* TENON_KERNEL_CPU_LEVELS_H_ */
