/* SPDX-License-Identifier: Apache-2.0
 * Time of libtorch for the functions of math.c, into an existing output, in
 * inference mode and on one thread.
 */
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <map>
#include <string>

#include "../measure.h"
#include "../question.h"

namespace {

using Function = void (*)(at::Tensor &out, const at::Tensor &x);

#define TAKES(name)                                                          \
  {                                                                          \
#name, [](at::Tensor & y, const at::Tensor &x) { at::name##_out(y, x); } \
  }
const std::map<std::string, Function> functions = {
    TAKES(exp),
    TAKES(expm1),
    TAKES(log),
    TAKES(log1p),
    TAKES(log2),
    TAKES(log10),
    TAKES(sqrt),
    TAKES(rsqrt),
    TAKES(sin),
    TAKES(cos),
    TAKES(tan),
    TAKES(asin),
    TAKES(acos),
    TAKES(atan),
    TAKES(sinh),
    TAKES(cosh),
    TAKES(tanh),
    TAKES(asinh),
    TAKES(acosh),
    TAKES(atanh),
    TAKES(erf),
    TAKES(erfc),
    TAKES(lgamma),
    TAKES(floor),
    TAKES(sigmoid),
    {"softplus",
     [](at::Tensor &y, const at::Tensor &x) { at::softplus_out(y, x); }},
    {"gelu", [](at::Tensor &y, const at::Tensor &x) { at::gelu_out(y, x); }}};

struct Job {
  Function run;
  at::Tensor x;
  at::Tensor y;
};

void once(void *arg) {
  auto *job = static_cast<Job *>(arg);
  job->run(job->y, job->x);
}

}  // namespace

int main() {
  char name[32];
  float low, high;
  at::set_num_threads(1);
  const c10::InferenceMode inference;
  Job job = {nullptr, at::empty({MATH_N}), at::empty({MATH_N})};
  while (std::scanf("%31s %f %f", name, &low, &high) == 3) {
    math_fill(job.x.data_ptr<float>(), low, high);
    std::fputs(name, stdout);
    const auto found = functions.find(name);
    if (found != functions.end()) {
      job.run = found->second;
      std::printf(" torch=%.1f", measure_single(once, &job, MATH_SECONDS));
    }
    std::putchar('\n');
    std::fflush(stdout);
  }
  return 0;
}
