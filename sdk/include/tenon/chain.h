/* SPDX-License-Identifier: Apache-2.0
 * chain.h: chains of elementwise calls, of any plugins, that pass values on in
 * registers and not in memory (register runs of the glossary).
 *
 * An elementwise kernel (TN_KERNEL_ELEMENTWISE) with the flag TN_KERNEL_CHAIN
 * can turn its calls into links of a chain. The host calls its `prepare` with
 * TN_CALL_CHAIN in the flags of a frame in which all operands have the layout
 * of the output. `prepare` stores a tn_chain_offer in plan->prepared, or NULL
 * if this call has no links, and sets nothing else. The host reads it, and
 * passes it to plan->destroy, before `prepare` is called again. The links
 * compute the same bits as `compute`, and depend on the frame's params alone;
 * these keep their address.
 *
 * A chain is an array of links, of kernels and of the kit, and computes an
 * array block by block: tn_chain_kit.bytes of each operand at a time, a few
 * vectors. Each link is a function that gets one operand in registers,
 * computes, and ends with a call of the next link with its result; compilers
 * make a jump of it. The last is the kit's `end`. With V for the kit's vectors,
 * the real type of a tn_link is
 *
 *   void go(const tn_chain_link *self, int64_t offset, V a, V b, V c, V d ...);
 *
 * and it calls self[1].go(self + 1, offset, a, b, c, d ...). The host has no
 * such vectors; it only builds arrays of links:
 *
 *   y = a * x + b        { kit->load, x }      x to registers
 *                        { mul's link 0, a }   times what lies at a
 *                        { add's link 0, b }
 *                        { kit->save, y }      registers to y, which stay
 *                        { kit->end }
 *   kit->run(links, 0, bytes);
 *
 * Opgen makes links of formulas over f32; links.h of other bodies.
 */
#ifndef TENON_CHAIN_H_
#define TENON_CHAIN_H_

#include "tenon/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_KERNEL_CHAIN (1u << 6) /* tn_kernel.flags */
#define TN_CALL_CHAIN (1u << 5)   /* tn_frame.flags of `prepare` */
#define TN_CHAIN_INPUTS 3         /* of a link, at most */
#define TN_CHAIN_OUTPUTS 4        /* of an offer, at most */
#define TN_CHAIN_BYTES 512        /* of a block, at most */

/* A link's function; code that knows the vectors casts it to its type.
 */
typedef void tn_link(void);

/* Memory that a link reads or writes: at + (offset & moves). */
typedef struct tn_chain_memory { /* frozen */
  char *at;                      /* aligned to its elements only */
  int64_t moves; /* -1: moves with the blocks; 0: the same for all blocks */
} tn_chain_memory;

/* One link of a chain. The host fills it, and does not change it while the
 * chain runs. */
typedef struct tn_chain_link { /* frozen */
  tn_link *go;
  const void *params;                          /* call->params */
  tn_chain_memory memory[TN_CHAIN_INPUTS - 1]; /* the kit's use the first */
} tn_chain_link;

enum { /* tn_chain_kit.vectors: links of one kind go together */
       TN_CHAIN_AVX2 = 1,
       TN_CHAIN_AVX512 = 2
};

/* Links that load, save and end, for one kind of vectors. Constant; every
 * plugin has its own, and all of a kind do the same. */
typedef struct tn_chain_kit {
  uint32_t struct_size;
  uint32_t vectors; /* TN_CHAIN_* */
  uint32_t bytes;   /* of a block: of eight vectors */
  uint32_t reserved;
  tn_link *load; /* memory[0] to registers */
  tn_link *save; /* registers to memory[0] */
  tn_link *end;  /* after the last link */

  /* Computes the blocks with offsets in [begin, end), both multiples of
   * `bytes`. [worker] */
  void (*run)(const tn_chain_link *first, int64_t begin, int64_t end);
} tn_chain_kit;

/* How one output is computed: with input in[k] in registers, links[k] reads the
 * others from memory[0], memory[1], in their order. */
typedef struct tn_chain_made {  /* frozen */
  uint32_t out;                 /* index in call->out */
  uint32_t n_in;                /* 1 to TN_CHAIN_INPUTS */
  uint32_t in[TN_CHAIN_INPUTS]; /* indices in call->in */
  uint32_t element;             /* bytes of an element, of all operands */
  tn_link *links[TN_CHAIN_INPUTS];
} tn_chain_made;

/* Every requested output, in the order of computation. If there are several,
 * none shares memory with an input. */
typedef struct tn_chain_offer {
  uint32_t struct_size;
  uint32_t n_made;
  const tn_chain_kit *kit;
  tn_chain_made made[TN_CHAIN_OUTPUTS];
} tn_chain_offer;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CHAIN_H_ */
