/* SPDX-License-Identifier: Apache-2.0
 * Random programs on tapes: calls, recorded and not, views, writes from
 * outside, and gradients, of which some are recorded. Each value and each
 * gradient is compared with numbers that differentiate themselves
 * (scalar_tape.h). A tape may refuse a request, but only for a reason that it
 * names and that holds. Its results must be right.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dice.h"
#include "drawn.h"

enum { MOST_WATCHED = 32, MOST_ELEMENTS = 200, MOST_NUMBERS = 100000 };

/* An array that is watched, which is all of its block, and the variables that
 * it was when it was first used. */
typedef struct leaf {
  part part;
  number *variables;
  bool used;
  bool perhaps; /* used by a gradient's own calls */
} leaf;

/* Events since the tape was empty that may be a reason to refuse. */
typedef struct past {
  bool outside;   /* something was written that the tape did not see */
  bool pieces;    /* something was recorded that is not all of its block */
  bool over;      /* something was written over something else */
  bool gradients; /* were recorded */
} past;

static tn_runtime *rt;
static tn_tape *tape;
static leaf leaves[MOST_WATCHED];
static size_t n_leaves;
static past happened;
static bool unclear; /* the expected values are not clear any more: the trial
                      * ends */

static struct {
  int asked;
  int answered;
  int second; /* of gradients that were recorded */
  int slopes; /* elements that were right and not zero */
} count;

/* -------------------------------------------------------------- known values
 */

static leaf *leaf_of(const block *b) {
  for (size_t i = 0; i < n_leaves; ++i)
    if (leaves[i].part.block == b) return &leaves[i];
  return NULL;
}

static bool is_known(const part *p) {
  const number *values = part_read(p);
  for (int64_t i = 0; i < part_size(p); ++i)
    if (number_depends(values[i])) return true;
  return false;
}

/* The tape reads it: a watched array, if it is there still, has been used. */
static void note_use(const part *p) {
  leaf *l = leaf_of(p->block);
  const int64_t n = part_size(p), *cells = part_cells(p);
  for (int64_t i = 0; l && i < n; ++i)
    l->used |= p->block->cells[cells[i]] == l->variables[cells[i]];
}

static void fix(number *values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] = number_fixed(values[i]);
}

/* The tape does not see it. Of a watched array that was not used yet the new
 * values are meant. */
static void write_outside(const part *p, number *values) {
  leaf *l = leaf_of(p->block);
  const int64_t n = part_size(p), *cells = part_cells(p);
  happened.outside = happened.over = p->block->dirty = true;
  unclear |= l && !l->used && l->perhaps;
  fix(values, n);
  for (int64_t i = 0; i < n; ++i) {
    number *variable = l && !l->used ? &l->variables[cells[i]] : NULL;
    if (!variable || p->block->cells[cells[i]] != *variable) continue;
    *variable = values[i] = number_variable(number_value(values[i]));
  }
  part_write(p, values);
}

/* The tape sees it. */
static void write_recorded(const part *p, const number *values) {
  const part all = part_shaped(1, &p->block->n);
  happened.over = true;
  happened.pieces |= part_size(p) != part_size(&all);
  for (int32_t i = 0; i < p->ndim; ++i) /* or in another order */
    happened.pieces |=
        p->strides[i] != part_shaped(p->ndim, p->shape).strides[i];
  part_write(p, values);
}

static void watch(leaf *l) {
  l->used = l->perhaps = false;
  for (int64_t i = 0; i < l->part.block->n; ++i)
    l->variables[i] = l->part.block->cells[i] =
        number_variable(number_value(l->part.block->cells[i]));
}

/* All but the watched arrays. */
static void forget(void) {
  for (size_t i = 0; i < n_live; ++i) {
    fix(live[i].block->cells, live[i].block->n);
    live[i].block->dirty = false;
  }
  for (size_t i = 0; i < n_leaves; ++i) watch(&leaves[i]);
  happened = (past){.outside = false};
}

/* ------------------------------------------------------------------- steps */

static void step_watch(void) {
  int64_t shape[2];
  const int32_t ndim = (int32_t)dice_below(3);
  if (n_leaves == MOST_WATCHED) return;
  for (int32_t i = 0; i < ndim; ++i)
    shape[i] = dice_once_in(12) ? 0 : 1 + dice_below(4);
  leaf l = {.part = live_new(ndim, shape)};
  dice_tell("watch %s", part_text(&l.part));
  GOES(tn_tape_watch(tape, l.part.array));
  (void)tn_array_retain(l.part.array);
  l.variables = part_room(&l.part);
  watch(&l);
  leaves[n_leaves++] = l;
}

