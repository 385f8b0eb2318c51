/* SPDX-License-Identifier: Apache-2.0
 * conv_winograd.c: convolutions with adjacent windows of 3 x 3 elements, by the
 * algorithm F(4x4, 3x3) of Lavin and Gray ("Fast algorithms for convolutional
 * neural networks", 2015). 36 multiplications give 16 elements of out, for
 * which windows need 144.
 *
 *   out = A^T [(G w G^T) * (B^T d B)] A
 *
 * for each patch d of 6 x 6 elements; neighbouring patches share two lines. The
 * product in the middle is summed over channels, so it becomes 36 products of
 * matrices. Rounding makes results about ten times less exact than sums of
 * products: errors are up to 1e-5 of the largest product's magnitude times the
 * root of the number of products.
 *
 * The gradient of data is the same convolution with reversed windows. The
 * gradient of weight applies the transforms in reverse: with g the gradients of
 * a patch's result,
 *
 *   G^T [sum over patches of (A g A^T) * (B^T d B)] G
 *
 * where the sums are 36 products of matrices again.
 */
#include <string.h>

#include "conv.h"
#include "conv_winograd_loops.h"
#include "tenon/kernel/kernel.h"
#include "workspaces.h"

enum {
  PATCH = 36,  /* elements of a patch of data, 6 x 6 */
  TILE = 4,    /* lines, and columns, of the results of a patch: a tile */
  WIDE = 48,   /* patches that are computed together: a block */
  NARROW = 32, /* patches of a block if there are at least MANY channels */
  MANY = 192,  /* number of channels from which blocks are NARROW */
  VECTOR = 16, /* numbers of patches are multiples of it, rounded up */
  /* Winograd's transforms are not used if there are fewer than FEW_TILES
   * patches and at most FEW_PAIRS pairs of a channel and a filter. */
  FEW_TILES = 64,
  FEW_PAIRS = 1 << 12,
  /* In the gradient of data, weights are prefetched for this many channels
   * later. */
  PREFETCH_DISTANCE = 8,
  FEW_BLOCKS = 4, /* with fewer blocks, filters are divided into SHARES parts,
                     which slices compute separately */
  SHARES = 2,
  MOST_ROWS = 8, /* largest number of filters in a filter block */
  ODD = 16,      /* extra elements that prevent cache conflicts of lines */
  /* In the gradient of weight, products are summed over patches of about
     MANY_BYTES bytes, but over at least LEAST_WIDE blocks of WIDE patches. */
  MANY_BYTES = 2 << 20,
  LEAST_WIDE = 3
};

/* ------------------------------------------------------------------- plans */

/* The plan of a forward pass, or of the gradient of data, which is the same
 * with data and out exchanged. */
typedef struct plan {
  const nn_conv *conv;
  const loops *loops;
  int back;
  int add;
  const float *from;
  const float *weight;
  const float *bias; /* NULL: none */
  float *to;
  int64_t channels; /* channels of a group of the input */
  int64_t filters;  /* filters: channels of a group of the result */
  int64_t in[2];
  int64_t out[2];
  int64_t pad[2];
  int lines;        /* lines of a patch that are copied */
  int64_t tiles[2]; /* tiles of an image along both dimensions */
  int64_t n_tiles;  /* tiles of all images */
  int64_t width;    /* patches of a block */
  int64_t blocks;
  int64_t filter_blocks; /* number of filter blocks of a group */
  /* Parts of the filter blocks, which slices compute separately. */
  int64_t shares;
  int once; /* there is one block of patches: weights are transformed where they
               are used */
  float *transformed; /* transformed weights G w G^T, unless `once`: (group,
                         filter block, 36, channel, filter) */
  int64_t transformed_distance; /* distance between two of the 36 numbers of a
                                weight */
  /* Distance between two of the 36 numbers of a transformed patch. */
  int64_t distance;
  nn_workspaces workspaces;
} plan;

/* Sets the lengths, padding and tiles along dimension d (0 or 1) of an image.
 */
static void set_geometry(plan *p, int d) {
  const nn_window *w = &p->conv->window;
  p->in[d] = p->back ? w->out[d + 1] : w->in[d + 1];
  p->out[d] = p->back ? w->in[d + 1] : w->out[d + 1];
  p->pad[d] = p->back ? 2 - w->pad[d + 1] : w->pad[d + 1];
  p->tiles[d] = (p->out[d] + TILE - 1) / TILE;
}

