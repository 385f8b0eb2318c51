/* SPDX-License-Identifier: Apache-2.0
 * comm.all_reduce between the processes that mpirun started, as turns.h
 * requests it: "tenon BYTES" calls it and waits for its result. PLUGIN is that
 * of comm, FOLDER has the pipes:
 *
 *   mpirun -n N comm PLUGIN FOLDER
 */
#include <stdlib.h>
#include <tenon/comm.h>
#include <tenon/tenon.h>

#include "measure.h"
#include "turns.h"

typedef struct subject {
  tn_runtime *rt;
  tn_rank_group *world;
  tn_operator *all_reduce;
  tn_params *is_max; /* the parameters of a maximum */
  tn_array *data;
  tn_array *sum;
  tn_array *value; /* of one double */
  tn_array *max;
} subject;

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

static tn_array *create_array(tn_runtime *rt, tn_dtype dtype, int64_t n) {
  tn_array *array = NULL;
  must_succeed(tn_array_create(rt, &(tn_spec){dtype, 1, &n}, &array));
  return array;
}

static void call_and_wait(void *arg) {
  subject *s = arg;
  must_succeed(
      tn_call(s->rt, s->all_reduce, TN_IN(s->data), NULL, TN_OUT(&s->sum)));
  must_succeed(tn_array_wait(s->sum));
}

static void meet_ranks(void *arg) {
  const subject *s = arg;
  must_succeed(tn_group_barrier(s->world));
}

static double find_greatest(void *arg, double value) {
  subject *s = arg;
  must_succeed(tn_array_set(s->value, &value, sizeof value));
  must_succeed(tn_call(s->rt, s->all_reduce, TN_IN(s->value), s->is_max,
                       TN_OUT(&s->max)));
  must_succeed(tn_array_get(s->max, &value, sizeof value));
  return value;
}

/* Creates ones. */
static void create_operands(subject *s, int64_t n) {
  const size_t bytes = (size_t)n * sizeof(float);
  float *ones = measure_floats(n);
  for (int64_t i = 0; i < n; ++i) ones[i] = 1;
  s->data = create_array(s->rt, TN_F32, n);
  s->sum = create_array(s->rt, TN_F32, n);
  must_succeed(tn_array_set(s->data, ones, bytes));
  free(ones);
}

/* Fails if a sum of ones is not the number of ranks. */
static void check_sum(const subject *s, int64_t n) {
  float *sums = measure_floats(n);
  must_succeed(tn_array_get(s->sum, sums, (size_t)n * sizeof(float)));
  for (int64_t i = 0; i < n; ++i)
    if (sums[i] != (float)tn_group_size(s->world))
      measure_fail("comm: sum %lld is %g instead of %d", (long long)i,
                   (double)sums[i], tn_group_size(s->world));
  free(sums);
}

static void answer_request(subject *s, const turns_ranks *ranks, size_t bytes) {
  const int64_t n = (int64_t)(bytes / sizeof(float));
  create_operands(s, n);
  const double us = turns_measure(ranks, call_and_wait, s);
  check_sum(s, n);
  turns_reply(ranks, us);
  tn_array_release(s->data), tn_array_release(s->sum);
}

static void start_subject(subject *s, const char *plugin) {
  must_succeed(tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options), .workers = 1}, &s->rt));
  must_succeed(tn_plugin_load(s->rt, plugin));
  must_succeed(
      tn_group_join(s->rt,
                    &(tn_group_options){.struct_size = sizeof(tn_group_options),
                                        .backend = "mpi"},
                    &s->world));
  must_succeed(tn_operator_get(s->rt, "comm.all_reduce", &s->all_reduce));
  must_succeed(tn_params_parse(s->all_reduce, "op=max", &s->is_max));
  s->value = create_array(s->rt, TN_F64, 1);
  s->max = create_array(s->rt, TN_F64, 1);
}

int main(int argc, char **argv) {
  subject s = {0};
  turns_ranks ranks = {
      .arg = &s, .meet = meet_ranks, .greatest = find_greatest};
  char variant[16];
  size_t bytes = 0;
  if (argc != 3) measure_fail("usage: mpirun -n N comm PLUGIN FOLDER");
  start_subject(&s, argv[1]);
  ranks.rank = tn_group_rank(s.world);
  FILE *pipe = turns_open(argv[2], ranks.rank);
  while (turns_read(pipe, variant, &bytes)) answer_request(&s, &ranks, bytes);
  (void)fclose(pipe);
  tn_array_release(s.value), tn_array_release(s.max);
  tn_params_release(s.is_max);
  tn_group_release(s.world);
  tn_runtime_release(s.rt);
  return 0;
}
