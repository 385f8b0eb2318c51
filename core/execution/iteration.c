/* SPDX-License-Identifier: Apache-2.0
 * iteration.c: runs a step that is a loop. Its step graph is a program of its
 * own, which runs on the thread of the step, once for each element of the
 * sequences. On a device with queues the thread enqueues all of it there, step
 * by step. The loop copies elements, states and results in and out.
 */
#include "iteration.h"

/* Returns element `t` of an array along its first axis, as a tensor. */
static tn_tensor get_element(const tn_array *array, int64_t t) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = (char *)tn__array_data(array) +
                t * tensor.strides[0] * tn_dtype_bytes(tensor.dtype);
  --tensor.ndim;
  ++tensor.shape;
  ++tensor.strides;
  return tensor;
}

static tn_tensor get_tensor(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* A run of a loop. */
typedef struct loop_run {
  const tn__step *step;
  tn__site site;
} loop_run;

static tn_code copy_initial_states(const loop_run *r) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    const uint32_t in = loop->states[i];
    const tn_tensor to = get_tensor(step->loop->inside[in]),
                    from = get_tensor(
                        tn__value_array(step->program, step->in[in]));
    TN__TRY(tn__elements_copy(&r->site, &to, &from));
  }
  return TN_OK;
}

/* Writes a result into an output of the loop: copies it, or adds it if the
 * request is ADD. */
static tn_code write_result(const loop_run *r, uint32_t out,
                            const tn_tensor *to, const tn_tensor *from) {
  const tn__step *step = r->step;
  if (step->program->values[step->out[out]].request != TN_REQ_ADD)
    return tn__elements_copy(&r->site, to, from);
  return tn__elements_add(&r->site, to, from);
}

static tn_array *get_output_array(const tn__step *step, uint32_t out) {
  return step->program->values[step->out[out]].array;
}

/* Begins step `t`: copies its elements of the sequences, and writes the states
 * before the step into the hidden outputs. */
static tn_code begin_step(const loop_run *r, int64_t t) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  const uint32_t first = step->loop->n_heads;
  for (uint32_t i = 0; i < loop->n_sequences; ++i) {
    const uint32_t in = loop->sequences[i];
    if (!tn__loop_reads(step, in)) continue;
    const tn_tensor to = get_tensor(step->loop->inside[in]),
                    from = get_element(
                        tn__value_array(step->program, step->in[in]), t);
    TN__TRY(tn__elements_copy(&r->site, &to, &from));
  }
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    if (!tn__loop_writes(step, first + i)) continue;
    const tn_tensor to = get_element(get_output_array(step, first + i), t),
                    from = get_tensor(step->loop->inside[loop->states[i]]);
    TN__TRY(write_result(r, first + i, &to, &from));
  }
  return TN_OK;
}

static tn_array *get_head_array(const tn_program *p, uint32_t i) {
  return p->values[tn__entry_id(p->graph, p->heads.v[i])].array;
}

/* Writes head number `head` of the step program into element `t` of output
 * `out` of the loop. */
static tn_code collect_head(const loop_run *r, uint32_t head, uint32_t out,
                            int64_t t) {
  const tn_tensor to = get_element(get_output_array(r->step, out), t),
                  from =
                      get_tensor(get_head_array(r->step->loop->program, head));
  return write_result(r, out, &to, &from);
}

static tn_code end_step(const loop_run *r, int64_t t) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  const struct tn__iteration *it = step->loop;
  for (uint32_t i = loop->n_states; i < it->n_heads; ++i)
    if (tn__loop_writes(step, i)) TN__TRY(collect_head(r, i, i, t));
  for (uint32_t k = 0; k < it->n_kept; ++k)
    TN__TRY(collect_head(r, it->n_heads + k, it->kept[k], t));
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    const tn_tensor to = get_tensor(step->loop->inside[loop->states[i]]),
                    from = get_tensor(get_head_array(it->program, i));
    TN__TRY(tn__elements_copy(&r->site, &to, &from));
  }
  return TN_OK;
}

/* Copies the states after the last step into the loop's outputs, or adds them.
 */
static tn_code copy_last_states(const loop_run *r) {
  const tn__step *step = r->step;
  const tn__loop *loop = step->node->loop;
  for (uint32_t i = 0; i < loop->n_states; ++i) {
    if (!tn__loop_writes(step, i)) continue;
    const tn_tensor to = get_tensor(get_output_array(step, i)),
                    from = get_tensor(step->loop->inside[loop->states[i]]);
    TN__TRY(write_result(r, i, &to, &from));
  }
  return TN_OK;
}

tn_code tn__iteration_run(const tn__step *step, uint32_t train,
                          tn__token *token) {
  const tn__step_range body = tn__range_forward(step->loop->program, train);
  const tn__loop *loop = step->node->loop;
  const int64_t n = tn__loop_count_steps(step);
  const loop_run r = {step, {step->device, token, NULL}};
  TN__TRY(copy_initial_states(&r));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = loop->reverse ? n - 1 - i : i;
    TN__TRY(begin_step(&r, t));
    TN__TRY(tn__range_run(&body, token));
    TN__TRY(end_step(&r, t));
  }
  return copy_last_states(&r);
}
