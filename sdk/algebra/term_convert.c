/* SPDX-License-Identifier: Apache-2.0
 * term_convert.c: converts expressions to terms and back. The result reads as
 * if a person had written it: differences and quotients instead of negative
 * numbers and exponents, and a sum begins with a minus only if it must.
 */
#include <math.h>
#include <string.h>

#include "term.h"

/* --------------------------------------------------------------------- reading
 */

/* The operands of a chain of sums, or of products. */
typedef struct chain {
  terms *set;
  const term **v;
  size_t n;
  bool sum;
} chain;

static bool is_continued(const tnm_expr *e, bool sum) {
  if (e->kind == TNM_NEG) return true;
  return e->kind == TNM_BINARY && strchr(sum ? "+-" : "*/", e->op);
}

static size_t count_chain(const tnm_expr *e, bool sum) {
  size_t n = 1;
  if (!is_continued(e, sum)) return n;
  for (uint32_t i = 0; i < e->n_args; ++i) n += count_chain(e->args[i], sum);
  return n;
}

static void gather_sum(chain *c, const tnm_expr *e, double sign) {
  if (!is_continued(e, true)) {
    c->v[c->n++] = tnm_term_scale(c->set, sign, tnm_term_read(c->set, e));
    return;
  }
  if (e->kind == TNM_NEG) {
    gather_sum(c, e->args[0], -sign);
    return;
  }
  gather_sum(c, e->args[0], sign);
  gather_sum(c, e->args[1], e->op == '-' ? -sign : sign);
}

/* Adds a factor. A product in parentheses may keep its number separate from the
 * others. */
static void gather_factor(chain *c, const tnm_expr *e, double exponent) {
  c->v[c->n++] = tnm_term_power(c->set, tnm_term_read(c->set, e),
                                tnm_term_number(c->set, exponent));
}

static void gather_product(chain *c, const tnm_expr *e) {
  if (!is_continued(e, false)) {
    gather_factor(c, e, 1);
    return;
  }
  if (e->kind == TNM_NEG) c->v[c->n++] = tnm_term_number(c->set, -1);
  gather_product(c, e->args[0]);
  if (e->kind != TNM_NEG) gather_factor(c, e->args[1], e->op == '/' ? -1 : 1);
}

static const term *read_chain(terms *set, const tnm_expr *e, bool sum) {
  chain c = {.set = set, .sum = sum};
  c.v = tnm_term_list(set, 2 * count_chain(e, sum));
  if (c.v == NULL) return set->nothing;
  if (sum)
    gather_sum(&c, e, 1);
  else
    gather_product(&c, e);
  return sum ? tnm_term_sum(set, c.v, c.n) : tnm_term_product(set, c.v, c.n);
}

const term *tnm_term_read(terms *set, const tnm_expr *e) {
  const term *args[3] = {NULL};
  if (e->kind == TNM_NUMBER) return tnm_term_number(set, e->number);
  if (e->kind == TNM_REDUCE || e->kind == TNM_COUNT) set->axes = e->text;
  if (e->kind == TNM_REDUCE)
    return tnm_term_reduce(set, e->index, tnm_term_read(set, e->args[0]));
  if (e->n_args == 0) return tnm_term_leaf(set, e);
  if (e->kind == TNM_NEG)
    return tnm_term_scale(set, -1, tnm_term_read(set, e->args[0]));
  if (e->kind == TNM_BINARY && strchr("+-*/", e->op))
    return read_chain(set, e, strchr("+-", e->op) != NULL);
  for (uint32_t i = 0; i < e->n_args; ++i)
    args[i] = tnm_term_read(set, e->args[i]);
  if (e->kind == TNM_CALL) return tnm_term_call(set, e->index, args);
  if (e->op == '^') return tnm_term_power(set, args[0], args[1]);
  if (e->op == '%') return tnm_term_call(set, TNM_F_MOD, args);
  return tnm_term_compare(set, e->op, args[0], args[1]);
}

/* --------------------------------------------------------------------- writing
 */

static tnm_expr *create_node(terms *set, int kind) {
  tnm_expr *e = tn__arena_alloc(set->out, sizeof *e);
  if (e == NULL) return NULL;
  e->kind = kind;
  e->pos = set->pos;
  return e;
}

static const tnm_expr *create_number(terms *set, double value) {
  tn__buf buf;
  tnm_expr *e = create_node(set, TNM_NUMBER);
  if (e == NULL) return NULL;
  tn__buf_init(&buf, set->out->env);
  tn__buf_double(&buf, value);
  e->number = value;
  e->text = buf.failed ? NULL : tn__arena_text(set->out, buf.s, buf.n);
  tn__buf_deinit(&buf);
  if (e->text == NULL) set->out->failed = true;
  return e->text == NULL ? NULL : e;
}