/* Returns the bytes of the transformed weights of some filter blocks. */
static uint64_t count_transform_bytes(const plan *p, int64_t filter_blocks) {
  return (uint64_t)(filter_blocks * PATCH * p->transformed_distance) *
         sizeof(float);
}

/* Returns the bytes of workspace for transformed weights that are kept. */
static uint64_t count_kept_bytes(const plan *p) {
  return p->once ? 0
                 : count_transform_bytes(p, p->conv->groups * p->filter_blocks);
}

/* Returns the plan of a pass: of the gradient of data if `back`. */
static plan make_plan(const nn_conv *c, int back) {
  plan p = {
      .conv = c, .loops = NN_CONV_LOOPS(c->level), .back = back, .lines = 6};
  p.channels = back ? c->filters : c->channels;
  p.filters = back ? c->channels : c->filters;
  set_geometry(&p, 0);
  set_geometry(&p, 1);
  p.n_tiles = c->images * p.tiles[0] * p.tiles[1];
  p.width = p.channels < MANY ? WIDE : NARROW;
  p.width = nn_min(p.width, (p.n_tiles + VECTOR - 1) / VECTOR * VECTOR);
  p.blocks = (p.n_tiles + p.width - 1) / p.width;
  p.filter_blocks = (p.filters + p.loops->rows - 1) / p.loops->rows;
  p.shares = p.blocks < FEW_BLOCKS ? nn_min(SHARES, p.filter_blocks) : 1;
  /* Patches, and then their transforms; sums; and elements of out. */
  p.transformed_distance = p.channels * p.loops->rows + ODD;
  p.distance = p.channels * p.width + ODD;
  p.workspaces.bytes =
      (uint64_t)(PATCH * (p.distance + p.width) +
                 p.width * PATCH * p.loops->rows + p.width * TILE * TILE) *
      sizeof(float);
  p.once = p.blocks == 1;
  if (p.once) p.workspaces.bytes += count_transform_bytes(&p, 1);
  p.workspaces.n = nn_choose_workspace_count(c->groups * p.blocks * p.shares);
  return p;
}

/* ----------------------------------------------------------------- weights */

/* Copies the weights of a filter block for one channel: w[9][rows]. They are
 * reversed for the gradient of data. */
static void copy_filters(const plan *p, int64_t group, int64_t filter_block,
                         int64_t c, float *w) {
  const int64_t filters = p->conv->filters, channels = p->conv->channels;
  const int64_t rows = p->loops->rows;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t k = filter_block * rows + r;
    const int64_t filter = p->back ? c : k, channel = p->back ? k : c;
    const float *from =
        p->weight + ((group * filters + filter) * channels + channel) * 9;
    for (int i = 0; i < 9; ++i)
      w[i * rows + r] = k >= p->filters ? 0 : from[p->back ? 8 - i : i];
  }
}

/* Prefetches the weights of a filter block for channel c. In the gradient of
 * data they are adjacent, and far from those of the next channel. */
static void prefetch_filters(const plan *p, int64_t group, int64_t filter_block,
                             int64_t c) {
  const nn_conv *v = p->conv;
  const int64_t rows = p->loops->rows;
  const float *from =
      p->weight +
      ((group * v->filters + c) * v->channels + filter_block * rows) * 9;
  for (int64_t i = 0; i < 9 * rows; i += 16) __builtin_prefetch(from + i);
}

/* Transforms the weights of a filter block of a group: G w G^T for each
 * channel. */
static void transform_filter_block(const plan *p, int64_t group,
                                   int64_t filter_block, float *to) {
  float w[9 * MOST_ROWS];
  for (int64_t c = 0; c < p->channels; ++c) {
    if (p->back)
      prefetch_filters(p, group, filter_block, c + PREFETCH_DISTANCE);
    copy_filters(p, group, filter_block, c, w);
    p->loops->transform_filters(w, to + c * p->loops->rows,
                                p->transformed_distance);
  }
}

/* Transforms filter blocks [begin, end), counted over all groups. */
static int32_t transform_filter_slice(void *arg, int64_t begin, int64_t end) {
  const plan *p = arg;
  for (int64_t i = begin; i < end; ++i)
    transform_filter_block(
        p, i / p->filter_blocks, i % p->filter_blocks,
        p->transformed + i * PATCH * p->transformed_distance);
  return TN_OK;
}

/* ----------------------------------------------------------------- patches */

