/* SPDX-License-Identifier: Apache-2.0
 * derivative.c: derivatives of terms. The table in function.c has the
 * derivatives of functions as texts in postfix order.
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

static const term *pop_value(rule *r) {
  return r->stack[--r->n];
}

static void push_value(rule *r, const term *t) {
  r->stack[r->n++] = t;
}

static bool push_operand(rule *r, const char *token) {
  char *end;
  double value;
  if (token[0] >= '0' && token[0] <= '9') {
    if (tn__read_double(token, &end, &value) != TN_OK) return false;
    push_value(r, tnm_term_number(r->set, value));
    return true;
  }
  if (token[1] != '\0') return false;
  if (token[0] >= 'x' && token[0] <= 'z')
    push_value(r, r->args[token[0] - 'x']);
  else if (token[0] == 'f')
    push_value(r, r->self);
  else
    return false;
  return true;
}

static const term *apply_operator(rule *r, char op, const term *a,
                                  const term *b) {
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

static void apply_token(rule *r, const char *token) {
  if (strcmp(token, "neg") == 0) {
    push_value(r, tnm_term_scale(r->set, -1, pop_value(r)));
    return;
  }
  if (token[1] == '\0') {
    const term *b = pop_value(r);
    push_value(r, apply_operator(r, token[0], pop_value(r), b));
    return;
  }
  const uint32_t function = tnm_function_find(token);
  const term *args[3] = {NULL};
  for (size_t i = tnm_function_at(function)->n_args; i-- > 0;)
    args[i] = pop_value(r);
  push_value(r, tnm_term_call(r->set, function, args));
}

/* The derivative of `self`, a function of args, by args[which]. */
static const term *rule_value(terms *set, uint32_t function, uint32_t which,
                              const term *self) {
  const char *text = tnm_function_at(function)->derivatives[which];
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
    if (!push_operand(&r, token)) apply_token(&r, token);
  }
  return pop_value(&r);
}

/* ------------------------------------------------------------------- the terms
 */

static const term *derive_sum(terms *set, const term *t, const term *by) {
  const term **list = tnm_term_list(set, t->n);
  if (list == NULL) return set->nothing;
  for (uint32_t i = 0; i < t->n; ++i)
    list[i] = tnm_term_derivative(set, t->args[i], by);
  return tnm_term_sum(set, list, t->n);
}

/* The sum of products in which one factor is replaced by its derivative. */
static const term *derive_product(terms *set, const term *t, const term *by) {
  const term **sum = tnm_term_list(set, t->n);
  const term **list = tnm_term_list(set, t->n + 1);
  size_t n = 0;
  if (sum == NULL || list == NULL) return set->nothing;
  for (uint32_t i = 0; i < t->n; ++i) {
    const term *derivative = tnm_term_derivative(set, t->args[i], by);
    double factor;
    if (tnm_term_is(derivative, 0)) continue;
    memcpy(list, t->args, t->n * sizeof *list);
    list[i] = tnm_term_split(set, derivative, &factor);
    list[t->n] = tnm_term_number(set, t->number);
    /* Last, so that this number may stay separate from that of the other
     * factors. */
    sum[n++] =
        tnm_term_scale(set, factor, tnm_term_product(set, list, t->n + 1));
  }
  return tnm_term_sum(set, sum, n);
}

static const term *derive_number_power(terms *set, const term *t,
                                       const term *by) {
  const double n = t->args[1]->number;
  const term *v[3] = {
      tnm_term_number(set, n),
      tnm_term_power(set, t->args[0], tnm_term_number(set, n - 1)),
      tnm_term_derivative(set, t->args[0], by)};
  return tnm_term_product(set, v, 3);
}

static const term *derive_call(terms *set, const term *t, uint32_t function,
                               const term *by) {
  const term *sum[3];
  size_t n = 0;
  for (uint32_t i = 0; i < t->n; ++i) {
    const term *inner = tnm_term_derivative(set, t->args[i], by);
    if (tnm_term_is(inner, 0)) continue;
    sum[n++] = tnm_term_mul(set, rule_value(set, function, i, t), inner);
  }
  return tnm_term_sum(set, sum, n);
}

static const term *derive_term(terms *set, const term *t, const term *by) {
  switch (t->kind) {
    case TERM_LEAF:
    case TERM_REDUCE:
      return tnm_term_number(set, t == by);
    case TERM_SUM:
      return derive_sum(set, t, by);
    case TERM_PRODUCT:
      return derive_product(set, t, by);
    case TERM_POWER:
      return t->args[1]->kind == TERM_NUMBER
                 ? derive_number_power(set, t, by)
                 : derive_call(set, t, TNM_F_POW, by);
    case TERM_CALL:
      return derive_call(set, t, t->index, by);
    default: /* numbers and comparisons */
      return tnm_term_number(set, 0);
  }
}

const term *tnm_term_derivative(terms *set, const term *t, const term *by) {
  if (t->memo->derivative == NULL || t->memo->derived_by != by->id) {
    t->memo->derivative = derive_term(set, t, by);
    t->memo->derived_by = by->id;
  }
  return t->memo->derivative;
}
