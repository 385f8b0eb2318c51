/* SPDX-License-Identifier: Apache-2.0
 * train_parallel.c: several ranks learn digits together. Each computes the
 * gradients of its part of every batch, and all ranks make the same steps with
 * the means of the gradients.
 *
 *   train_parallel DIGITS.csv.gz [--ranks N] [OPTION VALUE ...] [PLUGIN.so ...]
 *   mpirun -n N train_parallel DIGITS.csv.gz [OPTION VALUE ...] [PLUGIN.so ...]
 *
 *   --ranks N     ranks of this process, each with a runtime (1)
 *   --epochs N    (5)
 *   --load FILE   continues from a file that --save has written
 *   --save FILE   after the last epoch
 *   --trace FILE  a trace of the last step of rank 0
 *
 * Without plugins it loads the installed ones. Rank 0 prints a line per epoch.
 * The losses are those of one rank, except for rounding: sums of parts have
 * another order than sums of the whole batch. So everything is computed in f64.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/comm.h>
#include <tenon/engine.h>
#include <tenon/exchange.h>
#include <tenon/graph.h>
#include <tenon/tenon.h>

#include "digits_net.h"

enum { RANKS = 16, BUCKET = 64 << 10 /* bytes; most of it is fc2's weight */ };

/* The command, the same for all ranks. */
typedef struct command {
  const digits *data;
  const char *load, *save, *trace; /* files; load and save: .safetensors */
  int ranks, epochs;
  int n_plugins;
  char **plugins;
} command;

/* A rank: its runtime, its group, and its program. */
typedef struct rank {
  const command *command;
  int number; /* of --ranks */
  tn_code code;
  char text[512]; /* of the failure */
  tn_runtime *rt;
  tn_rank_group *world;
  tn_array *pixels, *labels; /* its part of a batch */
  tn_array *weight[NET_WEIGHTS], *step[NET_WEIGHTS];
  tn_program *program;
  digits_random random; /* the same on all ranks */
  int64_t epoch;        /* epochs that are complete */
} rank;

static int size_of(const rank *r) {
  return tn_group_size(r->world);
}

/* ------------------------------------------------------------------- graph */

static tn_code add_call(tn_graph *g, const char *op, const char *params,
                        const char *name, uint32_t n, const tn_entry *in,
                        tn_entry *out) {
  return tn_graph_call(g,
                       &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                        .op = op,
                                        .params = params,
                                        .name = name,
                                        .n_in = n,
                                        .in = in},
                       out);
}

/* data -> fc1 -> relu1 -> fc2 -> relu2 -> fc3 -> softmax. */
static tn_code add_layers(tn_graph *g, tn_entry *head) {
  char params[64], name[16];
  tn_code rc = tn_graph_variable(g, "data", NULL, head);
  for (int i = 1; i <= NET_LAYERS && !rc; ++i) {
    (void)snprintf(params, sizeof params, "num_hidden=%d", (int)net_widths[i]);
    (void)snprintf(name, sizeof name, "fc%d", i);
    rc = add_call(g, "nn.fully_connected", params, name, 1, head, head);
    (void)snprintf(name, sizeof name, "relu%d", i);
    if (!rc && i < NET_LAYERS)
      rc = add_call(g, "nn.activation", "act_type=relu", name, 1, head, head);
  }
  if (!rc)
    rc =
        add_call(g, "nn.softmax_output", "normalization=batch smooth_alpha=0.1",
                 "softmax", 1, head, head);
  return rc;
}

static void name_weight(int i, char name[16]) {
  (void)snprintf(name, 16, "fc%d_%s", i / 2 + 1, i % 2 ? "bias" : "weight");
}

static size_t bytes_of(int i) {
  const int64_t rows = net_widths[i / 2 + 1], columns = net_widths[i / 2];
  return (size_t)(i % 2 ? rows : rows * columns) * sizeof(double);
}

/* Replaces the gradients of weights [first, end) by their means over all ranks:
 * one bucket. */
static tn_code add_bucket(tn_graph *g, int first, int end, tn_entry *slopes) {
  char params[64], name[32];
  tn_entry mean;
  const int n = end - first;
  (void)snprintf(params, sizeof params, "op=mean num_arrays=%d", n);
  (void)snprintf(name, sizeof name, "bucket%d", first);
  const tn_code rc = add_call(g, "comm.all_reduce", params, name, (uint32_t)n,
                              slopes + first, &mean);
  for (int i = 0; i < n && !rc; ++i)
    slopes[first + i] = (tn_entry){mean.node, (uint32_t)i};
  return rc;
}

