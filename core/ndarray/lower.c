/* SPDX-License-Identifier: Apache-2.0
 * lower.c: what a caller may ask and a kernel need not take. Requests become
 * such that the kernel declares, with a temporary where the old content or an
 * input must survive; layouts become dense where the operator wants them so.
 * Decides only: memory is taken and copied in run.c.
 */
#include <string.h>

#include "call.h"
#include "tenon/chain.h"

static bool wants_dense(const tn__operand *operand, const tn_tensor *tensor) {
  return (operand->arg->flags & TN_ARG_CONTIGUOUS) &&
         !tn_tensor_is_contiguous(tensor);
}

/* A dense array of the same shape and dtype. */
static tn_code twin_create(tn__work *w, tn__operand *operand) {
  const tn_tensor *own = &operand->array->tensor;
  const tn_spec spec = {own->dtype, own->ndim, own->shape};
  return tn__array_create_on(w->device, &spec, &operand->temp);
}

tn_code tn__work_lower_inputs(tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_in; ++i) {
    tn__operand *operand = &w->in_info[i];
    if (!tn__input_is_read(w->in_flags[i])) continue;
    if (!wants_dense(operand, &operand->array->tensor)) continue;
    TN__TRY(twin_create(w, operand));
    w->in[i] = tn__array_metadata(operand->temp);
    w->in_flags[i] |= TN_IN_CONTIGUOUS;
  }
  return TN_OK;
}

tn_code tn__work_lower_states(tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_aux; ++i) {
    tn__operand *operand = &w->aux_info[i];
    if (!operand->array || !wants_dense(operand, &operand->array->tensor))
      continue;
    TN__TRY(twin_create(w, operand));
    w->aux[i] = tn__array_metadata(operand->temp);
    if (tn__state_changes(operand->arg, w->flags))
      operand->after = TN__AFTER_COPY;
  }
  return TN_OK;
}

/* How the memory of an output meets that of the inputs as the kernel sees them:
 * the input that it is, and whether it touches any other. */
typedef struct meeting {
  int32_t twin;
  bool touches;
} meeting;

static meeting meet_inputs(const tn__work *w, const tn_array *array) {
  meeting m = {-1, false};
  for (uint32_t i = 0; i < w->launch.frame.n_in; ++i) {
    const tn__operand *in = &w->in_info[i];
    if (!tn__input_is_read(w->in_flags[i])) continue;
    if (in->temp) continue; /* the kernel sees the copy */
    int how = tn__arrays_meet(array, in->array);
    if (how == TN__SAME && m.twin < 0)
      m.twin = (int32_t)i;
    else if (how != TN__APART)
      m.touches = true;
  }
  return m;
}

/* The kernel may work in the memory of the input that the caller gave as the
 * output. */
static bool in_place(const tn__work *w, uint32_t i, meeting m,
                     uint32_t writes) {
  const tn__operand *out = &w->out_info[i];
  return m.twin >= 0 && !m.touches && w->req[i] == TN_REQ_WRITE &&
         out->inplace == (uint32_t)m.twin && (writes & TN_WRITES_INPLACE) &&
         (out->source < 0 || out->source == m.twin) &&
         !wants_dense(out, &out->array->tensor);
}

static bool is_lent(const tn__work *w, uint32_t in) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i)
    if (w->alias[i] == (int32_t)in) return true;
  return false;
}

