/* SPDX-License-Identifier: Apache-2.0
 * deformable_columns.c: panels of the matrix of windows, by the loops of
 * sample_block.h. The taps of a block of windows are computed once for all
 * channels of a panel in a group of offsets.
 */
#include "deformable_columns.h"

#include "operands.h"
#include "sample_block.h"

/* A part of a panel: one element of a block of windows, in the channels of a
 * group of offsets. */
typedef struct piece {
  const nn_deformable *d;
  const nn_deformable_panel *panel;
  int64_t group; /* of offsets */
  int64_t tap;
  nn_range channels;
  int64_t window;        /* the first one */
  nn_sample_block block; /* with the number of windows */
} piece;

/* Returns the address of element i. */
static char *locate_element(const nn_deformable *d, const char *array,
                            int64_t i) {
  return (char *)(uintptr_t)array + i * d->conv.bytes;
}

/* Returns the mode of the loops of sample_block.h. */
static tn_kernel_mode find_mode(const nn_deformable *d) {
  return (tn_kernel_mode){d->conv.dtype, d->conv.level};
}

/* Returns the index of a piece's first window in the plane of mask. */
static int64_t find_mask(const piece *p) {
  return nn_deformable_find_plane(&p->d->view, p->panel->image, p->group,
                                  p->tap) +
         p->window;
}

/* Returns the index of a piece's first window in the first plane of offset;
 * the second one follows. */
static int64_t find_offset(const piece *p) {
  return 2 * (find_mask(p) - p->window) + p->window;
}

/* Sets the elements along both dimensions for window i of a piece. */
static void find_lines(const piece *p, int64_t i, nn_sample_line *lines) {
  const nn_deformable_view *v = &p->d->view;
  const int64_t at = find_offset(p) + i;
  const double offset[] = {
      nn_operands_get(p->d->conv.dtype, p->d->offset, at),
      nn_operands_get(p->d->conv.dtype, p->d->offset, at + v->windows)};
  nn_deformable_find_lines(v, p->tap, p->window + i, offset, lines);
}

/* Computes the taps of a piece. */
static void fill_piece(piece *p) {
  nn_sample_line lines[NN_SAMPLE_RANK];
  p->block.taps = NN_DEFORMABLE_TAPS;
  for (int64_t i = 0; i < p->block.n; ++i) {
    find_lines(p, i, lines);
    const nn_sample_taps taps =
        nn_sample_join_lines(&p->d->view.rule, lines, -1);
    nn_sample_set_position(&p->block, p->d->conv.dtype, i, &taps);
  }
}

/* Handles a piece. */
typedef void piece_fn(const piece *p, const void *arg);

/* Calls `run` for all pieces of a panel. */
static void visit_pieces(const nn_deformable *d,
                         const nn_deformable_panel *panel, piece_fn *run,
                         const void *arg) {
  const int64_t each = d->view.channels / d->view.offset_groups;
  const int64_t end = panel->channel + panel->channels;
  piece p = {.d = d, .panel = panel};
  for (int64_t c = panel->channel; c < end; c = p.channels.end) {
    p.group = c / each;
    p.channels = (nn_range){c, nn_min((p.group + 1) * each, end)};
    for (p.tap = 0; p.tap < d->view.taps; ++p.tap)
      for (int64_t i = 0; i < panel->n; i += p.block.n) {
        p.window = panel->window + i;
        p.block.n = nn_min(NN_SAMPLE_BLOCK, panel->n - i);
        fill_piece(&p);
        run(&p, arg);
      }
  }
}

/* Returns a piece's part of the row of a channel. */
static char *locate_row(const piece *p, int64_t channel) {
  const nn_deformable_panel *panel = p->panel;
  const int64_t row = (channel - panel->channel) * p->d->view.taps + p->tap;
  return locate_element(p->d, panel->to,
                        row * panel->n + p->window - panel->window);
}

/* Returns the image of a channel in images like data. */
static char *locate_image(const piece *p, const char *images, int64_t channel) {
  const nn_deformable_view *v = &p->d->view;
  return locate_element(p->d, images,
                        (p->panel->image * v->channels + channel) * v->size);
}

