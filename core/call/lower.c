/* SPDX-License-Identifier: Apache-2.0
 * lower.c: turns requests and layouts that a kernel does not support into ones
 * that it supports. Requests become declared ones, with a temporary where the
 * old content or an input must survive. Layouts become dense where the operator
 * requires it. This file only decides; call_run.c allocates and copies.
 */
#include <string.h>

#include "call.h"
#include "tenon/draft/registers.h"
#include "tenon/plugin/device.h"

static bool needs_dense(const tn__operand *operand, const tn_tensor *tensor) {
  return (operand->arg->flags & TN_ARG_CONTIGUOUS) &&
         !tn_tensor_is_contiguous(tensor);
}

/* Creates a dense array of the same shape and dtype. */
static tn_code create_dense(tn__call_state *s, tn__operand *operand) {
  const tn_tensor *own = &operand->array->tensor;
  const tn_spec spec = {own->dtype, own->ndim, own->shape};
  return tn__array_create_on(s->device, &spec, &operand->temp);
}

tn_code tn__call_lower_inputs(tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_in; ++i) {
    tn__operand *operand = &s->in_info[i];
    if (!tn__input_is_read(s->in_flags[i])) continue;
    if (!needs_dense(operand, &operand->array->tensor)) continue;
    TN__TRY(create_dense(s, operand));
    s->in[i] = tn__array_metadata(operand->temp);
    s->in_flags[i] |= TN_IN_CONTIGUOUS;
  }
  return TN_OK;
}

tn_code tn__call_lower_states(tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_aux; ++i) {
    tn__operand *operand = &s->aux_info[i];
    if (!operand->array || !needs_dense(operand, &operand->array->tensor))
      continue;
    TN__TRY(create_dense(s, operand));
    s->aux[i] = tn__array_metadata(operand->temp);
    if (tn__call_changes_state(operand->arg, s->flags))
      operand->after = TN__AFTER_COPY;
  }
  return TN_OK;
}

/* Relation of the memory of an output to that of the inputs, as the kernel gets
 * them: the input that it is an alias of, or -1, and whether it overlaps
 * another one. */
typedef struct input_overlap {
  int32_t alias_of;
  bool touches;
} input_overlap;

static input_overlap compare_inputs(const tn__call_state *s,
                                    const tn_array *array) {
  input_overlap found = {-1, false};
  for (uint32_t i = 0; i < s->launch.frame.n_in; ++i) {
    const tn__operand *in = &s->in_info[i];
    if (!tn__input_is_read(s->in_flags[i])) continue;
    if (in->temp) continue; /* the kernel gets the copy */
    int how = tn__arrays_overlap(array, in->array);
    if (how == TN__ALIAS && found.alias_of < 0)
      found.alias_of = (int32_t)i;
    else if (how != TN__DISJOINT)
      found.touches = true;
  }
  return found;
}

static bool is_aliased(const tn__call_state *s, uint32_t in) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i)
    if (s->alias[i] == (int32_t)in) return true;
  return false;
}

static tn__pairs pairs_of(const tn__call_state *s, const tn_kernel *kernel) {
  return (tn__pairs){kernel, s->desc, s->counts.n_in, s->counts.n_out};
}

/* True if the kernel may work in the memory of the input that the caller passed
 * as the output. */
static bool can_work_in_place(const tn__call_state *s, uint32_t i,
                              input_overlap found, const tn_kernel *kernel) {
  const tn__operand *out = &s->out_info[i];
  const tn__pairs pairs = pairs_of(s, kernel);
  return found.alias_of >= 0 && !found.touches && s->req[i] == TN_REQ_WRITE &&
         tn__pairs_has(&pairs, (tn_inplace){(uint32_t)found.alias_of, i}) &&
         !is_aliased(s, (uint32_t)found.alias_of) &&
         (out->source < 0 || out->source == found.alias_of) &&
         !needs_dense(out, &out->array->tensor);
}

