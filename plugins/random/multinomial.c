/* SPDX-License-Identifier: Apache-2.0
 * multinomial.c: classes by the probabilities of a row. A row is summed up
 * once; a draw finds its place among the sums.
 */
#include <math.h>
#include <string.h>

#include "order.gen.h"

#include "checks.h"

static double read_number(const tn_tensor *t, int64_t i) {
  return t->dtype == TN_F64 ? ((const double *)t->data)[i]
                            : (double)((const float *)t->data)[i];
}

static void write_number(const tn_tensor *t, int64_t i, double x) {
  if (t->dtype == TN_F64)
    ((double *)t->data)[i] = x;
  else
    ((float *)t->data)[i] = (float)x;
}

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

/* One call: rows of `classes` probabilities, and of `draws` elements. */
typedef struct choice {
  const tn_frame *call;
  const tn_tensor *data, *out, *log_prob; /* `log_prob` NULL: not wanted */
  double *sums;                           /* of each row */
  int64_t classes, draws;
  int32_t wants_class;
} choice;

/* Sums of the probabilities of a row up to each class. */
static int32_t add_up(void *arg, int64_t begin, int64_t end) {
  const choice *c = (const choice *)arg;
  for (int64_t row = begin; row < end; ++row) {
    double sum = 0;
    for (int64_t i = row * c->classes; i < (row + 1) * c->classes; ++i)
      c->sums[i] = sum += read_number(c->data, i);
  }
  return TN_OK;
}

/* The first class whose sum is above u times the whole. A class of probability
 * 0 has the sum of the one before it, so it is never the first. */
static int64_t find_class(const choice *c, int64_t row, double u) {
  const double *sums = c->sums + row * c->classes;
  const double x = u * sums[c->classes - 1];
  int64_t low = 0, high = c->classes - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sums[middle] > x)
      high = middle;
    else
      low = middle + 1;
  }
  while (low > 0 && sums[low] <= sums[low - 1]) --low;
  return low;
}

static int32_t draw_classes(void *arg, int64_t begin, int64_t end) {
  const choice *c = (const choice *)arg;
  const tn_random *random = c->call->run->random[0];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / c->draws;
    const tn_kernel_bits bits = tn_kernel_random(random, (uint64_t)i);
    const double u = tn_kernel_uniform_f64(bits.word[0], bits.word[1]);
    const int64_t k = find_class(c, row, u);
    if (c->wants_class) write_class(c->out, i, k);
    if (c->log_prob != NULL)
      write_number(c->log_prob, i,
                   log(read_number(c->data, row * c->classes + k)));
  }
  return TN_OK;
}

static int32_t check_rows(const choice *c, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < c->classes; ++k) {
      const double p = read_number(c->data, row * c->classes + k);
      if (!(p >= 0 && p <= DBL_MAX))
        return TN_FAIL(c->call, TN_OUT_OF_RANGE,
                       "row %lld has the probability %g for class %lld; it "
                       "must be 0 or more, and finite",
                       (long long)row, p, (long long)k);
    }
    const double sum = c->sums[(row + 1) * c->classes - 1];
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
  const int64_t classes = data->shape[data->ndim - 1];
  int64_t rows = 1;
  for (int32_t d = 0; d < data->ndim - 1; ++d) rows *= data->shape[d];
  const int64_t size = tn_tensor_size(out);
  return (choice){.call = call,
                  .data = data,
                  .out = out,
                  .classes = classes,
                  .draws = size > 0 ? size / rows : 0};
}

/* Rows with fewer classes than this are added up in one slice. */
enum { CLASSES = 16384, DRAWS = 1024 };

int32_t random_multinomial(const tn_frame *call) {
  choice c = make_choice(call, &call->in[RANDOM_MULTINOMIAL_IN_DATA],
                         &call->out[RANDOM_MULTINOMIAL_OUT_OUT]);
  const int64_t size = tn_tensor_size(c.out);
  if (size == 0) return TN_OK;
  if (c.classes == 0)
    return TN_FAIL(call, TN_SHAPE, "`data` has no class; give it one or more");
  if (call->req[RANDOM_MULTINOMIAL_OUT_LOG_PROB] != TN_REQ_NULL)
    c.log_prob = &call->out[RANDOM_MULTINOMIAL_OUT_LOG_PROB];
  c.sums = (double *)call->ws[0];
  c.wants_class = call->req[RANDOM_MULTINOMIAL_OUT_OUT] != TN_REQ_NULL;
  int32_t code = call->host->parallel_for(call, size / c.draws,
                                          1 + CLASSES / c.classes, add_up, &c);
  if (code == TN_OK) code = check_rows(&c, size / c.draws);
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
    const int64_t first = row * c->classes;
    for (int64_t k = 0; k < c->classes; ++k) write_number(to, first + k, 0);
    for (int64_t j = row * c->draws; j < (row + 1) * c->draws; ++j) {
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
    if (k < 0 || k >= c->classes)
      return TN_FAIL(c->call, TN_OUT_OF_RANGE,
                     "element %lld of `out` is class %lld, but there are "
                     "%lld; pass the output of the forward call",
                     (long long)j, (long long)k, (long long)c->classes);
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
  return call->host->parallel_for(call, size / c.classes, 1, add_slopes, &c);
}
