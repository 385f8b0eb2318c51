/* SPDX-License-Identifier: Apache-2.0
 * deformable_convolution.c: shapes and kernels of deformable_convolution.yaml.
 * Weights are multiplied with panels of the matrix of windows
 * (deformable_columns.h), in slices that depend on shapes alone.
 */
#include "deformable_convolution.gen.h"

#include <string.h>

#include "deformable_columns.h"
#include "operands.h"
#include "plane_sums.h"
#include "sample_block.h"
#include "workspaces.h"

enum {
  PANEL = 1 << 20, /* bytes of a panel, if it has several channels */
  WIDTH = 256,     /* windows of a panel, if there are enough */
  FEW = 8,         /* with fewer images, the gradient of data */
  BLOCKS = 4,      /* has more blocks of channels, of at least */
  CHANNELS = 16    /* this number */
};

/* ------------------------------------------------------------------ shapes */

/* Sets the shape of `offset` or `mask`, which is input i, with `planes` planes
 * for each element of a window and each group. */
static int32_t infer_planes(const tn_frame *call, uint32_t i, int64_t planes) {
  const nn_deformable_convolution_params *p =
      nn_deformable_convolution_params_of(call);
  const tn_tensor *out = &call->out[NN_DEFORMABLE_CONVOLUTION_OUT_OUT];
  int64_t shape[4] = {-1, -1, -1, -1};
  for (int d = 0; d < 4 && out->ndim == 4; ++d) shape[d] = out->shape[d];
  shape[1] = tn_size_times(p->kernel.v[0], p->kernel.v[1]);
  if (shape[1] >= 0)
    shape[1] = tn_size_times(shape[1], p->num_deformable_group);
  if (shape[1] >= 0) shape[1] = tn_size_times(shape[1], planes);
  if (shape[1] < 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "`offset` would have more planes than 64 bits count; choose "
                   "a smaller `kernel` or `num_deformable_group`");
  return call->host->set_shape(call, TN_OPERAND_IN, i, 4, shape);
}

int32_t nn_deformable_convolution_infer(const tn_frame *call) {
  const uint32_t mask = NN_DEFORMABLE_CONVOLUTION_IN_MASK;
  const int32_t code =
      infer_planes(call, NN_DEFORMABLE_CONVOLUTION_IN_OFFSET, 2);
  if (code != TN_OK || !nn_deformable_has_input(call, mask)) return code;
  return infer_planes(call, mask, 1);
}

/* ------------------------------------------------------------------- plans */

enum { PASS_FORWARD, PASS_DATA, PASS_WEIGHT, PASS_SLOPES, N_PASSES };

/* The division of a pass into panels and slices. */
typedef struct plan {
  nn_deformable d;
  int64_t width;  /* windows of a panel */
  int64_t across; /* panels that the windows of an image need */
  int64_t step; /* channels of a panel: a part of a group, or several groups */
  int64_t down; /* panels that the channels need */
  nn_conv_sums sums;
  nn_workspaces workspaces;
  char *to; /* the result */
  int add;
  nn_deformable_slopes slopes;
} plan;

/* Returns the sizes of a call, without arrays. */
static nn_deformable make_deformable(const tn_frame *call) {
  nn_deformable d;
  memset(&d, 0, sizeof d);
  d.view = nn_deformable_view_call(call);
  d.conv = (nn_conv){.call = call,
                     .dtype = tn_kernel_compute(call->in[0].dtype),
                     .level = tn_kernel_level(call),
                     .images = d.view.images,
                     .groups = d.view.groups,
                     .channels = d.view.channels / d.view.groups,
                     .filters = d.view.filters / d.view.groups,
                     .taps = d.view.taps,
                     .in_size = d.view.size,
                     .out_size = d.view.windows};
  d.conv.bytes = tn_dtype_bytes(d.conv.dtype);
  return d;
}

