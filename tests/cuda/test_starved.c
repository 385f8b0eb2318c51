/* SPDX-License-Identifier: Apache-2.0
 * Memory of a GPU that runs out, or the host's: each request for memory fails
 * in turn, alone or with all that follow. The result is right, or reading it
 * reports an error with the number of missing bytes. The same request is right
 * when there is memory again.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../meter.h"
#include "../must.h"
#include "fixture.h"
#include "tenon/graph.h"

enum { MOST = 4096 }; /* numbers that come out */

#if defined(TN_SANITIZED)
enum { FEWER = 3 };
#else
enum { FEWER = 10 };
#endif

static meter host; /* memory of the host that the runtime allocates */
static bool by_host;

static void close_all(void) {
  fixture_close();
  must_hold(host.n_living == 0, "memory of the host is left");
}

TestSuite(starved, .init = fixture_init, .fini = close_all);

/* The results of an attempt. */
typedef struct found {
  size_t n;
  float v[MOST];
} found;

/* Returns early with the code of a failed call. */
#define TRY(call)                 \
  do {                            \
    const tn_code rc_ = (call);   \
    if (rc_ != TN_OK) return rc_; \
  } while (0)

static tn_code get(found *f, tn_array *array) {
  const size_t n = (size_t)tn_array_size(array);
  cr_assert(f->n + n <= MOST);
  TRY(tn_array_get(array, f->v + f->n, n * sizeof(float)));
  f->n += n;
  return TN_OK;
}

/* Numbers between -0.5 and 0.5 that depend on their position. */
static tn_code put(tn_array *array, uint32_t what) {
  float v[MOST];
  const int64_t n = tn_array_size(array);
  for (int64_t i = 0; i < n; ++i)
    v[i] = (float)((what * 31 + (uint32_t)i * 7) % 41) / 41 - 0.5f;
  return tn_array_set(array, v, (size_t)n * sizeof *v);
}

/* ------------------------------------------------------------------- trials
 */

/* Gives the same numbers each time. */
typedef tn_code attempt(found *f);
static void (*begin)(void); /* before each trial; or NULL */

static void same(const found *have, const found *want, int64_t at) {
  cr_assert_eq(have->n, want->n);
  for (size_t i = 0; i < have->n; ++i)
    cr_assert(memcmp(&have->v[i], &want->v[i], sizeof(float)) == 0,
              "without piece %d number %d is %g, not %g", (int)at, (int)i,
              (double)have->v[i], (double)want->v[i]);
}

static size_t host_before;

/* From now on. */
static void starve(int64_t at, bool for_ever) {
  host_before = host.n_allocated;
  host.sticky = for_ever;
  host.fail_at = by_host ? host_before + (size_t)at : 0;
  (void)fake_cuda_starve(by_host ? 0 : at, for_ever);
}

/* Returns how many requests there were. */
static int64_t feed(void) {
  const int64_t of_device = fake_cuda_starve(0, false);
  host.fail_at = 0;
  return by_host ? (int64_t)(host.n_allocated - host_before) : of_device;
}

static void give_back(void) {
  OK(tn_memory_trim(fixture, fixture_place("cuda(0)")));
}

/* False: there were not so many requests. */
static bool try_without(attempt *try, const found *want, int64_t at,
                        bool for_ever) {
  static found f;
  if (begin) begin();
  (void)!tn_wait_all(fixture);
  give_back();
  f.n = 0;
  starve(at, for_ever);
  const tn_code rc = try(&f);
  char text[2000];
  (void)snprintf(text, sizeof text, "%s", rc ? tn_error_text() : "");
  (void)!tn_wait_all(fixture);
  const bool missed = feed() >= at;
  if (rc == TN_OK) same(&f, want, at);
  if (rc != TN_OK) {
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "without piece %d: %s", (int)at, text);
    cr_assert(strstr(text, "memory") && (by_host || strstr(text, "bytes")),
              "without piece %d: %s", (int)at, text);
  }
  f.n = 0;
  OK(try(&f));
  same(&f, want, at);
  return missed;
}

static void survive(attempt *try, int64_t least) {
  static found want;
  want.n = 0;
  if (begin) begin();
  OK(try(&want));
  for (int mode = 0; mode < 2; ++mode) {
    int64_t at = 1;
    /* Of the host's there are thousands, most of them alike. */
    while (try_without(try, &want, at, mode == 1))
      at += by_host ? 1 + at / FEWER : 1;
    cr_assert_gt(at, least, "only %d requests", (int)at);
  }
}

