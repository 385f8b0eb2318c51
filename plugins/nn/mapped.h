/* SPDX-License-Identifier: Apache-2.0
 * mapped.h: element-wise kernels with a map (tenon/kernel/elementwise.h) for
 * each value of a parameter. The prepared form of a call's map is its `state`:
 *
 *   state: {type: nn_mapped, create: nn_acme_create,
 *           destroy: nn_mapped_destroy}
 *   registers: nn_acme_registers
 */
#ifndef NN_MAPPED_H_
#define NN_MAPPED_H_

#include "tenon/kernel/kernel.h"

typedef struct nn_mapped nn_mapped;

/* A loop: y[i] = value, an expression of x and of the variables that the
 * statement `declarations` declares from `params`. */
#define NN_LOOP(name, type, declarations, value)                               \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *at = block->in[0];                                             \
    type *out = block->out;                                                    \
    declarations;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type x = at[i];                                                    \
      out[i] = value;                                                          \
    }                                                                          \
  }

/* A body of such a loop. */
#define NN_FORWARD(name, type, declarations, value) \
  NN_LOOP(name, type, declarations, value)          \
  TN_KERNEL_LEVELS(name)                            \
  NN_REGISTERS_##type(name, 1)

/* A body for floats: a function of math.h that has a form of sixteen. */
#define NN_FORWARD_WIDE(name, function)                           \
  NN_LOOP(name, float, (void)params, tn_math_##function##_f32(x)) \
  NN_LOOP_WIDE(name, function)                                    \
  TN_KERNEL_LEVELS_WIDE(name)                                     \
  TN_KERNEL_REGISTERS_WIDE_1(name)

#if TN_KERNEL_HAS_WIDE
#define NN_LOOP_WIDE(name, function)                                     \
  TN_WIDE_FN void name##_wide(const tn_kernel_block *block,              \
                              const void *params) {                      \
    const float *at = block->in[0];                                      \
    float *out = block->out;                                             \
    (void)params;                                                        \
    for (int64_t i = 0, n = block->n; n > 0; i += 16, n -= 16)           \
      tn_wide_store(out + i, n,                                          \
                    tn_math_##function##_wide(tn_wide_load(at + i, n))); \
  }
#else
#define NN_LOOP_WIDE(name, function)
#endif

/* A body: the gradient of x, in terms of that of y, called g, and y. */
#define NN_BACKWARD(name, type, declarations, value)                           \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *grad = block->in[0];                                           \
    const type *at = block->in[1];                                             \
    type *out = block->out;                                                    \
    declarations;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type g = grad[i];                                                  \
      const type y = at[i];                                                    \
      out[i] = value;                                                          \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)                                                       \
  NN_REGISTERS_##type(name, 2)

/* Register kernels are of floats. */
#define NN_REGISTERS_float(name, n) TN_KERNEL_REGISTERS_##n(name)
#define NN_REGISTERS_double(name, n)

/* One map with bodies called `name`; the remaining arguments are its inputs. */
#define NN_MAP(name, n, ...)                                                  \
  {                                                                           \
    .f32 = TN_KERNEL_BODIES(name##_f32), .f64 = TN_KERNEL_BODIES(name##_f64), \
    .registers = TN_KERNEL_IN_REGISTERS_##n(name##_f32), .n_in = n, .in = {   \
      __VA_ARGS__                                                             \
    }                                                                         \
  }

/* The caller destroys *out with nn_mapped_destroy. [any] */
int32_t nn_mapped_create(const tn_frame *call, const tn_kernel_map *map,
                         nn_mapped **out);
void nn_mapped_destroy(nn_mapped *mapped);

/* Computes a call, prepared with the same map or not prepared. [worker] */
int32_t nn_mapped_run(const tn_frame *call, const tn_kernel_map *map);

#endif /* NN_MAPPED_H_ */
