/* SPDX-License-Identifier: Apache-2.0
 * ranks.c: the program of these tests. `comm_test local N` runs each case on N
 * threads, each with a runtime of its own; `mpirun -n N comm_test mpi` on N
 * processes, and `mpi-breaks` those after which MPI may not end properly. Rank
 * 0 writes TAP.
 */
#include "ranks.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { MANY = 1 << 17 };

/* ------------------------------------------------------------------ helpers */

/* COMM_CUDA is a list of plugins: then arrays are on the GPU of the rank. */
int on_cuda(void) {
  return getenv("COMM_CUDA") != NULL;
}

tn_place get_place(member *me) {
  char text[32];
  tn_place place = {0};
  (void)snprintf(text, sizeof text, "cuda(%d)", (int)me->rank);
  if (tn_place_parse(me->rt, on_cuda() ? text : "cpu", &place) != TN_OK)
    fprintf(stderr, "# %s\n", tn_error_text());
  return place;
}

/* Moves an array, which is consumed. */
static tn_array *move_array(tn_array *array, tn_place place) {
  tn_array *out = NULL;
  if (!array) return NULL;
  const tn_code code = tn_array_to(array, place, &out);
  tn_array_release(array);
  return code == TN_OK ? out : NULL;
}

tn_array *make_array(member *me, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape, const double *values) {
  tn_array *wide = NULL, *out = NULL;
  const tn_spec spec = {TN_F64, ndim, shape};
  if (tn_array_create(me->rt, &spec, &wide) != TN_OK) return NULL;
  tn_code rc = tn_array_set(wide, values, (size_t)tn_array_size(wide) * 8);
  if (rc == TN_OK) rc = tn_array_cast(wide, dtype, &out);
  if (rc != TN_OK) out = NULL;
  tn_array_release(wide);
  return move_array(out, get_place(me));
}

tn_array *make_vector(member *me, tn_dtype dtype, int64_t n,
                      const double *values) {
  return make_array(me, dtype, 1, &n, values);
}

const char *expect(member *me, tn_array *array, const double *values, int64_t n,
                   double tolerance) {
  tn_array *wide = NULL, *near = tn_array_retain(array);
  OK(tn_array_wait(array));
  if (tn_array_size(array) != n)
    FAIL("there are %lld elements, not %lld", (long long)tn_array_size(array),
         (long long)n);
  near = move_array(near, (tn_place){TN_DEVICE_CPU, 0});
  OK(tn_array_cast(near, TN_F64, &wide));
  tn_array_release(near);
  double *found = malloc((size_t)n * 8 + 8);
  OK(tn_array_get(wide, found, (size_t)n * 8));
  tn_array_release(wide);
  for (int64_t i = 0; i < n; ++i) {
    const double difference = found[i] - values[i];
    if (difference <= tolerance && difference >= -tolerance) continue;
    snprintf(me->text, sizeof me->text, "element %lld is %g, not %g",
             (long long)i, found[i], values[i]);
    free(found);
    return me->text;
  }
  free(found);
  return NULL;
}

tn_code call_many(member *me, const char *name, const char *text, size_t n,
                  tn_array *const *in, tn_array **out) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_code rc = tn_operator_get(me->rt, name, &op);
  if (rc == TN_OK) rc = tn_params_parse(op, text, &params);
  if (rc == TN_OK)
    rc = tn_call(me->rt, op, &(tn_inputs){n, in}, params,
                 &(tn_outputs){n, out, NULL});
  tn_params_release(params);
  return rc;
}

tn_code call_one(member *me, const char *name, const char *text, tn_array *in,
                 tn_array **out) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_code rc = tn_operator_get(me->rt, name, &op);
  if (rc == TN_OK) rc = tn_params_parse(op, text, &params);
  if (rc == TN_OK)
    rc = tn_call(me->rt, op, &(tn_inputs){in ? 1 : 0, &in}, params,
                 &(tn_outputs){1, out, NULL});
  tn_params_release(params);
  return rc;
}