/* Divides the channels of groups into panels of at most about `most`. */
static void divide_channels(plan *p, int64_t most) {
  const nn_conv *c = &p->d.conv;
  if (most >= c->channels) {
    p->step = nn_min(most / c->channels, c->groups) * c->channels;
    p->down = (c->groups * c->channels + p->step - 1) / p->step;
  } else {
    p->step = nn_divide_evenly(c->channels, most);
    p->down = (c->channels + p->step - 1) / p->step * c->groups;
  }
}

/* Returns the number of slices of a pass. */
static int64_t count_slices(const plan *p, int pass) {
  if (pass == PASS_DATA) return p->d.conv.images * p->down;
  if (pass == PASS_WEIGHT) return p->sums.parts * p->down;
  return p->d.conv.images * p->across;
}

/* Plans a pass of a call that is not empty, without arrays. */
static plan plan_pass(const nn_deformable *d, int pass) {
  plan p = {.d = *d, .sums = {NULL, 1}};
  const nn_conv *c = &p.d.conv;
  p.width = nn_divide_evenly(c->out_size, WIDTH);
  p.across = (c->out_size + p.width - 1) / p.width;
  int64_t most = nn_max(PANEL / c->bytes / p.width / c->taps, 1);
  if (pass == PASS_DATA && c->images < FEW)
    most = nn_min(most, nn_max(d->view.channels / BLOCKS, CHANNELS));
  divide_channels(&p, most);
  p.workspaces.bytes =
      (uint64_t)nn_round_up(p.width * p.step * c->taps * c->bytes, 64);
  return p;
}

/* Completes a plan, whose memory is that of `c` from now on. */
static void place_workspaces(plan *p, int pass) {
  uint64_t used = 0;
  if (pass == PASS_WEIGHT) {
    p->sums = nn_conv_plan_sums(&p->d.conv);
    used = nn_conv_count_sum_bytes(&p->sums);
  }
  p->workspaces.n = nn_choose_workspace_count(count_slices(p, pass));
  p->workspaces.memory = p->d.conv.memory ? p->d.conv.memory + used : NULL;
}

/* Bytes of workspace for a pass. */
static uint64_t count_pass_bytes(const nn_deformable *d, int pass) {
  plan p = plan_pass(d, pass);
  place_workspaces(&p, pass);
  const uint64_t bytes = p.workspaces.n * p.workspaces.bytes;
  return pass == PASS_WEIGHT ? bytes + nn_conv_count_sum_bytes(&p.sums) : bytes;
}

/* Runs a planned pass: `body` computes its slices. */
static int32_t run_slices(plan *p, int pass, tn_loop_body *body) {
  const tn_frame *call = p->d.conv.call;
  place_workspaces(p, pass);
  return call->host->parallel_for(call, count_slices(p, pass), 1, body, p);
}

/* Returns the channels of panel i among those of an image. */
static nn_deformable_panel locate_panel(const plan *p, int64_t i, char *to) {
  const nn_conv *c = &p->d.conv;
  const int64_t per_group = (c->channels + p->step - 1) / p->step;
  nn_deformable_panel panel = {.to = to};
  if (p->step >= c->channels) {
    panel.channel = i * p->step;
    panel.channels = nn_min(p->step, c->groups * c->channels - panel.channel);
  } else {
    const int64_t first = i % per_group * p->step;
    panel.channel = i / per_group * c->channels + first;
    panel.channels = nn_min(p->step, c->channels - first);
  }
  return panel;
}

/* Sets the windows of a panel: those of number i among an image's. */
static void set_windows(const plan *p, int64_t i, nn_deformable_panel *panel) {
  panel->window = i * p->width;
  panel->n = nn_min(p->width, p->d.conv.out_size - panel->window);
}

/* ---------------------------------------------------------------- products */

/* The rows of a panel that belong to one group. */
typedef struct group_rows {
  int64_t group;
  int64_t first; /* the first row, among those of the group */
  int64_t n;
  char *to;
} group_rows;

/* Returns the rows from a channel of a panel on. */
static group_rows find_group_rows(const nn_deformable *d,
                                  const nn_deformable_panel *panel,
                                  int64_t channel) {
  const nn_conv *c = &d->conv;
  const int64_t group = channel / c->channels;
  const int64_t end =
      nn_min((group + 1) * c->channels, panel->channel + panel->channels);
  return (group_rows){
      group, (channel - group * c->channels) * c->taps,
      (end - channel) * c->taps,
      panel->to + (channel - panel->channel) * c->taps * panel->n * c->bytes};
}

