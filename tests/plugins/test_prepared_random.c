/* SPDX-License-Identifier: Apache-2.0
 * Calls that are prepared and run at random, among others, over arrays and
 * views that overlap, are written in between, or are released before; with
 * parameters that change, and calls that fail. Arrays hold the results of the
 * same steps on plain numbers, or the error that reached them.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "dice.h"
#include "drawn.h"

enum { MOST_PREPARED = 64, MOST_ELEMENTS = 23000, MOST_NUMBERS = 400000 };

typedef struct prepared {
  tn_prepared *call;
  drawn what;
} prepared;

static tn_runtime *rt;
static prepared calls[MOST_PREPARED];
static size_t n_calls;
static bool unclear; /* the expected values are not clear any more: the trial
                      * ends */

static struct {
  int runs;   /* that succeeded */
  int failed; /* that did not, and should not */
} count;

/* ------------------------------------------------------------ expected values
 */

/* Some existing values stay, or are added to. */
static bool updates(const drawn *c, size_t i) {
  return c->req[i] == TN_REQ_ADD || !part_whole(&c->out[i]);
}

static bool is_reached(const drawn *c) {
  for (size_t i = 0; i < c->n_in; ++i)
    if (c->in[i].block->failed) return true;
  for (size_t i = 0; i < c->n_out; ++i)
    if (c->req[i] != TN_REQ_NULL && c->out[i].block && updates(c, i) &&
        c->out[i].block->failed)
      return true;
  return false;
}

/* Outputs that there are, and a state, carry the error. */
static void spoil(const drawn *c) {
  for (size_t i = 0; i < c->n_out; ++i) {
    if (c->req[i] == TN_REQ_NULL || !c->out[i].block) continue;
    unclear |= part_size(&c->out[i]) == 0;
    c->out[i].block->failed = true;
  }
  if (drawn_has_state(c)) c->in[c->n_in - 1].block->failed = true;
}

static void put(const part *p, const number *values) {
  const bool whole = part_whole(p);
  for (int64_t k = 0; k < part_size(p); ++k)
    unclear |= fabs(number_value(values[k])) > 1e6;
  part_write(p, values);
  if (whole) p->block->failed = false;
}

/* Computes the effect of a call; false: it fails. */
static bool apply(drawn *c) {
  number *values[MOST_OUT] = {NULL};
  if (!drawn_wants(c)) return true;
  const bool reached = is_reached(c);
  if (!reached) drawn_compute(c);
  unclear |= !reached && c->unknown;
  if (reached || c->fails) {
    spoil(c);
    return false;
  }
  for (size_t i = 0; i < c->n_out; ++i)
    if (c->req[i] != TN_REQ_NULL) values[i] = drawn_value(c, i);
  if (drawn_has_state(c)) part_write(&c->in[c->n_in - 1], c->state);
  for (size_t i = 0; i < c->n_out; ++i)
    if (values[i]) put(&c->out[i], values[i]);
  return true;
}

/* The call may report the error at once, or the arrays keep it. */
static void compare_codes(const drawn *c, bool good, tn_code rc) {
  count.runs += good;
  count.failed += !good;
  if (good && rc && !unclear)
    dice_fail("%s: %s", drawn_text(c), tn_error_text());
}

/* Nothing is written that is not fit for it. */
static bool is_refused(const drawn *c, tn_code rc) {
  if (drawn_is_misfit(c) && !drawn_refuses(c, rc))
    dice_fail("%s: not refused so: %d, %s", drawn_text(c), (int)rc,
              rc ? tn_error_text() : "it is made");
  return drawn_is_misfit(c);
}

/* The parts that its user still holds. */
static void check_some(const drawn *c) {
  if (unclear || dice_once_in(2)) return;
  for (size_t i = 0; i < c->n_out; ++i)
    if (c->req[i] != TN_REQ_NULL && live_has(c->out[i].array))
      part_check(&c->out[i], drawn_name(c));
}

