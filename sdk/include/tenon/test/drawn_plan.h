/* SPDX-License-Identifier: Apache-2.0
 * test/drawn_plan.h: a part of test/drawn.h: draws parameters, types and shapes
 * for one call of an operator, from its description alone. Inference completes
 * most of them, so that they fit; then something is changed in half of them.
 */
#ifndef TENON_TEST_DRAWN_PLAN_H_
#define TENON_TEST_DRAWN_PLAN_H_

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tenon/exchange.h"
#include "tenon/kernel/storage.h"
#include "tenon/tenon.h"

enum {
  TN_DRAWN_MOST = 24,    /* operands of a list */
  TN_DRAWN_ROOMS = 128,  /* for arrays of one draw */
  TN_DRAWN_ROOM = 65536, /* bytes of a room */
  TN_DRAWN_TEXT = 6000,  /* characters of parameters */
  TN_DRAWN_TRIES = 96,   /* to find parameters and shapes that fit */
  TN_DRAWN_EDGE = 64,    /* bytes beside an array that are compared */
  TN_DRAWN_PATTERN = 0xa5
};

/* Memory for one array. */
typedef struct tn_drawn_room {
  unsigned char *bytes;    /* between two inaccessible pages */
  tn_dlpack_versioned out; /* how the library gets it */
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
  size_t begin, end; /* of the elements, in `bytes` */
  uint64_t before;   /* hash of the elements of an input */
  bool used;         /* by an array of the library */
  bool may_change;
} tn_drawn_room;

/* How a draw ended. */
enum { TN_DRAWN_REFUSED, TN_DRAWN_COMPUTED, TN_DRAWN_FAILED };

/* One draw. */
typedef struct tn_drawn {
  tn_runtime *rt;
  tn_drawn_room *rooms; /* TN_DRAWN_ROOMS */
  tn_operator *op;
  const tn_op *desc;
  char *call;        /* description for a report, of TN_DRAWN_CALL bytes */
  uint64_t *n_begun; /* steps; counted so that a hang is noticed */
  uint64_t random;   /* state of the numbers drawn */
  bool wild;         /* parameters outside of their declared ranges */
  int32_t rank;      /* that lists of parameters are drawn for */
  char text[TN_DRAWN_TEXT];
  tn_params *params;
  tn_signature io;
  tn_sig in[TN_DRAWN_MOST], out[TN_DRAWN_MOST], aux[TN_DRAWN_MOST];
  tn_array *in_arrays[2 * TN_DRAWN_MOST]; /* and states */
  tn_array *out_arrays[TN_DRAWN_MOST];
  tn_array *heads[TN_DRAWN_MOST];
  tn_array *slopes[TN_DRAWN_MOST];
  tn_req req[TN_DRAWN_MOST];
  bool backward;  /* the gradient was computed, too */
  char why[1024]; /* the reason of TN_DRAWN_FAILED */
} tn_drawn;

enum { TN_DRAWN_CALL = 2 * TN_DRAWN_TEXT + 4000 };

/* ----------------------------------------------------------------- numbers */

