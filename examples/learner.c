/* SPDX-License-Identifier: Apache-2.0
 * learner.c: see learner.h.
 */
#include "learner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits_net.h"

enum { MOST = 32, NAME = 64 };

/* A weight, and the last step that it made. */
typedef struct weight {
  char name[NAME];
  char step[NAME]; /* the node that makes its steps */
  char last[NAME]; /* the variable of the last step */
  tn_sig sig;
  tn_array *value, *mom;
} weight;

typedef struct learner {
  tn_runtime *rt;
  const learner_net *net;
  const digits *data;
  weight weights[MOST];
  size_t n;
  tn_array *pixels, *labels; /* of a batch */
  tn_array *test_pixels, *test_labels;
  tn_program *learn, *test;
} learner;

/* ------------------------------------------------------------------- graph */

tn_code learner_call(tn_graph *g, const char *op, const char *params,
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

tn_code learner_layer(tn_graph *g, const char *op, const char *params,
                      const char *name, tn_entry *head) {
  return learner_call(g, op, params, name, 1, head, head);
}

/* Shapes of all variables follow from that of a batch. */
static tn_code infer(const learner *l, tn_graph *g) {
  const learner_net *net = l->net;
  tn_known known[] = {{"data", {TN_F32, net->ndim, {0}}},
                      {"softmax_label", {TN_F32, 1, {0}}}};
  memcpy(known[0].sig.shape, net->shape,
         (size_t)net->ndim * sizeof *net->shape);
  known[0].sig.shape[0] = known[1].sig.shape[0] = DIGITS_BATCH;
  return tn_graph_infer(g, known, 2);
}

/* Makes everything that the outputs depend on a weight, except the inputs of
 * the network. */
static tn_code find_weights(learner *l, tn_graph *g) {
  const char *name = NULL;
  tn_entry entry;
  tn_code rc = infer(l, g);
  for (size_t i = 0; !rc && l->n < MOST; ++i) {
    weight *w = &l->weights[l->n];
    if (tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, &entry)) return TN_OK;
    if (strcmp(name, "data") == 0 || strcmp(name, "softmax_label") == 0)
      continue;
    (void)snprintf(w->name, NAME, "%s", name);
    (void)snprintf(w->step, NAME, "step%zu", l->n);
    (void)snprintf(w->last, NAME, "step%zu_mom", l->n);
    rc = tn_graph_sig(g, entry, &w->sig);
    ++l->n;
  }
  return rc;
}

/* A step of every weight, by the gradient of the head. */
static tn_code add_steps(const learner *l, tn_graph *g, tn_entry head,
                         tn_entry *steps) {
  tn_entry of[MOST], slopes[MOST];
  char params[128];
  tn_code rc = TN_OK;
  (void)snprintf(params, sizeof params, "lr=0.1 %s", l->net->update);
  for (size_t i = 0; i < l->n && !rc; ++i)
    rc = tn_graph_find(g, l->weights[i].name, &of[i]);
  if (!rc)
    rc = tn_graph_gradient(
        g,
        &(tn_gradient_query){
            .heads = &head, .n_heads = 1, .of = of, .n_of = l->n},
        slopes);
  for (size_t i = 0; i < l->n && !rc; ++i)
    rc = learner_call(g, "optim.sgd_mom_update", params, l->weights[i].step, 2,
                      (const tn_entry[]){of[i], slopes[i]}, &steps[i]);
  return rc;
}

/* ------------------------------------------------------------------ arrays */

static tn_code array_make(const learner *l, int32_t ndim, const int64_t *shape,
                          const float *values, tn_array **out) {
  return net_array(l->rt, l->net->place, ndim, shape, values, out);
}

