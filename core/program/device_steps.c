/* SPDX-License-Identifier: Apache-2.0
 * device_steps.c: steps of programs on devices with queues. An operation
 * enqueues the work of some steps of one queue (segments.c), and the engine
 * makes queues wait for one another. No worker waits for a device. A loop is
 * one step, which enqueues all its steps. Kernels run as in calls; the device's
 * copies, fills and sums do the rest. If a device has no sums, the program's
 * creation fails for steps that need them.
 */
#include "program.h"

static tn_array *get_array(const tn__step *step, uint32_t entry) {
  return tn__value_array(step->program, entry);
}

tn__queue *tn__step_queue(const tn__step *step) {
  if (step->kind == TN__STEP_NOTHING) return NULL;
  if (step->kind != TN__STEP_COPY) return step->device->compute;
  return tn__device_copy_queue(step->device,
                               step->program->values[step->in[0]].device);
}

bool tn__step_crosses(const tn__step *step) {
  const tn__device *from = step->program->values[step->in[0]].device;
  return from != step->device && (from->table || step->device->table);
}

/* ------------------------------------------------------------------- refused
 */

static tn_code fail_step_on_device(const tn__step *step, const char *what,
                                   const char *advice) {
  char place[TN__DEVICE_TEXT];
  return tn__node_fail(step->node,
                       tn__fail(TN_UNSUPPORTED, "%s on %s; %s", what,
                                tn__device_text(step->device, place), advice));
}

/* Whether the step's device can add to the elements of an entry. */
static bool can_device_add(const tn__step *step, uint32_t entry) {
  return tn__elements_can_add(step->device,
                              get_array(step, entry)->tensor.dtype);
}

static bool is_dense(const tn__step *step, uint32_t entry) {
  return tn_tensor_is_contiguous(&get_array(step, entry)->tensor);
}

/* Rejects a copy between devices if an array is not dense: filling an array
 * that is not dense needs sums. */
static tn_code check_copied_bytes(const tn__step *step) {
  const bool reads = step->kind == TN__STEP_COPY;
  const bool crosses = reads && tn__step_crosses(step);
  const bool adds = can_device_add(step, step->out[0]) && !crosses;
  const bool moves =
      reads ? tn__device_can_sum(step->device) && !crosses : adds;
  const tn__value *to = &step->program->values[step->out[0]];
  if (to->request == TN_REQ_ADD && !adds)
    return fail_step_on_device(step, "nothing can be added to a gradient",
                               "ask for TN_REQ_WRITE");
  if (!moves && (!is_dense(step, step->out[0]) ||
                 (reads && !is_dense(step, step->in[0]))))
    return fail_step_on_device(step,
                               "only dense arrays can be copied or set to zero",
                               "give a dense array");
  return TN_OK;
}

/* Rejects a loop on a device without sums, if it needs them: for outputs with
 * request ADD, or for elements that are not dense. */
static tn_code check_loop(const tn__step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i)
    if (step->program->values[step->out[i]].request == TN_REQ_ADD &&
        !can_device_add(step, step->out[i]))
      return fail_step_on_device(step, "elements of its dtype cannot be added",
                                 "ask for TN_REQ_WRITE");
  return TN_OK;
}

static tn_code check_step(const tn__step *step) {
  const bool sums = tn__device_can_sum(step->device);
  switch (step->kind) {
    case TN__STEP_ADD:
      return can_device_add(step, step->out[0])
                 ? TN_OK
                 : fail_step_on_device(
                       step, "gradients cannot be added",
                       "give the node of this gradient a group on the "
                       "cpu");
    case TN__STEP_LOOP:
      return sums ? check_loop(step)
                  : fail_step_on_device(step, "no loop can run",
                                        "give it a group on the cpu");
    case TN__STEP_FILL:
      if (step->node->kind == TN__NODE_ONE &&
          !can_device_add(step, step->out[0]))
        return fail_step_on_device(step, "ones cannot be made",
                                   "give weights to tn_graph_gradient");
      return check_copied_bytes(step);
    case TN__STEP_COPY:
      return check_copied_bytes(step);
    default:
      return TN_OK;
  }
}

tn_code tn__device_steps_check(tn_program *p) {
  for (uint32_t i = 0; i < p->placement.n_devices; ++i)
    p->queued |= p->placement.devices[i]->compute != NULL;
  for (uint32_t i = 0; p->queued && i < p->n_steps; ++i)
    if (tn__step_queue(p->steps[i])) TN__TRY(check_step(p->steps[i]));
  return TN_OK;
}

/* ----------------------------------------------------------------------- run
 */

tn_code tn__device_steps_copy(const tn__step *step, uint32_t train,
                              tn__token *token) {
  const tn_array *to = get_array(step, step->out[0]),
                 *from = get_array(step, step->in[0]);
  const tn_tensor *y = &to->tensor, *x = &from->tensor;
  (void)train;
  const tn_copy copy = {.struct_size = sizeof copy,
                        .to = tn__array_data(to),
                        .from = tn__array_data(from),
                        .bytes = (size_t)tn_tensor_bytes(y),
                        .to_type = y->device_type,
                        .to_id = y->device_id,
                        .from_type = x->device_type,
                        .from_id = x->device_id};
  return tn__device_copy(token, &copy);
}
