/* SPDX-License-Identifier: Apache-2.0
 * registers.h: runs of elementwise calls, of any plugins, that pass values on
 * in registers and not in memory (register runs of the glossary).
 *
 * Draft: this header may change in any release.
 *
 * An elementwise kernel (TN_KERNEL_ELEMENTWISE) with the flag
 * TN_KERNEL_REGISTERS has register kernels: forms of it that get and return
 * vectors in registers. The host calls its `prepare` with TN_CALL_REGISTERS in
 * the flags of a frame in which all operands have the layout of the output.
 * `prepare` stores a tn_register_offer in plan->prepared, or NULL if this call
 * has no register kernels, and sets nothing else. The host reads it, and passes
 * it to plan->destroy, before `prepare` is called again. Register kernels
 * compute the same bits as `compute`, and depend on the frame's params alone;
 * these keep their address.
 *
 * A run is an array of steps, with kernels of plugins and of the vector
 * interface. It computes an array block by block: tn_register_interface.bytes
 * of each operand at a time, a few vectors. The function of a step gets one
 * operand in registers, computes, and ends with a call of the next step's
 * function with its result; compilers make a jump of it. The last is the
 * interface's `end`. With V for its vectors, the real type of a
 * tn_register_kernel is
 *
 *   void go(const tn_register_step *self, int64_t offset, V a, V b, V c ...);
 *
 * and it calls self[1].go(self + 1, offset, a, b, c ...). The host has no such
 * vectors; it only builds arrays of steps:
 *
 *   y = a * x + b        { interface->load, x }   x to registers
 *                        { mul's kernel 0, a }    times the elements at a
 *                        { add's kernel 0, b }
 *                        { interface->save, y }   to y, and stays in registers
 *                        { interface->end }
 *   interface->run(steps, 0, bytes);
 *
 * Opgen makes register kernels of formulas over f32; register_loops.h makes
 * them of other bodies.
 */
#ifndef TENON_DRAFT_REGISTERS_H_
#define TENON_DRAFT_REGISTERS_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_KERNEL_REGISTERS (1u << 6) /* tn_kernel.flags */
#define TN_CALL_REGISTERS (1u << 5)   /* tn_frame.flags of `prepare` */
#define TN_REGISTER_INPUTS 3          /* of a register kernel, at most */
#define TN_REGISTER_OUTPUTS 4         /* of an offer, at most */
#define TN_REGISTER_BYTES 512         /* of a block, at most */

/* A register kernel; code that knows the vectors casts it to its type. */
typedef void tn_register_kernel(void);

/* Memory that a step reads or writes: at + (offset & moves). */
typedef struct tn_register_memory { /* frozen */
  char *at;                         /* aligned to its elements only */
  int64_t moves; /* -1: moves with the blocks; 0: the same for all blocks */
} tn_register_memory;

/* One step of a run. The host fills it, and does not change it while the run
 * computes. */
typedef struct tn_register_step { /* frozen */
  tn_register_kernel *go;
  const void *params;                                /* call->params */
  tn_register_memory memory[TN_REGISTER_INPUTS - 1]; /* the interface's use
                                                         the first */
} tn_register_step;

enum { /* tn_register_interface.vectors: only kernels of one kind make a run */
       TN_REGISTER_AVX2 = 1,
       TN_REGISTER_AVX512 = 2
};

/* The vector interface: kernels that load, save and end, for one kind of
 * vectors. Constant; every plugin has its own, and all of a kind do the same.
 */
typedef struct tn_register_interface {
  uint32_t struct_size;
  uint32_t vectors; /* TN_REGISTER_* */
  uint32_t bytes;   /* of a block: of eight vectors */
  uint32_t reserved;
  tn_register_kernel *load; /* memory[0] to registers */
  tn_register_kernel *save; /* registers to memory[0] */
  tn_register_kernel *end;  /* after the last step */

  /* Computes the blocks with offsets in [begin, end), both multiples of
   * `bytes`. [worker] */
  void (*run)(const tn_register_step *first, int64_t begin, int64_t end);
} tn_register_interface;

/* How one output is computed: with input in[k] in registers, kernels[k] reads
 * the others from memory[0], memory[1], in their order. */
typedef struct tn_register_output { /* frozen */
  uint32_t out;                     /* index in call->out */
  uint32_t n_in;                    /* 1 to TN_REGISTER_INPUTS */
  uint32_t in[TN_REGISTER_INPUTS];  /* indices in call->in */
  uint32_t element;                 /* bytes of an element, of all operands */
  tn_register_kernel *kernels[TN_REGISTER_INPUTS];
} tn_register_output;

/* Every requested output, in the order of computation. If there are several,
 * none shares memory with an input. */
typedef struct tn_register_offer {
  uint32_t struct_size;
  uint32_t n_outputs;
  const tn_register_interface *interface;
  tn_register_output outputs[TN_REGISTER_OUTPUTS];
} tn_register_offer;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DRAFT_REGISTERS_H_ */