/* Returns the address of the first of some rows in an array like weight. */
static char *locate_weight(const nn_deformable *d, char *weight,
                           const group_rows *rows) {
  const nn_conv *c = &d->conv;
  const int64_t depth = c->channels * c->taps;
  return weight + (rows->group * c->filters * depth + rows->first) * c->bytes;
}

/* Returns the address of a panel's windows in out. */
static char *locate_out(const nn_deformable *d,
                        const nn_deformable_panel *panel, int64_t group) {
  const nn_conv *c = &d->conv;
  const int64_t plane = (panel->image * c->groups + group) * c->filters;
  return d->out + (plane * c->out_size + panel->window) * c->bytes;
}

/* The products of a pass: out from weight and panel, the panel from weight and
 * out, or the gradient of weight from out and panel. */
typedef struct product {
  int pass;
  int add;     /* to the old elements of out or of the gradient */
  char *slope; /* the gradient of weight */
} product;

/* Computes the product for some rows of a panel. Those of out are added if they
 * are not the first ones of their group. */
static int32_t multiply_rows(const nn_deformable *d, const product *x,
                             const nn_deformable_panel *panel,
                             const group_rows *rows) {
  const nn_conv *c = &d->conv;
  const int64_t depth = c->channels * c->taps;
  char *out = locate_out(d, panel, rows->group);
  tn_blas_gemm g = {.struct_size = sizeof g, .dtype = c->dtype, .alpha = 1};
  if (x->pass == PASS_FORWARD) {
    g.m = c->filters, g.n = panel->n, g.k = rows->n;
    g.a = locate_weight(d, d->weight, rows), g.lda = depth;
    g.b = rows->to, g.ldb = panel->n;
    g.c = out, g.ldc = c->out_size;
    g.beta = x->add || rows->first > 0 ? 1 : 0;
  } else if (x->pass == PASS_WEIGHT) {
    g.m = c->filters, g.n = rows->n, g.k = panel->n, g.transpose_b = 1;
    g.a = out, g.lda = c->out_size;
    g.b = rows->to, g.ldb = panel->n;
    g.c = locate_weight(d, x->slope, rows), g.ldc = depth;
    g.beta = x->add ? 1 : 0;
  } else {
    g.m = rows->n, g.n = panel->n, g.k = c->filters, g.transpose_a = 1;
    g.a = locate_weight(d, d->weight, rows), g.lda = depth;
    g.b = out, g.ldb = c->out_size;
    g.c = rows->to, g.ldc = panel->n;
  }
  return nn_multiply(c->call, &g);
}

/* Computes the products for all rows of a panel. */
static int32_t multiply_panel(const nn_deformable *d, const product *x,
                              const nn_deformable_panel *panel) {
  const int64_t end = panel->channel + panel->channels;
  int32_t code = TN_OK;
  group_rows rows;
  for (int64_t at = panel->channel; at < end && code == TN_OK;
       at += rows.n / d->conv.taps) {
    rows = find_group_rows(d, panel, at);
    code = multiply_rows(d, x, panel, &rows);
  }
  return code;
}

/* ------------------------------------------------------------------ passes */

/* Computes one slice of a pass in a workspace. */
typedef int32_t slice_fn(plan *p, int64_t slice, char *workspace);

/* Calls `one` for each slice with a workspace, until one fails. */
static int32_t run_each(plan *p, slice_fn *one, nn_range slices) {
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  int32_t code = TN_OK;
  for (int64_t i = slices.begin; i < slices.end && code == TN_OK; ++i)
    code = one(p, i, nn_locate_workspace(&p->workspaces, slot));
  nn_release_workspace(&p->workspaces, slot);
  return code;
}

#define PASS_BODY(name, one)                                   \
  static int32_t name(void *arg, int64_t begin, int64_t end) { \
    return run_each(arg, one, (nn_range){begin, end});         \
  }