/* splitmix64 */
static uint64_t tn_drawn_next(tn_drawn *d) {
  uint64_t x = d->random += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* 0 ... n-1; n > 0. */
static uint32_t tn_drawn_below(tn_drawn *d, uint32_t n) {
  return (uint32_t)((tn_drawn_next(d) >> 32) % n);
}

static bool tn_drawn_once_in(tn_drawn *d, uint32_t n) {
  return tn_drawn_below(d, n) == 0;
}

static int64_t tn_drawn_extreme(tn_drawn *d) {
  static const int64_t values[] = {
      INT64_MIN,  INT64_MAX, INT32_MAX, INT32_MIN,     1ll << 31,
      1ll << 32,  1ll << 40, 1ll << 62, INT64_MAX / 2, -1000000007,
      2147483629, 65537,     1000003,   INT64_MIN + 1};
  return values[tn_drawn_below(d, sizeof values / sizeof *values)];
}

/* -------------------------------------------------------------- parameters */

static void tn_drawn_add(tn_drawn *d, const char *format, ...) TN_PRINTF(2, 3);
static void tn_drawn_add(tn_drawn *d, const char *format, ...) {
  const size_t n = strlen(d->text);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(d->text + n, sizeof d->text - n, format, args);
  va_end(args);
}

static int64_t tn_drawn_int(tn_drawn *d, const tn_field *f) {
  static const int64_t usual[] = {0, 1, 1, 2, 2, 3, 3, 4, -1, 5, 7, 13, -2};
  const bool has_min = (f->flags & TN_FIELD_HAS_MIN) != 0;
  const bool has_max = (f->flags & TN_FIELD_HAS_MAX) != 0;
  const uint32_t kind = tn_drawn_below(d, d->wild ? 4 : 24);
  int64_t v = usual[tn_drawn_below(d, sizeof usual / sizeof *usual)];
  if (kind == 0) v = tn_drawn_extreme(d);
  if (kind == 1 && has_min) v = f->min_int;
  if (kind == 2 && has_max) v = f->max_int;
  if (d->wild && tn_drawn_once_in(d, 3)) return v;
  if (has_min && v < f->min_int) v = f->min_int;
  if (has_max && v > f->max_int) v = f->max_int;
  if ((f->flags & TN_FIELD_NONZERO) != 0 && v == 0)
    v = has_max && f->max_int < 1 ? -1 : 1;
  return v;
}

/* The number in the bounds of a parameter, or one inside if a bound is not
 * allowed itself. */
static double tn_drawn_inside(const tn_field *f, double v) {
  const bool has_min = (f->flags & TN_FIELD_HAS_MIN) != 0;
  const bool has_max = (f->flags & TN_FIELD_HAS_MAX) != 0;
  const bool above = (f->flags & TN_FIELD_ABOVE) != 0;
  const bool below = (f->flags & TN_FIELD_BELOW) != 0;
  const bool low = has_min && (above ? v <= f->min_float : v < f->min_float);
  const bool high = has_max && (below ? v >= f->max_float : v > f->max_float);
  const double middle = has_min && has_max
                            ? f->min_float / 2 + f->max_float / 2
                            : (has_min ? f->min_float + 1 : f->max_float - 1);
  if (low) v = above ? middle : f->min_float;
  if (high) v = below ? middle : f->max_float;
  if ((f->flags & TN_FIELD_NONZERO) != 0 && !(v < 0) && !(v > 0))
    v = has_max && f->max_float < 1 ? -1 : 1;
  return v;
}

static void tn_drawn_add_float(tn_drawn *d, const tn_field *f) {
  static const char *const extreme[] = {"nan",    "inf",  "-inf",   "1e308",
                                        "5e-324", "-0",   "-1e308", "1e-45",
                                        "3.5e38", "1e19", "65520",  "-1e-300"};
  static const double usual[] = {0, 1, 1, 0.5, 2, 1e-5, 0.9, -0.5, -1, 3};
  const uint32_t kind = tn_drawn_below(d, d->wild ? 4 : 24);
  double v = usual[tn_drawn_below(d, sizeof usual / sizeof *usual)];
  if (kind == 0) {
    const uint32_t n = sizeof extreme / sizeof *extreme;
    tn_drawn_add(d, "%s", extreme[tn_drawn_below(d, n)]);
    return;
  }
  if (kind == 1 && f->flags & TN_FIELD_HAS_MIN) v = f->min_float;
  if (kind == 2 && f->flags & TN_FIELD_HAS_MAX) v = f->max_float;
  if (!d->wild) v = tn_drawn_inside(f, v);
  tn_drawn_add(d, "%.17g", v);
}

/* In the order of TN_BIT_*. */
static const tn_dtype tn_drawn_types[] = {
    TN_F16,    TN_BF16,     TN_F32,        TN_F64,    TN_I8,         TN_I16,
    TN_I32,    TN_I64,      TN_U8,         TN_U16,    TN_U32,        TN_U64,
    TN_BOOL,   TN_F8E4M3FN, TN_F8E4M3FNUZ, TN_F8E5M2, TN_F8E5M2FNUZ, TN_F8E8M0,
    TN_F4E2M1, TN_I4,       TN_U4,         TN_I2,     TN_U2};
enum { TN_DRAWN_TYPES = sizeof tn_drawn_types / sizeof *tn_drawn_types };

/* One of the types in a set of TN_BIT_*; f32 a third of the time. */
static tn_dtype tn_drawn_type(tn_drawn *d, uint64_t allowed) {
  tn_dtype types[TN_DRAWN_TYPES];
  uint32_t n = 0;
  if (allowed & TN_BIT_F32 && tn_drawn_once_in(d, 3)) return TN_F32;
  for (uint32_t i = 0; i < TN_DRAWN_TYPES; ++i)
    if (allowed >> i & 1) types[n++] = tn_drawn_types[i];
  return n > 0 ? types[tn_drawn_below(d, n)] : TN_F32;
}

/* A name of an element type, of those that the parameter takes nearly always.
 */
static const char *tn_drawn_type_value(tn_drawn *d, const tn_field *f) {
  const bool wild = d->wild && tn_drawn_once_in(d, 3);
  if (f->n_values > 0 && !wild)
    return f->values[tn_drawn_below(d, f->n_values)];
  return tn_dtype_name(tn_drawn_type(d, wild ? ~0ull : ~TN_BITS_STORAGE));
}

/* How many elements a list gets: most lists have one per axis. */
static uint32_t tn_drawn_length(tn_drawn *d, const tn_field *f) {
  const uint32_t rank = (uint32_t)d->rank;
  const uint32_t usual[] = {rank,
                            rank,
                            2 * rank,
                            rank > 2 ? rank - 2 : 1,
                            0,
                            1,
                            tn_drawn_below(d, 4)};
  uint32_t n = usual[tn_drawn_below(d, sizeof usual / sizeof *usual)];
  if (d->wild && tn_drawn_once_in(d, 8)) {
    static const uint32_t many[] = {16, 17, 32, 33, 200};
    return many[tn_drawn_below(d, sizeof many / sizeof *many)];
  }
  if (d->wild && tn_drawn_once_in(d, 4)) return n;
  if (n < f->min_rank) n = f->min_rank;
  if (f->max_rank != TN_NONE && n > f->max_rank) n = f->max_rank;
  return n;
}

static void tn_drawn_add_list(tn_drawn *d, const tn_field *f) {
  const uint32_t n = tn_drawn_length(d, f);
  const bool alike = tn_drawn_once_in(d, 2);
  const int64_t first = tn_drawn_int(d, f);
  tn_drawn_add(d, "[");
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0) tn_drawn_add(d, ",");
    if (f->type == TN_FIELD_FLOATS)
      tn_drawn_add_float(d, f);
    else
      tn_drawn_add(d, "%" PRId64, alike ? first : tn_drawn_int(d, f));
  }
  tn_drawn_add(d, "]");
}

