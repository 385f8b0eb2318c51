/* SPDX-License-Identifier: Apache-2.0
 * Calls of operators through the public functions; PLUGIN is elemwise:
 *
 *   call call PLUGIN THREADS     nanoseconds per operator on small arrays
 *   call add PLUGIN THREADS      GB/s of an elementwise add, by size
 *   call memory PLUGIN THREADS   bytes and nanoseconds per array
 */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "limit.h"
#include "measure.h"

enum { RECORDED = 100, MANY = 1000000 };

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* The called operators and their operands. */
typedef struct subject {
  tn_runtime *rt;
  tn_operator *add;
  tn_operator *relu;
  tn_array *a;
  tn_array *b;
  tn_array *out;
  tn_prepared *prepared;
  tn_tape *tape;
} subject;

static tn_array *array_of(tn_runtime *rt, int64_t n) {
  const size_t bytes = (size_t)n * sizeof(float);
  tn_array *array = NULL;
  float *values = malloc(bytes);
  if (!values) measure_fail("no memory for %zu bytes", bytes);
  for (int64_t i = 0; i < n; ++i) values[i] = (float)i;
  must_succeed(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &array));
  must_succeed(tn_array_set(array, values, bytes));
  free(values);
  return array;
}

static void arrays_create(subject *s, int64_t n) {
  s->a = array_of(s->rt, n);
  s->b = array_of(s->rt, n);
  s->out = array_of(s->rt, n);
}

static void arrays_release(subject *s) {
  must_succeed(tn_wait_all(s->rt));
  tn_array_release(s->a);
  tn_array_release(s->b);
  tn_array_release(s->out);
}

static void print_value(const char *what, int64_t n, double value) {
  printf("%s/%lld %.2f\n", what, (long long)n, value);
  fflush(stdout);
}

/* -------------------------------------------------------------- small calls */

/* The floor: a C function that is called through a pointer and checks. */
typedef struct direct {
  const float *a;
  const float *b;
  float *out;
  int64_t n_a;
  int64_t n_b;
  int64_t n_out;
} direct;

static void add_direct(void *arg) {
  const direct *d = arg;
  if (d->n_a != d->n_b || d->n_a != d->n_out) abort();
  for (int64_t i = 0; i < d->n_out; ++i) d->out[i] = d->a[i] + d->b[i];
}

static void run_prepared(void *arg) {
  const subject *s = arg;
  must_succeed(tn_call_run(s->prepared));
}

static void call_given(void *arg) {
  subject *s = arg;
  must_succeed(
      tn_call(s->rt, s->add, TN_IN(s->a, s->b), NULL, TN_OUT(&s->out)));
}

static void call_new(void *arg) {
  const subject *s = arg;
  tn_array *out = NULL;
  must_succeed(tn_call(s->rt, s->add, TN_IN(s->a, s->b), NULL, TN_OUT(&out)));
  tn_array_release(out);
}

/* A tape with RECORDED calls, from its creation to its release. */
static void call_recorded(void *arg) {
  const subject *s = arg;
  tn_tape *tape = NULL;
  must_succeed(tn_tape_create(s->rt, &tape));
  must_succeed(tn_tape_watch(tape, s->a));
  for (int i = 0; i < RECORDED; ++i) {
    tn_array *out = NULL;
    must_succeed(
        tn_tape_call(tape, s->add, TN_IN(s->a, s->b), NULL, TN_OUT(&out)));
    tn_array_release(out);
  }
  tn_tape_release(tape);
}

/* Two calls, and the gradient through both. */
static void call_gradient(void *arg) {
  const subject *s = arg;
  tn_array *sum = NULL, *head = NULL, *gradient = NULL;
  must_succeed(
      tn_tape_call(s->tape, s->add, TN_IN(s->a, s->b), NULL, TN_OUT(&sum)));
  must_succeed(tn_tape_call(s->tape, s->relu, TN_IN(sum), NULL, TN_OUT(&head)));
  must_succeed(tn_tape_gradient(
      s->tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                .heads = *TN_IN(head),
                                .of = *TN_IN(s->a),
                                .gradients = *TN_OUT(&gradient)}));
  tn_array_release(gradient);
  tn_array_release(head);
  tn_array_release(sum);
}

static void measure_direct(int64_t n) {
  float *values = calloc((size_t)n * 3, sizeof *values);
  direct d = {values, values + n, values + 2 * n, n, n, n};
  if (!values) measure_fail("no memory");
  print_value("direct", n, measure_each(add_direct, &d, CALL_SECONDS));
  free(values);
}

static void measure_prepared(subject *s, int64_t n) {
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = s->add,
                               .inputs = *TN_IN(s->a, s->b),
                               .outputs = *TN_OUT(&s->out)};
  must_succeed(tn_call_prepare(s->rt, &what, &s->prepared));
  print_value("prepared", n, measure_each(run_prepared, s, CALL_SECONDS));
  tn_prepared_release(s->prepared);
}