/* The gradients of the last layers are complete first, so buckets begin there.
 * Their sums are on the way while earlier layers compute. */
static tn_code add_buckets(tn_graph *g, tn_entry *slopes) {
  int end = NET_WEIGHTS;
  size_t bytes = 0;
  tn_code rc = TN_OK;
  for (int i = NET_WEIGHTS - 1; i >= 0 && !rc; --i) {
    bytes += bytes_of(i);
    if (i > 0 && bytes < BUCKET) continue;
    rc = add_bucket(g, i, end, slopes);
    end = i;
    bytes = 0;
  }
  return rc;
}

/* A step of every weight, by the mean gradient of all ranks. The last layer is
 * first, in the order in which buckets are complete: a program makes the steps
 * of a graph in the order of its heads. */
static tn_code add_steps(tn_graph *g, tn_entry head, tn_entry *steps) {
  tn_entry of[NET_WEIGHTS], slopes[NET_WEIGHTS];
  char name[16];
  tn_code rc = TN_OK;
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i) {
    name_weight(i, name);
    rc = tn_graph_find(g, name, &of[i]);
  }
  if (!rc)
    rc = tn_graph_gradient(
        g,
        &(tn_gradient_query){
            .heads = &head, .n_heads = 1, .of = of, .n_of = NET_WEIGHTS},
        slopes);
  if (!rc) rc = add_buckets(g, slopes);
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i) {
    (void)snprintf(name, sizeof name, "step%d", i);
    rc = add_call(g, "optim.sgd_mom_update", "lr=0.1 momentum=0.9 wd=0.0005",
                  name, 2, (const tn_entry[]){of[i], slopes[i]},
                  &steps[NET_WEIGHTS - 1 - i]);
  }
  return rc;
}

/* ------------------------------------------------------------------ arrays */

/* An array of these numbers, or of zeros. */
static tn_code make_array(tn_runtime *rt, int32_t ndim, const int64_t *shape,
                          const float *values, tn_array **out) {
  size_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= (size_t)shape[d];
  double *wide = calloc(n, sizeof *wide);
  if (!wide) return TN_OUT_OF_MEMORY;
  for (size_t i = 0; values && i < n; ++i) wide[i] = (double)values[i];
  tn_code rc = tn_array_create(rt, &(tn_spec){TN_F64, ndim, shape}, out);
  if (!rc) rc = tn_array_set(*out, wide, n * sizeof *wide);
  free(wide);
  return rc;
}

static tn_code make_weight(rank *r, int i) {
  const int64_t shape[2] = {net_widths[i / 2 + 1], net_widths[i / 2]};
  const size_t n = bytes_of(i) / sizeof(double);
  float *values = calloc(n, sizeof *values);
  if (!values) return TN_OUT_OF_MEMORY;
  if (i % 2 == 0)
    digits_uniform(&r->random, net_limit((size_t)shape[1], (size_t)shape[0]),
                   values, n);
  tn_code rc = make_array(r->rt, i % 2 ? 1 : 2, shape, values, &r->weight[i]);
  if (!rc) rc = make_array(r->rt, i % 2 ? 1 : 2, shape, NULL, &r->step[i]);
  free(values);
  return rc;
}

static tn_code make_arrays(rank *r) {
  const int64_t rows = DIGITS_BATCH / size_of(r);
  const int64_t shape[2] = {rows, DIGITS_PIXELS};
  tn_code rc = make_array(r->rt, 2, shape, NULL, &r->pixels);
  if (!rc) rc = make_array(r->rt, 1, shape, NULL, &r->labels);
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i) rc = make_weight(r, i);
  return rc;
}