static void tn_drawn_add_value(tn_drawn *d, const tn_field *f) {
  /* lists and equations of labels among them */
  static const char *const texts[] = {"\"\"",      "x",       "\"two words\"",
                                      "%s%n",      ",",       "i,j->ji",
                                      "ij,jk->ik", "\"i, i\""};
  switch (f->type) {
    case TN_FIELD_BOOL:
      tn_drawn_add(d, "%s", tn_drawn_once_in(d, 2) ? "true" : "false");
      break;
    case TN_FIELD_INT:
      tn_drawn_add(d, "%" PRId64, tn_drawn_int(d, f));
      break;
    case TN_FIELD_FLOAT:
      tn_drawn_add_float(d, f);
      break;
    case TN_FIELD_ENUM:
      tn_drawn_add(d, "%s", f->values[tn_drawn_below(d, f->n_values)]);
      break;
    case TN_FIELD_DTYPE:
      tn_drawn_add(d, "%s", tn_drawn_type_value(d, f));
      break;
    case TN_FIELD_STRING:
      tn_drawn_add(d, "%s", texts[tn_drawn_below(d, 8)]);
      break;
    default:
      tn_drawn_add_list(d, f);
  }
}

/* The text of all parameters; those with a default are often left out. */
static void tn_drawn_parameters(tn_drawn *d) {
  d->text[0] = '\0';
  for (uint32_t i = 0; i < d->desc->n_params; ++i) {
    const tn_field *f = d->desc->params[i];
    if ((f->flags & TN_FIELD_REQUIRED) == 0 && tn_drawn_once_in(d, 2)) continue;
    tn_drawn_add(d, "%s%s=", d->text[0] ? " " : "", f->name);
    if (f->flags & TN_FIELD_OPTIONAL && tn_drawn_once_in(d, 8))
      tn_drawn_add(d, "None");
    else
      tn_drawn_add_value(d, f);
  }
}

/* ------------------------------------------------------------------ shapes */

static int64_t tn_drawn_dimension(tn_drawn *d) {
  static const int64_t usual[] = {1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 7, 8, 0};
  static const int64_t odd[] = {13, 17, 31, 64, 97, 257, 1031};
  if (tn_drawn_once_in(d, 12)) return odd[tn_drawn_below(d, 7)];
  return usual[tn_drawn_below(d, sizeof usual / sizeof *usual)];
}

/* Makes known the parts of a shape that are not. */
static void tn_drawn_shape(tn_drawn *d, tn_sig *sig) {
  if (sig->ndim < 0) {
    sig->ndim =
        tn_drawn_once_in(d, 3) ? (int32_t)tn_drawn_below(d, 6) : d->rank;
    for (int32_t i = 0; i < sig->ndim; ++i) sig->shape[i] = -1;
  }
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0) sig->shape[i] = tn_drawn_dimension(d);
}