/* A run: n patches side by side in one image. Their results are tiles x to x +
 * n - 1 in line y of the image's tiles. `first` is the number of the first
 * patch in its block. Patches in `inside` are completely inside the image's
 * columns; the first `full` patches have all their results inside the image. */
typedef struct patch_run {
  int64_t image;
  int64_t y;
  int64_t x;
  int64_t n;
  int64_t first;
  int64_t full;
  nn_range inside;
} patch_run;

/* A block: n patches that are computed together, as runs (patch_run). */
typedef struct patch_block {
  int64_t n;
  int64_t n_runs;
  patch_run runs[WIDE];
} patch_block;

/* Returns the run of at most n patches from tile number `tile` of all images
 * on. `first` is the number of its first patch in the block. */
static patch_run find_run(const plan *p, int64_t tile, int64_t first,
                          int64_t n) {
  const int64_t each = p->tiles[0] * p->tiles[1];
  patch_run r = {.image = tile / each,
                 .y = tile % each / p->tiles[1],
                 .x = tile % p->tiles[1],
                 .first = first};
  r.n = nn_min(p->tiles[1] - r.x, n);
  r.full = nn_max(nn_min(p->out[1] / TILE - r.x, r.n), 0);
  const int64_t x = r.x * TILE - p->pad[1];
  r.inside.begin = nn_min(nn_max(nn_ceil_div(-x, TILE), 0), r.n);
  r.inside.end = nn_ceil_div(p->in[1] - 5 - x, TILE);
  r.inside.end = nn_max(nn_min(r.inside.end, r.n), r.inside.begin);
  return r;
}

/* Lists the patches of block number `block`, in runs. */
static void find_patches(const plan *p, int64_t block, patch_block *all) {
  const int64_t begin = block * p->width;
  all->n = nn_min(p->width, p->n_tiles - begin);
  all->n_runs = 0;
  for (int64_t first = 0; first < all->n;) {
    const patch_run r = find_run(p, begin + first, first, all->n - first);
    all->runs[all->n_runs++] = r;
    first += r.n;
  }
}

/* Copies six elements of an image's line, from column x on, to one patch;
 * elements outside of the image are 0. */
static void gather_edge(const plan *p, const float *line, int64_t x, float *d) {
  for (int64_t j = 0; j < 6; ++j)
    d[j * p->width] = x + j >= 0 && x + j < p->in[1] ? line[x + j] : 0;
}

/* Copies one line of all patches of a run from a line of the image: element j
 * of patch t becomes d[j * width + t]. */
static void gather_line(const plan *p, const patch_run *r, const float *line,
                        float *d) {
  const int64_t x = r->x * TILE - p->pad[1], at = r->inside.begin;
  for (int64_t t = 0; t < r->inside.begin; ++t)
    gather_edge(p, line, x + t * TILE, d + t);
  p->loops->gather(line + x + at * TILE, d + at, r->inside.end - at, p->width);
  for (int64_t t = r->inside.end; t < r->n; ++t)
    gather_edge(p, line, x + t * TILE, d + t);
}

/* Copies the patches of a block in one plane: d[36][width]. */
static void gather_patches(const plan *p, const patch_block *all, int64_t plane,
                           float *d) {
  const int64_t planes = p->conv->groups * p->channels;
  for (int64_t k = 0; k < all->n_runs; ++k) {
    const patch_run *r = &all->runs[k];
    const float *image =
        p->from + (r->image * planes + plane) * p->in[0] * p->in[1];
    for (int i = 0; i < p->lines; ++i) {
      const int64_t y = r->y * TILE + i - p->pad[0];
      float *to = d + i * 6 * p->width + r->first;
      if (y >= 0 && y < p->in[0])
        gather_line(p, r, image + y * p->in[1], to);
      else
        for (int j = 0; j < 6; ++j)
          memset(to + j * p->width, 0, (size_t)r->n * sizeof *to);
    }
  }
  for (int x = 0; all->n < p->width && x < PATCH; ++x)
    memset(d + x * p->width + all->n, 0,
           (size_t)(p->width - all->n) * sizeof *d);
}

/* Stores line number i of the results of a run of patches in a line of the
 * image. y[j * width + t] is element j of that line in the result of patch t.
 */
