/* SPDX-License-Identifier: Apache-2.0
 * Time of libtorch for the work of train.c:
 *
 *   torch_train mlp|lenet|resnet THREADS [nhwc]
 *
 * With nhwc, images are in memory with their channels last.
 */
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../measure.h"
#include "../train.h"

namespace {

bool nhwc = false;

at::Tensor laid_out(const at::Tensor &x) {
  return nhwc && x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast)
                              : x;
}

/* Weights are made when a net runs for the first time, and taken in the same
 * order from then on. */
struct Net {
  std::vector<at::Tensor> weights;
  size_t next = 0;

  at::Tensor weight(at::IntArrayRef shape, double from, double to) {
    if (next == weights.size())
      weights.push_back(laid_out(at::rand(shape) * (to - from) + from)
                            .detach()
                            .set_requires_grad(true));
    return weights[next++];
  }
  at::Tensor small(at::IntArrayRef shape) {
    return weight(shape, -0.05, 0.05);
  }

  at::Tensor connected(at::Tensor x, const int64_t *widths, int n) {
    x = x.flatten(1);
    for (int i = 1; i <= n; ++i) {
      const at::Tensor w = small({widths[i], widths[i - 1]});
      x = at::linear(x, w, small({widths[i]}));
      if (i < n) x = at::relu(x);
    }
    return x;
  }

  at::Tensor mlp(const at::Tensor &x) {
    return connected(x, mlp_widths, MLP_LAYERS);
  }

  at::Tensor lenet(at::Tensor x) {
    for (int i = 0; i < 2; ++i) {
      const int64_t in = i == 0 ? 1 : lenet_filters[0];
      const at::Tensor w = small({lenet_filters[i], in, 5, 5});
      x = at::conv2d(x, w, small({lenet_filters[i]}), 1, i == 0 ? 2 : 0);
      x = at::max_pool2d(at::relu(x), 2, 2);
    }
    return connected(x, lenet_widths, LENET_LAYERS);
  }

  std::vector<at::Tensor> states; /* means and variances that move */
  size_t next_state = 0;

  at::Tensor state(int64_t n, double value) {
    if (next_state == states.size()) states.push_back(at::full({n}, value));
    return states[next_state++];
  }

  at::Tensor normal(const at::Tensor &x, int kernel, int stride, int64_t n) {
    const at::Tensor w = small({n, x.size(1), kernel, kernel});
    const at::Tensor y = at::conv2d(x, w, {}, stride, kernel / 2);
    const at::Tensor gamma = weight({n}, 0.5, 1.5), beta = small({n});
    const at::Tensor mean = state(n, 0), var = state(n, 1);
    return at::batch_norm(y, gamma, beta, mean, var, true, 0.1, 1e-3, false);
  }

  at::Tensor block(const at::Tensor &x, int stride, int64_t n) {
    const at::Tensor y = normal(at::relu(normal(x, 3, stride, n)), 3, 1, n);
    return at::relu(y + (stride > 1 ? normal(x, 1, stride, n) : x));
  }

  at::Tensor resnet(at::Tensor x) {
    x = at::relu(normal(x, 7, 2, resnet_filters[0]));
    x = at::max_pool2d(x, 3, 2, 1);
    for (int stage = 0; stage < RESNET_STAGES; ++stage) {
      x = block(x, stage == 0 ? 1 : 2, resnet_filters[stage]);
      x = block(x, 1, resnet_filters[stage]);
    }
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    const at::Tensor w = small({1000, resnet_filters[RESNET_STAGES - 1]});
    return at::linear(x, w, small({1000}));
  }
};

using Forward = at::Tensor (*)(Net &, const at::Tensor &);

void train(Forward forward, at::Tensor data) {
  Net net;
  data = laid_out(data);
  const at::Tensor labels = at::zeros({data.size(0)}, at::kLong);
  auto once = [&] {
    net.next = net.next_state = 0;
    at::nll_loss(at::log_softmax(forward(net, data), 1), labels).backward();
    c10::NoGradGuard none;
    for (at::Tensor &w : net.weights) {
      w.add_(w.grad(), -TRAIN_RATE);
      w.mutable_grad().zero_();
    }
  };
  const double ns =
      measure_single([](void *arg) { (*static_cast<decltype(once) *>(arg))(); },
                     &once, TRAIN_SECONDS);
  std::printf("step/%lld %.4f\n", static_cast<long long>(data.size(0)),
              ns / 1e6);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  at::set_num_threads(std::atoi(argv[2]));
  nhwc = argc > 3;
  const Forward mlp = [](Net &n, const at::Tensor &x) { return n.mlp(x); };
  const Forward lenet = [](Net &n, const at::Tensor &x) { return n.lenet(x); };
  const Forward resnet = [](Net &n, const at::Tensor &x) {
    return n.resnet(x);
  };
  if (what == "mlp") {
    train(mlp, at::rand({MLP_BATCH, mlp_widths[0]}) - 0.5);
    train(mlp, at::rand({1, mlp_widths[0]}) - 0.5);
  }
  if (what == "lenet")
    train(lenet, at::rand({LENET_BATCH, 1, LENET_SIDE, LENET_SIDE}) - 0.5);
  if (what == "resnet")
    train(resnet, at::rand({RESNET_BATCH, 3, RESNET_SIDE, RESNET_SIDE}) - 0.5);
  return 0;
}
