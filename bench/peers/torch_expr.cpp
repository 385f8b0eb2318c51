/* SPDX-License-Identifier: Apache-2.0
 * Speed of libtorch for the expressions of expr.c, into existing outputs:
 *
 *   torch_expr THREADS   GB/s moved, by expression and size
 *
 * An expression that is no function of its own is the shortest row of functions
 * in place.
 */
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "../call.h"
#include "../expr.h"
#include "../measure.h"

namespace {

const double A = 0.5, B = -1.25, C = 0.75;

template <typename Once>
void say(const std::string &name, int64_t n, double bytes, Once once) {
  const double taken = measure_each(
      [](void *arg) { (*static_cast<Once *>(arg))(); }, &once, ADD_SECONDS);
  std::printf("%s/%lld %.2f\n", name.c_str(), static_cast<long long>(n),
              bytes * static_cast<double>(n) / taken);
  std::fflush(stdout);
}

at::Tensor some(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  return (at::rand(shape) * 8 - 4).to(type);
}

void quadratic(at::Tensor &out, const at::Tensor &x) {
  at::mul_out(out, x, at::scalar_tensor(A));
  out.add_(B).mul_(x).add_(C);
}

void of_one(int64_t n) {
  const at::Tensor x = some({n});
  at::Tensor out = at::empty({n});
  say("quadratic", n, 8, [&] { quadratic(out, x); });
  say("relu", n, 8, [&] { at::clamp_min_out(out, x, 0); });
  say("sigmoid", n, 8, [&] { at::sigmoid_out(out, x); });
  say("tanh", n, 8, [&] { at::tanh_out(out, x); });
  say("exp", n, 8, [&] { at::exp_out(out, x); });
  say("gelu", n, 8, [&] { at::gelu_out(out, x); });
  say("chain", n, 8, [&] {
    quadratic(out, x);
    out.sigmoid_();
  });
}

void of_two(int64_t n) {
  const at::Tensor x = some({n}), y = some({n});
  at::Tensor out = at::empty({n});
  say("add", n, 12, [&] { at::add_out(out, x, y); });
  say("mul", n, 12, [&] { at::mul_out(out, x, y); });
  say("axpy", n, 12, [&] { at::add_out(out, y, x, A); });
}

void of_layouts(int64_t n) {
  const int64_t columns = expr_columns(n), rows = n / columns;
  const at::Tensor x = some({rows, columns}), y = some({rows, columns}),
                   row = some({1, columns}), column = some({rows, 1}),
                   wide = some({rows, 2 * columns}),
                   every = wide.slice(1, 0, 2 * columns, 2);
  at::Tensor out = at::empty({rows, columns});
  say("add_row", n, 8, [&] { at::add_out(out, x, row); });
  say("add_column", n, 8, [&] { at::add_out(out, x, column); });
  say("add_strided", n, 12, [&] { at::add_out(out, every, y); });
}

void of_type(const char *name, int64_t n, at::ScalarType type) {
  const at::Tensor x = some({n}, type), y = some({n}, type);
  at::Tensor out = at::empty({n}, type);
  say(name, n, 3.0 * static_cast<double>(x.element_size()),
      [&] { at::add_out(out, x, y); });
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  const int threads = std::atoi(argv[1]);
  const c10::InferenceMode inference;
  at::set_num_threads(threads);
  for (int i = expr_first(threads); i < 4; ++i) {
    of_two(expr_sizes[i]);
    of_one(expr_sizes[i]);
    of_layouts(expr_sizes[i]);
    of_type("add_f64", expr_sizes[i], at::kDouble);
    of_type("add_f16", expr_sizes[i], at::kHalf);
    of_type("add_bf16", expr_sizes[i], at::kBFloat16);
  }
  return 0;
}