static void step_set(void) {
  const part p = live_pick();
  if (part_repeats(&p)) return;
  number *values = part_draw(&p);
  dice_tell("set %s", part_text(&p));
  GOES(part_set(&p, values));
  write_outside(&p, values);
}

/* A copy that gradients do not reach. */
static void step_detach(void) {
  const part p = live_pick();
  number *values = part_read(&p);
  tn_array *copy = NULL;
  dice_tell("detach %s", part_text(&p));
  GOES(tn_tape_detach(tape, p.array, &copy));
  fix(values, part_size(&p));
  const part made = live_adopt(&p, copy);
  part_write(&made, values);
  part_check(&made, "detached");
}

/* A recorded call may not read values that are not clear. */
static void refused(const drawn *c, tn_code rc) {
  const char *text = tn_error_text();
  dice_tell("refused: %s", text);
  if (drawn_refuses(c, rc)) return;
  if (rc == TN_INVALID && happened.outside &&
      strstr(text, "by something that the tape did not see"))
    return;
  if (rc == TN_INVALID && happened.pieces && strstr(text, "reaches beyond"))
    return;
  dice_fail("%s: %s", drawn_text(c), text);
}

static void note_uses(const drawn *c) {
  for (size_t i = 0; i < c->n_in && !drawn_hides(c); ++i) note_use(&c->in[i]);
  for (size_t i = 0; i < c->n_out; ++i)
    if (c->req[i] == TN_REQ_ADD) note_use(&c->out[i]);
}

/* The results, each where it is wanted. */
static void take_results(drawn *c, const drawn_lists *lists, bool taped) {
  number *values[MOST_OUT];
  bool given[MOST_OUT];
  for (size_t i = 0; i < c->n_out; ++i) {
    values[i] = drawn_value(c, i);
    given[i] = c->out[i].block != NULL;
    if (!taped) fix(values[i], part_size(&c->out[i]));
    for (int64_t k = 0; k < part_size(&c->out[i]); ++k)
      unclear |= fabs(number_value(values[i][k])) > 1e5;
  }
  drawn_adopt(c, lists);
  for (size_t i = 0; i < c->n_out; ++i) {
    if (c->req[i] == TN_REQ_NULL) continue;
    if (given[i] && taped)
      write_recorded(&c->out[i], values[i]);
    else if (given[i])
      write_outside(&c->out[i], values[i]);
    else
      part_write(&c->out[i], values[i]);
    part_check(&c->out[i], drawn_name(c));
  }
}

static void step_call(void) {
  drawn c;
  drawn_lists lists;
  const bool taped = !dice_once_in(12);
  if (!drawn_fit(&c)) return;
  drawn_place(&c, 3);
  if (!drawn_is_misfit(&c)) drawn_compute(&c);
  drawn_lists_init(&lists, &c);
  dice_tell("%scall %s", taped ? "" : "unrecorded ", drawn_text(&c));
  const tn_code rc =
      taped ? tn_tape_call(tape, c.handle, &lists.in, lists.params, &lists.out)
            : tn_call(rt, c.handle, &lists.in, lists.params, &lists.out);
  tn_params_release(lists.params);
  if (rc && !taped && !drawn_is_misfit(&c))
    dice_fail("%s: %s", drawn_text(&c), tn_error_text());
  if (rc) {
    refused(&c, rc);
    return;
  }
  if (drawn_is_misfit(&c)) dice_fail("%s is made", drawn_text(&c));
  if (taped) note_uses(&c);
  take_results(&c, &lists, taped);
}

/* --------------------------------------------------------------- gradients */

enum { MOST_HEADS = 2, MOST_SOURCES = 3 };

typedef struct question {
  uint32_t flags;
  size_t n_heads;
  size_t n_of;
  part heads[MOST_HEADS];
  part weights[MOST_HEADS]; /* no array: ones */
  part of[MOST_SOURCES];
  part given[MOST_SOURCES]; /* no array: to be made */
  tn_req req[MOST_SOURCES];
  number *slopes[MOST_SOURCES];
} question;

static bool is_recording(const question *q) {
  return q->flags & TN_TAPE_RECORD;
}

/* One that depends on something, if that is easy to find. */
static part pick_known(bool newest) {
  part p = live_pick();
  for (int t = 0; t < 12; ++t) {
    const uint32_t few = n_live < 6 ? (uint32_t)n_live : 6;
    p = newest && dice_once_in(2) ? live[n_live - 1 - dice_below(few)]
        : !newest && n_leaves > 0 && dice_once_in(2)
            ? leaves[dice_below((uint32_t)n_leaves)].part
            : live_pick();
    if (is_known(&p) || dice_once_in(20)) break;
  }
  return p;
}