static void scatter_line(const plan *p, const patch_run *r, float *line,
                         const float *y, float bias) {
  const int64_t full = p->add ? 0 : r->full;
  float *to = line + r->x * TILE;
  p->loops->scatter(to, y, full, p->width, bias);
  for (int64_t t = full; t < r->n; ++t) {
    const int64_t columns = nn_min(TILE, p->out[1] - (r->x + t) * TILE);
    for (int64_t j = 0; j < columns; ++j) {
      float *at = to + t * TILE + j;
      *at = y[j * p->width + t] + bias + (p->add ? *at : 0);
    }
  }
  nn_conv_run_after(p->conv, to, nn_min(r->n * TILE, p->out[1] - r->x * TILE));
}

/* Stores the results of a block's patches in one plane: y[16][width]. */
static void scatter_patches(const plan *p, const patch_block *all,
                            int64_t plane, const float *y) {
  const int64_t planes = p->conv->groups * p->filters;
  const float bias = p->bias ? p->bias[plane] : 0;
  for (int64_t k = 0; k < all->n_runs; ++k) {
    const patch_run *r = &all->runs[k];
    float *image = p->to + (r->image * planes + plane) * p->out[0] * p->out[1];
    for (int i = 0; i < TILE && r->y * TILE + i < p->out[0]; ++i)
      scatter_line(p, r, image + (r->y * TILE + i) * p->out[1],
                   y + i * TILE * p->width + r->first, bias);
  }
}

/* ------------------------------------------------------------------ blocks */

/* Computes one slice: a share of the filters of a group on a block of patches.
 */
static void compute_block(const plan *p, int64_t slice, float *workspace) {
  const int64_t share = slice % p->shares, rows = p->loops->rows;
  const int64_t at = slice / p->shares % p->blocks;
  const int64_t group = slice / p->shares / p->blocks;
  patch_block all;
  float *v = workspace, *d = v + PATCH * p->distance;
  float *m = d + PATCH * p->width, *y = m + PATCH * rows * p->width;
  float *own = y + TILE * TILE * p->width;
  find_patches(p, at, &all);
  for (int64_t c = 0; c < p->channels; ++c) {
    gather_patches(p, &all, group * p->channels + c, d);
    p->loops->transform_data(d, v + c * p->width, p->width, p->distance);
  }
  for (int64_t b = p->filter_blocks * share / p->shares;
       b < p->filter_blocks * (share + 1) / p->shares; ++b) {
    const float *u = own;
    if (p->once)
      transform_filter_block(p, group, b, own);
    else
      u = p->transformed +
          (group * p->filter_blocks + b) * PATCH * p->transformed_distance;
    for (int x = 0; x < PATCH; ++x)
      p->loops->multiply(u + x * p->transformed_distance, v + x * p->distance,
                         m + x * rows * p->width, p->channels, p->width);
    for (int64_t r = 0; r < rows && b * rows + r < p->filters; ++r) {
      p->loops->transform_results(m + r * p->width, y, p->width,
                                  rows * p->width);
      scatter_patches(p, &all, group * p->filters + b * rows + r, y);
    }
  }
}

/* Computes slices [begin, end) of a forward pass or of the gradient of data. */
static int32_t compute_block_slice(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  for (int64_t i = begin; i < end; ++i)
    compute_block(p, i,
                  (float *)(void *)nn_locate_workspace(&p->workspaces, slot));
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* Runs a forward pass or the gradient of data. */
static int32_t run_plan(plan *p) {
  const nn_conv *c = p->conv;
  int32_t code = TN_OK;
  p->transformed = (float *)(void *)c->memory;
  p->workspaces.memory = c->memory + count_kept_bytes(p);
  if (!p->once)
    code = c->call->host->parallel_for(c->call, c->groups * p->filter_blocks, 1,
                                       transform_filter_slice, p);
  if (code != TN_OK) return code;
  return c->call->host->parallel_for(c->call, c->groups * p->blocks * p->shares,
                                     1, compute_block_slice, p);
}

/* Whether there are so few patches and weights that the transforms take longer
 * than all products without transforms. */
static int has_few_patches(const nn_conv *c) {
  const plan p = make_plan(c, 0);
  return p.n_tiles < FEW_TILES && c->channels * c->filters <= FEW_PAIRS;
}

/* Computes out; adds it to the old elements if `add`. */
static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *a, int add) {
  if (has_few_patches(c))
    return nn_conv_tiles.passes[NN_CONV_FORWARD](c, a, add);
  plan p = make_plan(c, 0);
  p.add = add;
  p.from = (const float *)(const void *)a->data;
  p.weight = (const float *)(const void *)a->weight;
  p.bias = (const float *)(const void *)a->bias;
  p.to = (float *)(void *)a->out;
  return run_plan(&p);
}