/* ------------------------------------------------------------------- steps */

static void step_call(void) {
  drawn c;
  drawn_lists lists;
  if (!drawn_fit(&c)) return;
  drawn_place(&c, 2);
  drawn_lists_init(&lists, &c);
  dice_tell("call %s", drawn_text(&c));
  const tn_code rc = tn_call(rt, c.handle, &lists.in, lists.params, &lists.out);
  tn_params_release(lists.params);
  if (is_refused(&c, rc)) return;
  if (rc == TN_OK) drawn_adopt(&c, &lists);
  for (size_t i = 0; rc && i < c.n_out; ++i)
    if (lists.out_arrays[i] != c.out[i].array) dice_fail("stored, but failed");
  compare_codes(&c, apply(&c), rc);
  if (rc == TN_OK) check_some(&c);
}

/* A new array is undefined until the call is run. */
static void step_prepare(void) {
  drawn_lists lists;
  prepared *p = &calls[n_calls];
  if (n_calls == MOST_PREPARED || !drawn_fit(&p->what)) return;
  drawn_place(&p->what, 2);
  drawn_lists_init(&lists, &p->what);
  dice_tell("prepare %s", drawn_text(&p->what));
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = p->what.handle,
                               .params = lists.params,
                               .inputs = lists.in,
                               .outputs = lists.out};
  const tn_code rc = tn_call_prepare(rt, &what, &p->call);
  tn_params_release(lists.params);
  if (is_refused(&p->what, rc)) return;
  if (rc) dice_fail("prepare: %s", tn_error_text());
  drawn_adopt(&p->what, &lists);
  ++n_calls;
}

static void change(prepared *p) {
  const tn_value value = {
      .key = "lr", .type = TN_FIELD_FLOAT, .as.f = dice_value()};
  if (!drawn_has_state(&p->what) || dice_once_in(2)) return;
  const tn_code rc = tn_call_set(p->call, &value);
  if (rc && drawn_wants(&p->what)) dice_fail("lr: %s", tn_error_text());
  p->what.lr = value.as.f;
}

static void run_once(prepared *p) {
  const tn_code rc = tn_call_run(p->call);
  compare_codes(&p->what, apply(&p->what), rc);
}

static void step_run(void) {
  if (n_calls == 0) return;
  prepared *p = &calls[dice_below((uint32_t)n_calls)];
  for (uint32_t n = 1 + dice_below(3); n > 0 && !unclear; --n) {
    change(p);
    dice_tell("run %s, lr %g", drawn_text(&p->what), p->what.lr);
    run_once(p);
  }
  check_some(&p->what);
}

/* Quarters, or whole numbers, which choose rows. */
static number *draw_values(const part *p) {
  number *values = part_draw(p);
  for (int64_t i = 0; i < part_size(p); ++i)
    if (dice_once_in(3)) values[i] = number_constant(dice_below(3));
  return values;
}

static void step_set(void) {
  const part p = live_pick();
  if (part_repeats(&p)) return;
  const bool failed = p.block->failed && !part_whole(&p);
  const number *values = draw_values(&p);
  dice_tell("set %s", part_text(&p));
  const tn_code rc = part_set(&p, values);
  if (rc && !failed) dice_fail("%s: %s", part_text(&p), tn_error_text());
  if (!failed && part_size(&p) > 0) put(&p, values);
}

static void step_copy(void) {
  const part to = live_pick(), from = live_pick();
  if (part_repeats(&to) || !part_alike(&to, &from)) return;
  const bool fails =
      from.block->failed || (to.block->failed && !part_whole(&to));
  const number *values = part_read(&from);
  dice_tell("copy %s to %s", part_text(&from), part_text(&to));
  const tn_code rc = tn_array_copy(to.array, from.array);
  if (rc && !fails) dice_fail("copy: %s", tn_error_text());
  if (part_size(&to) == 0)
    unclear |= fails;
  else if (!part_same(&to, &from) && fails)
    to.block->failed = true;
  else if (!part_same(&to, &from))
    put(&to, values);
}

