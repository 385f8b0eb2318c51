/* SPDX-License-Identifier: Apache-2.0
 * digits.h: shared by the examples that learn digits: the data, initial
 * numbers, batches and a line per epoch. It does not use Tenon.
 */
#ifndef EXAMPLES_DIGITS_H_
#define EXAMPLES_DIGITS_H_

#include <stddef.h>
#include <stdint.h>

enum {
  DIGITS_PIXELS = 64,
  DIGITS_CLASSES = 10,
  DIGITS_TEST = 360, /* of the rows, the last ones; never learned from */
  DIGITS_BATCH = 32
};

/* All rows of a file. */
typedef struct digits {
  size_t n;
  float *pixels; /* n x DIGITS_PIXELS, from -0.5 to 0.5 */
  float *labels; /* n, from 0 to 9 */
} digits;

/* Reads examples/data/digits.csv.gz: 1, or 0 after a line to stderr. The caller
 * frees *out with digits_free. */
int digits_read(const char *path, digits *out);
void digits_free(digits *d);

/* Numbers that are the same on every machine. */
typedef struct digits_random {
  uint64_t state;
} digits_random;

/* n numbers between -limit and limit. */
void digits_uniform(digits_random *random, double limit, float *to, size_t n);

/* The rows to learn from in a new order: `order` has digits_n_train entries. */
size_t digits_n_train(const digits *d);
void digits_shuffle(const digits *d, digits_random *random, size_t *order);

/* Copies rows order[0] to order[DIGITS_BATCH - 1], half of them moved by a
 * pixel in some direction, and all with a little noise: the rows that are
 * tested were written by other people. */
void digits_batch(const digits *d, const size_t *order, digits_random *random,
                  float *pixels, float *labels);

/* Results for some rows. */
typedef struct digits_score {
  size_t n;
  size_t n_right; /* rows where the label has the largest probability */
  double loss;    /* sum of -log(probability of the label) */
} digits_score;

/* Adds n rows of DIGITS_CLASSES probabilities. */
void digits_count(digits_score *score, const float *probabilities,
                  const float *labels, size_t n);

/* Seconds since some time in the past. */
double digits_clock(void);

/* "epoch  3  loss 0.1234  learned 97.2 %  tested 95.0 %  0.12 s" */
void digits_report(int epoch, const digits_score *learned,
                   const digits_score *tested, double seconds);

#endif /* EXAMPLES_DIGITS_H_ */