static int32_t compute_data_gradient(const nn_conv *c, const nn_conv_arrays *a,
                                     int add) {
  if (has_few_patches(c)) return nn_conv_tiles.passes[NN_CONV_DATA](c, a, add);
  plan p = make_plan(c, 1);
  p.add = add;
  p.from = (const float *)(const void *)a->out;
  p.weight = (const float *)(const void *)a->weight;
  p.to = (float *)(void *)a->data;
  return run_plan(&p);
}

/* ------------------------------------------------------ gradient of weight */

/* The plan of the gradient of weight, for one group at a time. It multiplies
 * transformed patches of data and of the output gradient. Several blocks of
 * patches are multiplied together. */
typedef struct weight_gradient {
  plan data;
  plan out_gradients;
  int64_t blocks; /* blocks that are multiplied together */
  int64_t width;  /* patches in these blocks */
  float *u;       /* transformed output gradients: (36, filter, width) */
  float *v;       /* transformed data: (36, channel, width) */
  float *sums;    /* sums of products: (36, filter, channel) */
  float *weight;
  int64_t group;
  int64_t first; /* first block that is multiplied now */
  int64_t n;     /* number of blocks that are multiplied now */
  nn_workspaces workspaces;
} weight_gradient;

/* Returns the number of transformed output gradients in one product. */
static int64_t count_gradient_elements(const weight_gradient *s) {
  return PATCH * s->data.conv->filters * s->width;
}

/* Returns the number of transformed elements of data in one product. */
static int64_t count_data_elements(const weight_gradient *s) {
  return PATCH * s->data.conv->channels * s->width;
}

/* Returns the plan of the gradient of weight, without arrays. */
static weight_gradient plan_weight_gradient(const nn_conv *c) {
  weight_gradient s = {.data = make_plan(c, 0)};
  plan *p = &s.data;
  p->width = nn_min(WIDE, (p->n_tiles + VECTOR - 1) / VECTOR * VECTOR);
  p->blocks = (p->n_tiles + p->width - 1) / p->width;
  s.out_gradients = *p;
  s.out_gradients.channels = c->filters;
  s.out_gradients.lines = TILE;
  for (int d = 0; d < 2; ++d) {
    s.out_gradients.in[d] = p->out[d];
    s.out_gradients.pad[d] = 0;
  }
  const int64_t bytes = PATCH * p->width * (int64_t)sizeof(float);
  s.blocks = MANY_BYTES / (bytes * (c->channels + c->filters));
  s.blocks = nn_min(nn_max(s.blocks, LEAST_WIDE), p->blocks);
  s.width = s.blocks * p->width;
  s.workspaces.bytes = (uint64_t)bytes;
  s.workspaces.n = nn_choose_workspace_count(c->channels + c->filters);
  return s;
}

/* Returns the bytes of workspace for the gradient of weight. */
static uint64_t count_gradient_bytes(const weight_gradient *s) {
  const nn_conv *c = s->data.conv;
  return (uint64_t)(count_gradient_elements(s) + count_data_elements(s) +
                    PATCH * c->filters * c->channels) *
             sizeof(float) +
         s->workspaces.n * s->workspaces.bytes;
}

/* Transforms the patches of one plane: of channel `plane`, or of filter `plane`
 * - channels in the output gradient. */
static void transform_plane(const weight_gradient *s, int64_t plane, float *d) {
  const int64_t channels = s->data.channels, width = s->data.width;
  const int is_out_gradient = plane >= channels;
  const plan *p = is_out_gradient ? &s->out_gradients : &s->data;
  const int64_t at = is_out_gradient ? plane - channels : plane;
  const int64_t distance = p->channels * s->width;
  float *to = (is_out_gradient ? s->u : s->v) + at * s->width;
  for (int64_t b = 0; b < s->n; ++b, to += width) {
    patch_block all;
    find_patches(p, s->first + b, &all);
    gather_patches(p, &all, s->group * p->channels + at, d);
    (is_out_gradient ? p->loops->transform_gradients
                     : p->loops->transform_data)(d, to, width, distance);
  }
}

/* Transforms planes [begin, end): channels, followed by filters. */
static int32_t transform_plane_slice(void *arg, int64_t begin, int64_t end) {
  weight_gradient *s = arg;
  const uint32_t slot = nn_take_workspace(&s->workspaces);
  for (int64_t i = begin; i < end; ++i)
    transform_plane(s, i,
                    (float *)(void *)nn_locate_workspace(&s->workspaces, slot));
  nn_release_workspace(&s->workspaces, slot);
  return TN_OK;
}