static tn_code bind_program(rank *r, const tn_graph *g) {
  static const char *const formats[] = {"step%d", "step%d_mom"};
  char names[2 * NET_WEIGHTS][16];
  tn_argument a[2 + 2 * NET_WEIGHTS] = {
      {.name = "data", .array = r->pixels},
      {.name = "softmax_label", .array = r->labels}};
  tn_array *outputs[1 + NET_WEIGHTS] = {NULL};
  for (int i = 0; i < NET_WEIGHTS; ++i) {
    name_weight(i, names[2 * i]);
    (void)snprintf(names[2 * i + 1], 16, formats[1], i);
    a[2 + 2 * i] = (tn_argument){.name = names[2 * i], .array = r->weight[i]};
    a[3 + 2 * i] = (tn_argument){.name = names[2 * i + 1], .array = r->step[i]};
    outputs[NET_WEIGHTS - i] = r->weight[i];
  }
  return tn_program_bind(g,
                         &(tn_bind){.struct_size = sizeof(tn_bind),
                                    .arguments = a,
                                    .n_arguments = 2 + 2 * NET_WEIGHTS,
                                    .outputs = outputs,
                                    .n_outputs = 1 + NET_WEIGHTS},
                         &r->program);
}

static tn_code make_program(rank *r) {
  tn_graph *g = NULL;
  tn_entry heads[1 + NET_WEIGHTS];
  tn_code rc = tn_graph_create(r->rt, &g);
  if (!rc) rc = add_layers(g, &heads[0]);
  if (!rc) rc = tn_graph_heads_set(g, heads, 1);
  if (!rc) rc = add_steps(g, heads[0], heads + 1);
  if (!rc) rc = tn_graph_heads_set(g, heads, 1 + NET_WEIGHTS);
  if (!rc) rc = bind_program(r, g);
  tn_graph_release(g);
  return rc;
}

/* -------------------------------------------------------------- checkpoint */

static void name_saved(int i, char name[32]) {
  char weight[16];
  name_weight(i % NET_WEIGHTS, weight);
  (void)snprintf(name, 32, "%s%s", weight, i < NET_WEIGHTS ? "" : "_step");
}

static tn_array **find_saved(rank *r, int i) {
  return i < NET_WEIGHTS ? &r->weight[i] : &r->step[i - NET_WEIGHTS];
}

/* Weights and steps, the number of epochs, and the state of the random numbers.
 * All ranks have the same, so rank 0 writes them. */
static tn_code save(rank *r) {
  char names[2 * NET_WEIGHTS][32], epoch[32], state[32];
  tn_bundle_item items[2 * NET_WEIGHTS];
  const tn_bundle_pair pairs[] = {{"epoch", epoch}, {"random", state}};
  (void)snprintf(epoch, sizeof epoch, "%lld", (long long)r->epoch);
  (void)snprintf(state, sizeof state, "%llu",
                 (unsigned long long)r->random.state);
  for (int i = 0; i < 2 * NET_WEIGHTS; ++i) {
    name_saved(i, names[i]);
    items[i] = (tn_bundle_item){names[i], *find_saved(r, i)};
  }
  return tn_bundle_save(
      r->rt, r->command->save,
      &(tn_bundle_content){.struct_size = sizeof(tn_bundle_content),
                           .items = items,
                           .n_items = 2 * NET_WEIGHTS,
                           .metadata = pairs,
                           .n_metadata = 2});
}

static tn_code load_pairs(rank *r, const tn_bundle *b) {
  tn_bundle_pair pair;
  for (size_t i = 0; tn_bundle_pair_at(b, i, &pair) == TN_OK; ++i) {
    if (strcmp(pair.key, "epoch") == 0)
      r->epoch = strtoll(pair.value, NULL, 10);
    if (strcmp(pair.key, "random") == 0)
      r->random.state = strtoull(pair.value, NULL, 10);
  }
  return TN_OK;
}

static tn_code load(rank *r) {
  tn_bundle *b = NULL;
  char name[32];
  tn_code rc = tn_bundle_open(r->rt, r->command->load, &b);
  for (int i = 0; i < 2 * NET_WEIGHTS && !rc; ++i) {
    tn_array **to = find_saved(r, i);
    tn_array_release(*to), *to = NULL;
    name_saved(i, name);
    rc = tn_bundle_get(b, name, 0, to);
  }
  if (!rc) rc = load_pairs(r, b);
  tn_bundle_close(b);
  return rc;
}

/* ------------------------------------------------------------------- learn */

/* This rank's rows of a batch. All ranks draw all rows, so that each row is the
 * same for any number of ranks. */