/* Writes the bias to the windows of a panel in all groups, or adds it. */
static void write_bias(const plan *p, const nn_deformable_panel *panel) {
  const nn_conv *c = &p->d.conv;
  for (int64_t g = 0; p->d.bias && g < c->groups; ++g)
    nn_conv_write_bias(c, p->d.bias + g * c->filters * c->bytes,
                       locate_out(&p->d, panel, g), panel->n, p->add);
}

/* Computes out in one panel's windows of an image: a slice_fn. */
static int32_t compute_out(plan *p, int64_t slice, char *workspace) {
  const product x = {PASS_FORWARD, p->add || p->d.bias, NULL};
  int32_t code = TN_OK;
  for (int64_t i = 0; i < p->down && code == TN_OK; ++i) {
    nn_deformable_panel panel = locate_panel(p, i, workspace);
    panel.image = slice / p->across;
    set_windows(p, slice % p->across, &panel);
    if (i == 0) write_bias(p, &panel);
    nn_deformable_read_panel(&p->d, &panel);
    code = multiply_panel(&p->d, &x, &panel);
  }
  return code;
}
PASS_BODY(run_forward_slices, compute_out)

/* Computes the gradient of data in one panel's channels of an image: a
 * slice_fn. */
static int32_t compute_data(plan *p, int64_t slice, char *workspace) {
  const nn_conv *c = &p->d.conv;
  const product x = {PASS_DATA, 0, NULL};
  nn_deformable_panel panel = locate_panel(p, slice % p->down, workspace);
  int32_t code = TN_OK;
  panel.image = slice / p->down;
  const int64_t plane = panel.image * p->d.view.channels + panel.channel;
  if (!p->add)
    memset(p->to + plane * c->in_size * c->bytes, 0,
           (size_t)(panel.channels * c->in_size * c->bytes));
  for (int64_t i = 0; i < p->across && code == TN_OK; ++i) {
    set_windows(p, i, &panel);
    code = multiply_panel(&p->d, &x, &panel);
    if (code == TN_OK) nn_deformable_add_panel(&p->d, &panel, p->to);
  }
  return code;
}
PASS_BODY(run_data_slices, compute_data)

/* Computes the gradient of weight in one panel's channels, over some images: a
 * slice_fn. */
static int32_t compute_weight(plan *p, int64_t slice, char *workspace) {
  const int64_t part = slice / p->down, images = p->d.conv.images;
  const int64_t first = images * part / p->sums.parts;
  const int64_t last = images * (part + 1) / p->sums.parts;
  product x = {PASS_WEIGHT, part == 0 && p->add,
               nn_conv_locate_sum(&p->sums, p->to, part)};
  nn_deformable_panel panel = locate_panel(p, slice % p->down, workspace);
  int32_t code = TN_OK;
  for (panel.image = first; panel.image < last; ++panel.image)
    for (int64_t i = 0; i < p->across && code == TN_OK; ++i, x.add = 1) {
      set_windows(p, i, &panel);
      nn_deformable_read_panel(&p->d, &panel);
      code = multiply_panel(&p->d, &x, &panel);
    }
  return code;
}
PASS_BODY(run_weight_slices, compute_weight)

/* Computes the gradients of offset and mask in one panel's windows: a slice_fn.
 */
static int32_t compute_slopes(plan *p, int64_t slice, char *workspace) {
  const product x = {PASS_DATA, 0, NULL};
  int32_t code = TN_OK;
  for (int64_t i = 0; i < p->down && code == TN_OK; ++i) {
    nn_deformable_panel panel = locate_panel(p, i, workspace);
    panel.image = slice / p->across;
    set_windows(p, slice % p->across, &panel);
    code = multiply_panel(&p->d, &x, &panel);
    if (code == TN_OK) nn_deformable_write_slopes(&p->d, &panel, &p->slopes);
  }
  return code;
}
PASS_BODY(run_slope_slices, compute_slopes)

/* ----------------------------------------------------------------- kernels */

