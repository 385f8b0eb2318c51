/* SPDX-License-Identifier: Apache-2.0
 * multinomial.c: classes by the probabilities of a row. A row is summed up
 * once; a draw finds its place among the sums.
 */
#include <math.h>
#include <string.h>

#include "order.gen.h"

#include "checks.h"
#include "numbers.h"

#define CLASS_ONE static inline
#include "class_rows.h"

static void write_class(const tn_tensor *t, int64_t i, int64_t k) {
  const int32_t narrow = (int32_t)k;
  if (t->dtype == TN_I64)
    ((int64_t *)t->data)[i] = k;
  else if (t->dtype == TN_I32 || t->dtype == TN_U32)
    memcpy((char *)t->data + 4 * i, &narrow, sizeof narrow);
  else
    write_number(t, i, (double)k);
}

static int64_t read_class(const tn_tensor *t, int64_t i) {
  if (t->dtype == TN_I64) return ((const int64_t *)t->data)[i];
  if (t->dtype == TN_I32) return ((const int32_t *)t->data)[i];
  if (t->dtype == TN_U32) return ((const uint32_t *)t->data)[i];
  const double x = read_number(t, i);
  return x >= 0 && x < 0x1p62 ? (int64_t)x : -1;
}

/* One call. */
typedef struct choice {
  const tn_frame *call;
  const tn_tensor *data, *out, *log_prob; /* `log_prob` NULL: not wanted */
  double *sums;                           /* of each row */
  class_rows sizes;
  int32_t wants_class;
} choice;

/* Sums of the probabilities of a row up to each class. */
static int32_t add_up(void *arg, int64_t begin, int64_t end) {
  const choice *c = (const choice *)arg;
  for (int64_t row = begin; row < end; ++row) {
    double sum = 0;
    for (int64_t i = row * c->sizes.classes; i < (row + 1) * c->sizes.classes;
         ++i)
      c->sums[i] = sum += read_number(c->data, i);
  }
  return TN_OK;
}

static int32_t draw_classes(void *arg, int64_t begin, int64_t end) {
  const choice *c = (const choice *)arg;
  const tn_random *random = c->call->run->random[0];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / c->sizes.draws;
    const tn_kernel_bits bits = tn_kernel_random(random, (uint64_t)i);
    const double u = tn_kernel_uniform_f64(bits.word[0], bits.word[1]);
    const int64_t k =
        find_class(c->sums + row * c->sizes.classes, c->sizes.classes, u);
    if (c->wants_class) write_class(c->out, i, k);
    if (c->log_prob != NULL)
      write_number(c->log_prob, i,
                   log(read_number(c->data, row * c->sizes.classes + k)));
  }
  return TN_OK;
}

static int32_t check_rows(const choice *c, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < c->sizes.classes; ++k) {
      const double p = read_number(c->data, row * c->sizes.classes + k);
      if (!(p >= 0 && p <= DBL_MAX))
        return TN_FAIL(c->call, TN_OUT_OF_RANGE,
                       "row %lld has the probability %g for class %lld; it "
                       "must be 0 or more, and finite",
                       (long long)row, p, (long long)k);
    }
    const double sum = c->sums[(row + 1) * c->sizes.classes - 1];
    if (!(sum <= DBL_MAX && sum > 0))
      return TN_FAIL(c->call, TN_OUT_OF_RANGE,
                     "the probabilities of row %lld have the sum %g; it must "
                     "be above 0, and finite",
                     (long long)row, sum);
  }
  return TN_OK;
}

static choice make_choice(const tn_frame *call, const tn_tensor *data,
                          const tn_tensor *out) {
  return (choice){.call = call,
                  .data = data,
                  .out = out,
                  .sizes = find_class_rows(data, out)};
}

/* Rows with fewer classes than this are added up in one slice. */
enum { CLASSES = 16384, DRAWS = 1024 };

int32_t random_multinomial(const tn_frame *call) {
  choice c = make_choice(call, &call->in[RANDOM_MULTINOMIAL_IN_DATA],
                         &call->out[RANDOM_MULTINOMIAL_OUT_OUT]);
  const int64_t size = tn_tensor_size(c.out);
  if (size == 0) return TN_OK;
  if (c.sizes.classes == 0)
    return TN_FAIL(call, TN_SHAPE, "`data` has no class; give it one or more");
  if (call->req[RANDOM_MULTINOMIAL_OUT_LOG_PROB] != TN_REQ_NULL)
    c.log_prob = &call->out[RANDOM_MULTINOMIAL_OUT_LOG_PROB];
  c.sums = (double *)call->ws[0];
  c.wants_class = call->req[RANDOM_MULTINOMIAL_OUT_OUT] != TN_REQ_NULL;
  int32_t code = call->host->parallel_for(
      call, c.sizes.rows, 1 + CLASSES / c.sizes.classes, add_up, &c);
  if (code == TN_OK) code = check_rows(&c, c.sizes.rows);
  if (code != TN_OK) return code;
  return call->host->parallel_for(call, size, DRAWS, draw_classes, &c);
}

/* d log(p_k)/d p_k is 1/p_k for each drawn class k, in the order of draws. */
static int32_t add_slopes(void *arg, int64_t begin, int64_t end) {
  const choice *c = (const choice *)arg;
  const tn_tensor *grad =
      &c->call->in[RANDOM_MULTINOMIAL_BACKWARD_GRAD_LOG_PROB];
  const tn_tensor *to = &c->call->out[0];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * c->sizes.classes;
    for (int64_t k = 0; k < c->sizes.classes; ++k)
      write_number(to, first + k, 0);
    for (int64_t j = row * c->sizes.draws; j < (row + 1) * c->sizes.draws;
         ++j) {
      const int64_t at = first + read_class(c->out, j);
      write_number(to, at,
                   read_number(to, at) +
                       read_number(grad, j) / read_number(c->data, at));
    }
  }
  return TN_OK;
}

static int32_t check_classes(const choice *c) {
  const int64_t n = tn_tensor_size(c->out);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t k = read_class(c->out, j);
    if (k < 0 || k >= c->sizes.classes)
      return TN_FAIL(c->call, TN_OUT_OF_RANGE,
                     "element %lld of `out` is class %lld, but there are "
                     "%lld; pass the output of the forward call",
                     (long long)j, (long long)k, (long long)c->sizes.classes);
  }
  return TN_OK;
}

int32_t random_multinomial_backward(const tn_frame *call) {
  const tn_tensor *data = &call->in[RANDOM_MULTINOMIAL_BACKWARD_IN_DATA];
  choice c =
      make_choice(call, data, &call->in[RANDOM_MULTINOMIAL_BACKWARD_OUT_OUT]);
  const int64_t size = tn_tensor_size(data);
  if (size == 0 || call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = check_classes(&c);
  if (code != TN_OK) return code;
  return call->host->parallel_for(call, c.sizes.rows, 1, add_slopes, &c);
}
