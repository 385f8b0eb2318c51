/* SPDX-License-Identifier: Apache-2.0
 * conv_panels.c: convolutions as matrix products. The windows of an image are
 * the columns of a matrix with a row for each channel and element of the
 * window. Weights are multiplied with panels, pieces of that matrix that stay
 * in a cache. If a window has one element, the image is that matrix.
 */
#include <string.h>

#include "conv.h"
#include "tenon/kernel/kernel.h"
#include "workspaces.h"

enum {
  PANEL = 1 << 19, /* bytes of a panel */
  WIDTH = 320,     /* windows of a panel, if there are enough */
  LONG = 2048,     /* windows of a panel that is not copied */
  STEP = 16,       /* widths of panels are multiples of this number */
  FEW = 64,        /* products with fewer rows, or columns, are slow */
  LANES = 16, /* number of planes from which vectors of planes are worthwhile */
  BLOCKS = 4  /* least number of blocks of channels of an image, if possible */
};

/* ------------------------------------------------------------------ panels */

/* A panel: rows [row, row + rows) and windows [at, at + n) of the matrix of a
 * group of an image. */
typedef struct panel {
  char *to;    /* the copied elements of the panel, dense */
  char *image; /* image of the group's first channel */
  int64_t row;
  int64_t rows;
  int64_t at;
  int64_t n;
} panel;

/* Copies or adds one element of each of n adjacent windows. They are in one
 * line of the image, `step` elements apart. */
typedef void line_fn(char *to, char *from, int64_t n, int64_t step);

/* Handles n windows in which that element is padding. */
typedef void gap_fn(char *to, int64_t n);

/* The element of windows that one row of the matrix contains. */
typedef struct row_tap {
  char *plane;
  int64_t at[NN_WINDOW_RANK];
  nn_range inside; /* windows of a line in which the element is not padding */
} row_tap;

/* Returns the tap, and the plane, of a row of the matrix of windows. */
static row_tap find_row_tap(const nn_conv *c, const panel *p, int64_t row) {
  const nn_window *w = &c->window;
  row_tap t = {.plane = p->image + row / c->taps * c->in_size * c->bytes};
  int64_t rest = row % c->taps;
  for (int d = NN_WINDOW_RANK; d-- > 0; rest /= w->kernel[d])
    t.at[d] = rest % w->kernel[d];
  t.inside = nn_window_find_inside(w, 2, t.at[2], (nn_range){0, w->out[2]});
  return t;
}

/* Returns the line of the image that contains element `t` of the windows in
 * line (z, y), or NULL if it is padding. */
static char *find_line(const nn_conv *c, const row_tap *t, int64_t z,
                       int64_t y) {
  const nn_window *w = &c->window;
  const int64_t i = z * w->stride[0] + t->at[0] * w->dilate[0] - w->pad[0];
  const int64_t j = y * w->stride[1] + t->at[1] * w->dilate[1] - w->pad[1];
  if (i < 0 || i >= w->in[0] || j < 0 || j >= w->in[1]) return NULL;
  return t->plane + (i * w->in[1] + j) * w->in[2] * c->bytes;
}

/* Calls `move` or `skip` for windows `x` of a line; `line` is NULL if the
 * element is padding in all of them. */
TN_KERNEL_BODY void visit_line(const nn_conv *c, const row_tap *t, nn_range x,
                               char *line, char *to, line_fn *move,
                               gap_fn *skip) {
  const nn_window *w = &c->window;
  const int64_t begin =
      line ? nn_min(nn_max(t->inside.begin, x.begin), x.end) : x.end;
  const int64_t end =
      line ? nn_max(nn_min(t->inside.end, x.end), begin) : x.end;
  if (begin > x.begin) skip(to, begin - x.begin);
  if (end > begin)
    move(to + (begin - x.begin) * c->bytes,
         line + (begin * w->stride[2] + t->at[2] * w->dilate[2] - w->pad[2]) *
                    c->bytes,
         end - begin, w->stride[2]);
  if (x.end > end) skip(to + (end - x.begin) * c->bytes, x.end - end);
}

/* Calls visit_line for all rows of a panel, one line of windows at a time. */
TN_KERNEL_BODY void visit_panel(const nn_conv *c, const panel *p, line_fn *move,
                                gap_fn *skip) {
  const nn_window *w = &c->window;
  char *to = p->to;
  for (int64_t r = p->row; r < p->row + p->rows; ++r) {
    const row_tap t = find_row_tap(c, p, r);
    int64_t x = p->at % w->out[2], y = p->at / w->out[2];
    for (int64_t left = p->n; left > 0; x = 0, ++y) {
      const int64_t n = nn_min(w->out[2] - x, left);
      char *line = find_line(c, &t, y / w->out[1], y % w->out[1]);
      visit_line(c, &t, (nn_range){x, x + n}, line, to, move, skip);
      to += n * c->bytes;
      left -= n;
    }
  }
}