static bool shapes_equal(const tn_tensor *a, const tn_tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* Whether an array can start as a copy of input `in`. */
static bool is_like_input(const tn__work *w, const tn__operand *out,
                          uint32_t in) {
  const tn_tensor *a = &out->array->tensor, *b = &w->in[in];
  return a->dtype == b->dtype && shapes_equal(a, b);
}

static tn_code init_check(const tn__work *w, const tn__operand *out) {
  char text[TN__OPERAND_TEXT];
  const tn_tensor *in = &w->in[out->source], *t = &out->array->tensor;
  if (w->in_flags[out->source] & TN_IN_ABSENT) return TN_OK;
  if (is_like_input(w, out, (uint32_t)out->source)) return TN_OK;
  tn__fail(TN_SHAPE, "%s: %s starts as a copy of input `%s`, so it must be",
           w->op->name, tn__operand_text(out, text),
           w->in_info[out->source].arg->name);
  tn__fail_tensor(TN_SHAPE, in->dtype, in->ndim, in->shape);
  tn__fail_more(TN_SHAPE, ", but it is");
  tn__fail_tensor(TN_SHAPE, t->dtype, t->ndim, t->shape);
  return TN_SHAPE;
}

/* A kernel that works only in place gets a copy of the input, as its input and
 * as its output. */
static bool lend_copy(tn__work *w, uint32_t i) {
  tn__operand *out = &w->out_info[i];
  uint32_t in = out->inplace;
  if (in >= w->launch.frame.n_in || is_lent(w, in)) return false;
  if (!tn__input_is_read(w->in_flags[in])) return false;
  if (out->source >= 0 && (uint32_t)out->source != in) return false;
  if (!is_like_input(w, out, in)) return false;
  out->before = TN__BEFORE_COPY;
  out->source = (int32_t)in;
  w->req[i] = TN_REQ_INPLACE;
  w->alias[i] = (int32_t)in;
  w->in[in] = w->out[i];
  w->in_flags[in] |= TN_IN_CONTIGUOUS; /* is_direct() sees to that */
  return true;
}

/* A request to overwrite becomes one that the kernel takes. */
static tn_code lower_write(tn__work *w, uint32_t i, const tn_kernel *kernel) {
  tn__operand *out = &w->out_info[i];
  if (kernel->writes & TN_WRITES_WRITE) {
    if (out->source >= 0) {
      bool absent = (w->in_flags[out->source] & TN_IN_ABSENT) != 0;
      out->before = absent ? TN__BEFORE_ZERO : TN__BEFORE_COPY;
    }
    return TN_OK;
  }
  if ((kernel->writes & TN_WRITES_INPLACE) && lend_copy(w, i)) return TN_OK;
  if ((kernel->writes & TN_WRITES_ADD) && out->source < 0) {
    out->before = TN__BEFORE_ZERO;
    w->req[i] = TN_REQ_ADD;
    return TN_OK;
  }
  return tn__fail(TN_PLUGIN,
                  "%s: kernel %s declares no request that its"
                  " output `%s` can be written with (writes is 0x%x)",
                  w->op->name, kernel->id, out->arg->name,
                  (unsigned)kernel->writes);
}

/* The kernel may work in the output's own memory. One that cannot overwrite
 * may get a copy of an input there, which has to be dense. */
static bool is_direct(const tn__work *w, uint32_t i, meeting m,
                      uint32_t writes) {
  const tn__operand *out = &w->out_info[i];
  const tn_tensor *t = &out->array->tensor;
  if (m.twin >= 0 || m.touches || wants_dense(out, t)) return false;
  if (!(writes & TN_WRITES_WRITE) && !tn_tensor_is_contiguous(t)) return false;
  if (w->req[i] != TN_REQ_ADD) return true;
  return (writes & TN_WRITES_ADD) && out->source < 0;
}

/* The shape at which an elementwise kernel computes what broadcasting has
 * repeated; NULL if no operand is repeated that the kernel writes. A gradient
 * is computed at the shape of the operator's outputs, and so are the outputs
 * and gradients of an operator that stands for one: its heads say which it is.
 */
static const tn_sig *loop_of(const tn__work *w) {
  const tn_op *op = w->desc;
  for (uint32_t i = 0; i < op->n_inputs && i < w->counts.n_in; ++i)
    if (op->inputs[i]->shape_kind == TN_SHAPE_BROADCAST && !w->absent[i])
      return &w->io.in[i];
  if (w->pass != TN_PASS_BACKWARD) return NULL;
  for (uint32_t k = 0; k < w->counts.n_out; ++k)
    if (!(w->in_flags[k] & TN_IN_ABSENT)) return &w->io.out[k];
  return NULL;
}

/* The loop's shape where the output is smaller than that: it is computed there
 * and summed over what was repeated. */
static const tn_sig *sum_of(const tn__work *w, uint32_t i,
                            const tn_kernel *kernel) {
  const tn_tensor *own = &w->out_info[i].array->tensor;
  if (!(kernel->flags & TN_KERNEL_ELEMENTWISE)) return NULL;
  const tn_sig *loop = loop_of(w);
  if (!loop) return NULL;
  if (own->ndim != loop->ndim) return loop;
  return memcmp(own->shape, loop->shape,
                (size_t)own->ndim * sizeof *own->shape) == 0
             ? NULL
             : loop;
}

/* The dtype of the terms of a sum: f32 for halves, where the kernel can write
 * it. Kernels that take part in chains convert what they write; devices sum
 * within one dtype. */
static tn_dtype term_dtype(const tn__work *w, const tn_tensor *own,
                           const tn_kernel *kernel) {
  const bool is_half = own->dtype == TN_F16 || own->dtype == TN_BF16;
  const bool converts = (kernel->flags & TN_KERNEL_CHAIN) != 0;
  return is_half && converts && !w->device->table ? TN_F32 : own->dtype;
}

static tn_code lower_sum(tn__work *w, uint32_t i, const tn_kernel *kernel,
                         const tn_sig *loop) {
  tn__operand *out = &w->out_info[i];
  const tn_spec spec = {term_dtype(w, &out->array->tensor, kernel), loop->ndim,
                        loop->shape};
  TN__TRY(tn__array_create_on(w->device, &spec, &out->temp));
  out->after = w->req[i] == TN_REQ_ADD ? TN__AFTER_SUM_ADD : TN__AFTER_SUM;
  w->req[i] = TN_REQ_WRITE;
  w->out[i] = tn__array_metadata(out->temp);
  return lower_write(w, i, kernel);
}

static tn_code lower_output(tn__work *w, uint32_t i, const tn_kernel *kernel) {
  tn__operand *out = &w->out_info[i];
  meeting m = {-1, false};
  const tn_sig *loop = sum_of(w, i, kernel);
  if (loop) return lower_sum(w, i, kernel, loop);
  if (out->source >= 0) TN__TRY(init_check(w, out));
  if (!out->owned) m = meet_inputs(w, out->array);
  if (in_place(w, i, m, kernel->writes)) {
    w->req[i] = TN_REQ_INPLACE;
    w->alias[i] = m.twin;
    if (shapes_equal(&w->out[i], &w->in[m.twin])) w->out[i] = w->in[m.twin];
    return TN_OK;
  }
  if (!is_direct(w, i, m, kernel->writes)) {
    TN__TRY(twin_create(w, out));
    out->after = w->req[i] == TN_REQ_ADD ? TN__AFTER_ADD : TN__AFTER_COPY;
    w->req[i] = TN_REQ_WRITE;
    w->out[i] = tn__array_metadata(out->temp);
  }
  if (w->req[i] == TN_REQ_ADD) return TN_OK;
  return lower_write(w, i, kernel);
}

/* A gradient that is summed would have the shape of the loop if it was wanted.
 */
static tn_code lower_unwanted(tn__work *w, uint32_t i,
                              const tn_kernel *kernel) {
  tn__operand *out = &w->out_info[i];
  if (w->pass != TN_PASS_BACKWARD || !out->owned) return TN_OK;
  const tn_sig *loop = sum_of(w, i, kernel);
  if (!loop) return TN_OK;
  tn_sig like = *loop;
  like.dtype = out->array->tensor.dtype;
  tn__array_release(out->array);
  out->array = NULL;
  out->owned = 0;
  TN__TRY(tn__work_make(w, out, &like));
  w->out[i] = tn__array_metadata(out->array);
  return TN_OK;
}

tn_code tn__work_lower_outputs(tn__work *w, const tn_kernel *kernel) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i) {
    tn__operand *out = &w->out_info[i];
    if (w->req[i] == TN_REQ_NULL) {
      TN__TRY(lower_unwanted(w, i, kernel));
      continue;
    }
    if (!out->dynamic) {
      TN__TRY(lower_output(w, i, kernel));
      continue;
    }
    /* Its array is made while the kernel runs, so it meets nothing. */
    if (out->array)
      out->after = w->req[i] == TN_REQ_ADD ? TN__AFTER_ADD : TN__AFTER_COPY;
    w->req[i] = TN_REQ_WRITE;
  }
  return TN_OK;
}