/* Tests whether output i of the call is requested. */
static int is_requested(const tn_frame *call, uint32_t i) {
  return i < call->n_out && call->req[i] != TN_REQ_NULL;
}

/* Tests whether a call needs a pass. */
static int needs_pass(const tn_frame *call, int pass) {
  if (!(call->flags & TN_CALL_BACKWARD))
    return pass == PASS_FORWARD && is_requested(call, 0);
  if (pass == PASS_DATA)
    return is_requested(call, NN_DEFORMABLE_CONVOLUTION_IN_DATA);
  if (pass == PASS_WEIGHT)
    return is_requested(call, NN_DEFORMABLE_CONVOLUTION_IN_WEIGHT);
  return pass == PASS_SLOPES &&
         (is_requested(call, NN_DEFORMABLE_CONVOLUTION_IN_OFFSET) ||
          is_requested(call, NN_DEFORMABLE_CONVOLUTION_IN_MASK));
}

/* Sets *bytes to the workspace of a call. The passes of a call use the same
 * workspace, one after the other. */
int32_t nn_deformable_convolution_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_deformable d = make_deformable(call);
  uint64_t most = 0;
  for (int pass = 0; pass < N_PASSES; ++pass) {
    if (!needs_pass(call, pass) || nn_deformable_is_empty(&d.view)) continue;
    const uint64_t memory = count_pass_bytes(&d, pass);
    most = memory > most ? memory : most;
  }
  *bytes = nn_operands_count_bytes(call) + most;
  return TN_OK;
}

/* Returns the elements of input i; NULL if it is absent. */
static char *open_optional(nn_operands *x, uint32_t i) {
  return nn_deformable_has_input(x->call, i) ? nn_operands_open_input(x, i)
                                             : NULL;
}

/* Sets n elements to zero. */
static void clear_elements(const nn_deformable *d, char *to, int64_t n) {
  if (n > 0) memset(to, 0, (size_t)(n * d->conv.bytes));
}

/* Computes out of a call without elements to multiply. */
static void fill_out(const nn_deformable *d, int add) {
  const nn_conv *c = &d->conv;
  const int64_t plane = c->filters * c->out_size;
  if (!add) clear_elements(d, d->out, tn_tensor_size(&c->call->out[0]));
  for (int64_t i = 0; d->bias && i < c->images * c->groups; ++i)
    nn_conv_write_bias(c, d->bias + i % c->groups * c->filters * c->bytes,
                       d->out + i * plane * c->bytes, c->out_size, 1);
}

int32_t nn_deformable_convolution(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  nn_deformable d = make_deformable(call);
  const int add = nn_operands_is_added(&x, 0);
  int32_t code = nn_sample_check_size(call, d.view.size);
  if (code != TN_OK || !is_requested(call, 0)) return code;
  d.conv.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  d.data = nn_operands_open_input(&x, NN_DEFORMABLE_CONVOLUTION_IN_DATA);
  d.weight = nn_operands_open_input(&x, NN_DEFORMABLE_CONVOLUTION_IN_WEIGHT);
  d.offset = nn_operands_open_input(&x, NN_DEFORMABLE_CONVOLUTION_IN_OFFSET);
  d.bias = open_optional(&x, NN_DEFORMABLE_CONVOLUTION_IN_BIAS);
  d.mask = open_optional(&x, NN_DEFORMABLE_CONVOLUTION_IN_MASK);
  d.out = nn_operands_open_output(&x, 0);
  if (nn_deformable_is_empty(&d.view)) {
    fill_out(&d, add);
  } else {
    plan p = plan_pass(&d, PASS_FORWARD);
    p.add = add;
    code = run_slices(&p, PASS_FORWARD, run_forward_slices);
  }
  if (code == TN_OK) nn_operands_close_output(&x, 0, d.out);
  return code;
}