static bool tn_drawn_is_open(const tn_sig *sig) {
  if (sig->ndim == -2) return false;
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0) return true;
  return sig->ndim < 0 || sig->dtype == TN_DTYPE_UNKNOWN;
}

/* Decides one operand of a list that inference has left open; false if there is
 * none. It begins anywhere: the shapes of some follow from those of others, but
 * not in every direction. */
static bool tn_drawn_decide_one(tn_drawn *d, tn_sig *sigs, uint32_t n) {
  const uint32_t first = n > 0 ? tn_drawn_below(d, n) : 0;
  for (uint32_t i = 0; i < n; ++i) {
    tn_sig *sig = &sigs[(first + i) % n];
    if (!tn_drawn_is_open(sig)) continue;
    tn_drawn_shape(d, sig);
    if (sig->dtype == TN_DTYPE_UNKNOWN) sig->dtype = tn_drawn_type(d, ~0ull);
    return true;
  }
  return false;
}

static bool tn_drawn_decide(tn_drawn *d) {
  return tn_drawn_decide_one(d, d->in, d->io.n_in) ||
         tn_drawn_decide_one(d, d->aux, d->io.n_aux) ||
         tn_drawn_decide_one(d, d->out, d->io.n_out);
}

/* One that a variadic or counted last operand represents many times. */
static const tn_arg *tn_drawn_arg(const tn_arg *const *args, uint32_t n,
                                  uint32_t i) {
  return args[i < n ? i : n - 1];
}

/* An operand of which only the type is known. */
static void tn_drawn_operand(const tn_arg *arg, const tn_dtype *types,
                             tn_sig *sig) {
  sig->ndim = -1;
  sig->dtype = arg->dtype_var != TN_NONE     ? types[arg->dtype_var]
               : arg->dtype_param != TN_NONE ? TN_DTYPE_UNKNOWN
                                             : arg->dtype;
}

/* Draws how many operands there are, their types, and which are absent. */
static void tn_drawn_begin(tn_drawn *d) {
  const tn_op *op = d->desc;
  tn_dtype types[TN_DRAWN_MOST] = {0};
  for (uint32_t i = 0; i < op->n_dtype_vars && i < TN_DRAWN_MOST; ++i)
    types[i] = tn_drawn_type(d, op->dtype_vars[i]->allowed);
  d->io = (tn_signature){.n_in = op->n_inputs,
                         .n_out = op->n_outputs,
                         .n_aux = op->n_aux,
                         .in = d->in,
                         .out = d->out,
                         .aux = d->aux};
  if (op->n_inputs > 0 && op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC)
    d->io.n_in += tn_drawn_below(d, 5) - 1;
  if (d->io.n_in > TN_DRAWN_MOST) d->io.n_in = TN_DRAWN_MOST;
  uint32_t n_out = d->io.n_out;
  if (tn_operator_outputs(d->op, d->params, d->io.n_in, &n_out, NULL) == TN_OK)
    d->io.n_out = n_out;
  if (d->io.n_out > TN_DRAWN_MOST) d->io.n_out = TN_DRAWN_MOST;
  if (d->io.n_aux > TN_DRAWN_MOST) d->io.n_aux = TN_DRAWN_MOST;
  for (uint32_t i = 0; i < d->io.n_in; ++i) {
    const tn_arg *arg = tn_drawn_arg(op->inputs, op->n_inputs, i);
    tn_drawn_operand(arg, types, &d->in[i]);
    if (arg->flags & TN_ARG_OPTIONAL && tn_drawn_once_in(d, 2))
      d->in[i].ndim = -2;
  }
  for (uint32_t i = 0; i < d->io.n_out; ++i)
    tn_drawn_operand(tn_drawn_arg(op->outputs, op->n_outputs, i), types,
                     &d->out[i]);
  for (uint32_t i = 0; i < d->io.n_aux; ++i)
    tn_drawn_operand(op->aux[i], types, &d->aux[i]);
}

/* A call that the rules of the operator allow. */
static bool tn_drawn_complete(tn_drawn *d) {
  for (int i = 0; i < 3 * TN_DRAWN_MOST; ++i) {
    const tn_code rc = tn_operator_infer(d->op, d->params, &d->io);
    if (rc == TN_OK) return true;
    if (rc != TN_INCOMPLETE || !tn_drawn_decide(d)) return false;
  }
  return false;
}

static bool tn_drawn_parse(tn_drawn *d) {
  tn_params *params = NULL;
  if (tn_params_parse(d->op, d->text, &params) != TN_OK) return false;
  tn_params_release(d->params);
  d->params = params;
  return true;
}