/* Copies n elements of 4 bytes from every `step`-th element: a line_fn. */
TN_KERNEL_BODY void gather_4_byte_elements(char *to, char *from, int64_t n,
                                           int64_t step) {
  const uint32_t *f = (const void *)from;
  uint32_t *t = (void *)to;
  if (step == 1)
    memcpy(to, from, (size_t)n * sizeof *t);
  else if (step == 2)
    for (int64_t i = 0; i < n; ++i) t[i] = f[2 * i];
  else
    for (int64_t i = 0; i < n; ++i) t[i] = f[i * step];
}

/* Copies n elements of 8 bytes from every `step`-th element: a line_fn. */
TN_KERNEL_BODY void gather_8_byte_elements(char *to, char *from, int64_t n,
                                           int64_t step) {
  const uint64_t *f = (const void *)from;
  uint64_t *t = (void *)to;
  for (int64_t i = 0; i < n; ++i) t[i] = f[i * step];
}

/* Sets n elements of 4 bytes to zero: a gap_fn for windows in padding. */
TN_KERNEL_BODY void zero_4_byte_elements(char *to, int64_t n) {
  memset(to, 0, (size_t)n * 4);
}

/* Sets n elements of 8 bytes to zero: a gap_fn for windows in padding. */
TN_KERNEL_BODY void zero_8_byte_elements(char *to, int64_t n) {
  memset(to, 0, (size_t)n * 8);
}

/* Adds n elements to every `step`-th element of an image: a line_fn. */
TN_KERNEL_BODY void scatter_f32(char *from, char *to, int64_t n, int64_t step) {
  const float *f = (const void *)from;
  float *t = (void *)to;
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) t[i] += f[i];
  else
    for (int64_t i = 0; i < n; ++i) t[i * step] += f[i];
}

/* Adds n elements to every `step`-th element of an image: a line_fn. */
TN_KERNEL_BODY void scatter_f64(char *from, char *to, int64_t n, int64_t step) {
  const double *f = (const void *)from;
  double *t = (void *)to;
  for (int64_t i = 0; i < n; ++i) t[i * step] += f[i];
}

/* Does nothing for windows in padding: a gap_fn that adds no gradients. */
TN_KERNEL_BODY void ignore_gap(char *to, int64_t n) {
  (void)to, (void)n;
}

/* Copies windows into a panel, or adds a panel to the elements of windows. */
typedef void panel_fn(const nn_conv *c, const panel *p);

#define PANEL_FUNCTION(name, target, move, skip)              \
  static target void name(const nn_conv *c, const panel *p) { \
    visit_panel(c, p, move, skip);                            \
  }
PANEL_FUNCTION(gather_panel_4, , gather_4_byte_elements, zero_4_byte_elements)
PANEL_FUNCTION(gather_panel_8, , gather_8_byte_elements, zero_8_byte_elements)
PANEL_FUNCTION(scatter_panel_f32, , scatter_f32, ignore_gap)
PANEL_FUNCTION(scatter_panel_f64, , scatter_f64, ignore_gap)
#if defined(TN_KERNEL_AVX2)
PANEL_FUNCTION(gather_panel_4_avx512, TN_KERNEL_AVX512, gather_4_byte_elements,
               zero_4_byte_elements)
PANEL_FUNCTION(scatter_panel_f32_avx2, TN_KERNEL_AVX2, scatter_f32, ignore_gap)
PANEL_FUNCTION(scatter_panel_f64_avx2, TN_KERNEL_AVX2, scatter_f64, ignore_gap)
#endif

/* Returns the function that copies a panel from an image. */
static panel_fn *choose_gather(const nn_conv *c) {
#if defined(TN_KERNEL_AVX2)
  if (c->bytes == 4 && c->level == 2) return gather_panel_4_avx512;
#endif
  return c->bytes == 4 ? gather_panel_4 : gather_panel_8;
}

/* Returns the function that adds a panel to an image. */
static panel_fn *choose_scatter(const nn_conv *c) {
#if defined(TN_KERNEL_AVX2)
  if (c->level > 0)
    return c->bytes == 4 ? scatter_panel_f32_avx2 : scatter_panel_f64_avx2;
#endif
  return c->bytes == 4 ? scatter_panel_f32 : scatter_panel_f64;
}

