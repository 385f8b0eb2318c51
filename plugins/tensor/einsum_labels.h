/* SPDX-License-Identifier: Apache-2.0
 * einsum_labels.h: the text of einsum, `ij,jk->ik`: a label for each dimension
 * of each operand and of the output.
 */
#ifndef TENSOR_EINSUM_LABELS_H_
#define TENSOR_EINSUM_LABELS_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  EINSUM_LETTERS = 52, /* A to Z, a to z: in the order of their codes */
  EINSUM_LABELS = EINSUM_LETTERS + TN_MAX_NDIM, /* and those of `...` */
  EINSUM_TERMS = 32,                            /* operands at most */
  EINSUM_TEXT = 256                             /* characters at most */
};

/* The labels of an operand or of the output, one for each dimension. */
typedef struct einsum_term {
  int32_t n;
  int8_t label[TN_MAX_NDIM];
  int32_t ellipsis; /* labels before `...`, or -1 without it; only until
                       einsum_expand() */
} einsum_term;

/* An equation. After einsum_expand() each term has as many labels as its
 * operand has dimensions, and `length` has that of each label: -1 if unknown.
 * A label of `...` may get longer if `may_grow`: an operand has an unknown
 * length. */
typedef struct einsum_equation {
  int32_t n_terms;
  int32_t n_ellipsis; /* dimensions of the longest `...` */
  einsum_term in[EINSUM_TERMS];
  einsum_term out;
  int64_t length[EINSUM_LABELS];
  int8_t may_grow[EINSUM_LABELS];
} einsum_equation;

/* Reads a text. TN_OK, or TN_INVALID with a text that names the character.
 * [any] */
int32_t einsum_parse(const tn_frame *call, const char *text,
                     einsum_equation *equation);

/* Replaces `...` by labels and finds lengths, from operands whose ranks are all
 * known. TN_OK, or TN_SHAPE. [any] */
int32_t einsum_expand(const tn_frame *call, const tn_tensor *operands,
                      einsum_equation *equation);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_EINSUM_LABELS_H_ */
