/* SPDX-License-Identifier: Apache-2.0
 * test/drawn_call.h: a part of test/drawn.h: the arrays of a drawn call, the
 * call itself, its gradient, and all that must hold afterwards.
 *
 * Arrays are in rooms of memory between two inaccessible pages: the last byte
 * of most of them touches the page after it, the first byte of the others the
 * page before it. So a kernel that reads or writes one element outside ends
 * the process in that call. An array that is too large for a room has no
 * memory before it is used.
 */
#ifndef TENON_TEST_DRAWN_CALL_H_
#define TENON_TEST_DRAWN_CALL_H_

#include <sys/mman.h>
#include <unistd.h>

#include "tenon/gradient.h"

/* ------------------------------------------------------------------- rooms */

/* False if the system has no memory for them. */
static bool tn_drawn_rooms_open(tn_drawn_room *rooms) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t each = TN_DRAWN_ROOM + page;
  unsigned char *all =
      (unsigned char *)mmap(NULL, TN_DRAWN_ROOMS * each + page, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return false;
  for (size_t i = 0; i < TN_DRAWN_ROOMS; ++i) {
    rooms[i] = (tn_drawn_room){.bytes = all + i * each + page};
    if (mprotect(rooms[i].bytes, TN_DRAWN_ROOM, PROT_READ | PROT_WRITE) != 0)
      return false;
  }
  return true;
}

static void tn_drawn_room_leave(tn_dlpack_versioned *self) {
  tn_drawn_room *room = (tn_drawn_room *)self->manager_ctx;
  room->used = false;
}

static tn_drawn_room *tn_drawn_room_find(tn_drawn *d) {
  for (size_t i = 0; i < TN_DRAWN_ROOMS; ++i)
    if (!d->rooms[i].used) return &d->rooms[i];
  return NULL;
}

/* FNV-1a of the elements. */
static uint64_t tn_drawn_hash(const tn_drawn_room *room) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = room->begin; i < room->end; ++i)
    hash = (hash ^ room->bytes[i]) * 0x100000001b3u;
  return hash;
}

/* Bytes beside the elements, where no inaccessible page is. */
static void tn_drawn_edge(const tn_drawn_room *room, size_t *begin,
                          size_t *end) {
  if (room->begin > 0) {
    *end = room->begin;
    *begin = *end > TN_DRAWN_EDGE ? *end - TN_DRAWN_EDGE : 0;
  } else {
    *begin = room->end;
    *end = *begin + TN_DRAWN_EDGE;
    if (*end > TN_DRAWN_ROOM) *end = TN_DRAWN_ROOM;
  }
}

static void tn_drawn_edge_fill(const tn_drawn_room *room) {
  size_t begin, end;
  tn_drawn_edge(room, &begin, &end);
  memset(room->bytes + begin, TN_DRAWN_PATTERN, end - begin);
}

static bool tn_drawn_edge_holds(const tn_drawn_room *room) {
  size_t begin, end;
  tn_drawn_edge(room, &begin, &end);
  for (; begin < end; ++begin)
    if (room->bytes[begin] != TN_DRAWN_PATTERN) return false;
  return true;
}

/* ---------------------------------------------------------------- elements */

/* Bits of 0, 1, -1, 2, 1/2; then infinity, NaN, the least and the greatest. */
static uint64_t tn_drawn_float(tn_drawn *d, tn_dtype dtype, bool odd) {
  static const double usual[] = {0, 1, -1, 2, 0.5, 3, 1, 0};
  static const uint16_t half[] = {0,      0x3c00, 0xbc00, 0x4000, 0x3800,
                                  0x4200, 0x7c00, 0x7e00, 1,      0x7bff};
  static const uint16_t brain[] = {0,      0x3f80, 0xbf80, 0x4000, 0x3f00,
                                   0x4040, 0x7f80, 0x7fc0, 1,      0x7f7f};
  const double extreme[] = {INFINITY, NAN, -INFINITY, 5e-324, 1.7e308, -0.0};
  const uint32_t k = tn_drawn_below(d, 6);
  double value = odd ? extreme[k] : usual[k];
  float narrow = (float)value;
  uint64_t bits = 0;
  if (dtype == TN_F16) return half[odd ? 4 + k : k];
  if (dtype == TN_BF16) return brain[odd ? 4 + k : k];
  if (dtype == TN_F64)
    memcpy(&bits, &value, sizeof value);
  else
    memcpy(&bits, &narrow, sizeof narrow);
  return bits;
}