/* ------------------------------------------------------------------- plans */

/* The division of a pass into panels and slices; the shapes alone decide it. */
typedef struct plan {
  const nn_conv *conv;
  const nn_conv_arrays *arrays;
  int add;
  int image_is_matrix; /* the image is the matrix, so panels are not copied */
  int64_t depth;       /* rows of the matrix: weights of a filter */
  int64_t width;       /* windows of a panel */
  int64_t across;      /* number of panels in a row of panels */
  int64_t height;      /* rows of a panel */
  int64_t down;        /* number of panels in a column of panels */
  nn_conv_sums sums;
  nn_workspaces workspaces;
} plan;

/* Divides n into pieces of at most about `most`, multiples of `step`, that are
 * about equal; returns the length of a piece. */
static int64_t divide_by_steps(int64_t n, int64_t most, int64_t step) {
  return nn_min(nn_round_up(nn_divide_evenly(n, most), step), n);
}

/* Divides the matrix of windows into panels. */
static plan make_plan(const nn_conv *c, int image_is_matrix) {
  plan p = {.conv = c,
            .image_is_matrix = image_is_matrix,
            .depth = c->channels * c->taps};
  p.width = divide_by_steps(c->out_size, image_is_matrix ? LONG : WIDTH, STEP);
  p.across = (c->out_size + p.width - 1) / p.width;
  p.height =
      image_is_matrix ? p.depth : nn_max(PANEL / (p.width * c->bytes), 1);
  p.height = divide_by_steps(p.depth, p.height, 1);
  p.down = (p.depth + p.height - 1) / p.height;
  return p;
}

/* Completes a plan for the gradient of data: a panel has whole channels, so
 * that a slice owns the elements that it adds to. */
static void plan_data_gradient(plan *p) {
  const nn_conv *c = p->conv;
  if (p->image_is_matrix) return;
  int64_t channels = nn_max(p->height / c->taps, 1);
  const int64_t blocks = nn_min(BLOCKS, nn_max(p->depth / FEW, 1));
  channels = nn_min(channels, nn_max(c->channels / blocks, 1));
  channels = divide_by_steps(c->channels, channels, 1);
  p->height = channels * c->taps;
  p->down = (c->channels + channels - 1) / channels;
  p->width = nn_max(nn_min(p->width, PANEL / (p->height * c->bytes)), 1);
  p->across = (c->out_size + p->width - 1) / p->width;
}

static int64_t count_slices(const plan *p, int pass) {
  const nn_conv *c = p->conv;
  if (pass == NN_CONV_FORWARD) return c->images * c->groups * p->across;
  if (pass == NN_CONV_WEIGHT) return p->sums.parts * c->groups * p->down;
  return c->images * c->groups * (p->image_is_matrix ? p->across : p->down);
}

/* Returns the plan of a pass (NN_CONV_*), without arrays. */
static plan plan_pass(const nn_conv *c, int image_is_matrix, int pass) {
  plan p = make_plan(c, image_is_matrix);
  if (pass == NN_CONV_DATA) plan_data_gradient(&p);
  p.sums = pass == NN_CONV_WEIGHT ? nn_conv_plan_sums(c) : (nn_conv_sums){c, 1};
  p.workspaces.bytes = 0;
  if (!image_is_matrix)
    p.workspaces.bytes =
        (uint64_t)(p.width * p.height * c->bytes + 63) / 64 * 64;
  p.workspaces.n = nn_choose_workspace_count(count_slices(&p, pass));
  return p;
}

/* Returns the bytes of workspace for a pass; panels are not copied if the
 * image is the matrix of windows. */
static uint64_t count_pass_bytes(const nn_conv *c, int image_is_matrix,
                                 int pass) {
  const plan p = plan_pass(c, image_is_matrix, pass);
  return p.workspaces.n * p.workspaces.bytes + nn_conv_count_sum_bytes(&p.sums);
}

/* Runs a planned pass (NN_CONV_*): `body` computes its slices. */
static int32_t run_pass(plan *p, const nn_conv_arrays *arrays, int pass,
                        tn_loop_body *body) {
  const tn_frame *call = p->conv->call;
  p->arrays = arrays;
  p->workspaces.memory = p->conv->memory + nn_conv_count_sum_bytes(&p->sums);
  return call->host->parallel_for(call, count_slices(p, pass), 1, body, p);
}

