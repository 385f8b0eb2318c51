/* SPDX-License-Identifier: Apache-2.0
 * slope.c: derivatives of terms. The derivatives of functions stand in the
 * table in function.c, as texts in which operands come before their operator.
 */
#include <string.h>

#include "term.h"

/* ----------------------------------------------------------------------- rules
 */

enum { MAX_STACK = 16 };

/* The evaluation of one rule. */
typedef struct rule {
  terms *set;
  const term *const *args; /* x, y, z */
  const term *self;        /* f */
  const term *stack[MAX_STACK];
  size_t n;
} rule;

static const term *pop(rule *r) {
  return r->stack[--r->n];
}

static void push(rule *r, const term *t) {
  r->stack[r->n++] = t;
}

static bool push_operand(rule *r, const char *token) {
  char *end;
  double value;
  if (token[0] >= '0' && token[0] <= '9') {
    if (tn__read_double(token, &end, &value) != TN_OK) return false;
    push(r, tnm_term_number(r->set, value));
    return true;
  }
  if (token[1] != '\0') return false;
  if (token[0] >= 'x' && token[0] <= 'z')
    push(r, r->args[token[0] - 'x']);
  else if (token[0] == 'f')
    push(r, r->self);
  else
    return false;
  return true;
}

static const term *operate(rule *r, char op, const term *a, const term *b) {
  switch (op) {
    case '+':
      return tnm_term_add(r->set, a, b);
    case '-':
      return tnm_term_add(r->set, a, tnm_term_scale(r->set, -1, b));
    case '*':
      return tnm_term_mul(r->set, a, b);
    case '/':
      return tnm_term_mul(
          r->set, a, tnm_term_power(r->set, b, tnm_term_number(r->set, -1)));
    case '^':
      return tnm_term_power(r->set, a, b);
    default:
      return tnm_term_compare(r->set, op, a, b);
  }
}

static void apply(rule *r, const char *token) {
  if (strcmp(token, "neg") == 0) {
    push(r, tnm_term_scale(r->set, -1, pop(r)));
    return;
  }
  if (token[1] == '\0') {
    const term *b = pop(r);
    push(r, operate(r, token[0], pop(r), b));
    return;
  }
  const uint32_t function = tnm_function_find(token);
  const term *args[3] = {NULL};
  for (size_t i = tnm_function_at(function)->n_args; i-- > 0;) args[i] = pop(r);
  push(r, tnm_term_call(r->set, function, args));
}

/* The derivative of `self`, a function of args, by args[which]. */
static const term *rule_value(terms *set, uint32_t function, uint32_t which,
                              const term *self) {
  const char *text = tnm_function_at(function)->slopes[which];
  rule r = {.set = set, .args = self->args, .self = self};
  if (text == NULL) {
    set->unknown = true;
    return set->nothing;
  }
  while (*text != '\0') {
    char token[32];
    const size_t n = strcspn(text, " ");
    memcpy(token, text, n);
    token[n] = '\0';
    text += text[n] == ' ' ? n + 1 : n;
    if (!push_operand(&r, token)) apply(&r, token);
  }
  return pop(&r);
}

/* ------------------------------------------------------------------- the terms
 */

static const term *sum_slope(terms *set, const term *t, const term *by) {
  const term **list = tnm_term_list(set, t->n);
  if (list == NULL) return set->nothing;
  for (uint32_t i = 0; i < t->n; ++i)
    list[i] = tnm_term_slope(set, t->args[i], by);
  return tnm_term_sum(set, list, t->n);
}

/* One factor after the other gives way to its derivative. */
static const term *product_slope(terms *set, const term *t, const term *by) {
  const term **sum = tnm_term_list(set, t->n);
  const term **list = tnm_term_list(set, t->n + 1);
  size_t n = 0;
  if (sum == NULL || list == NULL) return set->nothing;
  for (uint32_t i = 0; i < t->n; ++i) {
    const term *slope = tnm_term_slope(set, t->args[i], by);
    double factor;
    if (tnm_term_is(slope, 0)) continue;
    memcpy(list, t->args, t->n * sizeof *list);
    list[i] = tnm_term_split(set, slope, &factor);
    list[t->n] = tnm_term_number(set, t->number);
    /* Last, so that it may stay apart from the number of the other factors. */
    sum[n++] =
        tnm_term_scale(set, factor, tnm_term_product(set, list, t->n + 1));
  }
  return tnm_term_sum(set, sum, n);
}

static const term *number_power_slope(terms *set, const term *t,
                                      const term *by) {
  const double n = t->args[1]->number;
  const term *v[3] = {
      tnm_term_number(set, n),
      tnm_term_power(set, t->args[0], tnm_term_number(set, n - 1)),
      tnm_term_slope(set, t->args[0], by)};
  return tnm_term_product(set, v, 3);
}

static const term *call_slope(terms *set, const term *t, uint32_t function,
                              const term *by) {
  const term *sum[3];
  size_t n = 0;
  for (uint32_t i = 0; i < t->n; ++i) {
    const term *inner = tnm_term_slope(set, t->args[i], by);
    if (tnm_term_is(inner, 0)) continue;
    sum[n++] = tnm_term_mul(set, rule_value(set, function, i, t), inner);
  }
  return tnm_term_sum(set, sum, n);
}

static const term *any_slope(terms *set, const term *t, const term *by) {
  switch (t->kind) {
    case TERM_LEAF:
      return tnm_term_number(set, t == by);
    case TERM_SUM:
      return sum_slope(set, t, by);
    case TERM_PRODUCT:
      return product_slope(set, t, by);
    case TERM_POWER:
      return t->args[1]->kind == TERM_NUMBER
                 ? number_power_slope(set, t, by)
                 : call_slope(set, t, TNM_F_POW, by);
    case TERM_CALL:
      return call_slope(set, t, t->index, by);
    default: /* numbers and comparisons */
      return tnm_term_number(set, 0);
  }
}

const term *tnm_term_slope(terms *set, const term *t, const term *by) {
  if (t->memo->slope == NULL || t->memo->slope_by != by->id) {
    t->memo->slope = any_slope(set, t, by);
    t->memo->slope_by = by->id;
  }
  return t->memo->slope;
}