enum {                   /* elements of an array */
       TN_DRAWN_INDICES, /* 0 ... 3 */
       TN_DRAWN_SMALL,
       TN_DRAWN_ODD, /* extreme ones among them */
       TN_DRAWN_BITS,
       TN_DRAWN_N_KINDS
};

static bool tn_drawn_is_float(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 ||
         dtype == TN_F64;
}

static uint64_t tn_drawn_element(tn_drawn *d, tn_dtype dtype, uint32_t kind) {
  const bool odd = kind == TN_DRAWN_ODD && tn_drawn_once_in(d, 4);
  if (dtype == TN_BOOL) return tn_drawn_below(d, 2);
  if (kind == TN_DRAWN_BITS || tn_storage_has(dtype)) return tn_drawn_next(d);
  if (tn_drawn_is_float(dtype)) return tn_drawn_float(d, dtype, odd);
  if (odd) return (uint64_t)tn_drawn_extreme(d);
  return kind == TN_DRAWN_INDICES ? tn_drawn_below(d, 4)
                                  : (uint64_t)tn_drawn_below(d, 9) - 4;
}

static void tn_drawn_fill(tn_drawn *d, const tn_drawn_room *room,
                          tn_dtype dtype) {
  const uint32_t kind = tn_drawn_below(d, TN_DRAWN_N_KINDS);
  const size_t bytes = (size_t)tn_dtype_bytes_of(dtype, 1);
  for (size_t at = room->begin; at < room->end; at += bytes) {
    const uint64_t element = tn_drawn_element(d, dtype, kind);
    memcpy(room->bytes + at, &element, bytes);
  }
}

/* ------------------------------------------------------------------ arrays */

/* Dense, with axes in reverse order, every second element, backwards, or with
 * one axis along which elements repeat. */
static void tn_drawn_strides(tn_drawn *d, const tn_sig *sig, int64_t *strides) {
  const uint32_t layout = tn_drawn_below(d, 10);
  const bool reverse = layout == 0;
  int64_t step = layout == 1 ? 2 : layout == 2 ? -1 : 1;
  for (int32_t k = 0; k < sig->ndim; ++k) {
    const int32_t i = reverse ? k : sig->ndim - 1 - k;
    strides[i] = step;
    step *= sig->shape[i];
  }
  if (layout == 3 && sig->ndim > 0)
    strides[tn_drawn_below(d, (uint32_t)sig->ndim)] = 0;
}

/* Bytes of a dense array, at most; false if they are more than a room has. */
static bool tn_drawn_bytes(const tn_sig *sig, size_t *out) {
  size_t n = (size_t)tn_dtype_bytes_of(sig->dtype, 1);
  bool large = false;
  for (int32_t i = 0; i < sig->ndim; ++i) {
    if (sig->shape[i] == 0) {
      *out = 0;
      return true;
    }
    large |= sig->shape[i] > TN_DRAWN_ROOM || n > TN_DRAWN_ROOM;
    if (!large) n *= (size_t)sig->shape[i];
  }
  *out = n;
  return !large && n <= TN_DRAWN_ROOM;
}

/* Places an array of some elements in a room; *first is the first one. */
static void tn_drawn_place(tn_drawn *d, tn_drawn_room *room, const tn_sig *sig,
                           size_t *first) {
  const tn_dtype dtype = sig->dtype;
  int64_t low = 0, high = 0;
  for (int try = tn_dtype_is_packed(dtype); try < 2; ++try) {
    low = high = 0;
    if (try == 0) {
      tn_drawn_strides(d, sig, room->strides);
    } else {
      int64_t step = 1;
      for (int32_t i = sig->ndim; i-- > 0; step *= sig->shape[i])
        room->strides[i] = step;
    }
    for (int32_t i = 0; i < sig->ndim; ++i) {
      const int64_t reach = (sig->shape[i] - 1) * room->strides[i];
      *(reach < 0 ? &low : &high) += reach;
    }
    if (tn_dtype_bytes_of(dtype, high - low + 1) <= TN_DRAWN_ROOM) break;
  }
  const size_t size = (size_t)tn_dtype_bytes_of(dtype, high - low + 1);
  room->begin = tn_drawn_once_in(d, 4) ? 0 : TN_DRAWN_ROOM - size;
  room->end = room->begin + size;
  *first = room->begin + (size_t)tn_dtype_bytes_of(dtype, -low);
}