/* Multiplies two matrices; adds the product to the old elements if `add`. */
static int32_t run_product(const nn_conv *c, tn_blas_gemm *g, int add) {
  g->struct_size = sizeof *g;
  g->dtype = c->dtype;
  g->alpha = 1;
  g->beta = add ? 1 : 0;
  return nn_multiply(c->call, g);
}

/* Returns the address of element i of an array. */
static char *locate_element(const nn_conv *c, char *array, int64_t i) {
  return array + i * c->bytes;
}

/* Columns of the matrix: the first element of a panel. */
typedef struct panel_columns {
  char *at;
  int64_t row; /* distance between rows in elements */
} panel_columns;

/* Returns the columns of the matrix that a panel describes: those of the image
 * if that is the matrix, otherwise copies in `workspace`. */
static panel_columns read_columns(plan *p, panel *part, char *workspace) {
  const nn_conv *c = p->conv;
  if (p->image_is_matrix)
    return (panel_columns){
        locate_element(c, part->image, part->row * c->in_size + part->at),
        c->in_size};
  part->to = workspace;
  choose_gather(c)(c, part);
  return (panel_columns){workspace, part->n};
}

/* ----------------------------------------------------------------- forward */

void nn_conv_write_bias(const nn_conv *c, const char *bias, char *out,
                        int64_t n, int add) {
  for (int64_t k = 0; k < c->filters; ++k)
    for (int64_t i = 0; i < n; ++i) {
      if (c->dtype == TN_F32) {
        float *to = (float *)(void *)out + k * c->out_size + i;
        *to = ((const float *)(const void *)bias)[k] + (add ? *to : 0);
      } else {
        double *to = (double *)(void *)out + k * c->out_size + i;
        *to = ((const double *)(const void *)bias)[k] + (add ? *to : 0);
      }
    }
}

/* Computes out in one panel's windows of an image and group. */
static int32_t compute_forward_slice(plan *p, int64_t slice, char *workspace) {
  const nn_conv *c = p->conv;
  const int64_t group = slice / p->across % c->groups;
  const int64_t image =
      slice / p->across; /* number of the image times groups, plus the group */
  const int64_t x = slice % p->across * p->width;
  const int64_t n = nn_min(p->width, c->out_size - x);
  char *out =
      locate_element(c, p->arrays->out, image * c->filters * c->out_size + x);
  char *weight =
      locate_element(c, p->arrays->weight, group * c->filters * p->depth);
  int add = p->add || p->arrays->bias;
  int32_t code = TN_OK;
  if (p->arrays->bias)
    nn_conv_write_bias(c,
                       locate_element(c, p->arrays->bias, group * c->filters),
                       out, n, p->add);
  for (int64_t r = 0; r < p->depth && code == TN_OK; r += p->height, add = 1) {
    panel part = {.image = locate_element(c, p->arrays->data,
                                          image * c->channels * c->in_size),
                  .row = r,
                  .rows = nn_min(p->height, p->depth - r),
                  .at = x,
                  .n = n};
    const panel_columns b = read_columns(p, &part, workspace);
    code = run_product(c,
                       &(tn_blas_gemm){.m = c->filters,
                                       .n = n,
                                       .k = part.rows,
                                       .a = locate_element(c, weight, r),
                                       .b = b.at,
                                       .c = out,
                                       .lda = p->depth,
                                       .ldb = b.row,
                                       .ldc = c->out_size},
                       add);
  }
  for (int64_t k = 0; c->after && k < c->filters && code == TN_OK; ++k)
    nn_conv_run_after(c, locate_element(c, out, k * c->out_size), n);
  return code;
}

/* Computes one slice in a workspace. */
typedef int32_t slice_fn(plan *p, int64_t slice, char *workspace);

/* Calls `one` for each slice with a workspace, until one fails. */
static int32_t run_slices(plan *p, slice_fn *one, nn_range slices) {
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  int32_t code = TN_OK;
  for (int64_t i = slices.begin; i < slices.end && code == TN_OK; ++i)
    code = one(p, i, nn_locate_workspace(&p->workspaces, slot));
  nn_release_workspace(&p->workspaces, slot);
  return code;
}

static int32_t run_forward_slices(void *arg, int64_t begin, int64_t end) {
  return run_slices(arg, compute_forward_slice, (nn_range){begin, end});
}

static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *arrays,
                           int add, int image_is_matrix) {
  plan p = plan_pass(c, image_is_matrix, NN_CONV_FORWARD);
  p.add = add;
  return run_pass(&p, arrays, NN_CONV_FORWARD, run_forward_slices);
}

