/* SPDX-License-Identifier: Apache-2.0
 * Time of libtorch for the work of graph.c:
 *
 *   torch_graph nodes|chain THREADS
 */
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../graph.h"
#include "../measure.h"

namespace {

template <typename Once>
double each(double seconds, Once once) {
  return measure_each([](void *arg) { (*static_cast<Once *>(arg))(); }, &once,
                      seconds);
}

template <typename Once>
double single(double seconds, Once once) {
  return measure_single([](void *arg) { (*static_cast<Once *>(arg))(); }, &once,
                        seconds);
}

void say(const char *what, int64_t n, double value) {
  std::printf("%s/%lld %.4f\n", what, static_cast<long long>(n), value);
  std::fflush(stdout);
}

void nodes() {
  const c10::InferenceMode inference;
  for (const int64_t n : {1, 64}) {
    std::vector<at::Tensor> values;
    for (int i = 0; i <= GRAPH_NODES; ++i) values.push_back(at::rand({n}));
    const at::Tensor one = at::ones({n});
    const double ns = each(GRAPH_SECONDS, [&] {
      for (int i = 0; i < GRAPH_NODES; ++i)
        at::add_out(values[i + 1], values[i], one);
    });
    say("node", n, ns / GRAPH_NODES);
  }
}

void chain() {
  const c10::InferenceMode inference;
  for (const int64_t n : chain_sizes) {
    const at::Tensor x = at::rand({n}) - 0.5;
    const double eager = single(CHAIN_SECONDS, [&] {
      at::sigmoid(x * x * CHAIN_A + x * CHAIN_B + CHAIN_C);
    });
    at::Tensor s = at::empty({n}), t = at::empty({n});
    const double given = single(CHAIN_SECONDS, [&] {
      at::mul_out(s, x, x);
      s.mul_(CHAIN_A);
      at::mul_out(t, x, at::scalar_tensor(CHAIN_B));
      s.add_(t).add_(CHAIN_C).sigmoid_();
    });
    say("eager", n, eager / 1e6);
    say("given", n, given / 1e6);
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const std::string what = argv[1];
  at::set_num_threads(std::atoi(argv[2]));
  if (what == "nodes") nodes();
  if (what == "chain") chain();
  return 0;
}