/* Random numbers for arrays of several dimensions, zeros for biases. */
static tn_code weight_draw(const learner *l, weight *w, digits_random *random) {
  const int64_t *shape = w->sig.shape;
  size_t n = 1, window = 1;
  for (int32_t d = 0; d < w->sig.ndim; ++d) {
    n *= (size_t)shape[d];
    if (d > 1) window *= (size_t)shape[d];
  }
  float *values = calloc(n + 1, sizeof *values);
  if (!values) return TN_OUT_OF_MEMORY;
  tn_code rc = array_make(l, w->sig.ndim, shape, values, &w->mom);
  if (w->sig.ndim > 1)
    digits_uniform(
        random, net_limit(window * (size_t)shape[1], window * (size_t)shape[0]),
        values, n);
  if (!rc) rc = array_make(l, w->sig.ndim, shape, values, &w->value);
  free(values);
  return rc;
}

static tn_code make_arrays(learner *l) {
  const digits *d = l->data;
  const size_t first = digits_n_train(d);
  int64_t shape[4];
  memcpy(shape, l->net->shape, sizeof shape);
  shape[0] = DIGITS_BATCH;
  TRY(array_make(l, l->net->ndim, shape, NULL, &l->pixels));
  TRY(array_make(l, 1, shape, NULL, &l->labels));
  shape[0] = DIGITS_TEST;
  TRY(array_make(l, l->net->ndim, shape, d->pixels + first * DIGITS_PIXELS,
                 &l->test_pixels));
  TRY(array_make(l, 1, shape, d->labels + first, &l->test_labels));
  return TN_OK;
fail:
  return TN_INVALID;
}

/* ---------------------------------------------------------------- programs */

/* The program of a graph with the network's weights; with steps, new weights
 * replace the old ones. */
static tn_code bind(const learner *l, const tn_graph *g, int steps,
                    tn_program **out) {
  tn_argument a[2 + 2 * MOST] = {
      {.name = "data", .array = steps ? l->pixels : l->test_pixels},
      {.name = "softmax_label", .array = steps ? l->labels : l->test_labels}};
  tn_array *outputs[1 + MOST] = {NULL};
  size_t n = 2;
  for (size_t i = 0; i < l->n; ++i) {
    const weight *w = &l->weights[i];
    a[n++] = (tn_argument){.name = w->name, .array = w->value};
    if (steps) a[n++] = (tn_argument){.name = w->last, .array = w->mom};
    outputs[1 + i] = w->value;
  }
  return tn_program_bind(g,
                         &(tn_bind){.struct_size = sizeof(tn_bind),
                                    .flags = steps ? l->net->flags : 0,
                                    .arguments = a,
                                    .n_arguments = n,
                                    .outputs = outputs,
                                    .n_outputs = steps ? 1 + l->n : 0,
                                    .place = l->net->place},
                         out);
}

static tn_code make_programs(learner *l, digits_random *random) {
  tn_graph *g = NULL;
  tn_entry heads[1 + MOST];
  tn_code rc = tn_graph_create(l->rt, &g);
  if (!rc) rc = l->net->build(g, &heads[0]);
  if (!rc) rc = tn_graph_heads_set(g, heads, 1);
  if (!rc) rc = find_weights(l, g);
  for (size_t i = 0; i < l->n && !rc; ++i)
    rc = weight_draw(l, &l->weights[i], random);
  if (!rc) rc = bind(l, g, 0, &l->test);
  if (!rc) rc = add_steps(l, g, heads[0], heads + 1);
  if (!rc) rc = tn_graph_heads_set(g, heads, 1 + l->n);
  if (!rc) rc = bind(l, g, 1, &l->learn);
  tn_graph_release(g);
  return rc;
}

/* ------------------------------------------------------------------- learn */

/* Shorter steps in every epoch: a parameter that may change between runs. */
static tn_code set_rate(const learner *l, int epoch) {
  const tn_value lr = tn_value_float("lr", l->net->rate(epoch));
  tn_code rc = TN_OK;
  for (size_t i = 0; i < l->n && !rc; ++i)
    rc = tn_program_set(l->learn, l->weights[i].step, &lr);
  return rc;
}