/* Parameters and shapes that fit, if they are found. */
static bool tn_drawn_fit(tn_drawn *d) {
  bool parsed = false;
  for (int i = 0; i < TN_DRAWN_TRIES; ++i) {
    if (i % 3 == 0) {
      d->rank = (int32_t)tn_drawn_below(d, 6);
      tn_drawn_parameters(d);
      parsed = tn_drawn_parse(d);
    }
    if (!parsed) continue;
    tn_drawn_begin(d);
    if (tn_drawn_complete(d)) return true;
  }
  return false;
}

/* ---------------------------------------------------------------- mistakes */

/* A shape that has nothing to do with any other. */
static void tn_drawn_wild_shape(tn_drawn *d, tn_sig *sig) {
  sig->ndim = (int32_t)tn_drawn_below(d, tn_drawn_once_in(d, 8) ? 17 : 5);
  for (int32_t i = 0; i < sig->ndim; ++i) {
    sig->shape[i] = tn_drawn_dimension(d);
    if (tn_drawn_once_in(d, 16))
      sig->shape[i] = tn_drawn_extreme(d) & INT64_MAX;
  }
}

static void tn_drawn_spoil_shape(tn_drawn *d, tn_sig *sig) {
  if (sig->ndim < 0 || tn_drawn_once_in(d, 6)) {
    tn_drawn_wild_shape(d, sig);
    return;
  }
  const uint32_t how = tn_drawn_below(d, 5);
  if (how == 0 && sig->ndim < TN_MAX_NDIM) {
    sig->shape[sig->ndim++] = tn_drawn_dimension(d);
  } else if (how == 1 && sig->ndim > 0) {
    --sig->ndim;
  } else if (sig->ndim > 0) {
    int64_t *dim = &sig->shape[tn_drawn_below(d, (uint32_t)sig->ndim)];
    *dim = how == 2   ? tn_drawn_dimension(d)
           : how == 3 ? *dim + (*dim < INT64_MAX)
                      : *dim - (*dim > 0);
  }
}

/* An operand of the call, or NULL. */
static tn_sig *tn_drawn_any(tn_drawn *d) {
  const uint32_t n = d->io.n_in + d->io.n_aux;
  if (n == 0) return NULL;
  const uint32_t i = tn_drawn_below(d, n);
  return i < d->io.n_in ? &d->in[i] : &d->aux[i - d->io.n_in];
}

/* Other parameters for the same shapes. */
static void tn_drawn_spoil_parameters(tn_drawn *d) {
  d->wild = tn_drawn_once_in(d, 3);
  for (int i = 0; i < 4; ++i) {
    tn_drawn_parameters(d);
    if (tn_drawn_parse(d)) return;
  }
}

/* Changes something of a call that fitted. */
static void tn_drawn_spoil(tn_drawn *d) {
  tn_sig *sig = tn_drawn_any(d), *other = tn_drawn_any(d);
  switch (tn_drawn_below(d, 8)) {
    case 0:
    case 1:
    case 2:
      tn_drawn_spoil_parameters(d);
      break;
    case 3:
      if (sig != NULL) sig->dtype = tn_drawn_type(d, ~0ull);
      break;
    case 4:
      if (d->io.n_in < TN_DRAWN_MOST)
        d->in[d->io.n_in++] = (tn_sig){.dtype = TN_F32, .ndim = 0};
      break;
    case 5:
      if (d->io.n_in > 0) --d->io.n_in;
      break;
    case 6:
      if (sig != NULL) *sig = *other;
      break;
    default:
      if (sig != NULL) tn_drawn_spoil_shape(d, sig);
  }
}

/* Draws everything but the arrays. */
static void tn_drawn_plan(tn_drawn *d) {
  d->wild = false;
  d->rank = (int32_t)tn_drawn_below(d, 6);
  tn_drawn_begin(d);
  const bool fits = tn_drawn_fit(d);
  if (!fits && !tn_drawn_once_in(d, 2)) return;
  if (tn_drawn_once_in(d, 12)) {
    tn_drawn_spoil_parameters(d);
    for (uint32_t i = 0; i < d->io.n_in; ++i) tn_drawn_wild_shape(d, &d->in[i]);
    for (uint32_t i = 0; i < d->io.n_aux; ++i)
      tn_drawn_wild_shape(d, &d->aux[i]);
  } else if (tn_drawn_once_in(d, 2)) {
    do tn_drawn_spoil(d);
    while (tn_drawn_once_in(d, 4));
  }
}

#endif /* TENON_TEST_DRAWN_PLAN_H_ */
