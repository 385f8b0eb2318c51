/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn.c: see fake_cudnn.h. Descriptors are lists of attributes; `rules`
 * lists the known ones (fake_cudnn_rules.c). A descriptor keeps references to
 * others, not copies, so that an early destruction is noticed.
 */
#include "fake_cudnn.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudnn_conv.h"
#include "fake_cudnn_parts.h"
#include "kernels.h"

#define DECLARE(field, symbol, arguments) int symbol arguments;
DNN_FUNCTIONS(DECLARE)
#undef DECLARE
size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char *to, size_t bytes);

enum { MOST_BYTES = 8 * MOST_VALUES };
enum { WORKSPACE = 4096 }; /* of all engines but the fallback */

/* ------------------------------------------------------------- descriptors */

static struct {
  pthread_mutex_t lock;
  descriptor *living;
  fake_cudnn_counts counts;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local char last_error[160];
static char told[160];

int refuse(int status, const char *why) {
  (void)snprintf(last_error, sizeof last_error, "%s", why);
  return status;
}

static int is_living(const void *given) {
  (void)pthread_mutex_lock(&all.lock);
  const descriptor *d = all.living;
  while (d && d != given) d = d->next;
  (void)pthread_mutex_unlock(&all.lock);
  return d != NULL;
}

/* A descriptor that lives and is finalized; NULL otherwise. */
static descriptor *final_of(void *given, int type) {
  descriptor *d = given;
  if (!is_living(given)) {
    fake_violate(fake_cuda(), "uses a cuDNN descriptor that was destroyed");
    return NULL;
  }
  return d->is_final && d->type == type ? d : NULL;
}

const attribute *find(const descriptor *d, int name) {
  for (int i = 0; i < d->n; ++i)
    if (d->all[i].name == name) return &d->all[i];
  return NULL;
}

int word(const descriptor *d, int name) {
  return find(d, name)->v.words[0];
}

const int64_t *ints(const descriptor *d, int name) {
  return find(d, name)->v.ints;
}

static double factor(const descriptor *d, int name) {
  const attribute *a = find(d, name);
  return a->type == DNN_DOUBLE ? a->v.wide : (double)a->v.single;
}

const descriptor *part(const descriptor *d, int name) {
  void *given = find(d, name)->v.pointers[0];
  if (is_living(given)) return given;
  fake_violate(fake_cuda(), "uses a cuDNN descriptor that was destroyed");
  return NULL;
}

/* ----------------------------------------------------------- the library's */

size_t cudnnGetVersion(void) {
  const char *version = getenv("FAKE_CUDNN_VERSION");
  return version ? strtoull(version, NULL, 10) : 91900;
}

const char *cudnnGetErrorString(int status) {
  return status / 1000 == 3   ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status / 1000 == 2 ? "CUDNN_STATUS_BAD_PARAM"
         : status / 1000 == 5 ? "CUDNN_STATUS_EXECUTION_FAILED"
                              : "CUDNN_STATUS_NOT_INITIALIZED";
}

void cudnnGetLastErrorString(char *to, size_t bytes) {
  (void)snprintf(to, bytes, "%s", last_error);
}

int cudnnCreate(dnn_handle *out) {
  if (!fake_cuda()) return refuse(NOT_INITIALIZED, "there is no driver");
  const int device = fake_cuda_device();
  *out = calloc(1, sizeof **out);
  if (!*out) abort();
  (*out)->device = device;
  (void)pthread_mutex_lock(&all.lock);
  ++all.counts.handles;
  (void)pthread_mutex_unlock(&all.lock);
  return DNN_OK;
}

static void check_device(dnn_handle handle) {
  if (fake_cuda_device() != handle->device)
    fake_violate(fake_cuda(), "uses a cuDNN handle of another device");
}

int cudnnDestroy(dnn_handle handle) {
  check_device(handle);
  free(handle);
  (void)pthread_mutex_lock(&all.lock);
  --all.counts.handles;
  (void)pthread_mutex_unlock(&all.lock);
  return DNN_OK;
}

int cudnnSetStream(dnn_handle handle, void *stream) {
  check_device(handle);
  handle->stream = stream;
  return DNN_OK;
}

void fake_count(int objects, int executed) {
  (void)pthread_mutex_lock(&all.lock);
  all.counts.descriptors += objects;
  all.counts.executed += executed;
  (void)pthread_mutex_unlock(&all.lock);
}

void fake_enter(dnn_handle handle) {
  check_device(handle);
  if (__atomic_exchange_n(&handle->is_busy, 1, __ATOMIC_ACQ_REL))
    fake_violate(fake_cuda(), "two threads use one cuDNN handle");
}

void fake_leave(dnn_handle handle) {
  __atomic_store_n(&handle->is_busy, 0, __ATOMIC_RELEASE);
}

fake_cudnn_counts fake_cudnn_counts_get(void) {
  (void)pthread_mutex_lock(&all.lock);
  const fake_cudnn_counts counts = all.counts;
  (void)pthread_mutex_unlock(&all.lock);
  return counts;
}

int fake_cudnn_engine(dnn_descriptor plan) {
  return ((const descriptor *)plan)->engine;
}

const char *fake_cudnn_end(void) {
  const fake_cudnn_counts counts = fake_cudnn_counts_get();
  if (counts.descriptors == 0 && counts.handles == 0) return NULL;
  (void)snprintf(told, sizeof told, "%lld descriptors and %lld handles left",
                 (long long)counts.descriptors, (long long)counts.handles);
  all.counts.descriptors = all.counts.handles = 0;
  all.living = NULL;
  return told;
}

/* For programs that do not know of this library. */
__attribute__((destructor)) static void end_by_environment(void) {
  const char *what = getenv("FAKE_CUDA") ? fake_cudnn_end() : NULL;
  if (!what) return;
  (void)fprintf(stderr, "fake cuDNN: %s\n", what);
  abort();
}

/* -------------------------------------------------- create, set and destroy */

int cudnnBackendCreateDescriptor(int type, dnn_descriptor *out) {
  descriptor *d = calloc(1, sizeof *d);
  if (!d) abort();
  d->type = type;
  (void)pthread_mutex_lock(&all.lock);
  d->next = all.living;
  all.living = d;
  ++all.counts.descriptors;
  (void)pthread_mutex_unlock(&all.lock);
  *out = d;
  return DNN_OK;
}

int cudnnBackendDestroyDescriptor(dnn_descriptor given) {
  (void)pthread_mutex_lock(&all.lock);
  descriptor **at = &all.living;
  while (*at && *at != given) at = &(*at)->next;
  if (*at) {
    *at = (*at)->next;
    --all.counts.descriptors;
  }
  (void)pthread_mutex_unlock(&all.lock);
  free(given);
  return DNN_OK;
}

static size_t bytes_of(int type) {
  switch (type) {
    case DNN_BOOLEAN:
      return sizeof(bool);
    case DNN_INT64:
    case DNN_DOUBLE:
    case DNN_POINTER:
    case DNN_HANDLE:
    case DNN_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

/* Whether all that is named is there and finalized. */
static int check_parts(int64_t n, void *const *parts) {
  for (int64_t i = 0; i < n; ++i) {
    if (!is_living(parts[i])) {
      fake_violate(fake_cuda(), "names a cuDNN descriptor that does not live");
      return BAD_PARAM;
    }
    if (!((descriptor *)parts[i])->is_final)
      return refuse(NOT_FINALIZED, "a part is not finalized");
  }
  return DNN_OK;
}

int cudnnBackendSetAttribute(dnn_descriptor given, int name, int type,
                             int64_t n, const void *values) {
  descriptor *d = given;
  const struct rule *rule = rule_of(d->type, name);
  const int is_factor = type == DNN_FLOAT || type == DNN_DOUBLE;
  if (d->is_final) return refuse(BAD_PARAM, "it is finalized already");
  if (!rule) return refuse(BAD_PARAM, "it has no such attribute");
  if (rule->type != type && !(rule->type == FACTOR && is_factor))
    return refuse(BAD_PARAM, "the attribute has another type");
  if (n < 1 || (size_t)n * bytes_of(type) > MOST_BYTES || find(d, name) ||
      d->n == MOST_ATTRIBUTES)
    return refuse(BAD_PARAM, "so many values are not taken");
  if (type == DNN_DESCRIPTOR && check_parts(n, values) != DNN_OK)
    return NOT_FINALIZED;
  attribute *a = &d->all[d->n++];
  *a = (attribute){.name = name, .type = type, .n = n};
  memcpy(&a->v, values, (size_t)n * bytes_of(type));
  return DNN_OK;
}

/* ------------------------------------------------------------------ graphs */

/* Attributes of the operations of a convolution for its operands. */
static const struct op_names {
  int type, alpha, beta, conv, x, w, y, written;
} op_names[] = {
    {DNN_OP_FORWARD, DNN_FORWARD_ALPHA, DNN_FORWARD_BETA, DNN_FORWARD_CONV,
     DNN_FORWARD_X, DNN_FORWARD_W, DNN_FORWARD_Y, ARRAY_Y},
    {DNN_OP_DATA, DNN_DATA_ALPHA, DNN_DATA_BETA, DNN_DATA_CONV, DNN_DATA_DX,
     DNN_DATA_W, DNN_DATA_DY, ARRAY_X},
    {DNN_OP_WEIGHT, DNN_WEIGHT_ALPHA, DNN_WEIGHT_BETA, DNN_WEIGHT_CONV,
     DNN_WEIGHT_X, DNN_WEIGHT_DW, DNN_WEIGHT_DY, ARRAY_W},
};

static const struct op_names *names_of(const descriptor *op) {
  for (int i = 0; i < 3; ++i)
    if (op_names[i].type == op->type) return &op_names[i];
  return NULL;
}

/* A graph taken apart. */
typedef struct pattern {
  conv_work work;
  int is_pool; /* then arrays are ARRAY_X and ARRAY_Y of `pool` */
  pool_work pool;
  int is_norm; /* then they are those of `norm` */
  norm_work norm;
  const descriptor *tensors[N_ARRAYS]; /* of the variant pack */
  const descriptor *sum;    /* the entry between a convolution and an addition
                             */
  const descriptor *biased; /* and between that and a relu */
} pattern;

/* Dimensions after the first two go to the end, others are 1. */
static void spread(const descriptor *tensor, int64_t *to) {
  const attribute *dims = find(tensor, DNN_TENSOR_DIMS);
  for (int d = 0; d < 5; ++d) to[d] = 1;
  for (int64_t d = 0; d < dims->n; ++d)
    to[d < 2 ? d : d + 5 - dims->n] = dims->v.ints[d];
}

static void spread_list(const descriptor *conv, int name, int64_t other,
                        int64_t *to) {
  const attribute *list = find(conv, name);
  for (int d = 0; d < 3; ++d) to[d] = other;
  for (int64_t d = 0; d < list->n; ++d) to[d + 3 - list->n] = list->v.ints[d];
}

/* Whether shapes go together. */
static int fits(const conv_work *k) {
  if (k->x[0] != k->y[0] || k->w[0] != k->y[1] || k->x[1] % k->w[1] != 0 ||
      k->w[0] % (k->x[1] / k->w[1]) != 0)
    return 0;
  for (int d = 0; d < 3; ++d) {
    const int64_t room =
        k->x[d + 2] + 2 * k->pad[d] - k->dilate[d] * (k->w[d + 2] - 1) - 1;
    if (room < 0 || room / k->stride[d] + 1 != k->y[d + 2]) return 0;
  }
  return 1;
}

int is_dense(const descriptor *tensor) {
  const attribute *dims = find(tensor, DNN_TENSOR_DIMS);
  const int64_t *steps = ints(tensor, DNN_TENSOR_STEPS);
  int64_t step = 1;
  for (int64_t d = dims->n - 1; d >= 0; --d) {
    if (steps[d] != step || dims->v.ints[d] < 1) return 0;
    step *= dims->v.ints[d];
  }
  return 1;
}

static int read_convolution(const descriptor *op, pattern *p) {
  const struct op_names *n = names_of(op);
  if (!n) return refuse(DNN_NOT_SUPPORTED, "no convolution begins the graph");
  const descriptor *conv = part(op, n->conv);
  const int names[3] = {n->x, n->w, n->y};
  for (int i = 0; i < 3; ++i) {
    p->tensors[i] = part(op, names[i]);
    if (!p->tensors[i] || !is_dense(p->tensors[i]))
      return refuse(DNN_NOT_SUPPORTED, "an array is not dense");
  }
  if (!conv || word(conv, DNN_CONV_MODE) != DNN_CROSS_CORRELATION)
    return refuse(DNN_NOT_SUPPORTED, "only cross-correlation is simulated");
  p->work = (conv_work){.type = word(p->tensors[ARRAY_W], DNN_TENSOR_TYPE),
                        .written = n->written,
                        .alpha = factor(op, n->alpha),
                        .beta = factor(op, n->beta)};
  spread(p->tensors[ARRAY_X], p->work.x);
  spread(p->tensors[ARRAY_W], p->work.w);
  spread(p->tensors[ARRAY_Y], p->work.y);
  spread_list(conv, DNN_CONV_STRIDES, 1, p->work.stride);
  spread_list(conv, DNN_CONV_DILATIONS, 1, p->work.dilate);
  spread_list(conv, DNN_CONV_PADS_BEFORE, 0, p->work.pad);
  if (memcmp(ints(conv, DNN_CONV_PADS_BEFORE), ints(conv, DNN_CONV_PADS_BEHIND),
             (size_t)find(conv, DNN_CONV_PADS_BEFORE)->n * 8) != 0)
    return refuse(DNN_NOT_SUPPORTED, "only equal padding is simulated");
  return fits(&p->work) ? DNN_OK : refuse(SHAPE_MISMATCH, "shapes do not fit");
}

/* An addition after it: of a virtual tensor and a bias. */
static int read_addition(const descriptor *op, pattern *p) {
  const descriptor *x, *how;
  int64_t bias[5];
  if (op->type != DNN_OP_POINTWISE)
    return refuse(DNN_NOT_SUPPORTED, "no addition ends the graph");
  how = part(op, DNN_POINTWISE_OF);
  x = part(op, DNN_POINTWISE_X);
  p->sum = p->tensors[ARRAY_Y];
  p->tensors[ARRAY_BIAS] = part(op, DNN_POINTWISE_B);
  p->tensors[ARRAY_Y] = part(op, DNN_POINTWISE_Y);
  if (!how || !x || !p->tensors[ARRAY_BIAS] || !p->tensors[ARRAY_Y] ||
      x != p->sum || word(how, DNN_POINTWISE_MODE_OF) != DNN_POINTWISE_ADD)
    return refuse(DNN_NOT_SUPPORTED,
                  "only sums of a convolution are simulated");
  spread(p->tensors[ARRAY_BIAS], bias);
  for (int d = 0; d < 5; ++d)
    if (bias[d] != (d == 1 ? p->work.y[1] : 1))
      return refuse(SHAPE_MISMATCH, "the bias does not fit");
  return p->work.written == ARRAY_Y
             ? DNN_OK
             : refuse(DNN_NOT_SUPPORTED, "gradients have no bias");
}

/* A relu after that. */
static int read_relu(const descriptor *op, pattern *p) {
  if (op->type != DNN_OP_POINTWISE)
    return refuse(DNN_NOT_SUPPORTED, "no relu ends the graph");
  const descriptor *how = part(op, DNN_POINTWISE_OF);
  p->biased = p->tensors[ARRAY_Y];
  p->tensors[ARRAY_Y] = part(op, DNN_POINTWISE_Y);
  if (!how || !p->tensors[ARRAY_Y] || part(op, DNN_POINTWISE_X) != p->biased ||
      word(how, DNN_POINTWISE_MODE_OF) != DNN_POINTWISE_RELU)
    return refuse(DNN_NOT_SUPPORTED, "only relu of a sum is simulated");
  if (!find(how, DNN_POINTWISE_NAN) || word(how, DNN_POINTWISE_NAN) != 1)
    return refuse(DNN_NOT_SUPPORTED, "only NaN that is passed on is simulated");
  p->work.has_relu = 1;
  return DNN_OK;
}

/* The declared windows and padding must end where the output does. */
static int fits_pool(const descriptor *how, const pool_work *k) {
  int64_t behind[3];
  spread_list(how, DNN_RESAMPLE_PADS_BEHIND, 0, behind);
  for (int d = 0; d < 3; ++d)
    if ((k->x[d + 2] + k->pad[d] + behind[d] - k->window[d]) / k->stride[d] +
            1 !=
        k->y[d + 2])
      return 0;
  return k->x[0] == k->y[0] && k->x[1] == k->y[1];
}

static int read_pooling(const descriptor *op, pattern *p) {
  const int forward = op->type == DNN_OP_POOL;
  const descriptor *x = part(op, forward ? DNN_POOL_X : DNN_POOL_DX);
  const descriptor *y = part(op, forward ? DNN_POOL_Y : DNN_POOL_DY);
  const descriptor *how = part(op, forward ? DNN_POOL_OF : DNN_POOL_DATA_OF);
  if (!x || !y || !how || !is_dense(x) || !is_dense(y))
    return refuse(DNN_NOT_SUPPORTED, "an array is not dense");
  p->is_pool = 1;
  p->tensors[ARRAY_X] = x;
  p->tensors[ARRAY_Y] = y;
  p->work.type = word(x, DNN_TENSOR_TYPE);
  p->work.written = forward ? ARRAY_Y : ARRAY_X;
  p->pool = (pool_work){.type = p->work.type,
                        .mode = word(how, DNN_RESAMPLE_MODE_OF),
                        .is_gradient = !forward};
  spread(x, p->pool.x);
  spread(y, p->pool.y);
  spread_list(how, DNN_RESAMPLE_WINDOW, 1, p->pool.window);
  spread_list(how, DNN_RESAMPLE_STRIDES, 1, p->pool.stride);
  spread_list(how, DNN_RESAMPLE_PADS_BEFORE, 0, p->pool.pad);
  const int is_max = p->pool.mode == DNN_POOL_MAX;
  if (is_max && (!forward || !find(how, DNN_RESAMPLE_NAN)))
    return refuse(DNN_NOT_SUPPORTED, "only NaN that is passed on is simulated");
  if (word(how, DNN_RESAMPLE_PADDING) !=
      (is_max ? DNN_PAD_NEGATIVE_INFINITY : DNN_PAD_ZERO))
    return refuse(BAD_PARAM, "the padding does not go with the mode");
  return fits_pool(how, &p->pool) ? DNN_OK
                                  : refuse(SHAPE_MISMATCH, "shapes do not fit");
}

static int is_pooling(const descriptor *op) {
  return op->type == DNN_OP_POOL || op->type == DNN_OP_POOL_DATA;
}

int is_virtual(const descriptor *tensor) {
  const attribute *a = find(tensor, DNN_TENSOR_VIRTUAL);
  return a && a->v.flag;
}

static int read_graph(const descriptor *graph, pattern *p) {
  const attribute *ops = find(graph, DNN_GRAPH_OPS);
  memset(p, 0, sizeof *p);
  if (check_parts(ops->n, ops->v.pointers) != DNN_OK) return BAD_PARAM;
  p->is_norm = norm_is(ops->v.pointers[0]);
  if (p->is_norm) return norm_read(ops, &p->norm);
  int status = is_pooling(ops->v.pointers[0])
                   ? read_pooling(ops->v.pointers[0], p)
                   : read_convolution(ops->v.pointers[0], p);
  if (status == DNN_OK && ops->n > 1)
    status = read_addition(ops->v.pointers[1], p);
  if (status == DNN_OK && ops->n > 2) status = read_relu(ops->v.pointers[2], p);
  if (status == DNN_OK && ops->n > 3)
    status = refuse(DNN_NOT_SUPPORTED, "there are too many operations");
  if (status == DNN_OK && ((p->sum && !is_virtual(p->sum)) ||
                           (p->biased && !is_virtual(p->biased))))
    status = refuse(BAD_PARAM, "a sum that is in memory twice");
  for (int i = 0; i < N_ARRAYS && status == DNN_OK; ++i)
    if (p->tensors[i] && (is_virtual(p->tensors[i]) ||
                          word(p->tensors[i], DNN_TENSOR_TYPE) != p->work.type))
      status = refuse(DNN_NOT_SUPPORTED, "an array has another type");
  return status;
}

/* --------------------------------------------------------------- heuristics */

/* Forms that the real one does not have: sums in half of virtual tensors, and
 * sums added to existing values. */
static int has_engines(const pattern *p) {
  if (getenv("FAKE_CUDNN_NO_ENGINES")) return 0;
  if (!p->sum || p->is_pool || p->is_norm) return 1;
  return p->work.beta == 0 &&
         (word(p->sum, DNN_TENSOR_TYPE) == DNN_F32 ||
          word(p->sum, DNN_TENSOR_TYPE) == DNN_F64) &&
         !getenv("FAKE_CUDNN_NO_FUSION");
}

static int answer(descriptor *heuristics) {
  const descriptor *graph = part(heuristics, DNN_HEURISTICS_GRAPH);
  const int mode = word(heuristics, DNN_HEURISTICS_MODE);
  pattern p;
  const int status = graph ? read_graph(graph, &p) : BAD_PARAM;
  if (status != DNN_OK) return status;
  int *to = heuristics->answers, n = 0;
  if (p.is_norm) {
    to[0] = mode == DNN_HEUR_A && has_engines(&p) ? norm_engine(&p.norm) : -1;
    heuristics->n_answers = to[0] >= 0;
    return DNN_OK;
  }
  if (has_engines(&p) && mode == DNN_HEUR_FALLBACK) to[n++] = ENGINE_FALLBACK;
  if (has_engines(&p) && mode == DNN_HEUR_A && !p.is_pool) {
    if (p.work.type == DNN_F32) to[n++] = ENGINE_TF32;
    if (p.work.written != ARRAY_Y) to[n++] = ENGINE_RESTLESS;
    if (p.work.type == DNN_F16 || p.work.type == DNN_BF16)
      to[n++] = ENGINE_REDUCED;
    to[n++] = ENGINE_PLAIN;
  }
  heuristics->n_answers = n;
  return DNN_OK;
}

static int get_answers(const descriptor *heuristics, int64_t most, int64_t *n,
                       void **out) {
  *n = heuristics->n_answers;
  if (most == 0) return DNN_OK;
  for (int i = 0; i < heuristics->n_answers && i < most; ++i) {
    descriptor *config = out[i];
    if (!is_living(config) || config->type != DNN_CONFIG)
      return refuse(BAD_PARAM, "there is no descriptor for an answer");
    config->engine = heuristics->answers[i];
    config->graph = find(heuristics, DNN_HEURISTICS_GRAPH)->v.pointers[0];
    config->is_final = 1;
  }
  return DNN_OK;
}

static int get_engine(const descriptor *config, void **out) {
  descriptor *engine = *out;
  if (!is_living(engine) || engine->type != DNN_ENGINE)
    return refuse(BAD_PARAM, "there is no descriptor for the engine");
  engine->engine = config->engine;
  engine->is_final = 1;
  return DNN_OK;
}

static int get_notes(const descriptor *engine, int64_t *n, int *out) {
  static const int notes[N_ENGINES] = {
      [ENGINE_FALLBACK] = 9, /* a strict one, as to NaN */
      [ENGINE_PLAIN] = -1,
      [ENGINE_REDUCED] = DNN_NOTE_REDUCED_SUMS,
      [ENGINE_RESTLESS] = DNN_NOTE_NONDETERMINISTIC,
      [ENGINE_TF32] = DNN_NOTE_TENSOR_CORE};
  *n = notes[engine->engine] >= 0;
  if (*n) *out = notes[engine->engine];
  return DNN_OK;
}

static int64_t workspace_of(const descriptor *plan) {
  return plan->engine == ENGINE_FALLBACK ? 0 : WORKSPACE;
}

int cudnnBackendGetAttribute(dnn_descriptor given, int name, int type,
                             int64_t most, int64_t *n, void *values) {
  const descriptor *d = given;
  if (!d->is_final) return refuse(NOT_FINALIZED, "it is not finalized");
  *n = 1;
  if (name == DNN_HEURISTICS_RESULTS && type == DNN_DESCRIPTOR)
    return get_answers(d, most, n, values);
  if (name == DNN_CONFIG_ENGINE && type == DNN_DESCRIPTOR)
    return get_engine(d, values);
  if (name == DNN_ENGINE_NOTES && type == DNN_NOTE)
    return get_notes(d, n, values);
  if (name != DNN_PLAN_WORKSPACE || type != DNN_INT64)
    return refuse(BAD_PARAM, "it has no such attribute");
  *(int64_t *)values = workspace_of(d);
  return DNN_OK;
}

/* ----------------------------------------------------------------- finalize */

static int finish_tensor(const descriptor *d) {
  const int64_t n = find(d, DNN_TENSOR_DIMS)->n;
  if (*ints(d, DNN_TENSOR_ALIGNMENT) % fake_width(word(d, DNN_TENSOR_TYPE)))
    return refuse(BAD_PARAM, "an alignment of less than an element");
  return n == find(d, DNN_TENSOR_STEPS)->n && n >= 3 && n <= 8
             ? DNN_OK
             : refuse(BAD_PARAM, "an array has three dimensions at least");
}

static int finish_plan(descriptor *d) {
  const descriptor *config = part(d, DNN_PLAN_CONFIG);
  if (!config || config->type != DNN_CONFIG) return BAD_PARAM;
  check_device(find(d, DNN_PLAN_HANDLE)->v.pointers[0]);
  d->engine = config->engine;
  d->graph = config->graph;
  (void)pthread_mutex_lock(&all.lock);
  ++all.counts.plans;
  (void)pthread_mutex_unlock(&all.lock);
  return DNN_OK;
}

int cudnnBackendFinalize(dnn_descriptor given) {
  descriptor *d = given;
  pattern p;
  int status = DNN_OK;
  if (d->is_final) return refuse(BAD_PARAM, "it is finalized already");
  if (!is_complete(d)) return refuse(BAD_PARAM, "an attribute is missing");
  if (d->type == DNN_TENSOR) status = finish_tensor(d);
  if (d->type == DNN_GRAPH) status = read_graph(d, &p);
  if (d->type == DNN_HEURISTICS) status = answer(d);
  if (d->type == DNN_PLAN) status = finish_plan(d);
  d->is_final = status == DNN_OK;
  return status;
}

/* ------------------------------------------------------------------ execute */

void *pointer_of(const descriptor *pack, const descriptor *tensor,
                 int *status) {
  const attribute *names = find(pack, DNN_PACK_IDS);
  const attribute *at = find(pack, DNN_PACK_POINTERS);
  const int64_t name = *ints(tensor, DNN_TENSOR_ID);
  const int64_t align = *ints(tensor, DNN_TENSOR_ALIGNMENT);
  for (int64_t i = 0; i < names->n && i < at->n; ++i) {
    if (names->v.ints[i] != name) continue;
    if ((uintptr_t)at->v.pointers[i] % (uintptr_t)align == 0)
      return at->v.pointers[i];
    *status = refuse(MISALIGNED, "an address is not as aligned as was said");
    return NULL;
  }
  *status = refuse(BAD_PARAM, "an array is not in the variant pack");
  return NULL;
}

static size_t size_of(const descriptor *tensor) {
  const attribute *dims = find(tensor, DNN_TENSOR_DIMS);
  int64_t n = fake_width(word(tensor, DNN_TENSOR_TYPE));
  for (int64_t d = 0; d < dims->n; ++d) n *= dims->v.ints[d];
  return (size_t)n;
}

static int submit(dnn_handle handle, pattern *p, void *workspace) {
  const void *reads[N_ARRAYS], *writes[2];
  size_t read_bytes[N_ARRAYS], write_bytes[2] = {0, WORKSPACE};
  fake_work work = {.run = p->is_pool ? pool_run : conv_run,
                    .arg = p->is_pool ? (void *)&p->pool : (void *)&p->work,
                    .arg_bytes = p->is_pool ? sizeof p->pool : sizeof p->work,
                    .reads = reads,
                    .writes = writes,
                    .n_writes = workspace ? 2 : 1,
                    .read_bytes = read_bytes,
                    .write_bytes = write_bytes};
  for (int i = 0; i < N_ARRAYS; ++i) {
    if (!p->tensors[i]) continue;
    if (i == p->work.written) {
      writes[0] = p->work.at[i];
      write_bytes[0] = size_of(p->tensors[i]);
    } else {
      reads[work.n_reads] = p->work.at[i];
      read_bytes[work.n_reads++] = size_of(p->tensors[i]);
    }
  }
  writes[1] = workspace;
  return fake_cuda_submit(handle->stream, &work) == CUDA_OK
             ? DNN_OK
             : refuse(EXECUTION_FAILED, "the launch failed");
}

static int submit_norm(dnn_handle handle, const norm_work *norm,
                       void *workspace) {
  const void *reads[MOST_ARRAYS], *writes[MOST_ARRAYS + 1];
  size_t read_bytes[MOST_ARRAYS], write_bytes[MOST_ARRAYS + 1];
  fake_work work = {.run = norm_run,
                    .arg = norm,
                    .arg_bytes = sizeof *norm,
                    .reads = reads,
                    .writes = writes,
                    .read_bytes = read_bytes,
                    .write_bytes = write_bytes};
  for (int i = 0; i < norm->n_arrays; ++i) {
    const norm_array *a = &norm->arrays[i];
    if (a->is_number || !a->at) continue;
    if (a->is_written) {
      writes[work.n_writes] = a->at;
      write_bytes[work.n_writes++] = size_of(a->tensor);
    } else {
      reads[work.n_reads] = a->at;
      read_bytes[work.n_reads++] = size_of(a->tensor);
    }
  }
  writes[work.n_writes] = workspace;
  write_bytes[work.n_writes++] = WORKSPACE;
  return fake_cuda_submit(handle->stream, &work) == CUDA_OK
             ? DNN_OK
             : refuse(EXECUTION_FAILED, "the launch failed");
}

static int execute(dnn_handle handle, const descriptor *plan,
                   const descriptor *pack) {
  void *workspace = find(pack, DNN_PACK_WORKSPACE)->v.pointers[0];
  const char *slow = getenv("FAKE_CUDNN_SLOW");
  pattern p;
  int status = is_living(plan->graph) ? read_graph(plan->graph, &p) : BAD_PARAM;
  if (status != DNN_OK) {
    fake_violate(fake_cuda(), "executes a plan whose graph was destroyed");
    return status;
  }
  if (workspace_of(plan) > 0 && !workspace)
    return refuse(BAD_PARAM, "there is no workspace");
  if (p.is_norm) {
    status = norm_bind(&p.norm, pack);
    if (status != DNN_OK) return status;
    fake_count(0, 1);
    return submit_norm(handle, &p.norm, workspace);
  }
  for (int i = 0; i < N_ARRAYS && status == DNN_OK; ++i)
    if (p.tensors[i]) p.work.at[i] = pointer_of(pack, p.tensors[i], &status);
  if (status != DNN_OK) return status;
  p.pool.at[0] = p.work.at[ARRAY_X];
  p.pool.at[1] = p.work.at[ARRAY_Y];
  p.work.engine = plan->engine;
  p.work.is_slow = slow && atoi(slow) == plan->engine;
  (void)pthread_mutex_lock(&all.lock);
  p.work.odd = (int)(all.counts.executed++ % 2);
  (void)pthread_mutex_unlock(&all.lock);
  return submit(handle, &p, workspace_of(plan) > 0 ? workspace : NULL);
}

int cudnnBackendExecute(dnn_handle handle, dnn_descriptor plan,
                        dnn_descriptor pack) {
  const descriptor *how = final_of(plan, DNN_PLAN);
  const descriptor *what = final_of(pack, DNN_PACK);
  if (!how || !what) return refuse(NOT_FINALIZED, "it is not finalized");
  fake_enter(handle);
  const int status = execute(handle, how, what);
  fake_leave(handle);
  return status;
}
