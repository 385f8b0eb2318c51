/* SPDX-License-Identifier: Apache-2.0
 * pairs.c: products of all elements of a line except two, on the CPU: the
 * second gradient of products.
 */
#include "second.gen.h"

#include "reduce_dual.h"
#include "reduce_loops.h"

enum { HEAD, DATA, SLOPE }; /* inputs */

/* All operands are dense: an element of a line has the same position in
 * each. */
typedef struct pairs {
  const tn_frame *call;
  reduce_view data;
  tn_kernel_mode mode;
  int64_t length; /* elements of a line */
  int64_t bytes;  /* bytes of an element */
  int skips_nan;
  int64_t *places;     /* positions of the elements of a line */
  reduce_dual *before; /* products of the elements before each one */
} pairs;

static double read_element(const pairs *p, const tn_tensor *from, int64_t at) {
  double x;
  tn_kernel_load_dense(&x, &p->mode, (const char *)from->data + at * p->bytes,
                       from->dtype, 1);
  return x;
}

/* Reads element i of the line at `first`; 1 if it is a skipped NaN. */
static void read_dual(const pairs *p, int64_t first, int64_t i, double *x,
                      double *u) {
  *x = read_element(p, &p->call->in[DATA], first + p->places[i]);
  *u = read_element(p, &p->call->in[SLOPE], first + p->places[i]);
  if (!p->skips_nan || *x == *x) return;
  *x = 1;
  *u = 0;
}

static void compute_line(const pairs *p, int64_t line) {
  const tn_tensor *out = &p->call->out[0];
  const double out_gradient = read_element(p, &p->call->in[HEAD], line);
  reduce_dual *before = p->before + line * p->length;
  reduce_dual all = reduce_dual_make_one();
  int64_t first = 0, left = line;
  double x, u;
  for (int32_t d = p->data.kept; d-- > 0; left /= p->data.shape[d])
    first += left % p->data.shape[d] * p->data.strides[d];
  for (int64_t i = 0; i < p->length; ++i) {
    before[i] = all;
    read_dual(p, first, i, &x, &u);
    reduce_dual_multiply(&all, x, u);
  }
  all = reduce_dual_make_one();
  for (int64_t i = p->length; i-- > 0;) {
    const int64_t at = first + p->places[i];
    const double own = read_element(p, &p->call->in[DATA], at);
    const int is_none = p->skips_nan && own != own;
    const double y =
        is_none ? 0
                : out_gradient * reduce_dual_get_product_part(before[i], all);
    tn_kernel_store_dense((char *)out->data + at * p->bytes, out->dtype, &y,
                          &p->mode, 1);
    read_dual(p, first, i, &x, &u);
    reduce_dual_multiply(&all, x, u);
  }
}

static int32_t compute_lines(void *arg, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; ++line)
    compute_line((const pairs *)arg, line);
  return TN_OK;
}

static void find_places(const pairs *p) {
  const reduce_view *v = &p->data;
  for (int64_t i = 0; i < p->length; ++i) {
    int64_t at = 0, left = i;
    for (int32_t d = v->tensor.ndim; d-- > v->kept; left /= v->shape[d])
      at += left % v->shape[d] * v->strides[d];
    p->places[i] = at;
  }
}

int32_t tensor_prod_pairs(const tn_frame *call) {
  const int64_t lines = tn_tensor_size(&call->in[HEAD]);
  const int64_t size = tn_tensor_size(&call->in[DATA]);
  uint32_t axes;
  const int32_t code = reduce_read_axes(call, call->in[DATA].ndim, &axes);
  if (code != TN_OK || size == 0 || call->req[0] == TN_REQ_NULL) return code;
  pairs p = {.call = call,
             .mode = {TN_F64, tn_kernel_level(call)},
             .length = size / lines,
             .bytes = tn_dtype_bytes(call->in[DATA].dtype),
             .skips_nan = tensor_prod_pairs_params_of(call)->skip_nan,
             .before = (reduce_dual *)call->ws[0],
             .places = (int64_t *)((reduce_dual *)call->ws[0] + size)};
  const int64_t grain = TN_KERNEL_GRAIN / 16 / p.length;
  reduce_view_init(&p.data, &call->in[DATA], axes);
  find_places(&p);
  return call->host->parallel_for(call, lines, grain > 0 ? grain : 1,
                                  compute_lines, &p);
}