const char *meet(member *me) {
  tn_comm_reason why;
  tn_comm_group out = {.struct_size = sizeof out};
  const tn_comm_join how = {.struct_size = sizeof how,
                            .rank = me->rank,
                            .size = me->size,
                            .name = "end",
                            .backend = me->is_local ? "local" : "mpi",
                            .session = "the end of a case"};
  if (me->comm->join(me->comm->ctx, &how, &out, &why) != TN_OK)
    FAIL("join: %s", why.text);
  return NULL;
}

/* -------------------------------------------------------------------- ranks */

/* Loads the plugins of a list that is separated by colons. */
static const char *load_files(member *me, const char *list) {
  char path[512];
  while (list && *list) {
    const size_t n = strcspn(list, ":");
    (void)snprintf(path, sizeof path, "%.*s", (int)n, list);
    OK(tn_plugin_load(me->rt, path));
    list += n + (list[n] == ':');
  }
  return NULL;
}

/* Loads plugins and joins the group "world". */
static const char *open_member(member *me, const test_case *c) {
  tn_comm_reason why;
  const void *table = NULL;
  const char *engine = getenv("COMM_TEST_ENGINE"); /* TN_ENGINE_* */
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 2,
                              .engine = engine ? (uint32_t)atoi(engine) : 0};
  OK(tn_runtime_create(&options, &me->rt));
  OK(tn_plugin_load(me->rt, ELEMWISE_FILE));
  OK(tn_plugin_load(me->rt, COMM_FILE));
  TRY(load_files(me, getenv("COMM_CUDA")));
  OK(tn_plugin_extension(me->rt, TN_COMM_EXTENSION, &table));
  me->comm = table;
  me->world.struct_size = sizeof me->world;
  /* processes of mpirun take a second to start */
  const uint32_t timeout = c->timeout_ms * (me->is_local ? 1 : 10);
  const tn_comm_join how = {.struct_size = sizeof how,
                            .check = c->check,
                            .timeout_ms = timeout ? timeout : 60000,
                            .rank = me->rank,
                            .size = me->size,
                            .name = "world",
                            .backend = me->is_local ? "local" : "mpi",
                            .session = c->name};
  if (me->comm->join(me->comm->ctx, &how, &me->world, &why) != TN_OK)
    FAIL("join: %s", why.text);
  HOLDS(!me->is_local || me->world.rank == me->rank);
  me->rank = me->world.rank;
  me->size = me->world.size;
  return NULL;
}

static void *run_member(void *arg) {
  member *me = arg;
  const test_case *c = me->test;
  const char *failure = open_member(me, c);
  if (!failure) failure = c->run(me);
  if (failure && failure != me->text)
    snprintf(me->text, sizeof me->text, "%s", failure);
  if (!failure) me->text[0] = 0;
  if (me->comm && me->world.id)
    (void)me->comm->leave(me->comm->ctx, me->world.id, NULL);
  tn_runtime_release(me->rt);
  return NULL;
}

/* COMM_SKIP has the names of cases that are not run, and the reason for each:
 * "name reason;name reason". Returns the reason, or NULL. */
static const char *find_reason(const test_case *c) {
  const char *at = getenv("COMM_SKIP");
  const size_t n = strlen(c->name);
  while (at && (strncmp(at, c->name, n) != 0 || at[n] != ' ')) {
    at = strchr(at, ';');
    if (at) ++at;
  }
  return at ? at + n + 1 : NULL;
}

/* Runs a case on all ranks of this process. Returns the number of failures. */
static int run_case(const test_case *c, int number, int is_local, int n) {
  member *all = calloc((size_t)n, sizeof *all);
  pthread_t *threads = calloc((size_t)n, sizeof *threads);
  int n_failed = 0;
  for (int r = 0; r < n; ++r) {
    all[r].rank = r;
    all[r].size = n;
    all[r].is_local = is_local;
    all[r].test = c;
    if (is_local) pthread_create(&threads[r], NULL, run_member, &all[r]);
  }
  if (!is_local) (void)run_member(&all[0]);
  for (int r = 0; r < n && is_local; ++r) pthread_join(threads[r], NULL);
  for (int r = 0; r < n; ++r) {
    if (!all[r].text[0]) continue;
    ++n_failed;
    fprintf(stderr, "# %s, rank %d: %s\n", c->name, (int)all[r].rank,
            all[r].text);
  }
  if (is_local || all[0].rank == 0)
    printf("%s %d - %s\n", n_failed ? "not ok" : "ok", number, c->name);
  (void)fflush(stdout);
  free(all);
  free(threads);
  return n_failed;
}