/* Computes the matrix products number begin to end - 1 of the 36, over the
 * patches that exist. */
static int32_t multiply_slice(void *arg, int64_t begin, int64_t end) {
  const weight_gradient *s = arg;
  const nn_conv *c = s->data.conv;
  int32_t code = TN_OK;
  for (int64_t x = begin; x < end && code == TN_OK; ++x)
    code = nn_multiply(
        c->call, &(tn_blas_gemm){.struct_size = sizeof(tn_blas_gemm),
                                 .dtype = TN_F32,
                                 .transpose_b = 1,
                                 .m = c->filters,
                                 .n = c->channels,
                                 .k = s->n * s->data.width,
                                 .a = s->u + x * c->filters * s->width,
                                 .b = s->v + x * c->channels * s->width,
                                 .c = s->sums + x * c->filters * c->channels,
                                 .lda = s->width,
                                 .ldb = s->width,
                                 .ldc = c->channels,
                                 .alpha = 1,
                                 .beta = s->first > 0 ? 1 : 0});
  return code;
}

/* Transforms the sums of a filter back to weights, for all channels. */
static void transform_filter_back(const weight_gradient *s, int64_t filter) {
  const nn_conv *c = s->data.conv;
  const int64_t distance = c->filters * c->channels;
  const float *m = s->sums + filter * c->channels;
  float w[9 * WINO_BACK];
  float *to = s->weight + (s->group * c->filters + filter) * c->channels * 9;
  for (int64_t k = 0; k < c->channels; k += WINO_BACK) {
    const int64_t n = nn_min(WINO_BACK, c->channels - k);
    s->data.loops->transform_back(m + k, w, n, distance);
    for (int64_t t = 0; t < n; ++t)
      for (int i = 0; i < 9; ++i, ++to)
        *to = w[i * WINO_BACK + t] + (s->data.add ? *to : 0);
  }
}

/* Transforms products of filters [begin, end) to gradients of weights. */
static int32_t transform_back_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t f = begin; f < end; ++f) transform_filter_back(arg, f);
  return TN_OK;
}

/* Computes the gradient of weight of one group. */
static int32_t compute_group_gradient(weight_gradient *s) {
  const nn_conv *c = s->data.conv;
  const tn_host *host = c->call->host;
  int32_t code = TN_OK;
  for (s->first = 0; s->first < s->data.blocks && code == TN_OK;
       s->first += s->blocks) {
    s->n = nn_min(s->blocks, s->data.blocks - s->first);
    code = host->parallel_for(c->call, c->channels + c->filters, 1,
                              transform_plane_slice, s);
    if (code == TN_OK)
      code = host->parallel_for(c->call, PATCH, 1, multiply_slice, s);
  }
  if (code != TN_OK) return code;
  return host->parallel_for(c->call, c->filters, 1, transform_back_slice, s);
}

static int32_t compute_weight_gradient(const nn_conv *c,
                                       const nn_conv_arrays *a, int add) {
  weight_gradient s = plan_weight_gradient(c);
  int32_t code = TN_OK;
  s.data.from = (const float *)(const void *)a->data;
  s.out_gradients.from = (const float *)(const void *)a->out;
  s.data.add = add;
  s.weight = (float *)(void *)a->weight;
  s.workspaces.memory = c->memory;
  s.u = (float *)(void *)(c->memory + s.workspaces.n * s.workspaces.bytes);
  s.v = s.u + count_gradient_elements(&s);
  s.sums = s.v + count_data_elements(&s);
  for (s.group = 0; s.group < c->groups && code == TN_OK; ++s.group)
    code = compute_group_gradient(&s);
  return code;
}

/* --------------------------------------------------------------- algorithm */

/* Returns the bytes of workspace for a pass (NN_CONV_*). */
static uint64_t count_workspace_bytes(const nn_conv *c, int pass) {
  if (pass == NN_CONV_WEIGHT) {
    const weight_gradient s = plan_weight_gradient(c);
    return count_gradient_bytes(&s);
  }
  if (has_few_patches(c)) return nn_conv_tiles.count_bytes(c, pass);
  const plan p = make_plan(c, pass == NN_CONV_DATA);
  return count_kept_bytes(&p) + p.workspaces.n * p.workspaces.bytes;
}

const nn_conv_algorithm nn_conv_winograd = {
    count_workspace_bytes,
    {run_forward, compute_data_gradient, compute_weight_gradient}};
