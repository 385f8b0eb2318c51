/* SPDX-License-Identifier: Apache-2.0
 * digits.c: see digits.h.
 */
#include "digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

/* One line: 64 numbers and a label, with commas between; 1 if it is that. */
static int read_row(const char *line, float *pixels, float *label) {
  for (int i = 0; i <= DIGITS_PIXELS; ++i) {
    char *end = NULL;
    const long value = strtol(line, &end, 10);
    const long most = i < DIGITS_PIXELS ? 16 : DIGITS_CLASSES - 1;
    if (end == line || value < 0 || value > most) return 0;
    if (i < DIGITS_PIXELS)
      pixels[i] = (float)value / 16 - 0.5f;
    else
      *label = (float)value;
    line = *end == ',' ? end + 1 : end;
  }
  return 1;
}

static int grow(digits *d, size_t room) {
  float *pixels = realloc(d->pixels, room * DIGITS_PIXELS * sizeof *pixels);
  if (pixels) d->pixels = pixels;
  float *labels = realloc(d->labels, room * sizeof *labels);
  if (labels) d->labels = labels;
  return pixels && labels;
}

static int read_rows(gzFile file, digits *d) {
  char line[512];
  size_t room = 0;
  while (gzgets(file, line, sizeof line)) {
    if (d->n == room && !grow(d, room = room * 2 + 1024)) return 0;
    if (!read_row(line, d->pixels + d->n * DIGITS_PIXELS, d->labels + d->n))
      return 0;
    ++d->n;
  }
  return d->n > DIGITS_TEST + DIGITS_BATCH;
}

int digits_read(const char *path, digits *out) {
  *out = (digits){0};
  gzFile file = gzopen(path, "rb");
  if (!file) {
    fprintf(stderr, "%s: cannot be opened\n", path);
    return 0;
  }
  const int good = read_rows(file, out);
  (void)gzclose(file);
  if (good) return 1;
  fprintf(stderr, "%s: row %zu is not 64 numbers and a digit, or is missing\n",
          path, out->n + 1);
  digits_free(out);
  return 0;
}

void digits_free(digits *d) {
  free(d->pixels);
  free(d->labels);
  *d = (digits){0};
}

/* splitmix64 */
static uint64_t draw(digits_random *random) {
  uint64_t x = random->state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void digits_uniform(digits_random *random, double limit, float *to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const double zero_to_one = (double)(draw(random) >> 11) * 0x1p-53;
    to[i] = (float)((2 * zero_to_one - 1) * limit);
  }
}

size_t digits_n_train(const digits *d) {
  return d->n - DIGITS_TEST;
}

void digits_shuffle(const digits *d, digits_random *random, size_t *order) {
  const size_t n = digits_n_train(d);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  for (size_t i = n; i > 1; --i) {
    const size_t other = (size_t)(draw(random) % i), row = order[i - 1];
    order[i - 1] = order[other];
    order[other] = row;
  }
}

/* Shifts an image by `down` and `right`, each -1, 0 or 1; pixels from outside
 * of it are empty. */
static void move(const float *from, int down, int right, float *to) {
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) {
      const int v = y - down, u = x - right;
      const int inside = v >= 0 && v < 8 && u >= 0 && u < 8;
      to[8 * y + x] = inside ? from[8 * v + u] : -0.5f;
    }
}

void digits_batch(const digits *d, const size_t *order, digits_random *random,
                  float *pixels, float *labels) {
  float noise[DIGITS_PIXELS];
  for (size_t i = 0; i < DIGITS_BATCH; ++i) {
    const uint64_t dice = draw(random);
    const int moves = dice >> 63 != 0;
    const int down = moves ? (int)(dice % 3) - 1 : 0;
    const int right = moves ? (int)(dice / 3 % 3) - 1 : 0;
    float *to = pixels + i * DIGITS_PIXELS;
    move(d->pixels + order[i] * DIGITS_PIXELS, down, right, to);
    digits_uniform(random, 0.2, noise, DIGITS_PIXELS);
    for (int k = 0; k < DIGITS_PIXELS; ++k) to[k] += noise[k];
    labels[i] = d->labels[order[i]];
  }
}

void digits_count(digits_score *score, const float *probabilities,
                  const float *labels, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float *p = probabilities + i * DIGITS_CLASSES;
    const size_t label = (size_t)labels[i];
    size_t best = 0;
    for (size_t k = 1; k < DIGITS_CLASSES; ++k)
      if (p[k] > p[best]) best = k;
    score->n_right += best == label;
    score->loss -= log(fmax((double)p[label], 1e-30));
  }
  score->n += n;
}

double digits_clock(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double percent(const digits_score *score) {
  return score->n > 0 ? 100 * (double)score->n_right / (double)score->n : 0;
}

void digits_report(int epoch, const digits_score *learned,
                   const digits_score *tested, double seconds) {
  printf("epoch %2d  loss %.4f  learned %5.1f %%  tested %5.1f %%  %.2f s\n",
         epoch, learned->loss / (double)learned->n, percent(learned),
         percent(tested), seconds);
  (void)fflush(stdout);
}
