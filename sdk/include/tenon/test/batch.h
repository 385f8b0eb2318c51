/* SPDX-License-Identifier: Apache-2.0
 * test/batch.h: a part of test.h: examples with other numbers of rows. The
 * first axis of the first input is the batch. If the manifest says
 * `batch_invariant: true`, each row of the results must have the same bits
 * alone, in the example's batch, and in a larger one of an odd number of rows.
 * If all kernels are TN_KERNEL_ELEMENTWISE, each row must have the same
 * numbers, so that ends of loops are tried that examples do not have.
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

/* The subject's inputs with another number of rows. */
static bool tn_test_resize_batch(const tn_test_subject *k, int64_t rows,
                                 tn_test_list *out) {
  bool fine = true;
  out->n = k->in.n;
  for (size_t i = 0; i < k->in.n && fine; ++i) {
    const tn_test_values *v = &k->in.v[i];
    const tn_arg *arg = tn_test_arg(k->desc->inputs, k->desc->n_inputs, i);
    const bool has =
        v->v != NULL && v->ndim == k->in.v[0].ndim &&
        v->shape[0] == k->in.v[0].shape[0] &&
        (!k->t->is_batch_invariant || tn_test_has_batch(k->desc, arg));
    fine = has ? tn_test_take_rows(v, rows, &out->v[i])
               : tn_test_copy_values(v, &out->v[i]);
  }
  return fine;
}

/* Whether each kernel for the subject's device computes elements by themselves.
 */
static bool tn_test_is_elementwise(const tn_test_subject *k) {
  tn_plugin_info info;
  size_t n = 0;
  for (size_t i = 0; tn_plugin_at(k->t->rt, i, &info) == TN_OK; ++i) {
    for (uint32_t j = 0; j < info.plugin->n_kernels; ++j) {
      const tn_kernel *kernel = info.plugin->kernels[j];
      if (kernel->pass != TN_PASS_FORWARD || strcmp(kernel->op, k->op_name) ||
          kernel->device_type != k->place.device_type)
        continue;
      if ((kernel->flags & TN_KERNEL_ELEMENTWISE) == 0) return false;
      ++n;
    }
  }
  return n > 0;
}

/* Whether both results have the rows of the first input as their own, and no
 * others. */
static bool tn_test_has_rows(const tn_test_subject *k, const tn_array *a,
                             const tn_array *b, int64_t rows) {
  const tn_test_values *first = &k->in.v[0];
  if (a == NULL || b == NULL) return false;
  const tn_tensor *x = tn_array_tensor(a), *y = tn_array_tensor(b);
  bool fine = x->ndim == first->ndim && y->ndim == x->ndim &&
              x->shape[0] == first->shape[0] && y->shape[0] == rows;
  for (int32_t i = 1; i < x->ndim && fine; ++i)
    fine = x->shape[i] == y->shape[i];
  return fine;
}

/* Compares a row of numbers; complains with the first difference. */
static void tn_test_compare_numbers(const tn_test_subject *k,
                                    const tn_test_call *a,
                                    const tn_test_call *b, int64_t rows) {
  for (size_t i = 0; i < k->out.n; ++i) {
    const tn_arg *arg = tn_test_arg(k->desc->outputs, k->desc->n_outputs, i);
    tn_test_values x = {0}, y = {0};
    if (!tn_test_has_rows(k, a->out[i], b->out[i], rows)) continue;
    const tn_dtype dtype = tn_array_tensor(a->out[i])->dtype;
    if (tn_test_get(k->t, a->out[i], &x) == TN_OK &&
        tn_test_get(k->t, b->out[i], &y) == TN_OK) {
      for (size_t j = 0; j < x.n && j < y.n; ++j) {
        const double limit =
            tn_test_tolerance(dtype, k->example->tol) * fmax(1, fabs(x.v[j]));
        char text[256];
        if (tn_test_near(y.v[j], x.v[j], limit)) continue;
        (void)snprintf(text, sizeof text,
                       "`%s`, element number %zu: expected %.17g as in the "
                       "example, got %.17g among %" PRId64 " rows",
                       arg->name, j, x.v[j], y.v[j], rows);
        tn_test_complain(k->t, text);
        break;
      }
    }
    free(x.v), free(y.v);
  }
}

/* Compares the rows that both results have. */
static void tn_test_compare_rows(const tn_test_subject *k,
                                 const tn_test_bits *a, const tn_test_bits *b,
                                 int64_t rows) {
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

/* The call with so many rows, compared with that of the example. */
static tn_code tn_test_try_batch(const tn_test_subject *k, int64_t rows,
                                 const tn_test_call *whole, bool exact) {
  static tn_test_call call;
  tn_test_bits a = {{NULL}, {0}}, b = {{NULL}, {0}};
  tn_test_subject *other = calloc(1, sizeof *other);
  if (other == NULL) return TN_OUT_OF_MEMORY;
  *other = *k;
  memset(&other->in, 0, sizeof other->in);
  tn_code rc =
      tn_test_resize_batch(k, rows, &other->in) ? TN_OK : TN_OUT_OF_MEMORY;
  if (rc == TN_OK) rc = tn_test_infer(other);
  if (rc == TN_OK) rc = tn_test_call_dense(other, &call);
  if (rc == TN_OK && exact) {
    rc = tn_test_take_bits(whole->out, k->out.n, 0, &a);
    if (rc == TN_OK) rc = tn_test_take_bits(call.out, k->out.n, 0, &b);
    if (rc == TN_OK) tn_test_compare_rows(k, &a, &b, rows);
  } else if (rc == TN_OK) {
    tn_test_compare_numbers(k, whole, &call, rows);
  }
  tn_test_free_bits(&a);
  tn_test_free_bits(&b);
  tn_test_list_free(&other->in);
  free(other);
  return rc;
}

/* One case for an example of which the first input has rows. */
static void tn_test_run_batch(const tn_test_subject *k) {
  static tn_test_call whole;
  const bool exact = k->t->is_batch_invariant;
  const tn_test_values *first = &k->in.v[0];
  if (k->in.n == 0 || first->v == NULL || first->ndim == 0 || first->n == 0 ||
      k->out.n == 0 || !(exact || tn_test_is_elementwise(k)))
    return;
  const int64_t n = first->shape[0];
  const int64_t row = (int64_t)first->n / n;
  int64_t rows = 3 * n + 1 > TN_TEST_ROWS ? 3 * n + 1 : TN_TEST_ROWS;
  if (rows * row > TN_TEST_BATCH) rows = n + 1;
  if (!tn_test_begin(k->t, "%s %s: %s, %s, dense, batch", k->op_name,
                     k->example->name, k->types_text, k->place_name))
    return;
  tn_code rc = tn_test_call_dense(k, &whole);
  if (rc == TN_OK) rc = tn_test_try_batch(k, 1, &whole, exact);
  if (rc == TN_OK) rc = tn_test_try_batch(k, rows, &whole, exact);
  if (!exact && (rc == TN_SHAPE || rc == TN_INVALID))
    tn_test_leave_out(k->t, tn_error_text()); /* it has other rules of shapes */
  else if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else
    tn_test_pass(k->t);
}

#endif /* TENON_TEST_BATCH_H_ */
