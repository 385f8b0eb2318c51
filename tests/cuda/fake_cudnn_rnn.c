/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_rnn.c: cuDNN's functions for recurrent layers, as far as
 * plugins/cudnn uses them, with checks of arguments. fake_cudnn_cells.c
 * computes.
 */
#include "fake_cudnn_rnn.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudnn_parts.h"
#include "fake_uses.h"

#define DECLARE(field, symbol, arguments) int symbol arguments;
DNN_RNN_FUNCTIONS(DECLARE)
#undef DECLARE

enum { WORKSPACE = 512 };
enum { MOST_DIMS = 8 };

/* -------------------------------------------------------------- descriptors */

struct cudnnTensorStruct {
  unsigned type;
  int n; /* 0: not set */
  int dims[MOST_DIMS];
  int steps[MOST_DIMS];
};

struct cudnnDropoutStruct {
  bool is_set;
  float p;
};

struct cudnnRNNStruct {
  bool is_set;
  unsigned kind, directions, type, math;
  int64_t inputs, units, layers;
  dnn_dropout dropout;
};

struct cudnnRNNDataStruct {
  bool is_set;
  unsigned type;
  int steps, batch, elements;
};

/* Whether a test wants the function to fail. */
static bool fails(const char *function) {
  const char *name = getenv("FAKE_CUDNN_FAILS");
  return name && strcmp(name, function) == 0;
}

/* Counts a new object. */
static void *create(size_t bytes) {
  void *out = calloc(1, bytes);
  if (!out) abort();
  fake_count(1, 0);
  return out;
}

static int destroy(void *object) {
  if (!object) return refuse(BAD_PARAM, "there is no descriptor");
  free(object);
  fake_count(-1, 0);
  return DNN_OK;
}

int cudnnCreateTensorDescriptor(dnn_tensor *out) {
  *out = create(sizeof **out);
  return DNN_OK;
}

int cudnnDestroyTensorDescriptor(dnn_tensor tensor) {
  return destroy(tensor);
}

int cudnnCreateDropoutDescriptor(dnn_dropout *out) {
  *out = create(sizeof **out);
  return DNN_OK;
}

int cudnnDestroyDropoutDescriptor(dnn_dropout dropout) {
  return destroy(dropout);
}

int cudnnCreateRNNDescriptor(dnn_rnn *out) {
  *out = create(sizeof **out);
  return DNN_OK;
}

int cudnnDestroyRNNDescriptor(dnn_rnn rnn) {
  return destroy(rnn);
}

int cudnnCreateRNNDataDescriptor(dnn_rnn_data *out) {
  if (fails("cudnnCreateRNNDataDescriptor"))
    return refuse(DNN_NO_HOST_MEMORY, "there is no memory");
  *out = create(sizeof **out);
  return DNN_OK;
}

int cudnnDestroyRNNDataDescriptor(dnn_rnn_data data) {
  return destroy(data);
}

static bool is_float(unsigned type) {
  return type == DNN_F16 || type == DNN_BF16 || type == DNN_F32 ||
         type == DNN_F64;
}

int cudnnSetTensorNdDescriptor(dnn_tensor tensor, unsigned type, int n,
                               const int *dims, const int *steps) {
  if (!is_float(type) || n < 3 || n > MOST_DIMS)
    return refuse(BAD_PARAM, "an array has three dimensions at least");
  tensor->type = type;
  tensor->n = n;
  memcpy(tensor->dims, dims, (size_t)n * sizeof *dims);
  memcpy(tensor->steps, steps, (size_t)n * sizeof *steps);
  return DNN_OK;
}

int cudnnSetDropoutDescriptor(dnn_dropout dropout, dnn_handle handle, float p,
                              void *states, size_t bytes,
                              unsigned long long seed) {
  (void)seed;
  fake_enter(handle);
  fake_leave(handle);
  if (p != 0 || states || bytes)
    return refuse(DNN_NOT_SUPPORTED, "only p = 0 is simulated");
  *dropout = (struct cudnnDropoutStruct){.is_set = true};
  return DNN_OK;
}

/* ------------------------------------------------------------------- layers */

/* Tensor cores take halves, FMA takes f32, and all types have a default. */
static bool goes_with(unsigned type, unsigned math_type, unsigned math) {
  const unsigned own = type == DNN_F32 ? DNN_MATH_FMA : DNN_MATH_TENSOR_CORES;
  if (type == DNN_F64) return math_type == DNN_F64 && math == DNN_MATH_DEFAULT;
  return math_type == DNN_F32 && (math == DNN_MATH_DEFAULT || math == own);
}