static void measure_tape(subject *s, int64_t n) {
  print_value("recorded", n,
              measure_each(call_recorded, s, CALL_SECONDS) / RECORDED);
  must_succeed(tn_tape_create(s->rt, &s->tape));
  must_succeed(tn_tape_watch(s->tape, s->a));
  print_value("gradient", n, measure_each(call_gradient, s, CALL_SECONDS));
  tn_tape_release(s->tape);
}

static void measure_calls(subject *s, int64_t n) {
  arrays_create(s, n);
  measure_direct(n);
  measure_prepared(s, n);
  print_value("given", n, measure_each(call_given, s, CALL_SECONDS));
  print_value("new", n, measure_each(call_new, s, CALL_SECONDS));
  measure_tape(s, n);
  arrays_release(s);
}

/* -------------------------------------------------------------- large calls */

static void add_given(void *arg) {
  subject *s = arg;
  call_given(s);
  must_succeed(tn_array_wait(s->out));
}

static void add_new(void *arg) {
  const subject *s = arg;
  tn_array *out = NULL;
  must_succeed(tn_call(s->rt, s->add, TN_IN(s->a, s->b), NULL, TN_OUT(&out)));
  must_succeed(tn_array_wait(out));
  tn_array_release(out);
}

static void measure_add(subject *s, int64_t n, uint32_t threads) {
  const double bytes = CALL_BYTES_MOVED(n);
  arrays_create(s, n);
  print_value("given", n, bytes / measure_each(add_given, s, ADD_SECONDS));
  print_value("new", n, bytes / measure_each(add_new, s, ADD_SECONDS));
  arrays_release(s);
  print_value("limit", n, bytes / limit_each(n, 2, threads, LIMIT_ORDINARY));
  print_value("limit_nt", n,
              bytes / limit_each(n, 2, threads, LIMIT_NON_TEMPORAL));
}

/* ------------------------------------------------------------------- memory */

static measure_ledger ledger;

static void say_of_many(const char *name, double value, const char *unit) {
  printf("%s %.1f %s\n", name, value / MANY, unit);
}

/* Arrays of one float, without memory and with it. */
static void measure_memory(subject *s) {
  tn_array **all = calloc(MANY, sizeof *all);
  const int64_t one = 1, before = ledger.bytes;
  const float value = 1;
  double since = measure_now(), taken;
  if (!all) measure_fail("no memory");
  for (size_t i = 0; i < MANY; ++i)
    must_succeed(tn_array_create(s->rt, &(tn_spec){TN_F32, 1, &one}, &all[i]));
  taken = measure_now() - since;
  say_of_many("array_bytes", (double)(ledger.bytes - before), "bytes");
  for (size_t i = 0; i < MANY; ++i)
    must_succeed(tn_array_set(all[i], &value, sizeof value));
  say_of_many("array_of_1_float_bytes", (double)(ledger.bytes - before),
              "bytes");
  since = measure_now();
  for (size_t i = 0; i < MANY; ++i) tn_array_release(all[i]);
  must_succeed(tn_wait_all(s->rt));
  taken += measure_now() - since;
  say_of_many("array_time", 1e9 * taken, "ns");
  free(all);
}

static void subject_open(subject *s, char **arguments) {
  tn_options options = {.struct_size = sizeof options,
                        .workers = (uint32_t)atoi(arguments[2])};
  if (!strcmp(arguments[0], "memory"))
    options.allocator = (tn_allocator){&ledger, measure_alloc, measure_free};
  must_succeed(tn_runtime_create(&options, &s->rt));
  must_succeed(tn_plugin_load(s->rt, arguments[1]));
  must_succeed(tn_operator_get(s->rt, "elemwise.add", &s->add));
  must_succeed(tn_operator_get(s->rt, "elemwise.relu", &s->relu));
}

int main(int argc, char **argv) {
  subject s = {0};
  if (argc != 4) {
    fputs("usage: call call|add|memory PLUGIN THREADS\n", stderr);
    return 2;
  }
  subject_open(&s, argv + 1);
  if (!strcmp(argv[1], "call"))
    for (size_t i = 0; i < sizeof call_sizes / sizeof *call_sizes; ++i)
      measure_calls(&s, call_sizes[i]);
  else if (!strcmp(argv[1], "add"))
    for (size_t i = 0; i < sizeof add_sizes / sizeof *add_sizes; ++i)
      measure_add(&s, add_sizes[i], (uint32_t)atoi(argv[3]));
  else
    measure_memory(&s);
  tn_runtime_release(s.rt);
  return 0;
}