static void draw_head(question *q) {
  const size_t k = q->n_heads++;
  q->heads[k] = pick_known(true);
  for (int t = dice_once_in(2) ? 20 : 0; t > 0; --t) {
    const part p = live_pick();
    if (!part_alike(&p, &q->heads[k])) continue;
    q->weights[k] = p;
    return;
  }
}

static bool is_given(const question *q, size_t n, const block *b) {
  for (size_t i = 0; i < n; ++i)
    if (q->given[i].block == b) return true;
  return false;
}

/* If a gradient that is not recorded has nothing to add, the tape's state may
 * change or not. */
static bool may_add(const question *q, const block *b) {
  bool known = false;
  for (int64_t i = 0; i < b->n; ++i) known |= number_depends(b->cells[i]);
  return is_recording(q) || !known;
}

static void draw_given(question *q, size_t k) {
  const part *of = &q->of[k];
  for (int t = 0; t < 20; ++t) {
    const part p =
        dice_once_in(3) ? live_new(of->ndim, of->shape) : live_pick();
    if (!part_alike(&p, of) || part_repeats(&p)) continue;
    if (is_given(q, k, p.block)) continue;
    q->given[k] = p;
    if (dice_once_in(2) && may_add(q, p.block)) q->req[k] = TN_REQ_ADD;
    return;
  }
}

static void draw_source(question *q) {
  const size_t k = q->n_of++;
  q->of[k] = pick_known(false);
  q->req[k] = dice_once_in(8) ? TN_REQ_NULL : TN_REQ_WRITE;
  if (q->req[k] == TN_REQ_WRITE && dice_once_in(2)) draw_given(q, k);
}

static void draw_question(question *q) {
  static const uint32_t flags[] = {0, TN_TAPE_KEEP, TN_TAPE_RECORD,
                                   TN_TAPE_RECORD};
  *q = (question){.flags = flags[dice_below(4)]};
  const size_t n_heads = dice_once_in(10) ? 0 : 1 + dice_below(MOST_HEADS);
  const size_t n_of = dice_once_in(12) ? 0 : 1 + dice_below(MOST_SOURCES);
  while (q->n_heads < n_heads) draw_head(q);
  while (q->n_of < n_of) draw_source(q);
}

static void tell_question(const question *q) {
  static const char *const what[] = {"nothing", "write", "inplace", "add"};
  dice_tell("gradient, flags %u", q->flags);
  for (size_t i = 0; i < q->n_heads; ++i)
    dice_tell("  of %s, weighted by %s", part_text(&q->heads[i]),
              q->weights[i].block ? part_text(&q->weights[i]) : "ones");
  for (size_t i = 0; i < q->n_of; ++i)
    dice_tell("  by %s: %s %s", part_text(&q->of[i]), what[q->req[i]],
              q->given[i].block ? part_text(&q->given[i]) : "a new one");
}

/* Derivatives of all heads together, by number. */
static const number *slopes_of(const question *q) {
  number heads[MOST_HEADS * MOST_ELEMENTS], weights[MOST_HEADS * MOST_ELEMENTS];
  size_t n = 0;
  for (size_t i = 0; i < q->n_heads; ++i) {
    const int64_t size = part_size(&q->heads[i]);
    const number *head = part_read(&q->heads[i]);
    number *weight = q->weights[i].block ? part_read(&q->weights[i]) : NULL;
    if (weight && !is_recording(q)) fix(weight, size);
    for (int64_t k = 0; k < size; ++k) {
      heads[n] = head[k];
      weights[n++] = weight ? weight[k] : number_constant(1);
    }
  }
  return number_slopes(heads, weights, n);
}

/* False: it is not clear which values are meant. */
static bool expect_slopes(question *q) {
  const number *slopes = slopes_of(q);
  for (size_t i = 0; i < q->n_of; ++i) {
    const leaf *l = leaf_of(q->of[i].block);
    const int64_t n = part_size(&q->of[i]), *cells = part_cells(&q->of[i]);
    if (!l && q->of[i].block->dirty) return false;
    const number *by = l ? l->variables : q->of[i].block->cells;
    q->slopes[i] = part_room(&q->of[i]);
    for (int64_t k = 0; k < n; ++k)
      q->slopes[i][k] = number_slope(slopes, by[cells[k]]);
  }
  return true;
}

