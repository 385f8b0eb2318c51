/* SPDX-License-Identifier: Apache-2.0
 * integer_product.c: kernels of integer_product.yaml. Sums are of unsigned
 * integers of 32 bits, which wrap without undefined behaviour; zero points are
 * subtracted before a product.
 */
#include "integer_product.gen.h"

#include "axis.h"
#include "window.h"

/* An element of i8 or u8. */
static int32_t read_small(const tn_tensor *t, int64_t i) {
  return t->dtype == TN_I8 ? ((const int8_t *)t->data)[i]
                           : ((const uint8_t *)t->data)[i];
}

/* The zero point of an operand that may be absent. */
static int32_t read_zero(const tn_frame *call, uint32_t in, int64_t i) {
  return in < call->n_in && call->in[in].data != NULL
             ? read_small(&call->in[in], i)
             : 0;
}

/* -------------------------------------------------------------------- dot */

/* One call; `rows` of all matrices. */
typedef struct dot {
  const tn_frame *call;
  int64_t m, k, n;
  int32_t lhs_zero, rhs_zero;
} dot;

/* Columns of the result that are summed together. */
enum { COLUMNS = 64 };

/* Adds a times n elements of rhs from `at` on, less its zero point, to sums. */
static void add_row(const dot *d, uint32_t *sums, int64_t at, int64_t n,
                    int32_t a) {
  const tn_tensor *rhs = &d->call->in[1];
  const int8_t *low = (const int8_t *)rhs->data + at;
  const uint8_t *high = (const uint8_t *)rhs->data + at;
  const int32_t zero = d->rhs_zero;
  if (rhs->dtype == TN_I8)
    for (int64_t j = 0; j < n; ++j) sums[j] += (uint32_t)(a * (low[j] - zero));
  else
    for (int64_t j = 0; j < n; ++j) sums[j] += (uint32_t)(a * (high[j] - zero));
}

static int32_t multiply_rows(void *arg, int64_t begin, int64_t end) {
  const dot *d = (const dot *)arg;
  const tn_tensor *lhs = &d->call->in[0];
  uint32_t *out = (uint32_t *)d->call->out[0].data;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t matrix = row / d->m;
    for (int64_t j = 0; j < d->n; j += COLUMNS) {
      uint32_t sums[COLUMNS] = {0};
      const int64_t n = nn_min(d->n - j, COLUMNS);
      for (int64_t k = 0; k < d->k; ++k)
        add_row(d, sums, (matrix * d->k + k) * d->n + j, n,
                read_small(lhs, row * d->k + k) - d->lhs_zero);
      for (int64_t i = 0; i < n; ++i) out[row * d->n + j + i] = sums[i];
    }
  }
  return TN_OK;
}

int32_t nn_integer_dot(const tn_frame *call) {
  const tn_tensor *lhs = &call->in[NN_INTEGER_DOT_IN_LHS];
  const tn_tensor *out = &call->out[NN_INTEGER_DOT_OUT_OUT];
  dot d = {.call = call,
           .m = out->shape[out->ndim - 2],
           .k = lhs->shape[lhs->ndim - 1],
           .n = out->shape[out->ndim - 1],
           .lhs_zero = read_zero(call, NN_INTEGER_DOT_IN_LHS_ZERO, 0),
           .rhs_zero = read_zero(call, NN_INTEGER_DOT_IN_RHS_ZERO, 0)};
  const int64_t size = tn_tensor_size(out);
  if (size == 0) return TN_OK;
  return nn_run_parallel(call, size / d.n, d.n * nn_max(d.k, 1), multiply_rows,
                         &d);
}

/* ------------------------------------------------------------ convolution */

/* One call. */
typedef struct convolution {
  const tn_frame *call;
  nn_window window;
  int64_t channels, filters;    /* of the images, of the result */
  int64_t group, group_filters; /* channels and filters of a group */
  int32_t data_zero;
} convolution;

/* Adds one channel's part of a filter to the image of the filter. `image` and
 * `taps` are the first elements of both. */