/* Multiplies a piece's part of a row by the mask. */
static void multiply_mask(const piece *p, char *row) {
  const nn_deformable *d = p->d;
  if (!d->mask) return;
  if (d->conv.dtype == TN_F32) {
    const float *m = (const float *)(const void *)d->mask + find_mask(p);
    float *to = (float *)(void *)row;
    for (int64_t i = 0; i < p->block.n; ++i) to[i] *= m[i];
  } else {
    const double *m = (const double *)(const void *)d->mask + find_mask(p);
    double *to = (double *)(void *)row;
    for (int64_t i = 0; i < p->block.n; ++i) to[i] *= m[i];
  }
}

/* Computes the rows of a piece: a piece_fn. */
static void read_piece(const piece *p, const void *arg) {
  const tn_kernel_mode mode = find_mode(p->d);
  (void)arg;
  for (int64_t c = p->channels.begin; c < p->channels.end; ++c) {
    char *row = locate_row(p, c);
    nn_sample_gather_block(&mode, &p->block, locate_image(p, p->d->data, c),
                           row, 0);
    multiply_mask(p, row);
  }
}

void nn_deformable_read_panel(const nn_deformable *d,
                              const nn_deformable_panel *panel) {
  visit_pieces(d, panel, read_piece, NULL);
}

/* Adds the rows of a piece to images: a piece_fn. */
static void add_piece(const piece *p, const void *images) {
  const tn_kernel_mode mode = find_mode(p->d);
  for (int64_t c = p->channels.begin; c < p->channels.end; ++c) {
    char *row = locate_row(p, c);
    multiply_mask(p, row);
    const nn_sample_planes planes = {
        .n = 1, .from = row, .images = locate_image(p, images, c)};
    nn_sample_scatter_block(&mode, &p->block, &planes);
  }
}

void nn_deformable_add_panel(const nn_deformable *d,
                             const nn_deformable_panel *panel, char *data) {
  visit_pieces(d, panel, add_piece, data);
}

/* ------------------------------------------------------------------ slopes */

/* Returns the sum of weights times products of window i. */
static double sum_products(const nn_sample_taps *taps, const double *products,
                           int64_t i) {
  double sum = 0;
  for (int t = 0; t < taps->n; ++t)
    if (taps->at[t] >= 0 && (taps->weight[t] < 0 || taps->weight[t] > 0))
      sum += taps->weight[t] * products[t * NN_SAMPLE_BLOCK + i];
  return sum;
}

/* Stores the gradients of a piece's offset and mask: a piece_fn. */
static void write_slopes(const piece *p, const void *arg) {
  const nn_deformable *d = p->d;
  const nn_deformable_slopes *to = arg;
  const tn_kernel_mode mode = find_mode(d);
  const int64_t each = d->view.channels / d->view.offset_groups;
  const int is_later = p->channels.begin % each > 0;
  double products[NN_DEFORMABLE_TAPS * NN_SAMPLE_BLOCK] = {0};
  nn_sample_line lines[NN_SAMPLE_RANK];
  for (int64_t c = p->channels.begin; c < p->channels.end; ++c)
    nn_sample_multiply_block(&mode, &p->block, locate_image(p, d->data, c),
                             locate_row(p, c), products);
  for (int64_t i = 0; i < p->block.n; ++i) {
    const double factor =
        d->mask ? nn_operands_get(d->conv.dtype, d->mask, find_mask(p) + i) : 1;
    find_lines(p, i, lines);
    for (int k = 0; to->offset && k < 2; ++k) {
      const nn_sample_taps taps =
          nn_sample_join_lines(&d->view.rule, lines, k + 1);
      nn_operands_set(d->conv.dtype, to->offset,
                      find_offset(p) + k * d->view.windows + i,
                      factor * sum_products(&taps, products, i),
                      to->add_offset || is_later);
    }
    const nn_sample_taps taps = nn_sample_join_lines(&d->view.rule, lines, -1);
    if (to->mask)
      nn_operands_set(d->conv.dtype, to->mask, find_mask(p) + i,
                      sum_products(&taps, products, i),
                      to->add_mask || is_later);
  }
}

void nn_deformable_write_slopes(const nn_deformable *d,
                                const nn_deformable_panel *panel,
                                const nn_deformable_slopes *to) {
  visit_pieces(d, panel, write_slopes, to);
}