static tn_code ask(question *q) {
  tn_array *heads[MOST_HEADS], *weights[MOST_HEADS], *of[MOST_SOURCES],
      *to[MOST_SOURCES];
  for (size_t i = 0; i < q->n_heads; ++i) {
    heads[i] = q->heads[i].array;
    weights[i] = q->weights[i].array;
  }
  for (size_t i = 0; i < q->n_of; ++i) {
    of[i] = q->of[i].array;
    to[i] = q->given[i].array;
  }
  const tn_tape_query query = {.struct_size = sizeof query,
                               .flags = q->flags,
                               .heads = {q->n_heads, heads},
                               .head_gradients = {q->n_heads, weights},
                               .of = {q->n_of, of},
                               .gradients = {q->n_of, to, q->req}};
  const tn_code rc = tn_tape_gradient(tape, &query);
  for (size_t i = 0; i < q->n_of; ++i) {
    if (rc && to[i] != q->given[i].array) dice_fail("stored, but refused");
    q->given[i].array = to[i];
  }
  return rc;
}

/* ------------------------------------------------------------------ refusals
 */

/* The array that a message names, `heads[1]` or `of[0]`. */
static const part *named(const question *q, const char *text) {
  size_t k = 0;
  const char *head = strstr(text, "heads["), *of = strstr(text, "of[");
  if (head && sscanf(head, "heads[%zu]", &k) == 1 && k < q->n_heads)
    return &q->heads[k];
  if (of && sscanf(of, "of[%zu]", &k) == 1 && k < q->n_of) return &q->of[k];
  dice_fail("which array is meant in \"%s\"?", text);
}

static bool is_reason(const question *q, tn_code rc, const char *text) {
  if (rc == TN_UNSUPPORTED)
    return happened.gradients && strstr(text, "_grad_grad@");
  if (rc != TN_INVALID) return false;
  if (strstr(text, "is not on the tape")) return !is_known(named(q, text));
  if (strstr(text, "is a broadcast view")) return part_repeats(named(q, text));
  if (strstr(text, "by something that the tape did not see"))
    return happened.outside;
  if (strstr(text, "reaches beyond")) return happened.pieces;
  return strstr(text, "but that array was written after") && happened.over;
}

/* The caller's outputs are undefined, and get other values. */
static void not_answered(question *q, tn_code rc) {
  const char *text = tn_error_text();
  dice_tell("refused: %s", text);
  if (!is_reason(q, rc, text))
    dice_fail("a gradient is refused without reason: %s", text);
  for (size_t i = 0; i < q->n_of; ++i) {
    if (!q->given[i].block) continue;
    number *values = part_draw(&q->given[i]);
    GOES(part_set(&q->given[i], values));
    write_outside(&q->given[i], values);
  }
}

/* ----------------------------------------------------------------- answers */

/* The gradient's own calls read weights and the target of an addition. */
static void note_perhaps(const question *q) {
  for (size_t i = 0; i < q->n_heads; ++i) {
    leaf *l = leaf_of(q->weights[i].block);
    if (l) l->perhaps = true;
  }
  for (size_t i = 0; i < q->n_of; ++i) {
    leaf *l = q->req[i] == TN_REQ_ADD ? leaf_of(q->given[i].block) : NULL;
    if (l) l->perhaps = true;
  }
}

/* The expected value of a result. */
static number *result_of(const question *q, size_t i) {
  const int64_t n = part_size(&q->of[i]);
  const number *old = q->req[i] == TN_REQ_ADD ? part_read(&q->given[i]) : NULL;
  number *values = part_room(&q->of[i]);
  for (int64_t k = 0; k < n; ++k) {
    const number slope = q->slopes[i][k];
    values[k] = old ? number_sum(old[k], slope) : number_same(slope);
    count.slopes += number_value(slope) != 0;
    unclear |= fabs(number_value(values[k])) > 1e6;
  }
  if (!is_recording(q)) fix(values, n);
  return values;
}

static void take_answer(question *q, size_t i, number *values) {
  part *p = &q->given[i];
  const bool given = p->block != NULL;
  if (!given) *p = live_adopt(&q->of[i], p->array);
  if (given && is_recording(q))
    write_recorded(p, values);
  else if (given)
    write_outside(p, values);
  else
    part_write(p, values);
  p->block->dirty = true;
  part_check(p, "gradient");
}

static bool is_second(const question *q) {
  for (size_t i = 0; i < q->n_heads; ++i)
    if (q->heads[i].block->dirty && is_known(&q->heads[i])) return true;
  return false;
}

