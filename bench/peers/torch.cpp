/* SPDX-License-Identifier: Apache-2.0
 * Time of libtorch for the calls of call.c:
 *
 *   torch call THREADS   nanoseconds per operator on small tensors
 *   torch add THREADS    GB/s of an elementwise add, by size
 */
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "../call.h"
#include "../measure.h"

namespace {

template <typename Once>
double each(double seconds, Once once) {
  return measure_each([](void *arg) { (*static_cast<Once *>(arg))(); }, &once,
                      seconds);
}

template <typename Once>
void say(const char *what, int64_t n, Once once) {
  std::printf("%s/%lld %.1f\n", what, static_cast<long long>(n),
              each(CALL_SECONDS, once));
  std::fflush(stdout);
}

void plain(int64_t n, const std::string &mode) {
  const at::Tensor a = at::rand({n}), b = at::rand({n});
  at::Tensor out = at::empty({n});
  say(("given" + mode).c_str(), n, [&] { at::add_out(out, a, b); });
  say(("new" + mode).c_str(), n, [&] { at::add(a, b); });
}

void recorded(int64_t n) {
  const at::Tensor b = at::rand({n}), ones = at::ones({n});
  at::Tensor a = at::rand({n}).set_requires_grad(true);
  say("recorded", n, [&] { at::add(a, b); });
  say("gradient", n, [&] {
    at::relu(at::add(a, b)).backward(ones);
    a.mutable_grad().reset();
  });
  say("gradient_sum", n, [&] {
    at::sum(at::add(a, b)).backward();
    a.mutable_grad().reset();
  });
}

void calls(int64_t n) {
  plain(n, "");
  {
    const c10::InferenceMode inference;
    plain(n, "_inference");
  }
  recorded(n);
}

void rates(int64_t n) {
  const at::Tensor a = at::rand({n}), b = at::rand({n});
  at::Tensor out = at::empty({n});
  const double bytes = CALL_BYTES_MOVED(n);
  const double given = each(ADD_SECONDS, [&] { at::add_out(out, a, b); });
  const double fresh = each(ADD_SECONDS, [&] { at::add(a, b); });
  std::printf("given/%lld %.2f\nnew/%lld %.2f\n", static_cast<long long>(n),
              bytes / given, static_cast<long long>(n), bytes / fresh);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const std::string what = argv[1];
  at::set_num_threads(std::atoi(argv[2]));
  if (what == "call") {
    for (const int64_t n : call_sizes) calls(n);
  } else {
    for (const int64_t n : add_sizes) rates(n);
  }
  return 0;
}