int cudnnSetRNNDescriptor_v8(dnn_rnn rnn, unsigned algorithm, unsigned kind,
                             unsigned biases, unsigned directions,
                             unsigned input_mode, unsigned type,
                             unsigned math_type, unsigned math, int32_t inputs,
                             int32_t units, int32_t projected, int32_t layers,
                             dnn_dropout dropout, uint32_t flags) {
  if (fails("cudnnSetRNNDescriptor_v8"))
    return refuse(DNN_NOT_SUPPORTED, "there is no such kind of cells");
  if (algorithm != DNN_RNN_STANDARD || biases != DNN_RNN_TWO_BIASES ||
      input_mode != DNN_RNN_LINEAR_INPUT || flags != 0)
    return refuse(DNN_NOT_SUPPORTED, "it is not simulated");
  if (kind > DNN_RNN_GRU || directions > DNN_RNN_TWO_DIRECTIONS ||
      !is_float(type) || !goes_with(type, math_type, math))
    return refuse(BAD_PARAM, "types do not go with each other");
  if (inputs < 1 || units < 1 || layers < 1 || projected != units)
    return refuse(BAD_PARAM, "a size is not above 0");
  if (!dropout || !dropout->is_set)
    return refuse(BAD_PARAM, "the descriptor of dropout is not set");
  *rnn = (struct cudnnRNNStruct){true,   kind,  directions, type,   math,
                                 inputs, units, layers,     dropout};
  return DNN_OK;
}

int cudnnSetRNNDataDescriptor(dnn_rnn_data data, unsigned type, unsigned layout,
                              int steps, int batch, int elements,
                              const int *lengths, void *padding) {
  if (!is_float(type) || steps < 1 || batch < 1 || elements < 1 || !lengths)
    return refuse(BAD_PARAM, "a size is not above 0");
  if (layout != DNN_RNN_STEPS_PACKED || padding)
    return refuse(DNN_NOT_SUPPORTED, "only packed steps are simulated");
  for (int i = 0; i < batch; ++i)
    if (lengths[i] != steps)
      return refuse(DNN_NOT_SUPPORTED, "only equal lengths are simulated");
  *data = (struct cudnnRNNDataStruct){true, type, steps, batch, elements};
  return DNN_OK;
}

/* Sets the properties of the layers; the rest of the call is kept. */
static void describe_layers(dnn_rnn rnn, rnn_work *k) {
  k->kind = (int)rnn->kind;
  k->type = (int)rnn->type;
  k->rounds = rnn->type == DNN_F32 && rnn->math == DNN_MATH_DEFAULT;
  k->has_other_order = getenv("FAKE_CUDNN_ORDER") != NULL;
  k->gates = rnn->kind == DNN_RNN_LSTM ? 4 : rnn->kind == DNN_RNN_GRU ? 3 : 1;
  k->inputs = rnn->inputs;
  k->units = rnn->units;
  k->layers = rnn->layers;
  k->directions = rnn->directions + 1;
}

/* The layers without a call. */
static rnn_work work_of(dnn_rnn rnn) {
  rnn_work k = {.steps = 0};
  describe_layers(rnn, &k);
  return k;
}

static size_t weights_bytes(dnn_rnn rnn) {
  const rnn_work k = work_of(rnn);
  return (size_t)(rnn_count_weights(&k) * fake_width(k.type));
}

int cudnnGetRNNWeightSpaceSize(dnn_handle handle, dnn_rnn rnn, size_t *bytes) {
  fake_enter(handle);
  fake_leave(handle);
  if (!rnn->is_set) return refuse(BAD_PARAM, "the layers are not described");
  *bytes = weights_bytes(rnn);
  return DNN_OK;
}

int cudnnGetRNNWeightParams(dnn_handle handle, dnn_rnn rnn, int32_t layer,
                            size_t bytes, const void *weights, int32_t which,
                            dnn_tensor matrix, void **matrix_at,
                            dnn_tensor bias, void **bias_at) {
  fake_enter(handle);
  fake_leave(handle);
  const rnn_work k = work_of(rnn);
  if (layer < 0 || layer >= k.layers * k.directions || which < 0 ||
      which >= 2 * k.gates || bytes != weights_bytes(rnn) || !matrix || !bias)
    return refuse(BAD_PARAM, "there are no such weights");
  const int row = (int)rnn_row(&k, layer, which);
  *matrix = (struct cudnnTensorStruct){
      rnn->type, 3, {1, (int)k.units, row}, {(int)k.units * row, row, 1}};
  *bias = (struct cudnnTensorStruct){
      rnn->type, 3, {1, (int)k.units, 1}, {(int)k.units, 1, 1}};
  const uintptr_t from = (uintptr_t)weights;
  const int64_t width = fake_width(k.type);
  *matrix_at =
      (void *)(from + (uintptr_t)(rnn_locate(&k, layer, which, 0) * width));
  *bias_at =
      (void *)(from + (uintptr_t)(rnn_locate(&k, layer, which, 1) * width));
  return DNN_OK;
}