/* -------------------------------------------------------- gradient of data */

/* Computes weight^T * out for the rows and windows of a panel. */
static int32_t multiply_gradient(const plan *p, int64_t image,
                                 const panel *part, panel_columns to, int add) {
  const nn_conv *c = p->conv;
  const int64_t group = image % c->groups;
  return run_product(
      c,
      &(tn_blas_gemm){
          .transpose_a = 1,
          .m = part->rows,
          .n = part->n,
          .k = c->filters,
          .a = locate_element(c, p->arrays->weight,
                              group * c->filters * p->depth + part->row),
          .b = locate_element(c, p->arrays->out,
                              image * c->filters * c->out_size + part->at),
          .c = to.at,
          .lda = p->depth,
          .ldb = c->out_size,
          .ldc = to.row},
      add);
}

/* Computes the gradient of data in some channels of an image. */
static int32_t compute_data_slice(plan *p, int64_t slice, char *workspace) {
  const nn_conv *c = p->conv;
  const int64_t image = slice / p->down, row = slice % p->down * p->height;
  const int64_t rows = nn_min(p->height, p->depth - row);
  char *to =
      locate_element(c, p->arrays->data, image * c->channels * c->in_size);
  int32_t code = TN_OK;
  if (!p->add)
    memset(locate_element(c, to, row / c->taps * c->in_size), 0,
           (size_t)(rows / c->taps * c->in_size * c->bytes));
  for (int64_t x = 0; x < c->out_size && code == TN_OK; x += p->width) {
    const panel part = {.to = workspace,
                        .image = to,
                        .row = row,
                        .rows = rows,
                        .at = x,
                        .n = nn_min(p->width, c->out_size - x)};
    code = multiply_gradient(p, image, &part,
                             (panel_columns){workspace, part.n}, 0);
    if (code == TN_OK) choose_scatter(c)(c, &part);
  }
  return code;
}

static int32_t run_data_slices(void *arg, int64_t begin, int64_t end) {
  return run_slices(arg, compute_data_slice, (nn_range){begin, end});
}

/* Computes slices of the gradient of data if the image is the matrix. */
static int32_t run_data_in_place(void *arg, int64_t begin, int64_t end) {
  const plan *p = arg;
  const nn_conv *c = p->conv;
  int32_t code = TN_OK;
  for (int64_t i = begin; i < end && code == TN_OK; ++i) {
    const int64_t image = i / p->across, x = i % p->across * p->width;
    const panel part = {
        .rows = p->depth, .at = x, .n = nn_min(p->width, c->out_size - x)};
    char *to = locate_element(c, p->arrays->data,
                              image * c->channels * c->in_size + x);
    code = multiply_gradient(p, image, &part, (panel_columns){to, c->in_size},
                             p->add);
  }
  return code;
}

static int32_t compute_data_gradient(const nn_conv *c,
                                     const nn_conv_arrays *arrays, int add,
                                     int image_is_matrix) {
  plan p = plan_pass(c, image_is_matrix, NN_CONV_DATA);
  p.add = add;
  return run_pass(&p, arrays, NN_CONV_DATA,
                  image_is_matrix ? run_data_in_place : run_data_slices);
}

/* ------------------------------------------------------ gradient of weight */

/* Computes out * columns^T of one image for the rows of a panel; adds it to
 * `to` if `add`. */
static int32_t add_weight_image(plan *p, int64_t image, panel *part, char *to,
                                int add) {
  const nn_conv *c = p->conv;
  char *workspace = part->to;
  int32_t code = TN_OK;
  part->image =
      locate_element(c, p->arrays->data, image * c->channels * c->in_size);
  for (int64_t x = 0; x < c->out_size && code == TN_OK; x += p->width) {
    part->at = x;
    part->n = nn_min(p->width, c->out_size - x);
    const panel_columns b = read_columns(p, part, workspace);
    char *out =
        locate_element(c, p->arrays->out, image * c->filters * c->out_size + x);
    code = run_product(c,
                       &(tn_blas_gemm){.transpose_b = 1,
                                       .m = c->filters,
                                       .n = part->rows,
                                       .k = part->n,
                                       .a = out,
                                       .b = b.at,
                                       .c = to,
                                       .lda = c->out_size,
                                       .ldb = b.row,
                                       .ldc = p->depth},
                       add || x > 0);
  }
  return code;
}