/* An array of drawn elements; NULL if it cannot be. */
static tn_array *tn_drawn_array(tn_drawn *d, const tn_sig *sig,
                                bool may_change) {
  tn_array *array = NULL;
  size_t bytes = 0, first = 0;
  tn_drawn_room *room = tn_drawn_room_find(d);
  if (sig->ndim < 0 || sig->dtype == TN_DTYPE_UNKNOWN) return NULL;
  if (!tn_drawn_bytes(sig, &bytes) || bytes == 0 || room == NULL) {
    const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
    return tn_array_create(d->rt, &spec, &array) == TN_OK ? array : NULL;
  }
  tn_drawn_place(d, room, sig, &first);
  tn_drawn_edge_fill(room);
  tn_drawn_fill(d, room, sig->dtype);
  memcpy(room->shape, sig->shape, sizeof room->shape);
  room->out = (tn_dlpack_versioned){.major = TN_DLPACK_MAJOR,
                                    .minor = TN_DLPACK_MINOR,
                                    .manager_ctx = room,
                                    .deleter = tn_drawn_room_leave,
                                    .tensor = {.data = room->bytes + first,
                                               .device_type = TN_DEVICE_CPU,
                                               .ndim = sig->ndim,
                                               .dtype = sig->dtype,
                                               .shape = room->shape,
                                               .strides = room->strides}};
  room->used = true;
  room->may_change = may_change;
  room->before = may_change ? 0 : tn_drawn_hash(room);
  if (tn_array_from_dlpack_versioned(d->rt, &room->out, TN_DLPACK_BORROW,
                                     &array) != TN_OK)
    room->used = false;
  return array;
}

static void tn_drawn_make_inputs(tn_drawn *d) {
  for (uint32_t i = 0; i < d->io.n_in; ++i) {
    if (d->in[i].ndim == -2) continue;
    tn_drawn_shape(d, &d->in[i]);
    d->in_arrays[i] = tn_drawn_array(d, &d->in[i], false);
  }
  for (uint32_t i = 0; i < d->io.n_aux; ++i) {
    tn_drawn_shape(d, &d->aux[i]);
    d->in_arrays[d->io.n_in + i] = tn_drawn_array(d, &d->aux[i], true);
  }
}

/* Outputs that are made, given, added to, or not wanted. */
static void tn_drawn_make_outputs(tn_drawn *d, const tn_sig *sigs, uint32_t n,
                                  tn_array **arrays) {
  for (uint32_t i = 0; i < n; ++i) {
    tn_sig sig = sigs[i];
    const bool given = tn_drawn_once_in(d, 2) && !tn_drawn_is_open(&sig);
    d->req[i] = tn_drawn_once_in(d, 8) ? TN_REQ_NULL : TN_REQ_WRITE;
    if (!given || d->req[i] == TN_REQ_NULL) continue;
    if (tn_drawn_once_in(d, 16)) tn_drawn_spoil_shape(d, &sig);
    arrays[i] = tn_drawn_array(d, &sig, true);
    if (arrays[i] != NULL && tn_drawn_once_in(d, 4)) d->req[i] = TN_REQ_ADD;
  }
}

static void tn_drawn_release(tn_array **arrays, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    tn_array_release(arrays[i]);
    arrays[i] = NULL;
  }
}

/* -------------------------------------------------------------------- text */

static size_t tn_drawn_say(const tn_drawn *d, size_t at, const char *format,
                           ...) TN_PRINTF(3, 4);
