/* SPDX-License-Identifier: Apache-2.0
 * test_batch.h: a part of test.h: operators of which the manifest says
 * `batch_invariant: true`. The first axis of the first input is the batch. Each
 * row of the results must have the same bits alone, in the example's batch, and
 * in a larger one of an odd number of rows.
 *
 * Other operands have the batch as well if their shape rule says so: the same
 * shape, a pattern that begins with the same dimension, or a broadcast.
 */
#ifndef TENON_TEST_BATCH_H_
#define TENON_TEST_BATCH_H_

enum {
  TN_TEST_ROWS = 257,     /* of the larger batch, at least */
  TN_TEST_BATCH = 1 << 17 /* elements of an operand, at most */
};

/* Whether two patterns begin with the same dimension. */
static bool tn_test_begins_alike(const tn_op *op, const tn_arg *a,
                                 const tn_arg *b) {
  if (a->shape_kind != TN_SHAPE_PATTERN || b->shape_kind != TN_SHAPE_PATTERN ||
      a->n_terms == 0 || b->n_terms == 0)
    return false;
  const tn_node *x = &op->nodes[a->terms[0].node];
  const tn_node *y = &op->nodes[b->terms[0].node];
  return x->op == y->op && x->a == y->a &&
         (x->op == TN_NODE_DIM || x->op == TN_NODE_PACK);
}

/* Whether the first axis of an operand is the batch. */
static bool tn_test_has_batch(const tn_op *op, const tn_arg *arg) {
  const tn_arg *first = op->inputs[0];
  for (int depth = 0; depth < 8; ++depth) {
    if (arg == first || tn_test_begins_alike(op, arg, first) ||
        arg->shape_kind == TN_SHAPE_BROADCAST)
      return true;
    if (arg->shape_kind != TN_SHAPE_SAME) return false;
    if (arg->shape_list == TN_OPERAND_IN && arg->shape_index < op->n_inputs)
      arg = op->inputs[arg->shape_index];
    else if (arg->shape_list == TN_OPERAND_OUT &&
             arg->shape_index < op->n_outputs)
      arg = op->outputs[arg->shape_index];
    else
      return false;
  }
  return false;
}

/* The rows of `from`, then further ones in another order, `rows` in all. */
static bool tn_test_take_rows(const tn_test_values *from, int64_t rows,
                              tn_test_values *out) {
  const int64_t n = from->shape[0];
  const size_t row = n > 0 ? from->n / (size_t)n : 0;
  *out = *from;
  out->shape[0] = rows;
  out->n = row * (size_t)rows;
  out->v = malloc((out->n + 1) * sizeof *out->v);
  out->typed = calloc(1, sizeof *out->typed);
  if (out->v == NULL || out->typed == NULL) return false;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = i < n ? i : n - 1 - i * 7 % n;
    memcpy(out->v + (size_t)i * row, from->v + (size_t)at * row,
           row * sizeof *out->v);
  }
  return true;
}

/* Takes all numbers of an operand that has no batch. */
static bool tn_test_copy_values(const tn_test_values *from,
                                tn_test_values *out) {
  *out = *from;
  if (from->v == NULL) return true;
  out->v = malloc((from->n + 1) * sizeof *out->v);
  out->typed = calloc(1, sizeof *out->typed);
  if (out->v == NULL || out->typed == NULL) return false;
  memcpy(out->v, from->v, from->n * sizeof *out->v);
  return true;
}

/* The kit's inputs with another number of rows. */
static bool tn_test_resize_batch(const tn_test_kit *k, int64_t rows,
                                 tn_test_list *out) {
  bool fine = true;
  out->n = k->in.n;
  for (size_t i = 0; i < k->in.n && fine; ++i) {
    const tn_test_values *v = &k->in.v[i];
    const tn_arg *arg = tn_test_arg(k->desc->inputs, k->desc->n_inputs, i);
    const bool has = v->v != NULL && v->ndim > 0 &&
                     v->shape[0] == k->in.v[0].shape[0] &&
                     tn_test_has_batch(k->desc, arg);
    fine = has ? tn_test_take_rows(v, rows, &out->v[i])
               : tn_test_copy_values(v, &out->v[i]);
  }
  return fine;
}

/* Compares the rows that both results have. */
static void tn_test_compare_rows(const tn_test_kit *k, const tn_test_bits *a,
                                 const tn_test_bits *b, int64_t rows) {
  const int64_t n = k->in.v[0].shape[0];
  for (size_t i = 0; i < k->out.n; ++i) {
    const tn_arg *arg = tn_test_arg(k->desc->outputs, k->desc->n_outputs, i);
    char text[256];
    if (a->v[i] == NULL || b->v[i] == NULL || !tn_test_has_batch(k->desc, arg))
      continue;
    const size_t row = a->n[i] / (size_t)n;
    const size_t same = row * (size_t)(rows < n ? rows : n);
    if (b->n[i] == row * (size_t)rows && memcmp(a->v[i], b->v[i], same) == 0)
      continue;
    (void)snprintf(text, sizeof text,
                   "rows of `%s` have other bits in a batch of %" PRId64
                   " than in one of %" PRId64
                   ", and the manifest says `batch_invariant: true`",
                   arg->name, rows, n);
    tn_test_complain(k->t, text);
    return;
  }
}

/* The call with so many rows. */
static tn_code tn_test_try_batch(const tn_test_kit *k, int64_t rows,
                                 const tn_test_bits *whole) {
  static tn_test_bits bits;
  static tn_test_subsets none;
  tn_test_kit *other = calloc(1, sizeof *other);
  if (other == NULL) return TN_OUT_OF_MEMORY;
  memset(&none, 0, sizeof none);
  *other = *k;
  memset(&other->in, 0, sizeof other->in);
  tn_code rc =
      tn_test_resize_batch(k, rows, &other->in) ? TN_OK : TN_OUT_OF_MEMORY;
  if (rc == TN_OK) rc = tn_test_infer(other);
  if (rc == TN_OK) rc = tn_test_compute_bits(other, &none, &bits);
  if (rc == TN_OK) tn_test_compare_rows(k, whole, &bits, rows);
  tn_test_free_bits(&bits);
  tn_test_list_free(&other->in);
  free(other);
  return rc;
}

/* One case for an example whose first input has rows. */
static void tn_test_run_batch(const tn_test_kit *k) {
  static tn_test_bits whole;
  static tn_test_subsets none;
  const tn_test_values *first = &k->in.v[0];
  if (k->in.n == 0 || first->v == NULL || first->ndim == 0 || first->n == 0 ||
      k->out.n == 0)
    return;
  const int64_t n = first->shape[0];
  const int64_t row = (int64_t)first->n / n;
  int64_t rows = 3 * n + 1 > TN_TEST_ROWS ? 3 * n + 1 : TN_TEST_ROWS;
  if (rows * row > TN_TEST_BATCH) rows = n + 1;
  if (!tn_test_begin(k->t, "%s %s: %s, %s, dense, batch", k->op_name,
                     k->example->name, k->types_text, k->place_name))
    return;
  memset(&none, 0, sizeof none);
  tn_code rc = tn_test_compute_bits(k, &none, &whole);
  if (rc == TN_OK) rc = tn_test_try_batch(k, 1, &whole);
  if (rc == TN_OK) rc = tn_test_try_batch(k, rows, &whole);
  tn_test_free_bits(&whole);
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else
    tn_test_pass(k->t);
}

#endif /* TENON_TEST_BATCH_H_ */
