/* SPDX-License-Identifier: Apache-2.0
 * gpu_test.cu: runs every kernel of elemwise.cuda.so on a CUDA device, and the
 * kernel of elemwise.so that computes the same on the CPU, and compares.
 *
 *   gpu_test elemwise.so elemwise.cuda.so
 *
 * It is a host of its own, so that nothing but the kernels is tried: it takes
 * memory from the CUDA runtime. Without a device it says so and succeeds.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "tenon/kernel/kernel.h"

enum { ROWS = 13, COLUMNS = 523, N = ROWS * COLUMNS };

/* -------------------------------------------------------------------- the host
 */

static int32_t fail(const tn_frame *, int32_t code, const char *, int32_t,
                    const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("# ");
  vprintf(format, args);
  printf("\n");
  va_end(args);
  return code;
}

static int32_t in_one(const tn_frame *, int64_t n, int64_t, tn_loop_body *body,
                      void *arg) {
  return body(arg, 0, n);
}

static void must(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  printf("Bail out! %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

/* -------------------------------------------------------------------- operands
 */

/* How a tensor lies in its memory: dense, not aligned, every second element,
 * columns first, one row for all. */
struct layout {
  const char *name;
  int64_t rows;
  int64_t strides[2];
  int64_t first;
};
static const layout layouts[] = {{"dense", ROWS, {COLUMNS, 1}, 0},
                                 {"unaligned", ROWS, {COLUMNS, 1}, 1},
                                 {"strided", ROWS, {2 * COLUMNS, 2}, 0},
                                 {"transposed", ROWS, {1, ROWS}, 0},
                                 {"broadcast", 1, {COLUMNS, 1}, 0}};

struct operand {
  tn_tensor t;
  int64_t shape[2];
  int64_t strides[2];
  std::vector<char> host;
  char *device;
};

static double random_value() {
  return 0.1 + 1.9 * rand() / (double)RAND_MAX;
}

static void put(operand *o, int64_t i, double value) {
  char *at = o->host.data() + i * tn_dtype_bytes(o->t.dtype);
  const tn_kernel_line line = {at, 1, 1, o->t.dtype};
  const tn_kernel_mode mode = {TN_F64, 0};
  tn_kernel_store(&line, &mode, &value);
}

static double get(const std::vector<char> &bytes, tn_dtype dtype, int64_t i) {
  double value = 0;
  char *at = (char *)bytes.data() + i * tn_dtype_bytes(dtype);
  const tn_kernel_line line = {at, 1, 1, dtype};
  const tn_kernel_mode mode = {TN_F64, 0};
  tn_kernel_load(&value, &mode, &line);
  return value;
}

static void make(operand *o, tn_dtype dtype, const layout *l) {
  const size_t bytes = (size_t)(2 * N + 8) * (size_t)tn_dtype_bytes(dtype);
  o->t = tn_tensor();
  o->t.dtype = dtype;
  o->t.ndim = 2;
  o->shape[0] = l->rows;
  o->shape[1] = COLUMNS;
  o->strides[0] = l->strides[0];
  o->strides[1] = l->strides[1];
  o->host.assign(bytes, 0);
  for (int64_t i = 0; i < 2 * N + 8; ++i) put(o, i, random_value());
  must(cudaMalloc((void **)&o->device, bytes), "cudaMalloc");
  must(cudaMemcpy(o->device, o->host.data(), bytes, cudaMemcpyHostToDevice),
       "copy to the device");
  o->t.byte_offset = 0;
}

/* The tensor in one of the two memories. */
static tn_tensor view(operand *o, const layout *l, bool device) {
  tn_tensor t = o->t;
  char *base = device ? o->device : o->host.data();
  t.device_type = device ? TN_DEVICE_CUDA : TN_DEVICE_CPU;
  t.data = base + l->first * tn_dtype_bytes(t.dtype);
  t.shape = o->shape;
  t.strides = o->strides;
  return t;
}

/* ----------------------------------------------------------------------- calls
 */

/* One kernel on both sides, and how it is called. */
struct trial {
  const tn_op *op;
  const tn_kernel *cpu;
  const tn_kernel *cuda;
  tn_dtype dtype;
  const layout *in;
  const layout *out;
  tn_req req;
  cudaStream_t stream;
};

/* What a parameter that is a type says. */
static tn_dtype other_type(const trial *t) {
  return t->dtype == TN_F32 ? TN_F64 : TN_F32;
}

static tn_dtype type_of(const trial *t, const tn_arg *arg) {
  if (arg->dtype_var != TN_NONE) return t->dtype;
  return arg->dtype_param != TN_NONE ? other_type(t) : arg->dtype;
}

/* Operands of the call in order: inputs, and outputs behind them. */
static std::vector<const tn_arg *> arguments(const trial *t, size_t *n_in) {
  const tn_op *op = t->op;
  std::vector<const tn_arg *> args;
  const bool backward = t->cpu->pass == TN_PASS_BACKWARD;
  if (backward)
    args.insert(args.end(), op->outputs, op->outputs + op->n_outputs);
  args.insert(args.end(), op->inputs, op->inputs + op->n_inputs);
  if (backward)
    args.insert(args.end(), op->outputs, op->outputs + op->n_outputs);
  *n_in = args.size();
  if (backward)
    args.insert(args.end(), op->inputs, op->inputs + op->n_inputs);
  else
    args.insert(args.end(), op->outputs, op->outputs + op->n_outputs);
  return args;
}

static std::vector<char> make_params(const trial *t) {
  const tn_op *op = t->op;
  std::vector<char> bytes(op->params_size + 8u, 0);
  for (uint32_t i = 0; i < op->n_params; ++i) {
    char *at = bytes.data() + op->params[i]->offset;
    if (op->params[i]->type == TN_FIELD_FLOAT) *(double *)at = 1.5;
    if (op->params[i]->type == TN_FIELD_INT) *(int64_t *)at = 2;
    if (op->params[i]->type == TN_FIELD_DTYPE) *(tn_dtype *)at = other_type(t);
  }
  return bytes;
}

static int32_t call_one(const trial *t, std::vector<operand> &operands,
                        size_t n_in, bool device) {
  tn_host host = tn_host();
  tn_run run = tn_run();
  tn_frame call = tn_frame();
  const size_t n_out = operands.size() - n_in;
  std::vector<tn_tensor> tensors;
  std::vector<tn_req> requests(n_out, t->req);
  std::vector<int32_t> alias(n_out, t->req == TN_REQ_INPLACE ? 0 : -1);
  const std::vector<char> params = make_params(t);
  host.struct_size = sizeof host;
  host.fail = fail;
  host.parallel_for = in_one;
  run.struct_size = sizeof run;
  run.device_type = device ? TN_DEVICE_CUDA : TN_DEVICE_CPU;
  run.stream = device ? (void *)t->stream : NULL;
  for (size_t i = 0; i < operands.size(); ++i)
    tensors.push_back(view(&operands[i], i < n_in ? t->in : t->out, device));
  if (t->req == TN_REQ_INPLACE) tensors[n_in] = tensors[0];
  for (size_t i = 0; i < n_out; ++i)
    if (t->cpu->pass == TN_PASS_BACKWARD && t->op->gradient->inputs[i]->stop)
      requests[i] = TN_REQ_NULL;
  call.struct_size = sizeof call;
  call.n_in = (uint32_t)n_in;
  call.n_out = (uint32_t)n_out;
  call.in = tensors.data();
  call.out = tensors.data() + n_in;
  call.req = requests.data();
  call.alias = alias.data();
  call.params = params.data();
  call.host = &host;
  call.run = &run;
  return (device ? t->cuda : t->cpu)->compute(&call);
}

/* A second derivative is a difference of terms that may be larger than it is,
 * of which a compiler fuses one product or the other. */
static double tolerance(const trial *t, tn_dtype dtype) {
  const bool is_second =
      t->cpu->pass == TN_PASS_BACKWARD && strstr(t->op->name, "_grad") != NULL;
  const double factor = is_second ? 16 : 1;
  if (dtype == TN_F64) return 1e-12 * factor;
  if (dtype == TN_F32) return 2e-6 * factor;
  return dtype == TN_F16 ? 2e-3 : 1.6e-2;
}

/* Compares the whole memory of an operand, gaps included. */
static bool same(const trial *t, const operand *o) {
  const double most = tolerance(t, o->t.dtype);
  std::vector<char> back(o->host.size());
  must(cudaMemcpy(back.data(), o->device, back.size(), cudaMemcpyDeviceToHost),
       "copy from the device");
  for (int64_t i = 0; i < 2 * N + 8; ++i) {
    const double a = get(o->host, o->t.dtype, i), b = get(back, o->t.dtype, i);
    if (fabs(a - b) <= most * (1 + fabs(a))) continue;
    if (a == b || (isnan(a) && isnan(b))) continue; /* infinite, or NaN */
    printf("# element %lld: %.17g on the CPU, %.17g on the device\n",
           (long long)i, a, b);
    return false;
  }
  return true;
}

static bool try_one(const trial *t) {
  size_t n_in = 0;
  const std::vector<const tn_arg *> args = arguments(t, &n_in);
  std::vector<operand> operands(args.size());
  for (size_t i = 0; i < args.size(); ++i)
    make(&operands[i], type_of(t, args[i]), i < n_in ? t->in : t->out);
  bool good = call_one(t, operands, n_in, false) == TN_OK &&
              call_one(t, operands, n_in, true) == TN_OK;
  must(cudaStreamSynchronize(t->stream), "a kernel");
  for (size_t i = 0; i < operands.size(); ++i) {
    good = good && same(t, &operands[i]);
    must(cudaFree(operands[i].device), "cudaFree");
  }
  return good;
}

/* ---------------------------------------------------------------------- trials
 */

static const tn_plugin *open_plugin(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const void *entry = library ? dlsym(library, "tn_plugin_entry") : NULL;
  if (entry != NULL) return (const tn_plugin *)entry;
  printf("Bail out! %s: %s\n", path, dlerror());
  exit(1);
}

static const tn_op *find_op(const tn_plugin *plugin, const char *full) {
  for (uint32_t i = 0; i < plugin->n_operators; ++i) {
    const tn_op *op = plugin->operators[i];
    const std::string name = std::string(plugin->name) + "." + op->name + "@" +
                             std::to_string(op->interface);
    if (name == full) return op;
  }
  return NULL;
}

static const tn_kernel *find_kernel(const tn_plugin *plugin,
                                    const tn_kernel *like) {
  for (uint32_t i = 0; i < plugin->n_kernels; ++i)
    if (strcmp(plugin->kernels[i]->op, like->op) == 0 &&
        plugin->kernels[i]->pass == like->pass)
      return plugin->kernels[i];
  return NULL;
}

/* All layouts and requests of one kernel in one type. */
static bool try_type(trial *t) {
  static const tn_req requests[] = {TN_REQ_WRITE, TN_REQ_ADD, TN_REQ_INPLACE};
  bool good = true;
  for (size_t l = 0; l < 5; ++l)
    for (size_t r = 0; r < 3; ++r) {
      t->in = &layouts[l];
      t->req = requests[r];
      t->out = &layouts[l == 4 || r < 2 ? l % 3 : l];
      const uint32_t both = t->cpu->writes & t->cuda->writes;
      if (!(both & (1u << t->req)) || (t->req == TN_REQ_INPLACE && l == 4))
        continue;
      if (try_one(t)) continue;
      printf("# %s, request %u\n", layouts[l].name, t->req);
      good = false;
    }
  return good;
}

static int try_kernel(const tn_plugin *elemwise, const tn_kernel *cuda,
                      cudaStream_t stream, int *number) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  static const uint64_t bits[] = {TN_BIT_F32, TN_BIT_F64, TN_BIT_F16,
                                  TN_BIT_BF16};
  static const char *const names[] = {"f32", "f64", "f16", "bf16"};
  trial t = {find_op(elemwise, cuda->op),
             find_kernel(elemwise, cuda),
             cuda,
             0,
             NULL,
             NULL,
             0,
             stream};
  int failed = 0;
  for (int i = 0; i < 4; ++i) {
    if (!(cuda->dtype_sets[0] & bits[i])) continue;
    t.dtype = types[i];
    const bool good = t.op != NULL && t.cpu != NULL && try_type(&t);
    failed += !good;
    printf("%sok %d - %s %s in %s\n", good ? "" : "not ", ++*number, cuda->op,
           cuda->pass == TN_PASS_BACKWARD ? "backward" : "forward", names[i]);
  }
  return failed;
}

int main(int argc, char **argv) {
  int devices = 0, number = 0, failed = 0;
  cudaStream_t stream;
  if (argc != 3) return 2;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    printf("1..0 # SKIP no CUDA device: %s\n",
           error != cudaSuccess ? cudaGetErrorString(error) : "none found");
    return 0;
  }
  const tn_plugin *elemwise = open_plugin(argv[1]);
  const tn_plugin *cuda = open_plugin(argv[2]);
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (uint32_t i = 0; i < cuda->n_kernels; ++i)
    failed += try_kernel(elemwise, cuda->kernels[i], stream, &number);
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  printf("1..%d\n", number);
  return failed != 0;
}