/* Computes the gradient of data or weight. */
static int32_t run_gradient(nn_operands *x, const nn_deformable *d, int pass) {
  const uint32_t i = pass == PASS_DATA ? NN_DEFORMABLE_CONVOLUTION_IN_DATA
                                       : NN_DEFORMABLE_CONVOLUTION_IN_WEIGHT;
  const int add = nn_operands_is_added(x, i);
  char *to = nn_operands_open_output(x, i);
  int32_t code = TN_OK;
  if (nn_deformable_is_empty(&d->view)) {
    if (!add) clear_elements(d, to, tn_tensor_size(&x->call->out[i]));
  } else {
    plan p = plan_pass(d, pass);
    p.to = to;
    p.add = add;
    code = run_slices(&p, pass,
                      pass == PASS_DATA ? run_data_slices : run_weight_slices);
    if (code == TN_OK && pass == PASS_WEIGHT)
      code = nn_conv_add_sums(&p.sums, to);
  }
  if (code == TN_OK) nn_operands_close_output(x, i, to);
  return code;
}

/* Returns the address of the gradient of offset or mask, input i; NULL if it is
 * not requested. It has zeros if the call is empty. */
static char *open_slopes(nn_operands *x, const nn_deformable *d, uint32_t i,
                         int *add) {
  if (!is_requested(x->call, i)) return NULL;
  char *to = nn_operands_open_output(x, i);
  *add = nn_operands_is_added(x, i);
  if (nn_deformable_is_empty(&d->view) && !*add)
    clear_elements(d, to, tn_tensor_size(&x->call->out[i]));
  return to;
}

/* Computes the gradients of offset and mask. */
static int32_t run_slopes(nn_operands *x, const nn_deformable *d) {
  enum {
    OFFSET = NN_DEFORMABLE_CONVOLUTION_IN_OFFSET,
    MASK = NN_DEFORMABLE_CONVOLUTION_IN_MASK
  };
  nn_deformable_slopes to = {NULL, NULL, 0, 0};
  int32_t code = TN_OK;
  to.offset = open_slopes(x, d, OFFSET, &to.add_offset);
  to.mask = open_slopes(x, d, MASK, &to.add_mask);
  if (!nn_deformable_is_empty(&d->view)) {
    plan p = plan_pass(d, PASS_SLOPES);
    p.slopes = to;
    code = run_slices(&p, PASS_SLOPES, run_slope_slices);
  }
  if (code == TN_OK && to.offset)
    nn_operands_close_output(x, OFFSET, to.offset);
  if (code == TN_OK && to.mask) nn_operands_close_output(x, MASK, to.mask);
  return code;
}

/* Computes the gradient of the bias. */
static int32_t run_bias_gradient(nn_operands *x, const nn_deformable *d) {
  const uint32_t i = NN_DEFORMABLE_CONVOLUTION_IN_BIAS;
  const nn_plane_sums sums = {.call = x->call,
                              .mode = {d->conv.dtype, d->conv.level},
                              .images = d->conv.images,
                              .planes = d->view.filters,
                              .size = d->conv.out_size,
                              .from = d->out,
                              .to = nn_operands_open_output(x, i),
                              .add = nn_operands_is_added(x, i)};
  const int32_t code = nn_sum_planes(&sums);
  if (code == TN_OK) nn_operands_close_output(x, i, sums.to);
  return code;
}

int32_t nn_deformable_convolution_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  nn_deformable d = make_deformable(call);
  int32_t code = nn_sample_check_size(call, d.view.size);
  if (code != TN_OK) return code;
  d.conv.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  d.out =
      nn_operands_open_input(&x, NN_DEFORMABLE_CONVOLUTION_BACKWARD_GRAD_OUT);
  d.data = open_optional(&x, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_DATA);
  d.weight = open_optional(&x, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_WEIGHT);
  d.offset = open_optional(&x, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_OFFSET);
  d.mask = open_optional(&x, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_MASK);
  for (int pass = PASS_DATA; pass < PASS_SLOPES && code == TN_OK; ++pass)
    if (needs_pass(call, pass)) code = run_gradient(&x, &d, pass);
  if (code == TN_OK && needs_pass(call, PASS_SLOPES)) code = run_slopes(&x, &d);
  if (code == TN_OK && is_requested(call, NN_DEFORMABLE_CONVOLUTION_IN_BIAS))
    code = run_bias_gradient(&x, &d);
  return code;
}
