/* SPDX-License-Identifier: Apache-2.0
 * nn.c: init of the plugin: it uses the matrix products of a plugin that
 * provides blas/1, and its own if there is none.
 */
#include "nn.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugin.gen.h"
#include "tenon/draft/pass.h"

/* Registers the operators that replace two others. */
static int32_t register_fused_pairs(const tn_host *host,
                                    tn_registrar *registrar) {
#define PAIR(name)                                                   \
  {                                                                  \
    .struct_size = sizeof(tn_fused_pair), .first = "nn." name "@1",  \
    .second = "nn.activation@1", .both = "nn." name "_activation@1", \
  }
  static const tn_fused_pair pairs[] = {
      PAIR("fully_connected"), PAIR("convolution"), PAIR("batch_norm")};
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  const uint32_t known =
      offsetof(tn_passes, add_pair) + sizeof passes->add_pair;
  int32_t code = TN_OK;
  if (!passes || passes->struct_size < known) return TN_OK;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && code == TN_OK; ++i)
    code = passes->add_pair(registrar, &pairs[i]);
  return code;
}

/* Removes the kernels that need matrix products of another plugin. */
static int32_t withdraw_blas(tn_registrar *registrar) {
  static const char *const kernels[] = {"nn.fully_connected.cpu",
                                        "nn.fully_connected_activation.cpu"};
  int32_t code = TN_OK;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && code == TN_OK; ++i)
    code =
        registrar->withdraw(registrar, kernels[i],
                            "no plugin provides " TN_BLAS_EXTENSION
                            "; plugins/openblas does where there is OpenBLAS");
  return code;
}

/* Prepares the plugin: finds matrix products of another plugin, and registers
 * fused pairs. */
int32_t nn_init(const tn_host *host, tn_registrar *registrar, void **instance) {
  nn_instance *nn = calloc(1, sizeof *nn);
  if (!nn) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  nn->blas = host->extension(host, TN_BLAS_EXTENSION);
  int32_t code = register_fused_pairs(host, registrar);
  if (code == TN_OK && !nn->blas) code = withdraw_blas(registrar);
  if (code == TN_OK)
    *instance = nn;
  else
    free(nn);
  return code;
}

/* Frees the plugin's state. */
void nn_fini(void *instance) {
  free(instance);
}

nn_shape_text nn_print_shape(const tn_tensor *tensor) {
  nn_shape_text s = {"of unknown rank"};
  size_t n = 0;
  if (tensor->ndim < 0) return s;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const char *mark = d == 0 ? "(" : ",";
    n += (size_t)(tensor->shape[d] < 0
                      ? snprintf(s.text + n, sizeof s.text - n, "%s?", mark)
                      : snprintf(s.text + n, sizeof s.text - n, "%s%lld", mark,
                                 (long long)tensor->shape[d]));
  }
  (void)snprintf(s.text + n, sizeof s.text - n, n > 0 ? ")" : "()");
  return s;
}

void nn_read_labels(const nn_labels *labels, int64_t at, int64_t n,
                    int64_t *to) {
  const tn_kernel_mode mode = {TN_F64, labels->level};
  const tn_tensor *from = labels->tensor;
  const double classes = (double)labels->classes;
  double label[NN_LABELS];
  tn_kernel_load_dense(
      label, &mode, (const char *)from->data + at * tn_dtype_bytes(from->dtype),
      from->dtype, n);
  for (int64_t i = 0; i < n; ++i)
    to[i] = label[i] >= 0 && label[i] < classes ? (int64_t)label[i] : -1;
}