static void open_all(uint64_t seed) {
  const tn_options how = {.struct_size = sizeof how,
                          .allocator = {&host, meter_alloc, meter_free},
                          .log = quiet,
                          .workers = 2};
  fake_cuda_begin(&(fake_cuda_options){.devices = 1, .seed = seed});
  OK(tn_runtime_create(&how, &fixture));
  OK(tn_plugin_load(fixture, CUDA_FILE));
  OK(tn_plugin_load(fixture, ELEMWISE_FILE));
  OK(tn_plugin_load(fixture, ELEMWISE_CUDA_FILE));
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  OK(tn_plugin_load(fixture, CUBLASLT_FILE));
  OK(tn_plugin_load(fixture, OPTIM_FILE));
  OK(tn_plugin_load(fixture, OPTIM_CUDA_FILE));
}

/* -------------------------------------------------------------------- calls
 */

/* Arrays of an attempt. */
typedef struct bag {
  tn_array *v[32];
  int n;
} bag;

static void bag_end(bag *b) {
  while (b->n > 0) tn_array_release(b->v[--b->n]);
}

static tn_code make(bag *b, int32_t ndim, const int64_t *shape, uint32_t what,
                    tn_array **out) {
  TRY(tn_array_create_on(fixture, &(tn_spec){TN_F32, ndim, shape},
                         fixture_place("cuda(0)"), out));
  b->v[b->n++] = *out;
  return put(*out, what);
}

static tn_tape *tape; /* NULL: calls are not recorded */

static tn_code call(bag *b, const char *name, const char *text,
                    const tn_inputs *in, tn_array **out, tn_req req) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *outs[3] = {*out, NULL, NULL};
  const tn_req reqs[] = {req, TN_REQ_NULL, TN_REQ_NULL};
  TRY(tn_operator_get(fixture, name, &op));
  TRY(tn_params_parse(op, text, &params));
  const tn_outputs to = {1, outs, reqs};
  const tn_code rc = tape ? tn_tape_call_train(tape, op, in, params, &to)
                          : tn_call(fixture, op, in, params, &to);
  tn_params_release(params);
  if (rc != TN_OK) cr_assert_eq(outs[0], *out, "stored, but failed");
  if (outs[0] != *out) b->v[b->n++] = *out = outs[0];
  return rc;
}

static const int64_t rows[] = {6, 5}, columns[] = {5, 6};

/* Operands that are not dense, sums, workspaces, states, copies. */
static tn_code calls_in(bag *b, found *f) {
  const int64_t one[] = {5};
  tn_array *x = NULL, *w = NULL, *t = NULL, *y = NULL, *z = NULL, *h = NULL;
  tn_array *gamma = NULL, *beta = NULL, *mean = NULL, *var = NULL, *n = NULL;
  TRY(make(b, 2, rows, 1, &x));
  TRY(make(b, 2, columns, 2, &w));
  TRY(make(b, 1, one, 3, &gamma));
  TRY(make(b, 1, one, 4, &beta));
  TRY(make(b, 1, one, 5, &mean));
  TRY(make(b, 1, one, 6, &var));
  TRY(tn_array_transpose(w, NULL, &t));
  b->v[b->n++] = t;
  TRY(call(b, "elemwise.mul", "", TN_IN(x, t), &y, TN_REQ_WRITE));
  TRY(call(b, "elemwise.sigmoid", "", TN_IN(t), &y, TN_REQ_ADD));
  TRY(call(b, "nn.softmax", "", TN_IN(t), &t, TN_REQ_ADD));
  TRY(call(b, "nn.batch_norm", "fix_gamma=false",
           TN_IN(y, gamma, beta, mean, var), &n, TN_REQ_WRITE));
  TRY(call(b, "nn.fully_connected", "num_hidden=6 no_bias=true flatten=false",
           TN_IN(t, x), &z, TN_REQ_WRITE));
  TRY(tn_array_to(z, fixture_place("cpu"), &h));
  b->v[b->n++] = h;
  TRY(get(f, y));
  TRY(get(f, t));
  TRY(get(f, n));
  return get(f, h);
}

static tn_code try_calls(found *f) {
  bag b = {.n = 0};
  const tn_code rc = calls_in(&b, f);
  bag_end(&b);
  return rc;
}

Test(starved, calls_succeed_or_report_missing_memory) {
  open_all(1);
  survive(try_calls, 10);
}

/* -------------------------------------------------------------------- tapes
 */