static tn_code set_batch(rank *r, const size_t *order, float *labels) {
  float all[DIGITS_BATCH * DIGITS_PIXELS], all_labels[DIGITS_BATCH];
  double x[DIGITS_BATCH * DIGITS_PIXELS], y[DIGITS_BATCH];
  const int rows = DIGITS_BATCH / size_of(r);
  const int first = tn_group_rank(r->world) * rows;
  digits_batch(r->command->data, order, &r->random, all, all_labels);
  for (int i = 0; i < rows * DIGITS_PIXELS; ++i)
    x[i] = (double)all[first * DIGITS_PIXELS + i];
  for (int i = 0; i < rows; ++i) {
    labels[i] = all_labels[first + i];
    y[i] = (double)labels[i];
  }
  tn_code rc =
      tn_array_set(r->pixels, x, (size_t)(rows * DIGITS_PIXELS) * sizeof *x);
  if (!rc) rc = tn_array_set(r->labels, y, (size_t)rows * sizeof *y);
  return rc;
}

/* Adds the loss of this rank's rows. */
static tn_code add_loss(const rank *r, const float *labels, double *loss) {
  double p[DIGITS_BATCH * DIGITS_CLASSES];
  const int rows = DIGITS_BATCH / size_of(r);
  tn_array *out = NULL;
  tn_code rc = tn_program_output(r->program, 0, &out);
  if (!rc)
    rc = tn_array_get(out, p, (size_t)(rows * DIGITS_CLASSES) * sizeof *p);
  for (int i = 0; i < rows && !rc; ++i)
    *loss -= log(p[i * DIGITS_CLASSES + (int)labels[i]]);
  return rc;
}

/* The sum of a number over all ranks. */
static tn_code sum_up(const rank *r, double *value) {
  const int64_t one = 1;
  tn_operator *all_reduce = NULL;
  tn_array *mine = NULL, *all = NULL;
  tn_code rc = tn_array_create(r->rt, &(tn_spec){TN_F64, 1, &one}, &mine);
  if (!rc) rc = tn_array_set(mine, value, sizeof *value);
  if (!rc) rc = tn_operator_get(r->rt, "comm.all_reduce", &all_reduce);
  if (!rc) rc = tn_call(r->rt, all_reduce, TN_IN(mine), NULL, TN_OUT(&all));
  if (!rc) rc = tn_array_get(all, value, sizeof *value);
  tn_array_release(mine), tn_array_release(all);
  return rc;
}

static tn_code run_epoch(rank *r) {
  const digits *d = r->command->data;
  const double begin = digits_clock();
  float labels[DIGITS_BATCH];
  double loss = 0;
  size_t *order = malloc(digits_n_train(d) * sizeof *order), n = 0;
  tn_code rc = order ? TN_OK : TN_OUT_OF_MEMORY;
  if (order) digits_shuffle(d, &r->random, order);
  for (; !rc && n + DIGITS_BATCH <= digits_n_train(d); n += DIGITS_BATCH) {
    rc = set_batch(r, order + n, labels);
    if (!rc) rc = tn_program_forward(r->program, TN_CALL_TRAIN);
    if (!rc) rc = add_loss(r, labels, &loss);
  }
  free(order);
  if (!rc) rc = sum_up(r, &loss);
  ++r->epoch;
  if (!rc && tn_group_rank(r->world) == 0)
    printf("epoch %2d  loss %.12f  %.2f s\n", (int)r->epoch, loss / (double)n,
           digits_clock() - begin);
  return rc;
}

/* One more step, on the last batch, of which rank 0 writes a trace. */
static tn_code run_traced(const rank *r) {
  tn_code rc = tn_trace_start(r->rt);
  if (!rc) rc = tn_program_forward(r->program, TN_CALL_TRAIN);
  if (!rc) rc = tn_wait_all(r->rt);
  if (!rc && tn_group_rank(r->world) == 0)
    rc = tn_trace_write(r->rt, r->command->trace);
  return rc;
}

static tn_code learn(rank *r) {
  const command *c = r->command;
  tn_code rc = make_arrays(r);
  if (!rc && c->load) rc = load(r);
  if (!rc) rc = make_program(r);
  for (int i = 0; i < c->epochs && !rc; ++i) rc = run_epoch(r);
  if (!rc && c->save && tn_group_rank(r->world) == 0) rc = save(r);
  if (!rc && c->trace) rc = run_traced(r);
  return rc ? rc : tn_group_barrier(r->world);
}