static size_t tn_drawn_say(const tn_drawn *d, size_t at, const char *format,
                           ...) {
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(d->call + at, TN_DRAWN_CALL - at, format, args);
  va_end(args);
  at += n > 0 ? (size_t)n : 0;
  return at < TN_DRAWN_CALL ? at : TN_DRAWN_CALL - 1;
}

static size_t tn_drawn_say_array(const tn_drawn *d, size_t at,
                                 const tn_array *array) {
  if (array == NULL) return tn_drawn_say(d, at, " -");
  const tn_tensor *t = tn_array_tensor(array);
  at = tn_drawn_say(d, at, " %s(", tn_dtype_name(t->dtype));
  for (int32_t i = 0; i < t->ndim; ++i)
    at = tn_drawn_say(d, at, "%s%" PRId64, i ? "," : "", t->shape[i]);
  return tn_drawn_say(d, at, ")%s", tn_tensor_is_contiguous(t) ? "" : "'");
}

/* Describes the call that follows, for the case that it does not return. */
static void tn_drawn_describe(const tn_drawn *d, const char *pass,
                              tn_array *const *outputs, size_t n) {
  static const char *const requests[] = {" null", "", "", " add"};
  size_t at = tn_drawn_say(d, 0, "%s: {%s} of", pass,
                           d->params != NULL ? d->text : "defaults");
  for (size_t i = 0; i < (size_t)d->io.n_in + d->io.n_aux; ++i)
    at = tn_drawn_say_array(d, at, d->in_arrays[i]);
  at = tn_drawn_say(d, at, " into");
  for (size_t i = 0; i < n; ++i) {
    at = tn_drawn_say_array(d, at, outputs[i]);
    at = tn_drawn_say(d, at, "%s", requests[d->req[i]]);
  }
  ++*d->n_begun;
}

/* ------------------------------------------------------------------- calls */

static bool tn_drawn_fail(tn_drawn *d, const char *format, ...) TN_PRINTF(2, 3);
static bool tn_drawn_fail(tn_drawn *d, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(d->why, sizeof d->why, format, args);
  va_end(args);
  return false;
}

/* Whether a call may end with this code. */
static bool tn_drawn_may_return(tn_drawn *d, tn_code rc) {
  if (rc == TN_OK) return true;
  if (rc > 0 || rc < TN_INTERNAL)
    return tn_drawn_fail(d, "it returned %d, which is no code", (int)rc);
  if (rc == TN_INTERNAL || rc == TN_PLUGIN)
    return tn_drawn_fail(d, "%s: %s", tn_code_name(rc), tn_error_text());
  if (tn_error_text()[0] == '\0')
    return tn_drawn_fail(d, "%s without a text", tn_code_name(rc));
  return true;
}

/* Whether everything that the call was not to change is as it was. */
static bool tn_drawn_is_kept(tn_drawn *d) {
  for (size_t i = 0; i < TN_DRAWN_ROOMS; ++i) {
    const tn_drawn_room *room = &d->rooms[i];
    if (!room->used) continue;
    if (!tn_drawn_edge_holds(room))
      return tn_drawn_fail(d, "bytes beside an array were written");
    if (!room->may_change && tn_drawn_hash(room) != room->before)
      return tn_drawn_fail(d, "an input was written");
  }
  return true;
}

static bool tn_drawn_forward(tn_drawn *d, uint32_t flags, tn_code *rc) {
  const tn_inputs in = {d->io.n_in + d->io.n_aux, d->in_arrays};
  const tn_outputs out = {d->io.n_out, d->out_arrays, d->req};
  tn_drawn_make_outputs(d, d->out, d->io.n_out, d->out_arrays);
  tn_drawn_describe(d, flags ? "training" : "forward", d->out_arrays,
                    d->io.n_out);
  *rc = flags ? tn_call_train(d->rt, d->op, &in, d->params, &out)
              : tn_call(d->rt, d->op, &in, d->params, &out);
  return tn_drawn_may_return(d, *rc) && tn_drawn_is_kept(d);
}