static const tnm_expr *create_negative(terms *set, const tnm_expr *operand) {
  tnm_expr *e = operand == NULL ? NULL : create_node(set, TNM_NEG);
  if (e == NULL) return NULL;
  e->args[0] = operand;
  e->n_args = 1;
  return e;
}

static const tnm_expr *create_binary(terms *set, char op, const tnm_expr *a,
                                     const tnm_expr *b) {
  tnm_expr *e = a == NULL || b == NULL ? NULL : create_node(set, TNM_BINARY);
  if (e == NULL) return NULL;
  e->op = op;
  e->args[0] = a;
  e->args[1] = b;
  e->n_args = 2;
  return e;
}

/* The language has no literals for infinity and NaN. */
static const tnm_expr *write_number(terms *set, double value) {
  if (isfinite(value))
    return value < 0 ? create_negative(set, create_number(set, -value))
                     : create_number(set, value);
  const double dividend = isnan(value) ? 0 : 1;
  const tnm_expr *e = create_binary(set, '/', create_number(set, dividend),
                                    create_number(set, 0));
  return value < 0 ? create_negative(set, e) : e;
}

/* Numerator and denominator under construction. */
typedef struct quotient {
  const tnm_expr *above;
  const tnm_expr *below;
} quotient;

static void multiply_into(terms *set, const tnm_expr **to,
                          const tnm_expr *factor) {
  *to = *to == NULL ? factor : create_binary(set, '*', *to, factor);
}

/* Whether to write a number as a division: 1/2 if there is a division already,
 * 1/3 always. */
static bool is_division(double number, bool is_quotient) {
  const double inverse = 1 / number;
  return number < 1 && inverse == floor(inverse) && inverse < 1e6 &&
         (is_quotient || 1024 * number != floor(1024 * number));
}

static bool is_inverse(const term *factor) {
  return factor->kind == TERM_POWER && factor->args[1]->kind == TERM_NUMBER &&
         factor->args[1]->number < 0;
}

static void multiply_by(terms *set, quotient *q, const term *factor) {
  if (!is_inverse(factor)) {
    multiply_into(set, &q->above, tnm_term_write(set, factor));
    return;
  }
  const term *exponent = tnm_term_number(set, -factor->args[1]->number);
  const term *below = tnm_term_power(set, factor->args[0], exponent);
  multiply_into(set, &q->below, tnm_term_write(set, below));
}

/* The parser reads -a*b as (-a)*b. */
static const tnm_expr *negate_expr(terms *set, const tnm_expr *e) {
  if (e != NULL && e->kind == TNM_BINARY && strchr("*/", e->op))
    return create_binary(set, e->op, negate_expr(set, e->args[0]), e->args[1]);
  return create_negative(set, e);
}

/* The exponent of the count of a line in a product, if it is a number. */
static double find_count_exponent(terms *set, const term *t) {
  const term *count = tnm_term_count(set);
  for (uint32_t i = 0; i < t->n; ++i)
    if (tnm_term_base(t->args[i]) == count) {
      const term *exponent = tnm_term_exponent(set, t->args[i]);
      return exponent->kind == TERM_NUMBER ? exponent->number : 0;
    }
  return 0;
}

/* The power of a mean for that of a sum, of which the count has the negative
 * exponent; *count becomes the rest of the count's exponent. */
static const term *find_mean(terms *set, const term *t, double *count) {
  const term *sum = tnm_term_base(t);
  const term *exponent = tnm_term_exponent(set, t);
  if (sum->kind != TERM_REDUCE || sum->index != TNM_R_SUM ||
      exponent->kind != TERM_NUMBER || exponent->number * *count >= 0 ||
      fabs(exponent->number) > fabs(*count))
    return t;
  term like = {.kind = TERM_REDUCE, .index = TNM_R_MEAN, .n = 1};
  like.args = sum->args;
  *count += exponent->number;
  return tnm_term_power(set, tnm_term_create(set, &like), exponent);
}

/* The same product with means for sums that are divided by the count. */
static const term *restore_means(terms *set, const term *t) {
  double count = set->axes == NULL ? 0 : find_count_exponent(set, t);
  const term **list = count == 0 ? NULL : tnm_term_list(set, t->n + 1);
  if (list == NULL) return t;
  for (uint32_t i = 0; i < t->n; ++i)
    list[i] = find_mean(set, t->args[i], &count);
  const term *base = tnm_term_count(set);
  for (uint32_t i = 0; i < t->n; ++i)
    if (tnm_term_base(t->args[i]) == base)
      list[i] = tnm_term_power(set, base, tnm_term_number(set, count));
  list[t->n] = tnm_term_number(set, t->number);
  return tnm_term_product(set, list, t->n + 1);
}