static bool has_equal_shape(const tn_tensor *a, const tn_tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* True if an array can start as a copy of input `in`. */
static bool is_like_input(const tn__call_state *s, const tn__operand *out,
                          uint32_t in) {
  const tn_tensor *a = &out->array->tensor, *b = &s->in[in];
  return a->dtype == b->dtype && has_equal_shape(a, b);
}

static tn_code check_init(const tn__call_state *s, const tn__operand *out) {
  char text[TN__OPERAND_TEXT];
  const tn_tensor *in = &s->in[out->source], *t = &out->array->tensor;
  if (s->in_flags[out->source] & TN_IN_ABSENT) return TN_OK;
  if (is_like_input(s, out, (uint32_t)out->source)) return TN_OK;
  tn__fail(TN_SHAPE, "%s: %s starts as a copy of input `%s`, so it must be",
           s->op->name, tn__operand_text(out, text),
           s->in_info[out->source].arg->name);
  tn__fail_tensor(TN_SHAPE, in->dtype, in->ndim, in->shape);
  tn__fail_more(TN_SHAPE, ", but it is");
  tn__fail_tensor(TN_SHAPE, t->dtype, t->ndim, t->shape);
  return TN_SHAPE;
}

/* A kernel that works only in place gets a copy of the input, as its input and
 * as its output. */
static bool use_copy_of(tn__call_state *s, uint32_t i, uint32_t in) {
  tn__operand *out = &s->out_info[i];
  if (in >= s->launch.frame.n_in || is_aliased(s, in)) return false;
  if (!tn__input_is_read(s->in_flags[in])) return false;
  if (out->source >= 0 && (uint32_t)out->source != in) return false;
  if (!is_like_input(s, out, in)) return false;
  out->before = TN__BEFORE_COPY;
  out->source = (int32_t)in;
  s->req[i] = TN_REQ_INPLACE;
  s->alias[i] = (int32_t)in;
  s->in[in] = s->out[i];
  s->in_flags[in] |= TN_IN_CONTIGUOUS; /* is_direct() has checked it */
  return true;
}

/* The same for the first possible input. */
static bool use_input_copy(tn__call_state *s, uint32_t i,
                           const tn_kernel *kernel) {
  const tn__pairs pairs = pairs_of(s, kernel);
  const uint32_t n = tn__pairs_count(&pairs);
  tn_inplace pair;
  for (uint32_t k = 0; k < n; ++k)
    if (tn__pairs_get(&pairs, k, &pair) && pair.out == i &&
        use_copy_of(s, i, pair.in))
      return true;
  return false;
}

/* Turns a request to overwrite into one that the kernel supports. */
static tn_code lower_write(tn__call_state *s, uint32_t i,
                           const tn_kernel *kernel) {
  tn__operand *out = &s->out_info[i];
  if (kernel->writes & TN_WRITES_WRITE) {
    if (out->source >= 0) {
      bool absent = (s->in_flags[out->source] & TN_IN_ABSENT) != 0;
      out->before = absent ? TN__BEFORE_ZERO : TN__BEFORE_COPY;
    }
    return TN_OK;
  }
  if (use_input_copy(s, i, kernel)) return TN_OK;
  if ((kernel->writes & TN_WRITES_ADD) && out->source < 0) {
    out->before = TN__BEFORE_ZERO;
    s->req[i] = TN_REQ_ADD;
    return TN_OK;
  }
  return tn__fail(TN_PLUGIN,
                  "%s: kernel %s declares no request that its"
                  " output `%s` can be written with (writes is 0x%x)",
                  s->op->name, kernel->id, out->arg->name,
                  (unsigned)kernel->writes);
}

/* True if the kernel may work in the output's own memory. For a kernel that
 * cannot overwrite, that memory may get a copy of an input and must be dense.
 */
static bool is_direct(const tn__call_state *s, uint32_t i, input_overlap found,
                      uint32_t writes) {
  const tn__operand *out = &s->out_info[i];
  const tn_tensor *t = &out->array->tensor;
  if (found.alias_of >= 0 || found.touches || needs_dense(out, t)) return false;
  if (!(writes & TN_WRITES_WRITE) && !tn_tensor_is_contiguous(t)) return false;
  if (s->req[i] != TN_REQ_ADD) return true;
  return (writes & TN_WRITES_ADD) && out->source < 0;
}

/* The shape of the loop of an elementwise kernel, with broadcast dimensions;
 * NULL if the kernel writes no operand that is repeated. A gradient is computed
 * at the shape of the operator's outputs. So are outputs and gradients of an
 * operator that represents a gradient: an input with the shape kind of a
 * broadcast shows that. */
static const tn_sig *loop_of(const tn__call_state *s) {
  const tn_op *op = s->desc;
  for (uint32_t i = 0; i < op->n_inputs && i < s->counts.n_in; ++i)
    if (op->inputs[i]->shape_kind == TN_SHAPE_BROADCAST && !s->absent[i])
      return &s->io.in[i];
  if (s->pass != TN_PASS_BACKWARD) return NULL;
  for (uint32_t k = 0; k < s->counts.n_out; ++k)
    if (!(s->in_flags[k] & TN_IN_ABSENT)) return &s->io.out[k];
  return NULL;
}

/* The loop's shape if the output is smaller: it is computed at that shape and
 * summed over the broadcast dimensions. */
static const tn_sig *sum_of(const tn__call_state *s, uint32_t i,
                            const tn_kernel *kernel) {
  const tn_tensor *own = &s->out_info[i].array->tensor;
  if (!(kernel->flags & TN_KERNEL_ELEMENTWISE)) return NULL;
  const tn_sig *loop = loop_of(s);
  if (!loop) return NULL;
  if (own->ndim != loop->ndim) return loop;
  return memcmp(own->shape, loop->shape,
                (size_t)own->ndim * sizeof *own->shape) == 0
             ? NULL
             : loop;
}

/* The dtype of the terms of a sum: f32 for f16 and bf16, if the kernel can
 * write it and the device can sum it. Kernels that take part in register runs
 * convert the values that they write. */
static tn_dtype term_dtype(const tn__call_state *s, const tn_tensor *own,
                           const tn_kernel *kernel) {
  const bool is_half = own->dtype == TN_F16 || own->dtype == TN_BF16;
  const bool converts =
      (kernel->flags & (TN_KERNEL_REGISTERS | TN_KERNEL_WIDE_OUT)) != 0;
  return is_half && converts && tn__elements_can_sum_wide(s->device)
             ? TN_F32
             : own->dtype;
}

static tn_code lower_sum(tn__call_state *s, uint32_t i, const tn_kernel *kernel,
                         const tn_sig *loop) {
  tn__operand *out = &s->out_info[i];
  const tn_spec spec = {term_dtype(s, &out->array->tensor, kernel), loop->ndim,
                        loop->shape};
  TN__TRY(tn__array_create_on(s->device, &spec, &out->temp));
  out->after = s->req[i] == TN_REQ_ADD ? TN__AFTER_SUM_ADD : TN__AFTER_SUM;
  s->req[i] = TN_REQ_WRITE;
  s->out[i] = tn__array_metadata(out->temp);
  return lower_write(s, i, kernel);
}

static tn_code lower_output(tn__call_state *s, uint32_t i,
                            const tn_kernel *kernel) {
  tn__operand *out = &s->out_info[i];
  input_overlap found = {-1, false};
  const tn_sig *loop = sum_of(s, i, kernel);
  if (loop) return lower_sum(s, i, kernel, loop);
  if (out->source >= 0) TN__TRY(check_init(s, out));
  if (!out->owned) found = compare_inputs(s, out->array);
  if (can_work_in_place(s, i, found, kernel)) {
    s->req[i] = TN_REQ_INPLACE;
    s->alias[i] = found.alias_of;
    if (has_equal_shape(&s->out[i], &s->in[found.alias_of]))
      s->out[i] = s->in[found.alias_of];
    return TN_OK;
  }
  if (!is_direct(s, i, found, kernel->writes)) {
    TN__TRY(create_dense(s, out));
    out->after = s->req[i] == TN_REQ_ADD ? TN__AFTER_ADD : TN__AFTER_COPY;
    s->req[i] = TN_REQ_WRITE;
    s->out[i] = tn__array_metadata(out->temp);
  }
  if (s->req[i] == TN_REQ_ADD) return TN_OK;
  return lower_write(s, i, kernel);
}

/* Gives a gradient that is not requested the shape of the loop, as if it were
 * requested and summed. */
static tn_code lower_unwanted(tn__call_state *s, uint32_t i,
                              const tn_kernel *kernel) {
  tn__operand *out = &s->out_info[i];
  if (s->pass != TN_PASS_BACKWARD || !out->owned) return TN_OK;
  const tn_sig *loop = sum_of(s, i, kernel);
  if (!loop) return TN_OK;
  tn_sig like = *loop;
  like.dtype = out->array->tensor.dtype;
  tn__array_release(out->array);
  out->array = NULL;
  out->owned = 0;
  TN__TRY(tn__call_create_array(s, out, &like));
  s->out[i] = tn__array_metadata(out->array);
  return TN_OK;
}

tn_code tn__call_lower_outputs(tn__call_state *s, const tn_kernel *kernel) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i) {
    tn__operand *out = &s->out_info[i];
    if (s->req[i] == TN_REQ_NULL) {
      TN__TRY(lower_unwanted(s, i, kernel));
      continue;
    }
    if (!out->dynamic) {
      TN__TRY(lower_output(s, i, kernel));
      continue;
    }
    /* Its array is created while the kernel runs, so it overlaps nothing. */
    if (out->array)
      out->after = s->req[i] == TN_REQ_ADD ? TN__AFTER_ADD : TN__AFTER_COPY;
    s->req[i] = TN_REQ_WRITE;
  }
  return TN_OK;
}