static void add_channel(const convolution *c, uint32_t *to, int64_t image,
                        int64_t taps, int32_t weight_zero) {
  const nn_window *w = &c->window;
  const tn_tensor *data = &c->call->in[0], *weight = &c->call->in[1];
  const nn_range all[] = {{0, w->out[0]}, {0, w->out[1]}, {0, w->out[2]}};
  for (int64_t t = 0; t < nn_window_multiply_lengths(w->kernel); ++t) {
    const int64_t at[] = {t / w->kernel[2] / w->kernel[1],
                          t / w->kernel[2] % w->kernel[1], t % w->kernel[2]};
    const int32_t factor = read_small(weight, taps + t) - weight_zero;
    nn_range in[NN_WINDOW_RANK];
    int64_t from[NN_WINDOW_RANK];
    for (int d = 0; d < NN_WINDOW_RANK; ++d) {
      in[d] = nn_window_find_inside(w, d, at[d], all[d]);
      from[d] = at[d] * w->dilate[d] - w->pad[d];
    }
    for (int64_t i = in[0].begin; i < in[0].end; ++i)
      for (int64_t j = in[1].begin; j < in[1].end; ++j) {
        const int64_t line = image + ((from[0] + i * w->stride[0]) * w->in[1] +
                                      from[1] + j * w->stride[1]) *
                                         w->in[2];
        uint32_t *row = to + (i * w->out[1] + j) * w->out[2];
        for (int64_t k = in[2].begin; k < in[2].end; ++k)
          row[k] +=
              (uint32_t)(factor *
                         (read_small(data, line + from[2] + k * w->stride[2]) -
                          c->data_zero));
      }
  }
}

/* Images of the result: index n*filters + k. */
static int32_t convolve_images(void *arg, int64_t begin, int64_t end) {
  const convolution *c = (const convolution *)arg;
  const int64_t in = nn_window_multiply_lengths(c->window.in);
  const int64_t out = nn_window_multiply_lengths(c->window.out);
  const int64_t taps = nn_window_multiply_lengths(c->window.kernel);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / c->filters, filter = i % c->filters;
    const int64_t first = filter / c->group_filters * c->group;
    const int32_t zero =
        read_zero(c->call, NN_INTEGER_CONVOLUTION_IN_WEIGHT_ZERO, filter);
    uint32_t *to = (uint32_t *)c->call->out[0].data + i * out;
    for (int64_t k = 0; k < out; ++k) to[k] = 0;
    for (int64_t g = 0; g < c->group; ++g)
      add_channel(c, to, (image * c->channels + first + g) * in,
                  (filter * c->group + g) * taps, zero);
  }
  return TN_OK;
}

static nn_window make_window(const nn_integer_convolution_params *p,
                             const tn_tensor *data, const tn_tensor *out) {
  nn_window w;
  const int64_t rank = p->kernel.n, lead = NN_WINDOW_RANK - rank;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int64_t at = d - lead;
    const int given = at >= 0;
    w.in[d] = given ? data->shape[2 + at] : 1;
    w.out[d] = given ? out->shape[2 + at] : 1;
    w.kernel[d] = given ? p->kernel.v[at] : 1;
    w.pad[d] = given ? p->pad.v[at] : 0;
    w.dilate[d] = given ? p->dilate.v[at] : 1;
    w.stride[d] =
        given ? nn_window_limit_step(p->stride.v[at], w.in[d] + 2 * w.pad[d])
              : 1;
  }
  return w;
}

int32_t nn_integer_convolution(const tn_frame *call) {
  const nn_integer_convolution_params *p =
      nn_integer_convolution_params_of(call);
  const tn_tensor *data = &call->in[NN_INTEGER_CONVOLUTION_IN_DATA];
  const tn_tensor *out = &call->out[NN_INTEGER_CONVOLUTION_OUT_OUT];
  convolution c = {
      .call = call,
      .window = make_window(p, data, out),
      .channels = data->shape[1],
      .filters = p->num_filter,
      .group = data->shape[1] / p->num_group,
      .group_filters = p->num_filter / p->num_group,
      .data_zero = read_zero(call, NN_INTEGER_CONVOLUTION_IN_DATA_ZERO, 0)};
  if (tn_tensor_size(out) == 0) return TN_OK;
  const int64_t images = out->shape[0] * p->num_filter;
  return nn_run_parallel(call, images,
                         tn_tensor_size(out) / images * nn_max(c.group, 1) *
                             nn_window_multiply_lengths(c.window.kernel),
                         convolve_images, &c);
}
