/* SPDX-License-Identifier: Apache-2.0
 * Four threads add to one array. No lock: the calls take turns by themselves.
 */
#include <pthread.h>
#include <stdio.h>
#include <tenon/tenon.h>

enum { THREADS = 4, CALLS = 1000 };

typedef struct job {
  tn_runtime *rt;
  tn_operator *add;
  tn_array *one;
  tn_array *sum;
  tn_code rc;
} job;

static void *count(void *arg) {
  job *j = arg;
  for (int i = 0; i < CALLS && !j->rc; ++i)
    j->rc =
        tn_call(j->rt, j->add, TN_IN(j->sum, j->one), NULL, TN_OUT(&j->sum));
  if (j->rc) fprintf(stderr, "%s\n", tn_error_text());
  return NULL;
}

int main(void) {
  const float one = 1;
  float sum = 0;
  job jobs[THREADS] = {{NULL, NULL, NULL, NULL, TN_OK}}, *j = jobs;
  pthread_t threads[THREADS];
  tn_code rc = tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options), .workers = 2}, &j->rt);
  if (!rc) rc = tn_plugins_load_standard(j->rt);
  if (!rc) rc = tn_operator_get(j->rt, "elemwise.add", &j->add);
  if (!rc) rc = tn_array_create(j->rt, &(tn_spec){TN_F32, 0, NULL}, &j->one);
  if (!rc) rc = tn_array_create(j->rt, &(tn_spec){TN_F32, 0, NULL}, &j->sum);
  if (!rc) rc = tn_array_set(j->one, &one, sizeof one);
  if (!rc) rc = tn_array_set(j->sum, &sum, sizeof sum);
  if (rc) return fprintf(stderr, "%s\n", tn_error_text()), 1;
  for (int i = 0; i < THREADS; ++i) {
    jobs[i] = jobs[0];
    if (pthread_create(&threads[i], NULL, count, &jobs[i])) return 1;
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  rc = tn_array_get(j->sum, &sum, sizeof sum);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  printf("%g\n", sum);
  tn_array_release(j->one), tn_array_release(j->sum);
  tn_runtime_release(j->rt);
  return rc ? 1 : 0;
}