/* Adds the outputs to the score. */
static tn_code count(const tn_program *program, const float *labels, size_t n,
                     digits_score *score) {
  tn_array *out = NULL;
  tn_code rc = tn_program_output(program, 0, &out);
  if (!rc) rc = net_count(out, labels, n, score);
  return rc;
}

/* All batches once, in a new order. */
static tn_code run_epoch(learner *l, digits_random *random,
                         digits_score *score) {
  static float pixels[DIGITS_BATCH * DIGITS_PIXELS], labels[DIGITS_BATCH];
  const digits *d = l->data;
  size_t *order = malloc(digits_n_train(d) * sizeof *order);
  tn_code rc = order ? TN_OK : TN_OUT_OF_MEMORY;
  if (order) digits_shuffle(d, random, order);
  for (size_t at = 0; !rc && at + DIGITS_BATCH <= digits_n_train(d);
       at += DIGITS_BATCH) {
    digits_batch(d, order + at, random, pixels, labels);
    rc = tn_array_set(l->pixels, pixels, sizeof pixels);
    if (!rc) rc = tn_array_set(l->labels, labels, sizeof labels);
    if (!rc) rc = tn_program_forward(l->learn, TN_CALL_TRAIN);
    if (!rc) rc = count(l->learn, labels, DIGITS_BATCH, score);
  }
  free(order);
  return rc;
}

static tn_code run_epochs(learner *l, digits_random *random,
                          learner_report *out) {
  const digits *d = l->data;
  const double start = digits_clock();
  tn_code rc = TN_OK;
  for (int epoch = 1; epoch <= l->net->epochs && !rc; ++epoch) {
    const double begin = digits_clock();
    out->learned = out->tested = (digits_score){0};
    rc = set_rate(l, epoch);
    if (!rc) rc = run_epoch(l, random, &out->learned);
    out->seconds += digits_clock() - begin;
    out->n_steps += (long)(digits_n_train(d) / DIGITS_BATCH);
    if (!rc) rc = tn_program_forward(l->test, 0);
    if (!rc)
      rc = count(l->test, d->labels + digits_n_train(d), DIGITS_TEST,
                 &out->tested);
    if (!rc)
      digits_report(epoch, &out->learned, &out->tested, digits_clock() - start);
  }
  return rc;
}

/* One more step, on the last batch, of which a trace is kept. */
static tn_code run_traced(const learner *l) {
  tn_array *out = NULL;
  tn_code rc = tn_trace_start(l->rt);
  if (!rc) rc = tn_program_forward(l->learn, TN_CALL_TRAIN);
  if (!rc) rc = tn_program_output(l->learn, 0, &out);
  if (!rc) rc = tn_wait_all(l->rt);
  return rc ? rc : tn_trace_write(l->rt, l->net->trace);
}

static tn_code ask_captured(const learner *l, learner_report *out) {
  tn_text *why = NULL;
  const tn_code rc = tn_program_captured(l->learn, TN_PART_TRAIN, &why);
  out->captured = !rc && !why;
  tn_text_release(why);
  return rc;
}

static void release(learner *l) {
  tn_program_release(l->learn), tn_program_release(l->test);
  for (size_t i = 0; i < l->n; ++i) {
    tn_array_release(l->weights[i].value);
    tn_array_release(l->weights[i].mom);
  }
  tn_array_release(l->pixels), tn_array_release(l->labels);
  tn_array_release(l->test_pixels), tn_array_release(l->test_labels);
}

tn_code learner_train(tn_runtime *rt, const digits *d, const learner_net *net,
                      learner_report *out) {
  learner l = {.rt = rt, .net = net, .data = d};
  digits_random random = {1};
  *out = (learner_report){0};
  tn_code rc = make_arrays(&l);
  if (!rc) rc = make_programs(&l, &random);
  if (!rc) rc = run_epochs(&l, &random, out);
  if (!rc) rc = ask_captured(&l, out);
  if (!rc && net->trace) rc = run_traced(&l);
  release(&l);
  return rc;
}