/* Calls an operator in a runtime that has joined no group, and prints the
 * result or the failure. */
static int call_alone(void) {
  member me = {.text = ""};
  const double values[] = {3};
  tn_array *out = NULL;
  if (tn_runtime_create(NULL, &me.rt) != TN_OK ||
      tn_plugin_load(me.rt, COMM_FILE) != TN_OK)
    return 1;
  tn_array *in = make_vector(&me, TN_F32, 1, values);
  float sum = 0;
  tn_code rc = call_one(&me, "comm.all_reduce", "", in, &out);
  if (rc == TN_OK) rc = tn_array_get(out, &sum, sizeof sum);
  printf("%d %g %s\n", (int)rc, (double)sum, rc ? tn_error_text() : "");
  tn_array_release(out);
  out = NULL;
  rc = call_one(&me, "comm.recv", "from=0 shape=(1)", NULL, &out);
  if (rc == TN_OK) rc = tn_array_wait(out);
  printf("%d %s\n", (int)rc, tn_error_text());
  tn_array_release(in);
  tn_array_release(out);
  tn_runtime_release(me.rt);
  return 0;
}

/* mpirun may end all processes as soon as one has ended without MPI_Finalize,
 * which a broken group makes impossible. So rank 0 holds a lock until it has
 * printed its results, and the others wait for it before they end. */
static int open_lock(int rank) {
  const char *path = getenv("COMM_TEST_LOCK");
  const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (rank == 0 && fd >= 0) (void)flock(fd, LOCK_EX);
  return fd;
}

static void wait_for_rank_0(int rank, int lock) {
  if (rank != 0 && lock >= 0) (void)flock(lock, LOCK_SH);
}

static int find_rank(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = getenv("PMI_RANK");
  return rank ? atoi(rank) : 0;
}

int main(int argc, char **argv) {
  const test_case *const lists[] = {reduce_cases, exchange_cases, tape_cases,
                                    graph_cases, failure_cases};
  if (argc < 2) {
    fprintf(
        stderr,
        "usage: comm_test local N [CASE] | mpi [CASE] | mpi-breaks [CASE] | "
        "alone\n");
    return 2;
  }
  if (strcmp(argv[1], "alone") == 0) return call_alone();
  const int is_local = strcmp(argv[1], "local") == 0;
  const int breaks = strcmp(argv[1], "mpi-breaks") == 0;
  const int n = is_local && argc > 2 ? atoi(argv[2]) : 1;
  const char *only = argc > (is_local ? 3 : 2) ? argv[argc - 1] : NULL;
  const char *engine = getenv("COMM_TEST_ENGINE");
  const int is_naive = engine && atoi(engine) == TN_ENGINE_NAIVE;
  const int rank = find_rank(), lock = open_lock(rank);
  int number = 0, n_failed = 0;
  alarm(240); /* a hanging case ends the program */
  for (size_t l = 0; l < sizeof lists / sizeof *lists; ++l)
    for (const test_case *c = lists[l]; c->name; ++c) {
      if ((c->local_only || c->breaks != breaks) && !is_local) continue;
      if (only && !strstr(c->name, only)) continue;
      const char *reason = is_naive && lists[l] == failure_cases
                               ? "the naive engine reports failures in the call"
                               : find_reason(c);
      if (reason)
        printf("ok %d - %s # SKIP %.*s\n", ++number, c->name,
               (int)strcspn(reason, ";"), reason);
      else
        n_failed += run_case(c, ++number, is_local, n);
    }
  if (is_local || rank == 0) printf("1..%d\n", number);
  (void)fflush(stdout);
  wait_for_rank_0(rank, lock);
  return n_failed > 0;
}