static tn_code ask(bag *b, tn_array *head, tn_array *of, uint32_t flags,
                   tn_array **out) {
  tn_array *to = *out;
  const tn_req req = to ? TN_REQ_ADD : TN_REQ_WRITE;
  const tn_tape_query query = {.struct_size = sizeof query,
                               .flags = flags,
                               .heads = {1, &head},
                               .of = {1, &of},
                               .gradients = {1, &to, &req}};
  const tn_code rc = tn_tape_gradient(tape, &query);
  if (rc != TN_OK) cr_assert_eq(to, *out, "stored, but failed");
  if (to != *out) b->v[b->n++] = *out = to;
  return rc;
}

static tn_code tape_in(bag *b, found *f) {
  tn_array *x = NULL, *w = NULL, *t = NULL, *y = NULL, *z = NULL, *g = NULL,
           *h = NULL, *part = NULL;
  TRY(make(b, 2, rows, 1, &x));
  TRY(make(b, 2, columns, 2, &w));
  TRY(tn_tape_watch(tape, x));
  TRY(tn_tape_watch(tape, w));
  TRY(tn_array_transpose(w, NULL, &t));
  b->v[b->n++] = t;
  const tn_range range = {0, 0, 1, 5, 2};
  TRY(call(b, "elemwise.mul", "", TN_IN(x, t), &y, TN_REQ_WRITE));
  TRY(call(b, "elemwise.sigmoid", "", TN_IN(x), &y, TN_REQ_ADD));
  TRY(call(b, "elemwise.mul", "", TN_IN(y, y), &z, TN_REQ_WRITE));
  TRY(tn_array_slice(z, &range, &part));
  b->v[b->n++] = part;
  TRY(ask(b, part, x, TN_TAPE_RECORD, &g));
  TRY(ask(b, g, w, TN_TAPE_KEEP, &h));
  TRY(ask(b, z, w, TN_TAPE_KEEP, &h));
  TRY(get(f, g));
  TRY(get(f, h));
  return get(f, z);
}

static tn_code try_tape(found *f) {
  bag b = {.n = 0};
  TRY(tn_tape_create(fixture, &tape));
  const tn_code rc = tape_in(&b, f);
  tn_tape_release(tape);
  tape = NULL;
  bag_end(&b);
  return rc;
}

Test(starved, tapes_record_or_report_missing_memory) {
  open_all(2);
  survive(try_tape, 10);
}

/* ----------------------------------------------------------------- programs
 */

enum { N_LAYERS = 6, N_STEPS = 4, ROWS = 6 };

static const struct {
  const char *op, *params, *name;
} layers[N_LAYERS] = {{"nn.batch_norm", "fix_gamma=false", "norm"},
                      {"nn.leaky_relu", "act_type=rrelu", "bent"},
                      {"nn.pooling", "kernel=(2,2) pool_type=max", "pool"},
                      {"nn.dropout", "p=0.25", "drop"},
                      {"nn.fully_connected", "num_hidden=3", "all"},
                      {"nn.softmax_output", "normalization=batch", "softmax"}};

static const struct {
  const char *op, *params, *weight;
} steps[N_STEPS] = {
    {"optim.adam_update", "lr=0.5 step=1", "all_weight"},
    {"optim.ftrl_update", "lr=0.5", "norm_beta"},
    {"optim.sgd_mom_update", "lr=0.5 momentum=0.5", "norm_gamma"},
    {"optim.sgd_update", "lr=0.5", "all_bias"}};

static tn_graph *g;
static tn_program *p;
static uint32_t flags;

/* With steps that update, or with a backward part. */
static void net(bool updates) {
  const tn_sig images = {TN_F32, 4, {ROWS, 2, 4, 5}};
  const tn_sig labels = {TN_F32, 1, {ROWS}};
  tn_entry in[2], heads[1 + N_STEPS], of[N_STEPS], slopes[N_STEPS];
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "data", &images, &in[0]));
  OK(tn_graph_variable(g, "softmax_label", &labels, &in[1]));
  for (uint32_t i = 0; i < N_LAYERS; ++i)
    in[0] = fixture_call(g, layers[i].op, layers[i].params, layers[i].name,
                         i + 1 < N_LAYERS ? 1 : 2, in);
  heads[0] = in[0];
  for (int i = 0; i < N_STEPS; ++i)
    OK(tn_graph_find(g, steps[i].weight, &of[i]));
  if (updates)
    OK(tn_graph_gradient(
        g,
        &(tn_gradient_query){
            .heads = heads, .n_heads = 1, .of = of, .n_of = N_STEPS},
        slopes));
  for (int i = 0; updates && i < N_STEPS; ++i)
    heads[1 + i] =
        fixture_call(g, steps[i].op, steps[i].params, steps[i].op + 6, 2,
                     (const tn_entry[]){of[i], slopes[i]});
  OK(tn_graph_heads_set(g, heads, updates ? 1 + N_STEPS : 1));
}