/* Computes columns of a group's gradient of weight over some images. */
static int32_t compute_weight_slice(plan *p, int64_t slice, char *workspace) {
  const nn_conv *c = p->conv;
  const int64_t group = slice / p->down % c->groups;
  const int64_t part = slice / p->down / c->groups;
  const int64_t first = c->images * part / p->sums.parts;
  const int64_t last = c->images * (part + 1) / p->sums.parts;
  const int64_t row = slice % p->down * p->height;
  panel rows = {
      .to = workspace, .row = row, .rows = nn_min(p->height, p->depth - row)};
  char *to =
      locate_element(c, nn_conv_locate_sum(&p->sums, p->arrays->weight, part),
                     group * c->filters * p->depth + row);
  int32_t code = TN_OK;
  for (int64_t i = first; i < last && code == TN_OK; ++i)
    code = add_weight_image(p, i * c->groups + group, &rows, to,
                            i > first || (part == 0 && p->add));
  return code;
}

static int32_t run_weight_slices(void *arg, int64_t begin, int64_t end) {
  return run_slices(arg, compute_weight_slice, (nn_range){begin, end});
}

static int32_t compute_weight_gradient(const nn_conv *c,
                                       const nn_conv_arrays *arrays, int add,
                                       int image_is_matrix) {
  plan p = plan_pass(c, image_is_matrix, NN_CONV_WEIGHT);
  p.add = add;
  const int32_t code = run_pass(&p, arrays, NN_CONV_WEIGHT, run_weight_slices);
  if (code != TN_OK) return code;
  return nn_conv_add_sums(&p.sums, arrays->weight);
}

/* -------------------------------------------------------------- algorithms */

/* Whether conv_tiles.c is faster, which packs only one factor. It is if the
 * computed planes fill vectors, because panels would be packed a second time.
 * It is for few windows, because products are as small as panels. It is for the
 * gradient of weight, because it copies padding and has a loop for gaps between
 * windows; panels have neither. */
static int is_faster_in_tiles(const nn_conv *c, int pass) {
  const int64_t computed = pass == NN_CONV_DATA ? c->channels : c->filters;
  return c->dtype == TN_F32 && !nn_conv_is_mostly_padding(c) &&
         (pass == NN_CONV_WEIGHT || computed >= LANES || c->out_size <= FEW);
}

static uint64_t count_panels_bytes(const nn_conv *c, int pass) {
  return is_faster_in_tiles(c, pass) ? nn_conv_tiles.count_bytes(c, pass)
                                     : count_pass_bytes(c, 0, pass);
}

/* Whether each image has small products; conv_tiles.c joins several images. */
static int has_small_products(const nn_conv *c, int pass) {
  return c->dtype == TN_F32 && pass == NN_CONV_FORWARD && c->out_size <= FEW;
}

static uint64_t count_pointwise_bytes(const nn_conv *c, int pass) {
  return has_small_products(c, pass) ? nn_conv_tiles.count_bytes(c, pass)
                                     : count_pass_bytes(c, 1, pass);
}

#define PANELS_PASS(name, function, pass)                                      \
  static int32_t name(const nn_conv *c, const nn_conv_arrays *a, int add) {    \
    return is_faster_in_tiles(c, pass) ? nn_conv_tiles.passes[pass](c, a, add) \
                                       : function(c, a, add, 0);               \
  }
PANELS_PASS(panels_forward, run_forward, NN_CONV_FORWARD)
PANELS_PASS(panels_data, compute_data_gradient, NN_CONV_DATA)
PANELS_PASS(panels_weight, compute_weight_gradient, NN_CONV_WEIGHT)

#define POINTWISE_PASS(name, function, pass)                                   \
  static int32_t name(const nn_conv *c, const nn_conv_arrays *a, int add) {    \
    return has_small_products(c, pass) ? nn_conv_tiles.passes[pass](c, a, add) \
                                       : function(c, a, add, 1);               \
  }
POINTWISE_PASS(pointwise_forward, run_forward, NN_CONV_FORWARD)
POINTWISE_PASS(pointwise_data, compute_data_gradient, NN_CONV_DATA)
POINTWISE_PASS(pointwise_weight, compute_weight_gradient, NN_CONV_WEIGHT)

const nn_conv_algorithm nn_conv_panels = {
    count_panels_bytes, {panels_forward, panels_data, panels_weight}};
const nn_conv_algorithm nn_conv_pointwise = {
    count_pointwise_bytes,
    {pointwise_forward, pointwise_data, pointwise_weight}};