/* ------------------------------------------------------------------- ranks */

static tn_code join(rank *r) {
  const command *c = r->command;
  tn_group_options how = {.struct_size = sizeof how, .timeout_ms = 60000};
  tn_code rc = tn_runtime_create(NULL, &r->rt);
  if (!rc && c->n_plugins == 0) rc = tn_plugins_load_standard(r->rt);
  for (int i = 0; i < c->n_plugins && !rc; ++i)
    rc = tn_plugin_load(r->rt, c->plugins[i]);
  if (c->ranks > 1) {
    how.backend = "local";
    how.rank = r->number;
    how.size = c->ranks;
  }
  if (!rc) rc = tn_group_join(r->rt, &how, &r->world);
  return rc;
}

static void leave(rank *r) {
  tn_program_release(r->program);
  for (int i = 0; i < NET_WEIGHTS; ++i)
    tn_array_release(r->weight[i]), tn_array_release(r->step[i]);
  tn_array_release(r->pixels), tn_array_release(r->labels);
  tn_group_release(r->world);
  tn_runtime_release(r->rt);
}

static void *run_rank(void *arg) {
  rank *r = arg;
  r->code = join(r);
  if (!r->code && DIGITS_BATCH % size_of(r) != 0)
    r->code = tn_fail(TN_INVALID, "%d ranks do not divide a batch of %d rows",
                      size_of(r), DIGITS_BATCH);
  if (!r->code) r->code = learn(r);
  if (r->code) (void)snprintf(r->text, sizeof r->text, "%s", tn_error_text());
  leave(r);
  return NULL;
}

static int report(const rank *ranks, int n) {
  for (int i = 0; i < n; ++i)
    if (ranks[i].code)
      return fprintf(stderr, "rank %d: %s\n", ranks[i].number, ranks[i].text),
             1;
  return 0;
}

static int run_ranks(const command *c) {
  static rank ranks[RANKS];
  pthread_t threads[RANKS];
  int n = 0;
  for (int i = 0; i < c->ranks; ++i)
    ranks[i] = (rank){.command = c, .number = i, .random = {1}};
  if (c->ranks == 1) {
    (void)run_rank(&ranks[0]);
    return report(ranks, 1);
  }
  while (n < c->ranks &&
         !pthread_create(&threads[n], NULL, run_rank, &ranks[n]))
    ++n;
  for (int i = 0; i < n; ++i) (void)pthread_join(threads[i], NULL);
  if (n < c->ranks) return fprintf(stderr, "no thread for rank %d\n", n), 1;
  return report(ranks, n);
}

/* ----------------------------------------------------------------- command */

static int read_number(const char *text, int most, int *out) {
  char *end = NULL;
  const long n = strtol(text, &end, 10);
  if (end == text || *end != '\0' || n < 1 || n > most) return 0;
  *out = (int)n;
  return 1;
}

static int read_option(command *c, const char *name, const char *value) {
  if (strcmp(name, "--ranks") == 0) return read_number(value, RANKS, &c->ranks);
  if (strcmp(name, "--epochs") == 0)
    return read_number(value, 1000, &c->epochs);
  if (strcmp(name, "--load") == 0) return c->load = value, 1;
  if (strcmp(name, "--save") == 0) return c->save = value, 1;
  if (strcmp(name, "--trace") == 0) return c->trace = value, 1;
  return 0;
}

int main(int argc, char **argv) {
  digits data;
  command c = {.data = &data, .ranks = 1, .epochs = 5};
  int at = 2;
  while (at + 1 < argc && strncmp(argv[at], "--", 2) == 0 &&
         read_option(&c, argv[at], argv[at + 1]))
    at += 2;
  if (argc < 2 || (at < argc && strncmp(argv[at], "--", 2) == 0)) {
    fprintf(stderr,
            "usage: %s DIGITS.csv.gz [--ranks N] [--epochs N] [--load FILE] "
            "[--save FILE] [--trace FILE] [PLUGIN.so ...]\n",
            argv[0]);
    return 2;
  }
  c.plugins = argv + at;
  c.n_plugins = argc - at;
  if (!digits_read(argv[1], &data)) return 2;
  const int status = run_ranks(&c);
  digits_free(&data);
  return status;
}
