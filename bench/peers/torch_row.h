/* SPDX-License-Identifier: Apache-2.0
 * torch_row.h: a row of ops.h for libtorch, and the function that measures a
 * pass of it.
 */
#ifndef BENCH_PEERS_TORCH_ROW_H_
#define BENCH_PEERS_TORCH_ROW_H_

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "../measure.h"
#include "../ops_extra.h"

namespace {

/* The inputs of a row, and the meaning of its numbers. */
struct Row {
  const ops_case *c;
  std::vector<at::Tensor> in;
};

using Once = std::function<void()>;

/* The function that computes a pass of a row: `grads` as in ops_pass. */
using Make = std::function<Once(const Row &, uint32_t grads)>;

}  // namespace

#endif /* BENCH_PEERS_TORCH_ROW_H_ */