static void answered(question *q) {
  number *values[MOST_SOURCES];
  ++count.answered;
  count.second += is_second(q);
  if (is_recording(q)) note_perhaps(q);
  for (size_t i = 0; i < q->n_of; ++i)
    if (q->req[i] != TN_REQ_NULL) values[i] = result_of(q, i);
  for (size_t i = 0; i < q->n_of; ++i)
    if (q->req[i] != TN_REQ_NULL) take_answer(q, i, values[i]);
  happened.gradients |= is_recording(q);
  if (q->flags == 0) forget();
}

static void step_gradient(void) {
  question q;
  draw_question(&q);
  if (!expect_slopes(&q)) return;
  tell_question(&q);
  ++count.asked;
  const tn_code rc = ask(&q);
  if (rc)
    not_answered(&q, rc);
  else
    answered(&q);
}

/* ------------------------------------------------------------------ trials */

static void step(bool sets) {
  const uint32_t what = dice_below(100);
  dice_step();
  if (what < 55)
    step_call();
  else if (what < 74)
    live_view();
  else if (what < 75)
    step_detach();
  else if (what < 79)
    step_watch();
  else if (what < 90)
    step_gradient();
  else if (what < 98)
    live_drop();
  else if (sets)
    step_set();
}

static void begin(void) {
  numbers_reset();
  n_leaves = 0;
  happened = (past){.outside = false};
  unclear = false;
  GOES(tn_tape_create(rt, &tape));
  for (int i = 0; i < 4; ++i) {
    const int64_t shape[] = {1 + dice_below(3), 1 + dice_below(3)};
    (void)live_new((int32_t)dice_below(3), shape);
  }
  for (int i = 0; i < 3; ++i) step_watch();
}

/* The tape is released before its arrays, or after them. */
static void end(void) {
  const bool first = dice_once_in(2);
  if (!unclear) live_check();
  if (first) tn_tape_release(tape);
  live_clear();
  while (n_leaves > 0) tn_array_release(leaves[--n_leaves].part.array);
  if (!first) tn_tape_release(tape);
}

static void trial(void) {
  begin();
  const bool sets = dice_once_in(4);
  const int n = 10 + (int)dice_below(50);
  for (int i = 0; i < n && !unclear && numbers_made() < MOST_NUMBERS; ++i)
    step(sets);
  end();
}

#if defined(TN_SANITIZED)
enum { N_TRIALS = 300 };
#else
enum { N_TRIALS = 2000 };
#endif

/* A tape that refused everything would never be wrong. */
static void judge(void) {
  (void)fprintf(stderr,
                "# %d of %d gradients answered, %d of gradients; %d slopes",
                count.answered, count.asked, count.second, count.slopes);
  if (!dice_are_usual()) return;
  cr_assert_gt(count.asked, 2 * N_TRIALS);
  cr_assert_gt(2 * count.answered, count.asked, "%d of %d answered",
               count.answered, count.asked);
  cr_assert_gt(count.second, N_TRIALS / 20);
  cr_assert_gt(count.slopes, 2 * N_TRIALS);
}

static void run(uint32_t engine, uint32_t workers) {
  rt = parts_open(engine, workers);
  GOES(tn_plugin_load(rt, ELEMWISE_FILE));
  GOES(tn_plugin_load(rt, TENSOR_FILE));
  drawn_open(rt, DRAWN_SMOOTH, MOST_ELEMENTS);
  dice_trials(N_TRIALS, trial);
  numbers_reset();
  tn_runtime_release(rt);
  judge();
}

/* x^2 sin(x), by hand. */
Test(tape_random, numbers_have_the_derivatives_of_their_computation) {
  const double at = 1.25;
  numbers_reset();
  const number x = number_variable(at), one = number_constant(1);
  const number y = number_product(number_square(x), number_sine(x));
  const number g = number_slope(number_slopes(&y, &one, 1), x);
  const number h = number_slope(number_slopes(&g, &one, 1), x);
  cr_assert_float_eq(number_value(g), 2 * at * sin(at) + at * at * cos(at),
                     1e-14);
  cr_assert_float_eq(number_value(h),
                     (2 - at * at) * sin(at) + 4 * at * cos(at), 1e-14);
}

Test(tape_random, has_the_results_of_numbers_on_one_thread) {
  run(TN_ENGINE_NAIVE, 1);
}

Test(tape_random, has_the_results_of_numbers_on_several_threads) {
  run(TN_ENGINE_POOLED, 2);
}

Test(tape_random, has_the_results_of_numbers_in_the_threaded_engine) {
  run(TN_ENGINE_THREADED, 2);
}
