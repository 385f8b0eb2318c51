/* SPDX-License-Identifier: Apache-2.0
 * api.c: the functions of tenon.h about runtimes, their random streams and
 * traces. As in all files api*.c, each function checks its arguments and calls
 * the folder that does the work.
 */
#include "floating.h"
#include "runtime.h"

tn_code tn__argument_fail(const char *function, const char *name) {
  return tn__fail(TN_INVALID, "%s: the argument `%s` is NULL", function, name);
}

const char *tn_version(void) {
  return TN_VERSION;
}

uint64_t tn_modes_restored(uint64_t *modes) {
  const tn__floating_log *log = tn__floating_replaced();
  if (modes) *modes = tn__floating_number(&log->last);
  return log->n;
}

const char *tn_dtype_name(tn_dtype dtype) {
  return tn__dtype_name(dtype);
}

tn_code tn_dtype_parse(const char *name, tn_dtype *out) {
  TN__REQUIRE(out);
  *out = TN_DTYPE_UNKNOWN;
  TN__REQUIRE(name);
  if (tn__dtype_parse(name, out)) return TN_OK;
  const char *names[TN__N_DTYPES];
  tn__dtype_list_names(names);
  const char *near = tn__find_nearest_word(name, names, TN__N_DTYPES);
  (void)tn__fail(TN_INVALID, "`%.40s` is no element type", name);
  return near ? tn__fail_more(TN_INVALID, "; did you mean `%s`?", near)
              : tn__fail_more(TN_INVALID,
                              ", as f32, bf16, i64, u8 and bool are");
}

/* ---------------------------------------------------------------- runtimes */

tn_code tn_runtime_create(const tn_options *options, tn_runtime **out) {
  TN__REQUIRE(out);
  *out = NULL;
  return tn__runtime_create(options, out);
}

void tn_runtime_release(tn_runtime *rt) {
  tn__runtime_release(rt);
}

tn_code tn_wait_all(tn_runtime *rt) {
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__wait_all(rt->env.engine);
}

tn_code tn_runtime_json(tn_runtime *rt, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  tn__buf buf;
  tn__buf_init(&buf, &rt->env);
  tn__runtime_json(rt, &buf);
  const tn_code rc = tn__buf_text(&buf, out);
  tn__buf_deinit(&buf);
  return rc;
}

/* ---------------------------------------------------------- random streams */

/* Runs a function in the order of pushes. Calls claim their numbers in this
 * order, so a reader or writer of the stream must take a place in it too. */
static tn_code run_in_order(tn_runtime *rt, const char *name,
                            tn_code (*run)(void *arg, tn__token *token),
                            void *arg) {
  const tn__access use = {&rt->caller.random.var, TN__OVERWRITE, 0};
  return tn__run_here(rt->env.engine, &(tn__job){.name = name,
                                                 .run = run,
                                                 .arg = arg,
                                                 .access = &use,
                                                 .n_access = 1,
                                                 .flags = TN__JOB_SMALL});
}

typedef struct stream {
  tn__random *random;
  tn_random_state state;
} stream;

static tn_code set_stream(void *arg, tn__token *token) {
  const stream *s = arg;
  (void)token;
  tn__random_seed(s->random, s->state.seed);
  (void)tn__random_claim(s->random, s->state.drawn);
  return TN_OK;
}

static tn_code get_stream(void *arg, tn__token *token) {
  stream *s = arg;
  (void)token;
  s->state.seed = atomic_load_explicit(&s->random->key, memory_order_relaxed);
  s->state.drawn =
      atomic_load_explicit(&s->random->offset, memory_order_relaxed);
  return TN_OK;
}

tn_code tn_random_seed(tn_runtime *rt, uint64_t seed) {
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  stream s = {&rt->caller.random, {seed, 0}};
  return run_in_order(rt, "tn_random_seed", set_stream, &s);
}

tn_code tn_random_get(tn_runtime *rt, tn_random_state *out) {
  TN__REQUIRE(out);
  *out = (tn_random_state){0, 0};
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  stream s = {&rt->caller.random, {0, 0}};
  TN__TRY(run_in_order(rt, "tn_random_get", get_stream, &s));
  *out = s.state;
  return TN_OK;
}

tn_code tn_random_set(tn_runtime *rt, const tn_random_state *state) {
  TN__REQUIRE(rt);
  TN__REQUIRE(state);
  TN__TRY(tn__runtime_check(&rt->env));
  stream s = {&rt->caller.random, *state};
  return run_in_order(rt, "tn_random_set", set_stream, &s);
}

/* ------------------------------------------------------------------ traces */

tn_code tn_trace_start(tn_runtime *rt) {
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__trace_start(rt->env.engine);
}

tn_code tn_trace_write(tn_runtime *rt, const char *path) {
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(tn__runtime_wait_pushed(rt));
  tn__trace_stop(rt->env.engine);
  TN__TRY(tn__trace_write(rt->env.engine, path));
  /* Operations that began before the end have added their spans after this
   * wait. */
  if (tn__runtime_wait_pushed(rt) == TN_OK) tn__trace_forget(rt->env.engine);
  return TN_OK;
}