/* Gradients of indices and the like are refused, which hides all others. */
static void tn_drawn_make_gradients(tn_drawn *d) {
  const tn_gradient *g = d->desc->gradient;
  tn_drawn_make_outputs(d, d->in, d->io.n_in, d->slopes);
  for (uint32_t i = 0; i < d->io.n_in; ++i) {
    const uint32_t k = g != NULL && i < g->n_inputs ? i : 0;
    const bool stops = g != NULL && g->n_inputs > 0 && g->inputs[k]->stop;
    if ((!stops && tn_drawn_is_float(d->in[i].dtype) && d->in[i].ndim != -2) ||
        tn_drawn_once_in(d, 12))
      continue;
    tn_array_release(d->slopes[i]);
    d->slopes[i] = NULL;
    d->req[i] = TN_REQ_NULL;
  }
}

/* The gradient of the call, of arrays of which some do not fit. */
static bool tn_drawn_backward(tn_drawn *d, uint32_t flags) {
  tn_drawn_make_gradients(d);
  for (uint32_t i = 0; i < d->io.n_out; ++i) {
    tn_sig sig = d->out[i];
    if (d->out_arrays[i] == NULL) {
      d->out_arrays[i] = tn_drawn_array(d, &sig, false);
    } else {
      const tn_tensor *t = tn_array_tensor(d->out_arrays[i]);
      sig.dtype = t->dtype;
      sig.ndim = t->ndim;
      for (int32_t k = 0; k < t->ndim; ++k) sig.shape[k] = t->shape[k];
    }
    if (tn_drawn_once_in(d, 12)) tn_drawn_spoil_shape(d, &sig);
    if (!tn_drawn_once_in(d, 6)) d->heads[i] = tn_drawn_array(d, &sig, false);
  }
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = flags,
                            .params = d->params,
                            .inputs = {d->io.n_in + d->io.n_aux, d->in_arrays},
                            .outputs = {d->io.n_out, d->out_arrays},
                            .out_grads = {d->io.n_out, d->heads},
                            .in_grads = {d->io.n_in, d->slopes, d->req}};
  tn_drawn_describe(d, "backward", d->slopes, d->io.n_in);
  const tn_code rc = tn_gradient_call(d->rt, d->op, &call);
  d->backward = rc == TN_OK;
  return tn_drawn_may_return(d, rc) && tn_drawn_is_kept(d);
}

/* Whether the library has given back the memory of all arrays. */
static bool tn_drawn_is_released(tn_drawn *d) {
  for (size_t i = 0; i < TN_DRAWN_ROOMS; ++i)
    if (d->rooms[i].used)
      return tn_drawn_fail(d, "an array is in use after all were released");
  return true;
}

/* Makes the draw number `draw` of an operator; TN_DRAWN_*. */
static int tn_drawn_run(tn_drawn *d, uint64_t seed, uint32_t draw) {
  const char *name = tn_operator_name(d->op);
  tn_code rc = TN_INVALID;
  d->random = seed * 0x9e3779b97f4a7c15u + draw;
  for (; *name != '\0'; ++name)
    d->random = (d->random ^ (unsigned char)*name) * 0x100000001b3u;
  d->backward = false;
  (void)tn_drawn_say(d, 0, "drawing parameters and shapes");
  ++*d->n_begun;
  tn_drawn_plan(d);
  tn_drawn_make_inputs(d);
  const uint32_t flags = tn_drawn_once_in(d, 3) ? TN_CALL_TRAIN : 0;
  bool good = tn_drawn_forward(d, flags, &rc);
  if (good && tn_drawn_once_in(d, rc == TN_OK ? 2 : 8))
    good = tn_drawn_backward(d, flags);
  tn_drawn_release(d->in_arrays, 2 * TN_DRAWN_MOST);
  tn_drawn_release(d->out_arrays, TN_DRAWN_MOST);
  tn_drawn_release(d->heads, TN_DRAWN_MOST);
  tn_drawn_release(d->slopes, TN_DRAWN_MOST);
  tn_params_release(d->params);
  d->params = NULL;
  good = good && tn_drawn_is_released(d);
  return !good         ? TN_DRAWN_FAILED
         : rc == TN_OK ? TN_DRAWN_COMPUTED
                       : TN_DRAWN_REFUSED;
}

#endif /* TENON_TEST_DRAWN_CALL_H_ */