int cudnnGetRNNTempSpaceSizes(dnn_handle handle, dnn_rnn rnn, unsigned mode,
                              dnn_rnn_data x_of, size_t *work,
                              size_t *reserve) {
  fake_enter(handle);
  fake_leave(handle);
  if (!rnn->is_set || !x_of->is_set || mode > DNN_RNN_TRAINING)
    return refuse(BAD_PARAM, "the layers are not described");
  rnn_work k = work_of(rnn);
  k.steps = x_of->steps;
  k.batch = x_of->batch;
  *work = WORKSPACE;
  *reserve =
      mode == DNN_RNN_TRAINING ? (size_t)rnn_reserve_bytes(&k) : (size_t)0;
  return DNN_OK;
}

/* -------------------------------------------------------------------- calls */

/* A call, and the memory that it uses. */
typedef struct call {
  dnn_rnn rnn;
  dnn_rnn_data x_of;
  dnn_rnn_data y_of;
  dnn_tensor h_of;
  size_t weights;
  size_t work;
  size_t reserve;
  rnn_work k;
} call;

/* Checks descriptors and sizes, and completes the sizes of the work. */
static int check_call(call *c) {
  const struct cudnnRNNStruct *rnn = c->rnn;
  rnn_work *k = &c->k;
  if (!rnn->is_set || !c->x_of->is_set || !c->y_of->is_set || !c->h_of)
    return refuse(BAD_PARAM, "a descriptor is not set");
  describe_layers(c->rnn, k);
  if (c->x_of->type != rnn->type || c->y_of->type != rnn->type ||
      c->h_of->type != rnn->type)
    return refuse(BAD_PARAM, "an array has another type");
  const int64_t batch = c->x_of->batch;
  if (c->x_of->steps != c->y_of->steps || batch != c->y_of->batch ||
      c->x_of->elements != k->inputs ||
      c->y_of->elements != k->directions * k->units)
    return refuse(SHAPE_MISMATCH, "sequences do not fit");
  if (c->h_of->n != 3 || c->h_of->dims[0] != k->layers * k->directions ||
      c->h_of->dims[1] != batch || c->h_of->dims[2] != k->units ||
      c->h_of->steps[0] != batch * k->units || c->h_of->steps[1] != k->units ||
      c->h_of->steps[2] != 1)
    return refuse(SHAPE_MISMATCH, "states do not fit");
  if (c->weights != weights_bytes(c->rnn))
    return refuse(BAD_PARAM, "the weights have another size");
  k->steps = c->x_of->steps;
  k->batch = batch;
  if (!k->work || c->work < WORKSPACE)
    return refuse(BAD_PARAM, "there is too little workspace");
  if (k->keeps && (!k->reserve || c->reserve < (size_t)rnn_reserve_bytes(k)))
    return refuse(BAD_PARAM, "there is too little reserve space");
  return DNN_OK;
}

static int submit(dnn_handle handle, const call *c) {
  const rnn_work *k = &c->k;
  const int64_t width = fake_width(k->type), rows = k->steps * k->batch * width;
  const int64_t states =
      k->layers * k->directions * k->batch * k->units * width;
  const int64_t out = rows * k->directions * k->units;
  fake_uses reads = {.n = 0}, writes = {.n = 0};
  add_use(&reads, k->x, rows * k->inputs);
  add_use(&reads, k->hx, states);
  add_use(&reads, k->cx, states);
  add_use(&reads, k->weights, (int64_t)c->weights);
  add_use(&reads, k->dy, out);
  add_use(&reads, k->dhy, states);
  add_use(&reads, k->dcy, states);
  add_use(k->pass == RNN_FORWARD ? &writes : &reads, k->y, out);
  add_use(&writes, k->hy, states);
  add_use(&writes, k->cy, states);
  add_use(&writes, k->dx, rows * k->inputs);
  add_use(&writes, k->dhx, states);
  add_use(&writes, k->dcx, states);
  add_use(&writes, k->dweights, (int64_t)c->weights);
  add_use(&writes, k->work, WORKSPACE);
  add_use(&writes, k->keeps ? k->reserve : NULL, rnn_reserve_bytes(k));
  const fake_work work = {.run = rnn_run, .arg = k, .arg_bytes = sizeof *k};
  fake_count(0, 1);
  return submit_uses(handle->stream, work, &reads, &writes) == CUDA_OK
             ? DNN_OK
             : refuse(EXECUTION_FAILED, "the launch failed");
}

