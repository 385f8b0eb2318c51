/* SPDX-License-Identifier: Apache-2.0
 * calls.h: signatures to infer and their expected results, for the tests of
 * shapes and element types.
 */
#ifndef TESTS_REGISTRY_CALLS_H_
#define TESTS_REGISTRY_CALLS_H_

#include "tables.h"

/* A signature and the arguments of its inference. */
typedef struct call {
  tn_sig in[4];
  tn_sig out[4];
  tn_signature io;
  tn__infer_args args;
} call;

static inline tn_sig sig_of(tn_dtype dtype, int32_t ndim,
                            const int64_t *shape) {
  tn_sig sig = {.dtype = dtype, .ndim = ndim};
  for (int32_t i = 0; i < ndim; ++i) sig.shape[i] = shape[i];
  return sig;
}

/* F32 of a shape, unknown type of a shape, and all unknown. -1 is an unknown
 * dimension. */
#define SHAPE(...)                                        \
  sig_of(TN_F32, COUNT(((const int64_t[]){__VA_ARGS__})), \
         (const int64_t[]){__VA_ARGS__})
#define UNTYPED(...)                                                \
  sig_of(TN_DTYPE_UNKNOWN, COUNT(((const int64_t[]){__VA_ARGS__})), \
         (const int64_t[]){__VA_ARGS__})
#define NOTHING sig_of(TN_DTYPE_UNKNOWN, -1, NULL)

/* A call with every operand unknown. */
static inline void call_init(call *c, const tn_op *op, const void *params) {
  *c = (call){.args = {.op = op, .params = params}};
  c->args.name = "demo.op@1";
  for (size_t i = 0; i < COUNT(c->in); ++i) c->in[i] = c->out[i] = NOTHING;
  c->io = (tn_signature){
      .n_in = op->n_inputs, .n_out = op->n_outputs, .in = c->in, .out = c->out};
}

static inline void expect_code(call *c, tn_code code) {
  const tn_code rc = tn__infer_signature(&c->args, &c->io);
  cr_assert_eq(rc, code, "%s: %s", tn_code_name(rc), tn_error_text());
}

/* Expects a failure with `code` and exactly this text that leaves the call
 * unchanged. */
static inline void expect_text(call *c, tn_code code, const char *text) {
  const call before = *c;
  expect_code(c, code);
  cr_assert_str_eq(tn_error_text(), text);
  for (size_t i = 0; i < COUNT(c->in); ++i) {
    const tn_sig *was[] = {&before.in[i], &before.out[i]};
    const tn_sig *is[] = {&c->in[i], &c->out[i]};
    for (size_t k = 0; k < 2; ++k) {
      cr_assert_eq(is[k]->dtype, was[k]->dtype);
      cr_assert_eq(is[k]->ndim, was[k]->ndim);
      for (int32_t d = 0; d < was[k]->ndim; ++d)
        cr_assert_eq(is[k]->shape[d], was[k]->shape[d]);
    }
  }
}

static inline void is_shape(const tn_sig *have, tn_sig want) {
  cr_assert_eq(have->ndim, want.ndim, "rank %d", have->ndim);
  for (int32_t i = 0; i < want.ndim; ++i)
    cr_assert_eq(have->shape[i], want.shape[i], "dimension %d is %lld", i,
                 (long long)have->shape[i]);
}

#endif /* TESTS_REGISTRY_CALLS_H_ */
