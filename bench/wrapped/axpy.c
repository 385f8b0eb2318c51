/* SPDX-License-Identifier: Apache-2.0
 * axpy.c: cblas_saxpy, called by a compiler's code. The library is opened as
 * the binding opens it, so that both call the same function.
 */
#include <dlfcn.h>
#include <string.h>

#include "axpy.gen.h"
#include "plugin.gen.h"

typedef void saxpy(int32_t n, float alpha, const float *x, int32_t dx, float *y,
                   int32_t dy);

/* Data that init prepares for the calls. */
static struct { saxpy *function; } found;

int32_t wrapped_init(const tn_host *host, tn_registrar *registrar,
                     void **instance) {
  static const char *const names[] = {"libopenblas.so.0", "libblas.so.3"};
  (void)host;
  for (int i = 0; i < 2 && !found.function; ++i) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cblas_saxpy") : NULL;
    memcpy(&found.function, &symbol, sizeof symbol);
  }
  *instance = &found;
  return found.function ? TN_OK
                        : registrar->fail(registrar, TN_NOT_FOUND, "no CBLAS");
}

int32_t wrapped_axpy(const tn_frame *call) {
  const wrapped_axpy_params *params = call->params;
  const int64_t n = tn_tensor_size(&call->out[0]);
  if (n > INT32_MAX) return TN_FAIL(call, TN_OUT_OF_RANGE, "too many elements");
  found.function((int32_t)n, (float)params->alpha,
                 (const float *)call->in[0].data, 1, (float *)call->out[0].data,
                 1);
  return TN_OK;
}