static const tnm_expr *write_product(terms *set, const term *product) {
  quotient q = {NULL, NULL};
  const term *t = restore_means(set, product);
  if (t != product && t->kind != TERM_PRODUCT) return tnm_term_write(set, t);
  bool is_quotient = false;
  const double size = fabs(t->number);
  for (uint32_t i = 0; i < t->n; ++i)
    is_quotient = is_quotient || is_inverse(t->args[i]);
  if (is_division(size, is_quotient))
    q.below = write_number(set, 1 / size);
  else if (size != 1)
    q.above = write_number(set, size);
  for (uint32_t i = 0; i < t->n; ++i) multiply_by(set, &q, t->args[i]);
  if (q.above == NULL) q.above = create_number(set, 1);
  const tnm_expr *e =
      q.below == NULL ? q.above : create_binary(set, '/', q.above, q.below);
  return t->number < 0 ? negate_expr(set, e) : e;
}

static bool is_negative(const term *t) {
  if (t->kind == TERM_NUMBER || t->kind == TERM_PRODUCT) return t->number < 0;
  return false;
}

static void add_to(terms *set, const tnm_expr **sum, const term *t) {
  if (*sum == NULL)
    *sum = tnm_term_write(set, t);
  else if (is_negative(t))
    *sum = create_binary(set, '-', *sum,
                         tnm_term_write(set, tnm_term_scale(set, -1, t)));
  else
    *sum = create_binary(set, '+', *sum, tnm_term_write(set, t));
}

/* Index of the first operand to write: the first one without a minus. A number
 * comes first if the sum would begin with a minus. */
static uint32_t first_of(const term *t) {
  uint32_t first = 0;
  while (first < t->n && is_negative(t->args[first])) ++first;
  return first;
}

static const tnm_expr *write_sum(terms *set, const term *t) {
  const tnm_expr *sum = NULL;
  const term *constant = tnm_term_number(set, t->number);
  uint32_t first = first_of(t);
  const bool leads = t->number > 0 && first > 0;
  if (leads)
    add_to(set, &sum, constant);
  else if (first < t->n)
    add_to(set, &sum, t->args[first]);
  for (uint32_t i = 0; i < t->n; ++i)
    if (leads || i != first) add_to(set, &sum, t->args[i]);
  if (!leads && t->number != 0) add_to(set, &sum, constant);
  return sum;
}

static const tnm_expr *write_call(terms *set, const term *t) {
  const tnm_expr *args[3] = {NULL};
  for (uint32_t i = 0; i < t->n; ++i) {
    args[i] = tnm_term_write(set, t->args[i]);
    if (args[i] == NULL) return NULL;
  }
  if (t->kind == TERM_POWER) return create_binary(set, '^', args[0], args[1]);
  if (t->kind == TERM_COMPARE)
    return create_binary(set, (char)t->index, args[0], args[1]);
  if (t->index == TNM_F_MOD) return create_binary(set, '%', args[0], args[1]);
  tnm_expr *e = create_node(set, TNM_CALL);
  if (e == NULL) return NULL;
  e->index = t->index;
  e->text = tnm_function_at(t->index)->name;
  e->n_args = t->n;
  memcpy(e->args, args, sizeof args);
  return e;
}

static const tnm_expr *write_reduction(terms *set, const term *t) {
  const tnm_expr *arg = tnm_term_write(set, t->args[0]);
  tnm_expr *e = arg == NULL ? NULL : create_node(set, TNM_REDUCE);
  if (e == NULL) return NULL;
  e->index = t->index;
  e->text = set->axes;
  e->n_args = 1;
  e->args[0] = arg;
  return e;
}

static const tnm_expr *write_leaf(terms *set, const term *t) {
  tnm_expr *e = create_node(set, t->leaf->kind);
  if (e == NULL) return NULL;
  *e = *t->leaf;
  e->pos = set->pos;
  return e;
}

static const tnm_expr *write_any(terms *set, const term *t) {
  switch (t->kind) {
    case TERM_NUMBER:
      return write_number(set, t->number);
    case TERM_LEAF:
      return write_leaf(set, t);
    case TERM_SUM:
      return write_sum(set, t);
    case TERM_PRODUCT:
      return write_product(set, t);
    case TERM_REDUCE:
      return write_reduction(set, t);
    default:
      break;
  }
  if (t->kind == TERM_POWER && tnm_term_is(t->args[1], 1))
    return tnm_term_write(set, t->args[0]);
  if (!is_inverse(t)) return write_call(set, t);
  quotient q = {NULL, NULL};
  multiply_by(set, &q, t);
  return create_binary(set, '/', create_number(set, 1), q.below);
}

const tnm_expr *tnm_term_write(terms *set, const term *t) {
  if (t->memo->expr == NULL) t->memo->expr = write_any(set, t);
  return t->memo->expr;
}