/* Perhaps right after a run. */
static void step_give_up(void) {
  if (n_calls < 3) return;
  prepared *p = &calls[dice_below((uint32_t)n_calls)];
  dice_tell("give up %s", drawn_text(&p->what));
  if (dice_once_in(2)) run_once(p);
  tn_prepared_release(p->call);
  *p = calls[--n_calls];
}

/* ------------------------------------------------------------------ trials */

static void step(void) {
  const uint32_t what = dice_below(100);
  dice_step();
  if (what < 20)
    step_call();
  else if (what < 36)
    step_prepare();
  else if (what < 62)
    step_run();
  else if (what < 77)
    live_view();
  else if (what < 83)
    step_set();
  else if (what < 91)
    step_copy();
  else if (what < 97)
    live_drop();
  else
    step_give_up();
}

/* Arrays of like shapes, of which some are empty and some long. */
static void begin(void) {
  numbers_reset();
  unclear = false;
  for (int i = 0; i < 6; ++i) {
    int64_t shape[2];
    const int32_t ndim = (int32_t)dice_below(3);
    for (int32_t k = 0; k < ndim; ++k)
      shape[k] = dice_once_in(40)   ? 0
                 : dice_once_in(25) ? 150
                                    : 1 + dice_below(4);
    (void)live_new(ndim, shape);
    if (dice_once_in(2)) (void)live_new(ndim, shape);
  }
}

/* Calls are run and released with arrays that have no other owner. */
static void end(void) {
  if (!unclear) live_check();
  const bool first = dice_once_in(2);
  if (!first) live_clear();
  for (; n_calls > 0; --n_calls) {
    prepared *p = &calls[n_calls - 1];
    if (!first && dice_once_in(2) && tn_call_run(p->call))
      dice_tell("the last run: %s", tn_error_text());
    tn_prepared_release(p->call);
  }
  live_clear();
  if (tn_wait_all(rt)) /* an error that an array has already reported */
    dice_tell("at the end: %s", tn_error_text());
}

static void trial(void) {
  begin();
  const int n = 20 + (int)dice_below(60);
  for (int i = 0; i < n && !unclear && numbers_made() < MOST_NUMBERS; ++i)
    step();
  end();
}

#if defined(TN_SANITIZED)
enum { N_TRIALS = 150 };
#else
enum { N_TRIALS = 1000 };
#endif

static void run(uint32_t engine, uint32_t workers) {
  static const char *const files[] = {ELEMWISE_FILE, TENSOR_FILE, NN_FILE,
                                      OPTIM_FILE};
  rt = parts_open(engine, workers);
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i)
    GOES(tn_plugin_load(rt, files[i]));
  const uint32_t failing = parts_on_cpu() ? DRAWN_FAILING : 0;
  drawn_open(rt, DRAWN_SMOOTH | DRAWN_STATEFUL | failing, MOST_ELEMENTS);
  dice_trials(N_TRIALS, trial);
  numbers_reset();
  tn_runtime_release(rt);
  cr_log_info("%d calls and runs, and %d that fail", count.runs, count.failed);
  if (!dice_are_usual()) return;
  cr_assert_gt(count.runs, 10 * N_TRIALS);
  if (failing) cr_assert_gt(count.failed, N_TRIALS / 4);
}

Test(prepared_random, have_the_results_of_numbers_on_one_thread) {
  run(TN_ENGINE_NAIVE, 1);
}

Test(prepared_random, have_the_results_of_numbers_on_several_threads) {
  run(TN_ENGINE_POOLED, 2);
}

Test(prepared_random, have_the_results_of_numbers_in_the_threaded_engine) {
  run(TN_ENGINE_THREADED, 2);
}