static tn_code bind(void) {
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .request = flags & TN_BIND_CAPTURE ? 0 : TN_REQ_WRITE,
                       .place = fixture_place("cuda(0)")};
  const tn_code rc = tn_program_bind(g, &how, &p);
  if (rc != TN_OK && !by_host)
    cr_assert(strstr(tn_error_text(), "node `") ||
                  strstr(tn_error_text(), "the array of `") ||
                  strstr(tn_error_text(), "intermediate results"),
              "nobody is named: %s", tn_error_text());
  return rc;
}

/* Sets all arguments and states, to remove the results of a failed run. */
static tn_code put_all(uint32_t of, uint32_t what) {
  const char *name = NULL;
  for (uint32_t i = 0; !tn_graph_name(g, of, i, &name, NULL); ++i) {
    tn_array *array = NULL;
    OK(tn_program_array(p, what, name, &array));
    TRY(put(array, i));
  }
  return TN_OK;
}

static tn_code backward(void) {
  bag b = {.n = 0};
  tn_array *weight = NULL;
  tn_code rc = make(&b, 2, (const int64_t[]){ROWS, 3}, 8, &weight);
  if (rc == TN_OK) rc = tn_program_backward(p, &weight, 1);
  bag_end(&b);
  return rc;
}

static tn_code run(found *f) {
  const char *name = NULL;
  tn_array *array = NULL;
  TRY(tn_random_seed(fixture, 7));
  TRY(put_all(TN_GRAPH_ARGUMENTS, TN_PROGRAM_ARGUMENT));
  TRY(put_all(TN_GRAPH_AUXILIARIES, TN_PROGRAM_AUXILIARY));
  TRY(tn_program_forward(p, TN_CALL_TRAIN));
  if (!(flags & TN_BIND_CAPTURE)) TRY(backward());
  for (uint32_t i = 0; !tn_graph_name(g, TN_GRAPH_HEADS, i, &name, NULL); ++i) {
    OK(tn_program_array(p, TN_PROGRAM_OUTPUT, name, &array));
    TRY(get(f, array));
  }
  for (uint32_t i = 0; !tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, NULL);
       ++i) {
    if (flags & TN_BIND_CAPTURE) break;
    OK(tn_program_array(p, TN_PROGRAM_GRADIENT, name, &array));
    TRY(get(f, array));
  }
  return TN_OK;
}

static tn_code try_program(found *f) {
  for (int i = 0; i < 3; ++i) {
    f->n = 0;
    TRY(run(f));
  }
  return TN_OK;
}

/* A program of its own, from its binding on. */
static tn_code try_binding(found *f) {
  TRY(bind());
  const tn_code rc = try_program(f);
  tn_program_release(p);
  p = NULL;
  return rc;
}

/* Before each trial; both of its attempts run the programs bound here. */
static void renew(void) {
  tn_program_release(p);
  p = NULL;
  OK(bind());
}

Test(starved, calls_need_memory_of_the_host) {
  by_host = true;
  open_all(1);
  survive(try_calls, 20);
}

Test(starved, tapes_need_memory_of_the_host) {
  by_host = true;
  open_all(1);
  survive(try_tape, 20);
}

static void survive_program(attempt *try, void (*before)(void), uint32_t how) {
  flags = how;
  open_all(3);
  net(how == TN_BIND_CAPTURE);
  begin = before;
  survive(try, 1);
  tn_program_release(p);
  p = NULL;
  tn_graph_release(g);
}

Test(starved, programs_are_bound_or_report_missing_memory) {
  survive_program(try_binding, NULL, 0);
}

Test(starved, recorded_programs_are_bound_or_report_missing_memory) {
  survive_program(try_binding, NULL, TN_BIND_CAPTURE);
}

Test(starved, programs_can_be_run_again) {
  survive_program(try_program, renew, 0);
}

Test(starved, programs_that_are_recorded_can_be_run_again) {
  survive_program(try_program, renew, TN_BIND_CAPTURE);
}

Test(starved, runs_need_memory_of_the_host) {
  by_host = true;
  survive_program(try_program, renew, 0);
}

Test(starved, runs_that_are_recorded_need_memory_of_the_host) {
  by_host = true;
  survive_program(try_program, renew, TN_BIND_CAPTURE);
}

Test(starved, programs_need_memory_of_the_host) {
  by_host = true;
  survive_program(try_binding, NULL, 0);
}