/* Checks a call and submits it. */
static int run_call(dnn_handle handle, call *c) {
  int status = check_call(c);
  fake_enter(handle);
  if (status == DNN_OK) status = submit(handle, c);
  fake_leave(handle);
  return status;
}

int cudnnRNNForward(dnn_handle handle, dnn_rnn rnn, unsigned mode,
                    const int32_t *lengths, dnn_rnn_data x_of, const void *x,
                    dnn_rnn_data y_of, void *y, dnn_tensor h_of, const void *hx,
                    void *hy, dnn_tensor c_of, const void *cx, void *cy,
                    size_t weights_size, const void *weights, size_t work_size,
                    void *work, size_t reserve_size, void *reserve) {
  call c = {rnn,
            x_of,
            y_of,
            h_of,
            weights_size,
            work_size,
            reserve_size,
            {.pass = RNN_FORWARD,
             .keeps = mode == DNN_RNN_TRAINING,
             .x = x,
             .hx = hx,
             .cx = cx,
             .weights = weights,
             .y = y,
             .hy = hy,
             .cy = cy,
             .work = work,
             .reserve = reserve}};
  if (fails("cudnnRNNForward"))
    return refuse(EXECUTION_FAILED, "a kernel was not launched");
  if (lengths || mode > DNN_RNN_TRAINING || !x || !y || !weights || !c_of)
    return refuse(BAD_PARAM, "an address is missing");
  return run_call(handle, &c);
}

int cudnnRNNBackwardData_v8(
    dnn_handle handle, dnn_rnn rnn, const int32_t *lengths, dnn_rnn_data y_of,
    const void *y, const void *dy, dnn_rnn_data x_of, void *dx, dnn_tensor h_of,
    const void *hx, const void *dhy, void *dhx, dnn_tensor c_of, const void *cx,
    const void *dcy, void *dcx, size_t weights_size, const void *weights,
    size_t work_size, void *work, size_t reserve_size, void *reserve) {
  call c = {rnn,
            x_of,
            y_of,
            h_of,
            weights_size,
            work_size,
            reserve_size,
            {.pass = RNN_DATA,
             .keeps = 1,
             .hx = hx,
             .cx = cx,
             .weights = weights,
             .y = (void *)(uintptr_t)y,
             .dy = dy,
             .dhy = dhy,
             .dcy = dcy,
             .dx = dx,
             .dhx = dhx,
             .dcx = dcx,
             .work = work,
             .reserve = reserve}};
  if (fails("cudnnRNNBackwardData_v8"))
    return refuse(EXECUTION_FAILED, "a kernel was not launched");
  if (lengths || !y || !dy || !dx || !weights || !c_of)
    return refuse(BAD_PARAM, "an address is missing");
  return run_call(handle, &c);
}

int cudnnRNNBackwardWeights_v8(dnn_handle handle, dnn_rnn rnn, unsigned add,
                               const int32_t *lengths, dnn_rnn_data x_of,
                               const void *x, dnn_tensor h_of, const void *hx,
                               dnn_rnn_data y_of, const void *y,
                               size_t weights_size, void *dweights,
                               size_t work_size, void *work,
                               size_t reserve_size, void *reserve) {
  call c = {rnn,
            x_of,
            y_of,
            h_of,
            weights_size,
            work_size,
            reserve_size,
            {.pass = RNN_WEIGHTS,
             .keeps = 1,
             .x = x,
             .hx = hx,
             .y = (void *)(uintptr_t)y,
             .dweights = dweights,
             .work = work,
             .reserve = reserve}};
  if (fails("cudnnRNNBackwardWeights_v8"))
    return refuse(EXECUTION_FAILED, "a kernel was not launched");
  if (add != DNN_RNN_ADD_WEIGHTS)
    return refuse(DNN_NOT_SUPPORTED, "gradients of weights are added only");
  if (lengths || !x || !y || !dweights)
    return refuse(BAD_PARAM, "an address is missing");
  return run_call(handle, &c);
}
