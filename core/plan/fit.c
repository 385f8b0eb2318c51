/* SPDX-License-Identifier: Apache-2.0
 * fit.c: finds offsets for intervals. It tries several methods, the cheap ones
 * first, and keeps the lowest result. It stops when the floor is reached.
 */
#include <string.h>

#include "planning.h"

size_t tn__interval_worth(const tn__interval *interval, tn__fit_key key) {
  const size_t time = (size_t)interval->last - interval->first + 1;
  size_t area;
  if (key == TN__FIT_LONGEST) return time;
  if (key == TN__FIT_LARGEST) return interval->bytes;
  return tn__mul(time, interval->bytes, &area) ? area : SIZE_MAX;
}

static void keep_lowest(tn__fit *fit, const size_t *offsets, size_t height) {
  if (height >= fit->height) return;
  fit->height = height;
  for (uint32_t k = 0; k < fit->n; ++k) fit->intervals[k].offset = offsets[k];
}

tn_code tn__fit_run(tn__fit *fit) {
  size_t *offsets = tn__arena_alloc(fit->arena, fit->n * sizeof *offsets);
  size_t height;
  if (offsets == NULL)
    return tn__fail_memory(fit->n * sizeof *offsets, "a plan's offsets");
  fit->height = fit->n == 0 ? 0 : SIZE_MAX;
  for (int key = 0; key < TN__FIT_N_KEYS; ++key) {
    if (fit->height <= fit->floor) return TN_OK;
    TN__TRY(tn__fit_skyline(fit, (tn__fit_key)key, offsets, &height));
    keep_lowest(fit, offsets, height);
  }
  if (fit->height <= fit->floor) return TN_OK;
  TN__TRY(tn__fit_greedy(fit, offsets, &height));
  keep_lowest(fit, offsets, height);
  return TN_OK;
}
