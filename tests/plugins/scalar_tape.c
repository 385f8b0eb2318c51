/* SPDX-License-Identifier: Apache-2.0
 * scalar_tape.c: see scalar_tape.h.
 */
#include "scalar_tape.h"

#include <math.h>
#include <stdlib.h>

#include "dice.h"

typedef enum rule {
  CONSTANT,
  VARIABLE,
  SUM,
  PRODUCT,
  NEGATIVE,
  SINE,
  COSINE,
  SAME
} rule;

enum { NONE = -1 };

typedef struct node {
  double value;
  rule rule;
  number a;
  number b;
  bool depends;
} node;

static node *nodes;
static number n_nodes, capacity;

void numbers_reset(void) {
  free(nodes);
  nodes = NULL;
  n_nodes = capacity = 0;
}

number numbers_made(void) {
  return n_nodes;
}

static number make(node made) {
  if (n_nodes == capacity) {
    capacity = capacity ? 2 * capacity : 1024;
    nodes = realloc(nodes, (size_t)capacity * sizeof *nodes);
    if (!nodes) dice_fail("no memory");
  }
  nodes[n_nodes] = made;
  return n_nodes++;
}

static number one(rule how, number a, double value) {
  return make((node){value, how, a, NONE, nodes[a].depends});
}

static number two(rule how, number a, number b, double value) {
  const bool depends = nodes[a].depends || nodes[b].depends;
  return make((node){value, how, a, b, depends});
}

double number_value(number a) {
  return nodes[a].value;
}

bool number_depends(number a) {
  return nodes[a].depends;
}

number number_constant(double value) {
  return make((node){value, CONSTANT, NONE, NONE, false});
}

number number_variable(double value) {
  return make((node){value, VARIABLE, NONE, NONE, true});
}

number number_fixed(number a) {
  return number_constant(number_value(a));
}

number number_sum(number a, number b) {
  return two(SUM, a, b, number_value(a) + number_value(b));
}

number number_product(number a, number b) {
  return two(PRODUCT, a, b, number_value(a) * number_value(b));
}

number number_negative(number a) {
  return one(NEGATIVE, a, -number_value(a));
}

number number_difference(number a, number b) {
  return number_sum(a, number_negative(b));
}

number number_square(number a) {
  return number_product(a, a);
}

number number_sine(number a) {
  return one(SINE, a, sin(number_value(a)));
}

static number cosine(number a) {
  return one(COSINE, a, cos(number_value(a)));
}

number number_same(number a) {
  return one(SAME, a, number_value(a));
}

/* ------------------------------------------------------------- derivatives */

static void pass(number *slopes, number to, number slope) {
  slopes[to] = slopes[to] == NONE ? slope : number_sum(slopes[to], slope);
}

/* From a number to those that it was made of. By value: nodes move. */
static void differentiate(number *slopes, number of) {
  const node n = nodes[of];
  const number slope = slopes[of];
  switch (n.rule) {
    case CONSTANT:
    case VARIABLE:
      return;
    case SUM:
      pass(slopes, n.a, slope);
      pass(slopes, n.b, slope);
      return;
    case PRODUCT:
      pass(slopes, n.a, number_product(slope, n.b));
      pass(slopes, n.b, number_product(slope, n.a));
      return;
    case NEGATIVE:
      pass(slopes, n.a, number_negative(slope));
      return;
    case SINE:
      pass(slopes, n.a, number_product(slope, cosine(n.a)));
      return;
    case COSINE:
      pass(slopes, n.a,
           number_product(slope, number_negative(number_sine(n.a))));
      return;
    case SAME:
      pass(slopes, n.a, slope);
  }
}

const number *number_slopes(const number *heads, const number *weights,
                            size_t n) {
  const number end = n_nodes;
  number *slopes = dice_take((size_t)end * sizeof *slopes);
  for (number i = 0; i < end; ++i) slopes[i] = NONE;
  for (size_t i = 0; i < n; ++i) pass(slopes, heads[i], weights[i]);
  for (number i = end - 1; i >= 0; --i)
    if (slopes[i] != NONE) differentiate(slopes, i);
  return slopes;
}

number number_slope(const number *slopes, number by) {
  return slopes[by] == NONE ? number_constant(0) : slopes[by];
}
