/* SPDX-License-Identifier: Apache-2.0
 * fit.c: offsets for spans, by whichever method comes lowest. Methods are
 * tried from the cheap to the dear, and none once the floor is reached.
 */
#include <string.h>

#include "planning.h"

size_t tn__span_worth(const tn__span *span, tn__fit_key key) {
  const size_t time = (size_t)span->last - span->first + 1;
  size_t area;
  if (key == TN__FIT_LONGEST) return time;
  if (key == TN__FIT_LARGEST) return span->bytes;
  return tn__mul(time, span->bytes, &area) ? area : SIZE_MAX;
}

static void keep(tn__fit *fit, const size_t *offsets, size_t height) {
  if (height >= fit->height) return;
  fit->height = height;
  for (uint32_t k = 0; k < fit->n; ++k) fit->spans[k].offset = offsets[k];
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
    keep(fit, offsets, height);
  }
  if (fit->height <= fit->floor) return TN_OK;
  TN__TRY(tn__fit_greedy(fit, offsets, &height));
  keep(fit, offsets, height);
  return TN_OK;
}
